"""Captures with a snap length that cuts every message, and logs: what there is makes the story."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.incidents.incident import Incident
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from tests.benches.replayed_captures import Replayed, replay_captures
from tests.builders.edited_captures import cut_to, packets_of, write
from tests.conftest import DATA

RECORDED = DATA / "bus-redis-7.0"
SNAPLEN = 200


@pytest.fixture(scope="module")
def whole() -> Replayed:
    return replay_captures(RECORDED / "bus.pcap.gz")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    packets = packets_of(RECORDED / "bus.pcap.gz")
    return write(tmp_path_factory.mktemp("cut") / "bus.pcap", cut_to(packets, SNAPLEN))


def failover(incidents: list[Incident]) -> Incident:
    (actual,) = [incident for incident in incidents if incident.kind == "failover"]
    return actual


def with_logs(*captures: Path) -> Replayed:
    """What captures and the recorded logs tell together."""
    return replay_captures(*captures, statements=PollsAndLogs((), tuple(map(str, sorted(RECORDED.glob("logs/*"))))))


@pytest.mark.long
def test_the_first_bytes_of_messages_show_elections_and_votes(whole: Replayed, cut: Path) -> None:
    """R3: type, sender and epochs stand in the first 80 bytes."""
    actual, truth = failover(replay_captures(cut).incidents), failover(whole.incidents)

    assert (actual.winner, actual.epoch, actual.votes) == (truth.winner, truth.epoch, truth.votes)
    assert {step.actor for step in actual.steps if step.kind == "vote"} == {
        step.actor for step in truth.steps if step.kind == "vote"
    }


@pytest.mark.parametrize("with_capture", [False, True])
def test_logs_alone_show_the_failure_and_the_failover(whole: Replayed, cut: Path, with_capture: bool) -> None:
    truth = failover(whole.incidents)
    incidents = failover(with_logs(*([cut] if with_capture else [])).incidents)

    assert (incidents.subject, incidents.winner, incidents.epoch, incidents.votes) == (
        truth.subject, truth.winner, truth.epoch, truth.votes,
    )  # fmt: skip
    mine, theirs = (
        {(step.kind, step.actor): step.ts_ns for step in incident.steps if step.kind in ("fail-decided", "vote", "won")}
        for incident in (incidents, truth)
    )
    assert mine.keys() == theirs.keys()
    assert all(abs(mine[key] - theirs[key]) < 150_000_000 for key in mine)


def test_logs_of_processes_that_a_capture_shows_change_no_belief(whole: Replayed) -> None:
    """They add events that packets do not show, each once."""
    both = with_logs(RECORDED / "bus.pcap.gz")

    assert both.history.views.keys() == whole.history.views.keys()
    events = [(row.observer, row.kind, row.epoch) for row in both.history.events_of("election-started", "vote")]
    assert sorted(events) == sorted(
        (row.observer, row.kind, row.epoch) for row in whole.history.events_of("election-started", "vote")
    )


def test_all_nodes_that_logged_cluster_down_are_counted(whole: Replayed) -> None:
    """R107: with a quick election most of them sent no header in between."""
    both = with_logs(RECORDED / "bus.pcap.gz")
    incident = failover(both.incidents)

    (down,) = [step for step in incident.steps if step.kind == "state-fail"]
    assert down.amount == len(
        {
            line.observer
            for line in both.history.lines.all
            if line.kind == "state-fail" and line.ts_ns >= incident.started_ns
        }
    )
