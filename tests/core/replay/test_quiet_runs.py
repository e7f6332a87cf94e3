"""Rows that move clocks only are carried out by a kernel: what comes out is what the plain machine says, piece by piece."""

from __future__ import annotations

import random
from functools import cache

import pytest

from cluster_core.kernels.bus.packing import PACKED_HEADER_BYTES
from cluster_core.kernels.bus.quiet import OUTBOUND, SENT
from cluster_core.replay.dispatch import Delivery
from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.observer import ObserverReplay
from cluster_core.replay.rows import ReplayRow
from cluster_core.replay.saving import load, save
from cluster_core.wire.bus import GOSSIP_BYTES
from slotscope.sources.bus import captured
from slotscope.sources.bus.blobs import KINDS, EvidenceRows, unpacked_table
from slotscope.sources.bus.evidence import CaptureOptions, CaptureTask
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.bus.observers import Feeder
from slotscope.sources.bus.outbox import Outbox
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from tests.conftest import DATA

RECORDED = ("bus-redis-7.0", "bus-valkey-9.1")
TIMEOUT_MS = 1000
Found = list[tuple[int, list[ReplayRow]]]


@cache
def evidence(name: str) -> dict[str, list[tuple]]:
    """The rows of each process of a recording, its bitmaps first."""
    files = survey(find_captures([str(DATA / name / "bus.pcap.gz")]))
    found: dict[str, list[tuple]] = {}
    for batch in CaptureTask(CaptureOptions(tuple(files), PollsAndLogs(), TIMEOUT_MS)).run():
        for row in batch.to_pylist():
            if row["row_kind"] == captured.EVIDENCE:
                rows = [tuple(one.values()) for one in unpacked_table(row["blob"]).to_pylist()]
                found.setdefault(row["part"], []).extend(rows)
    return found


def batched(items: list, size: int) -> list[list]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def blobs(rows: list[tuple], size: int) -> list[bytes]:
    """Rows as blobs of so many."""
    bitmaps = {row[1]: row[-1] for row in rows if row[0] == 6}
    contents = [bitmaps.get(number, b"") for number in range(max(bitmaps, default=-1) + 1)]
    return [packed(part, contents) for part in batched([row for row in rows if row[0] != 6], size)]


def packed(rows: list[tuple], contents: list[bytes]) -> bytes:
    outbox, one = Outbox({}), Endpoint("10.0.0.1", 1)
    for kind, number, ts_ns, ref, connection, flags, ip, port, bitmap, raw in rows:
        ways, peer = (bool(flags & OUTBOUND), bool(flags & SENT)), Endpoint(ip, port)
        outbox.put(Delivery(one, number, ts_ns, ref, connection, *ways, KINDS[kind], peer, bitmap, raw))
    ((_, _, blob),) = outbox.flush(contents)
    return blob


def machine(part: str) -> ObserverReplay:
    ip, _, port = part.rpartition("|")
    return ObserverReplay(Endpoint(ip, int(port)), node_timeout_ms=TIMEOUT_MS)


def plain(part: str, packed: list[bytes]) -> Found:
    """What the machine says, fed with each piece of evidence."""
    replay, rows = machine(part), EvidenceRows()
    found: Found = []
    for blob in packed:
        rows.take(blob, len(rows.numbers))
        for row in range(len(rows.numbers)):
            seen = rows.evidence(row)
            told = replay.feed(seen) if seen is not None else []
            found += [(int(rows.numbers[row]), told)] if told else []
    return [*found, (-1, replay.finish())]


def quick(part: str, packed: list[bytes], cuts: int = 0) -> Found:
    """The same in runs; saved and loaded again *cuts* times in between."""
    replay = machine(part)
    found: Found = []
    for some in batched(packed, len(packed) // (cuts + 1) + 1):
        feeder = Feeder(replay)
        found += [told for blob in some for told in feeder.take(blob)]
        found += feeder.rest()
        replay = load(save(replay), source="test")
    return [*found, (-1, replay.finish())]


def changed(rows: list[tuple], seed: int) -> list[tuple]:
    """Some messages say something else of a node, an epoch, an offset, or themselves."""
    chance = random.Random(seed)
    found = []
    for row in rows:
        raw = bytearray(row[-1])
        if row[0] == 0 and len(raw) > PACKED_HEADER_BYTES + GOSSIP_BYTES and not chance.randrange(60):
            at = chance.choice((14, 16, 23, 24, 31, 32, 39, 40, 80, 120, 198, 200, 203, 204, 205))
            if chance.randrange(2):
                at = PACKED_HEADER_BYTES + chance.randrange(GOSSIP_BYTES)
            raw[at] ^= 1 << chance.randrange(8)
        found.append((*row[:-1], bytes(raw)))
    return found


@pytest.mark.parametrize("name", RECORDED)
def test_runs_say_what_the_machine_says_of_recorded_failovers(name) -> None:
    """Of each process, in blobs of any size, and saved in between."""
    found = evidence(name).items()

    expected = {part: plain(part, blobs(rows, 500)) for part, rows in found}

    assert {part: quick(part, blobs(rows, 500)) for part, rows in found} == expected
    assert {part: quick(part, blobs(rows, 37), cuts=3) for part, rows in found} == expected


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_runs_say_what_the_machine_says_of_changed_messages(name, seed) -> None:
    """A bit of every sixtieth message is another one: of its header or its gossip."""
    parts = sorted(evidence(name))[seed % 2 :: 2]
    packed = {part: blobs(changed(evidence(name)[part], seed), 200) for part in parts}

    found = {part: quick(part, packed[part]) for part in parts}

    assert found == {part: plain(part, packed[part]) for part in parts}


def test_most_of_a_quiet_cluster_never_becomes_a_message(monkeypatch) -> None:
    read: list[int] = []
    real = EvidenceRows.evidence
    monkeypatch.setattr(EvidenceRows, "evidence", lambda self, row: read.append(row) or real(self, row))
    part, rows = max(evidence("bus-redis-7.0").items(), key=lambda item: len(item[1]))

    quick(part, blobs(rows, 500))

    assert 0 < len(read) < len(rows) * 0.8
    assert any(row[5] & SENT for row in rows)
