"""State of a replay: what goes in comes out, and bytes that somebody changed build nothing and break nothing."""

from __future__ import annotations

import gzip
import pickle
import random
import struct
import zlib
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster_core.errors import DecodeError, EncodeError
from cluster_core.gossip.profile import PROFILES
from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.saving import STATE_VERSION, load, save
from cluster_core.slots.slot_set import SlotSet
from tests.builders.bus_folding import cut, fold, packet_ends
from tests.conftest import DATA


def body_of(*pieces: bytes) -> bytes:
    """A state with this body."""
    body = b"".join(pieces)
    return struct.pack("<4sBQ", b"SLSR", STATE_VERSION, len(body)) + zlib.compress(body)


def counted(raw: bytes) -> bytes:
    """Bytes behind their number."""
    return struct.pack("<I", len(raw)) + raw


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, (2, "x")], "b": {3: b"raw"}, "c": {1, 2}},
        [None, True, False, 0, -1, 2**63, -(2**70), 2**16384 - 1, 1.5, float("inf"), "\udc80é", b"", frozenset({(1,)})],
        {"profile": PROFILES["valkey-9.1"], "slots": SlotSet([1, 16383]), "at": Endpoint("10.0.0.1", 7000)},
    ],
)
def test_what_goes_into_a_state_comes_out_of_it(value) -> None:
    assert load(save(value)) == value


def test_long_bytes_stand_behind_the_body_as_they_are_and_all_of_them_must_be_there() -> None:
    """Packets that wait are compressed already: to do so again takes longer than all else of a state."""
    value = [b"x" * 100_000, "between", b"y" * 70_000, b"z"]
    raw = save(value)

    assert load(raw) == value
    assert raw.endswith(b"x" * 100_000 + b"y" * 70_000)
    for damaged in (raw[:-1], raw + b"y", raw[:-100_000]):
        with pytest.raises(DecodeError):
            load(damaged)


def test_things_that_are_shared_or_hold_themselves_stay_so() -> None:
    """One list in two places, a list in itself, the bound of a queue."""
    shared: list[Any] = [1]
    loop: list[Any] = [shared]
    loop.append(loop)
    one, other, back, kept = load(save([shared, {"x": shared}, loop, deque([1, 2], maxlen=2)]))
    one.append(2)
    kept.append(3)

    assert other["x"] is one
    assert back[0] is one
    assert back[1] is back
    assert kept == deque([2, 3])


def test_arrays_keep_type_shape_and_records() -> None:
    """Records with padding, as the kernels have them; the copy may be written to."""
    record = np.dtype([("number", np.int64), ("state", np.uint8)], align=True)
    rows = np.zeros(3, dtype=record).view(np.recarray)
    rows.number[:] = 7, 8, 9
    grid = np.arange(6, dtype=np.int32).reshape(2, 3)

    found, plain = load(save([rows, grid]))
    found.number[0] = 1

    assert type(found) is np.recarray
    assert found.dtype == rows.dtype
    assert found.dtype.isalignedstruct
    assert found.number.tolist() == [1, 8, 9]
    assert (plain.dtype, plain.tolist()) == (grid.dtype, grid.tolist())


class Intruder:
    """Something that a state must not hold."""


@pytest.mark.parametrize(
    "value", [Intruder(), Path("/"), print, Intruder, np.zeros(1, dtype=object), np.zeros(1, "V8")]
)
def test_what_has_no_place_in_a_state_is_refused_when_it_is_saved(value) -> None:
    with pytest.raises(EncodeError, match="has no place in a state"):
        save({"x": value})


