"""State of a replay: what goes in comes out, and bytes that do not fit are a typed error."""

from __future__ import annotations

import pickle
import zlib
from collections import deque
from typing import Any

import numpy as np
import pytest

from cluster_core.errors import DecodeError
from cluster_core.gossip.profile import PROFILES
from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.saving import STATE_VERSION, load, save
from cluster_core.slots.slot_set import SlotSet


def test_a_state_comes_back_as_saved() -> None:
    shared: list[Any] = [1]
    value = {
        "profile": PROFILES["valkey-9.1"], "slots": SlotSet([1, 16383]), "at": Endpoint("10.0.0.1", 7000), "texts": "\udc80é",
        "number": 2**16384 - 1, "queue": deque([1, 2], maxlen=2), "lists": [shared, shared], "set": frozenset({(1,)}),
    }  # fmt: skip

    loaded = load(save(value))

    assert loaded == value
    assert loaded["lists"][0] is loaded["lists"][1]


def test_arrays_keep_type_shape_and_records() -> None:
    """Records with padding, as the kernels have them; the copy may be written to."""
    record = np.dtype([("number", np.int64), ("state", np.uint8)], align=True)
    rows = np.zeros(3, dtype=record).view(np.recarray)
    rows.number[:] = 7, 8, 9

    loaded = load(save(rows))
    loaded.number[0] = 1

    assert type(loaded) is np.recarray
    assert loaded.dtype == rows.dtype
    assert loaded.dtype.isalignedstruct
    assert loaded.number.tolist() == [1, 8, 9]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no state",
        save([1, 2, 3])[:-3],
        b"x" + save(1),
        pickle.dumps({"a": 1}),
        b"SLSR" + bytes([STATE_VERSION - 1]) + save(1)[5:],
        save(1)[:5] + zlib.compress(b"l"),
        save(1)[:5] + zlib.compress(b"ccluster_core.wire.bus\nNoSuchClass\n."),
        save(1)[:5] + zlib.compress(b"cos\nsystem\n(S'true'\ntR."),
        save(1)[:5] + zlib.compress(b"\x80\x04ccluster_core.replay.saving\npickle.loads\n(S'N.'\ntR."),
        save(1)[:5] + zlib.compress(b"ccluster_core.replay.saving\nDecodeError\n."),
    ],
)
def test_a_damaged_state_or_one_of_another_program_is_a_typed_error(data) -> None:
    with pytest.raises(DecodeError):
        load(data)
