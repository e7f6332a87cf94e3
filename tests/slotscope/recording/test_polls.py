"""Answers of nodes as files, and which nodes are of this host."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path

import pytest

from cluster_core.formats.landing import Gap, Kind, Reason, latest
from slotscope.recording.point import GapBook
from slotscope.recording.recorder import PollRecorder, is_of_this_host
from slotscope.recording.series import RETRY_NS, Rotation, Series
from slotscope.servers.cluster import Answer, Collection, Refused, Schedule
from slotscope.servers.node_link import Access, Address

NODE = Address("127.0.0.1", 7000)


def recorder(folder: Path) -> PollRecorder:
    series = Series(folder / "polls", Kind.POLLS, Rotation(3600 * 10**9, 1 << 20))
    gaps = GapBook(folder / "gaps.jsonl", lambda line: None)
    return PollRecorder(Collection(Access(), Schedule(1.0)), [NODE], series, None, gaps, lambda line: None)


def answer(ts_ns: int, size: int) -> Answer:
    return Answer(NODE, ts_ns - 1000, ts_ns, os.urandom(size // 2).hex(), "")


def test_a_full_disk_is_a_gap_until_there_is_room(small_disk):
    """The line that says so is there, too, when there is room for it."""
    polls = recorder(small_disk)
    assert polls.polls is not None
    first_ns = time.time_ns()
    polls.take([answer(first_ns, 1000)])
    polls.polls.flush(first_ns)
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(b"x" * 300_000)
    polls.take([answer(time.time_ns(), 100_000)])
    polls.polls.flush(time.time_ns())
    polls.take([])
    was_full = polls.polls.is_full
    ballast.unlink()
    time.sleep(RETRY_NS / 1e9 + 0.05)
    last_ns = time.time_ns()
    polls.take([answer(last_ns, 1000)])
    polls.polls.end(last_ns)
    polls.take([])
    (gap,) = latest(polls.gaps.read())
    files = sorted((small_disk / "polls").iterdir())

    assert was_full
    assert (gap.kind, gap.reason, gap.from_ns // 1000) == (Kind.POLLS, Reason.DISK_FULL, first_ns // 1000)
    assert gap.to_ns is not None
    assert gap.to_ns > last_ns
    assert [gzip.decompress(path.read_bytes()).count(b"\n") for path in files] == [1, 1]


def test_a_node_that_does_not_answer_is_a_gap_from_its_last_answer_to_its_next(tmp_path):
    polls = recorder(tmp_path)
    polls.take([answer(5_000_000, 10), Refused(NODE, "refused"), Refused(NODE, "refused"), answer(9_000_000, 10)])

    assert [(gap.reason, gap.subject, gap.from_ns, gap.to_ns) for gap in latest(polls.gaps.read())] == [
        (Reason.UNREACHABLE, "127.0.0.1:7000", 5_000_000, 9_000_000)
    ]


def test_nodes_that_refuse_alike_are_gaps_but_one_line(tmp_path):
    lines: list[str] = []
    book = GapBook(tmp_path / "gaps.jsonl", lines.append)
    for port in (7000, 7001):
        gap = Gap(Kind.SLOT_STATS, 5, None, Reason.REFUSED, f"127.0.0.1:{port}", "CLUSTER SLOT-STATS: ERR unknown")
        book.hold(gap, True, 5)

    assert lines == ["127.0.0.1:7000: slot-stats not recorded: refused (CLUSTER SLOT-STATS: ERR unknown)"]
    assert [gap.subject for gap in latest(book.read())] == ["127.0.0.1:7000", "127.0.0.1:7001"]


def test_bus_ports_come_from_the_nodes_or_are_the_defaults(tmp_path):
    """Until one was asked there are none: a capture of some of them would look whole."""
    polls = recorder(tmp_path)
    before = polls.ports()
    polls.has_failed = True
    failed = polls.ports()
    polls.collection.bus_ports[NODE] = 27_000

    assert (before, failed, polls.ports()) == (frozenset(), {17_000}, {27_000})


@pytest.mark.parametrize(
    ("ip", "here"), [("127.0.0.1", True), ("203.0.113.7", False), ("nonsense", False), ("", False)]
)
def test_an_address_of_this_host_can_be_listened_on(ip, here):
    assert is_of_this_host(ip) is here