@pytest.mark.parametrize(
    "name",
    [
        "builtins:eval", "os:system", "subprocess:Popen", "cluster_core.replay.saving:sys", "cluster_core.replay.saving:load",
        "cluster_core.wire.bus:struct", "cluster_core.kernels.bus.decoder:np", "cluster_core.errors:DecodeError", "numpy:dtype", ":",
    ],
)  # fmt: skip
def test_a_state_names_value_classes_and_nothing_else(name) -> None:
    """Neither functions nor modules, whoever imported them."""
    for tag in (b"r", b"c", b"e"):
        with pytest.raises(DecodeError, match="has no place in a state"):
            load(body_of(tag, struct.pack("<I", 0), counted(name.encode()), b"N"))


class Forged:
    """A dtype whose bytes would be taken for an object, as a pickle could ask for."""

    def __reduce__(self) -> Any:
        return np.dtype, ("V8", False, True), (3, "|", None, ("f",), {"f": (np.dtype("O"), 0)}, 8, 1, 0)


def array_of(spec: object, shape: object, raw: bytes) -> bytes:
    """An array as a state has it, of any type and shape; without header and compression."""
    parts = [zlib.decompress(save(value)[13:]) for value in (spec, shape)]
    return body_of(b"a", *parts, counted(raw))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no state",
        save([1, 2, 3])[:-3],
        b"x" + save(1),
        save(1) + b"x",
        zlib.compress(pickle.dumps({"a": 1}, protocol=5)),
        zlib.compress(pickle.dumps(Forged(), protocol=4)),
        body_of(),
        body_of(b"N", b"N"),
        body_of(b"?"),
        body_of(b"l", struct.pack("<I", 2**32 - 1)),
        body_of(b"l\1\0\0\0" * 5000, b"N"),
        body_of(b"I", counted(b"\1" * 100_000)),
        body_of(b"x", struct.pack("<I", 9)),
        body_of(b"S", struct.pack("<I", 1), b"l", struct.pack("<I", 0)),
        array_of("|O", (1,), b"A" * 8),
        array_of("V8", (1,), b"A" * 8),
        array_of("<i8", (2**40,), b"A" * 8),
        array_of("<i8", (-1, 0), b""),
        array_of((("f",), ("|O",), (0,), 8, True), (1,), b"A" * 8),
        array_of((("f",), ("<i8",), (4,), 8, True), (1,), b"A" * 8),
    ],
)  # fmt: skip
def test_a_damaged_or_forged_state_is_a_typed_error(data) -> None:
    """Pickles of older programs among them, and one that made raw bytes an object."""
    with pytest.raises(DecodeError):
        load(data)


def test_a_state_is_not_inflated_beyond_what_its_size_allows() -> None:
    """A few kilobytes of zeros that say to be half a gigabyte."""
    body = zlib.compress(bytes(1 << 24))
    told = struct.pack("<4sBQ", b"SLSR", STATE_VERSION, 400 << 20)

    with pytest.raises(DecodeError, match="says to hold 419430400 bytes"):
        load(told + body)
    with pytest.raises(DecodeError, match="another length than it says"):
        load(struct.pack("<4sBQ", b"SLSR", STATE_VERSION, 1 << 20) + body)


def test_a_real_state_with_any_bytes_changed_is_read_or_a_typed_error(tmp_path) -> None:
    """States of a recorded failover: what cannot be read is a DecodeError, never another one."""
    raw = gzip.decompress((DATA / "bus-valkey-9.1" / "bus.pcap.gz").read_bytes())
    ends = packet_ends(raw)
    (path, _) = cut(raw[: ends[300]], [ends[200]], tmp_path)
    states = fold([path], node_timeout_ms=1000)
    bodies = [zlib.decompress(state[13:]) for state in (*list(states.observers.values())[:1], states.capture)]
    chance = random.Random(4)
    outcomes = set()
    for number in range(60):
        body = bytearray(bodies[number % 10 == 0][:200_000])
        for _ in range(chance.randint(1, 4)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        try:
            load(body_of(bytes(body)))
            outcomes.add("read")
        except DecodeError:
            outcomes.add("refused")

    assert outcomes == {"read", "refused"}
