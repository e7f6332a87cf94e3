"""Captures of several points with different clocks: notes on the clocks, and an unchanged story."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.formats.capture.pcap import Packet
from cluster_core.replay.rows import EventRow, NodeViewRow
from schemas.caveats import Code
from tests.benches.replayed_captures import Replayed, replay_captures
from tests.builders.edited_captures import by_connection, later_by, packets_of, ports_of, split, write
from tests.conftest import DATA

AHEAD_NS = 300_000_000
NEAR_NS = 10_000_000


@pytest.fixture(scope="module")
def packets() -> list[Packet]:
    return packets_of(DATA / "bus-redis-7.0" / "bus.pcap.gz")


@pytest.fixture(scope="module")
def whole(packets: list[Packet], tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return replay_captures(write(tmp_path_factory.mktemp("whole") / "bus.pcap", packets))


def views(replayed: Replayed) -> dict[tuple[str, str], list[tuple[int, str, str, str, int]]]:
    """What every observer held of every node, in order."""
    result: dict[tuple[str, str], list[tuple[int, str, str, str, int]]] = {}
    for row in sorted(replayed.of_kind(NodeViewRow), key=lambda row: row.valid_from_ns):
        belief = (row.valid_from_ns, row.flags, row.master_id, row.slots, row.config_epoch)
        result.setdefault((row.observer, row.node_id), []).append(belief)
    return result


def assert_same_story(actual: Replayed, whole: Replayed, near_ns: int = NEAR_NS) -> None:
    """The same incidents, events and beliefs at the same times."""
    assert actual.stories() == whole.stories()
    mine, theirs = (
        sorted((e.observer, e.kind, e.subject, e.epoch, e.ts_ns) for e in story.of_kind(EventRow))
        for story in (actual, whole)
    )
    assert [event[:4] for event in mine] == [event[:4] for event in theirs]
    assert all(abs(story[4] - other[4]) <= near_ns for story, other in zip(mine, theirs, strict=True))
    beliefs, truth = views(actual), views(whole)
    assert beliefs.keys() == truth.keys()
    assert sum(len(rows) for rows in beliefs.values()) >= 0.99 * sum(len(rows) for rows in truth.values())


def clock_notes(replayed: Replayed) -> list[str]:
    return [note.text for note in replayed.notes if note.code is Code.CLOCKS]


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "second", "ahead_ns", "text"),
    [
        ("a", "b", AHEAD_NS, "0.300 s ahead of"),
        ("z", "a", -2_000_000_000, "2.000 s behind"),
        ("a", "b", 3600 * 10**9, "3600.000 s ahead of"),
    ],
)
def test_overlapping_points_are_put_on_the_clock_of_the_first_by_common_segments(
    packets: list[Packet], whole: Replayed, tmp_path: Path, first: str, second: str, ahead_ns: int, text: str
) -> None:
    """Whatever their names, and also where their times seem not to overlap."""
    files = [
        write(tmp_path / f"{first}.pcap", [p for p in packets if sum(ports_of(p)) % 3]),
        write(tmp_path / f"{second}.pcap", later_by([p for p in packets if sum(ports_of(p)) % 3 != 1], ahead_ns)),
    ]

    actual = replay_captures(*files)

    assert_same_story(actual, whole, near_ns=NEAR_NS if ahead_ns < 0 else 0)
    (note,) = clock_notes(actual)
    assert note == f"the clock of {second}.pcap is {text} that of the first point; its times are corrected"


@pytest.mark.long
def test_a_point_that_overlaps_only_with_a_third_is_corrected_through_it(
    packets: list[Packet], whole: Replayed, tmp_path: Path
) -> None:
    group = {p: sum(ports_of(p)) % 4 for p in packets}
    files = [
        write(tmp_path / "a.pcap", [p for p in packets if group[p] in (0, 1)]),
        write(tmp_path / "b.pcap", later_by([p for p in packets if group[p] in (2, 3)], -AHEAD_NS)),
        write(tmp_path / "c.pcap", later_by([p for p in packets if group[p] in (1, 2)], AHEAD_NS)),
    ]

    actual = replay_captures(*files)

    assert_same_story(actual, whole, near_ns=0)
    assert len(clock_notes(actual)) == 2


def test_the_offset_of_points_without_a_common_segment_is_unknown(packets: list[Packet], tmp_path: Path) -> None:
    first, second = split(packets, by_connection)

    actual = replay_captures(write(tmp_path / "a.pcap", first), write(tmp_path / "b.pcap", later_by(second, AHEAD_NS)))

    (note,) = clock_notes(actual)
    assert note.startswith("the clock offset of b.pcap is unknown: ")


def test_rotated_files_of_one_point_are_left_as_they_are(
    packets: list[Packet], whole: Replayed, tmp_path: Path
) -> None:
    half = len(packets) // 2

    actual = replay_captures(write(tmp_path / "a-1.pcap", packets[:half]), write(tmp_path / "a-2.pcap", packets[half:]))

    assert_same_story(actual, whole, near_ns=0)
    assert clock_notes(actual) == []
