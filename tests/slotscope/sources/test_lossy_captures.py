"""Captures that lack packets: the story is that of the whole capture or less, never more."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.formats.capture.pcap import Packet
from cluster_core.incidents.story import summary_of
from schemas.caveats import Code
from tests.benches.replayed_captures import Replayed, replay_captures
from tests.builders.edited_captures import packets_of, ports_of, with_loss, write
from tests.conftest import DATA


@pytest.fixture(scope="module")
def packets() -> list[Packet]:
    return packets_of(DATA / "bus-valkey-9.1" / "bus.pcap.gz")


@pytest.fixture(scope="module")
def whole(packets: list[Packet], tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return replay_captures(write(tmp_path_factory.mktemp("whole") / "bus.pcap", packets))


@pytest.mark.long
@pytest.mark.parametrize(("share", "seed"), [(0.01, 1), (0.05, 2), (0.05, 3), (0.15, 4)])
def test_packets_lost_at_random_leave_the_story_as_it_is(
    packets: list[Packet], whole: Replayed, tmp_path: Path, share: float, seed: int
) -> None:
    """No second failure, no clock that was set back; an outage may be shown by fewer nodes; the set-up stays a note."""
    actual = replay_captures(write(tmp_path / "bus.pcap", with_loss(packets, share, seed)))

    assert without_outages(actual) == without_outages(whole)
    assert actual.facts["clock_steps"] == 0
    assert any(note.code is Code.GAPS for note in actual.notes)


@pytest.mark.long
def test_gaps_of_one_connection_leave_the_story_as_it_is(
    packets: list[Packet], whole: Replayed, tmp_path: Path
) -> None:
    """Every third packet of the busiest connection is missing."""
    ends = [tuple(sorted(ports_of(packet))) for packet in packets]
    busiest = max(set(ends), key=ends.count)
    kept = [packet for at, packet in enumerate(packets) if ends[at] != busiest or at % 3]

    assert replay_captures(write(tmp_path / "bus.pcap", kept)).stories() == whole.stories()


def without_outages(replayed: Replayed) -> list[tuple[str, str, str, str]]:
    """The stories but for outages, which rest on single packets."""
    return [story for story in replayed.stories() if story[0] != "outage"]


def between(packets: list[Packet], low: float, high: float) -> list[Packet]:
    first, length = packets[0].ts_ns, packets[-1].ts_ns - packets[0].ts_ns
    return [packet for packet in packets if low <= (packet.ts_ns - first) / length < high]


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_a_capture_that_begins_in_the_middle_gives_its_part(
    packets: list[Packet], whole: Replayed, tmp_path: Path, share: float
) -> None:
    """The failover; no node joined, and no byte is missing from earlier connections."""
    actual = replay_captures(write(tmp_path / "bus.pcap", between(packets, share, 2)))

    assert without_outages(actual) == [story for story in whole.stories() if story[0] == "failover"]
    assert actual.facts["clock_steps"] == 0
    assert not any(note.code is Code.GAPS for note in actual.notes)


@pytest.mark.long
def test_a_failover_in_a_part_that_is_missing_has_an_unknown_cause(
    packets: list[Packet], whole: Replayed, tmp_path: Path
) -> None:
    """The election is not in the capture: no takeover is claimed, and the time of the promotion is a range that holds the true one."""
    kept = [*between(packets, 0, 0.4), *between(packets, 0.73, 2)]

    actual = replay_captures(write(tmp_path / "bus.pcap", kept))

    (incident,) = [incident for incident in actual.incidents if incident.kind == "failover"]
    (truth,) = [incident for incident in whole.incidents if incident.kind == "failover"]
    assert (incident.winner, incident.subject, incident.epoch) == (truth.winner, truth.subject, truth.epoch)
    assert incident.variant == "unknown"
    assert "TAKEOVER" not in summary_of(incident, {})
    assert incident.promoted_min_ns <= truth.promoted_max_ns
    assert truth.promoted_min_ns <= incident.promoted_max_ns


@pytest.mark.long
def test_gaps_are_rows_with_the_nodes_at_both_ends(packets: list[Packet], tmp_path: Path) -> None:
    actual = replay_captures(write(tmp_path / "bus.pcap", with_loss(packets, 0.05, 2)))

    assert actual.history.gaps
    assert all(gap.from_ns <= gap.to_ns for gap in actual.history.gaps)
    assert {gap.source for gap in actual.history.gaps} <= set(actual.history.nodes)
