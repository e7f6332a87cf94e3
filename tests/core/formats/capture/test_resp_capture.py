"""Captures of client ports, whole, cut and damaged."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cluster_core.formats.capture.packet import Packet
from cluster_core.formats.capture.resp_capture import CapturedResp, RespCapture, read_resp
from cluster_core.replication.reconstruction import tell_resync
from cluster_core.wire.resp import DumpBegun, DumpEnded
from tests.builders.replication_records import SERVERS, packets, replayed

MUTATIONS = 60
SMALL_BYTES = 200
"""Packets of handshakes, answers and acknowledgements."""


def talkative(server: str) -> list[Packet]:
    """The packets that say something about replication."""
    return [
        packet
        for packet in packets(server)
        if isinstance(packet, Packet) and (len(packet.data) < SMALL_BYTES or b"$EOF:" in packet.data)
    ]


@pytest.mark.parametrize("server", SERVERS)
def test_every_dump_that_begins_ends_and_both_have_their_connection(server: str) -> None:
    """By length and by mark."""
    rows = [row for row in read_resp(packets(server)) if isinstance(row, CapturedResp)]

    begun = [row.origin.connection for row in rows if isinstance(row.item, DumpBegun)]
    ended = [row.origin.connection for row in rows if isinstance(row.item, DumpEnded) and row.item.complete]

    assert begun
    assert begun == ended


def test_a_series_may_be_cut_into_files_anywhere() -> None:
    """State lives across the files."""
    every = [packet for packet in packets("redis-7.0") if isinstance(packet, Packet)]
    whole = [row.item for row in read_resp(every) if isinstance(row, CapturedResp)]
    capture, rows = RespCapture(), []
    for start in range(0, len(every), 100):
        for packet in every[start : start + 100]:
            rows += capture.handle(packet)
        rows += capture.end_source()
    rows += capture.finish()

    assert [row.item for row in rows if isinstance(row, CapturedResp)] == whole


@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS)
def test_damaged_lost_doubled_and_swapped_packets_never_raise(server: str) -> None:
    """Seeded; spans never end before they begin, and every sentence can be told."""
    base, chance = talkative(server), random.Random(11)
    for _ in range(MUTATIONS):
        damaged = list(base)
        for _ in range(chance.randrange(1, 12)):
            at = chance.randrange(len(damaged))
            match chance.randrange(4):
                case 0:
                    del damaged[at]
                case 1:
                    damaged.insert(chance.randrange(len(damaged)), damaged[at])
                case 2:
                    other = chance.randrange(len(damaged))
                    damaged[at], damaged[other] = damaged[other], damaged[at]
                case _:
                    data = bytearray(damaged[at].data)
                    data[chance.randrange(34, len(data))] = chance.choice([0x2D, 0x0A, 0x30 + chance.randrange(10)])
                    damaged[at] = replace(damaged[at], data=bytes(data))

        replay = replayed(read_resp(damaged))

        assert all(span.to_ns is None or span.to_ns >= span.from_ns for span in replay.spans)
        assert all(tell_resync(resync).endswith(".") for resync in replay.resyncs)


@pytest.mark.long
@pytest.mark.parametrize("server", SERVERS)
def test_a_capture_may_end_anywhere(server: str) -> None:
    """What is open is told as unfinished or broken."""
    base = talkative(server)
    for end in range(0, len(base), 9):
        replay = replayed(read_resp(base[:end]))

        assert {resync.outcome for resync in replay.resyncs} <= {"done", "broken", "unfinished", "refused"}
        assert len({span.replica for span in replay.spans if span.to_ns is None}) == sum(
            span.to_ns is None for span in replay.spans
        )
