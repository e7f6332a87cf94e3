"""How much of its captures a replay has read, as its driver tells it while the task reads."""

from __future__ import annotations

from pathlib import Path

from slotscope.sources.bus import reading
from slotscope.sources.bus.evidence import CaptureOptions, CaptureTask
from slotscope.sources.bus.files import survey
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from slotscope.sources.bus.reading import Reading, metered
from slotscope.sources.files import expand

NOTHING_TOLD = PollsAndLogs((), (), "UTC", ())


def shares_of(capture: Path) -> list[float]:
    """What is told whenever the task hands something out."""
    files = expand([str(capture)])
    options = CaptureOptions(tuple(survey(files)), NOTHING_TOLD)
    with Reading(files[0].size, is_here=True) as told:
        found = [told.share()]
        with metered(told.path):
            found += [told.share() for _ in CaptureTask(options).run()]
        assert Path(told.path).exists()
    assert not Path(told.path).exists()
    return found


def test_the_share_grows_to_all_of_it_in_bytes_as_they_are_stored(data, monkeypatch):
    """A compressed capture is as much as its file, not as what is in it."""
    monkeypatch.setattr(reading, "NOTE_S", 0.0)

    shares = shares_of(data / "bus-redis-7.0" / "bus.pcap.gz")

    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_where_the_task_runs_elsewhere_nobody_knows():
    with Reading(1000, is_here=False) as told:
        assert told.path == ""
        assert told.share() == 0
