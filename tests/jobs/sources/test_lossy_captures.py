"""Captures that lack packets: the story is that of the whole capture or less, never more."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.formats.capture.packet import Packet
from tests.conftest import DATA
from tests.edited_captures import packets_of, ports_of, with_loss, write
from tests.replayed_captures import Told, tell


@pytest.fixture(scope="module")
def packets() -> list[Packet]:
    return packets_of(DATA / "bus-valkey-9.1" / "bus.pcap.gz")


@pytest.fixture(scope="module")
def whole(packets: list[Packet], tmp_path_factory: pytest.TempPathFactory) -> Told:
    return tell(write(tmp_path_factory.mktemp("whole") / "bus.pcap", packets))


@pytest.mark.parametrize(("share", "seed"), [(0.01, 1), (0.05, 2), (0.05, 3), (0.15, 4)])
def test_packets_lost_at_random_leave_the_story_as_it_is(
    packets: list[Packet], whole: Told, tmp_path: Path, share: float, seed: int
) -> None:
    """No FORGET, no second failure, no clock that was set back."""
    told = tell(write(tmp_path / "bus.pcap", with_loss(packets, share, seed)))

    assert told.stories() == whole.stories()
    assert told.facts["clock_steps"] == 0
    assert any(note.startswith("warning|gaps|") for note in told.notes)


def test_gaps_of_one_connection_leave_the_story_as_it_is(packets: list[Packet], whole: Told, tmp_path: Path) -> None:
    """Every third packet of the busiest connection is missing."""
    ends = [tuple(sorted(ports_of(packet))) for packet in packets]
    busiest = max(set(ends), key=ends.count)
    kept = [packet for at, packet in enumerate(packets) if ends[at] != busiest or at % 3]

    assert tell(write(tmp_path / "bus.pcap", kept)).stories() == whole.stories()
