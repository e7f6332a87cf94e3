"""Captures with a snap length that cuts every message, and logs: what there is makes the story."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident
from cluster_core.incidents.logged_rows import KINDS, LoggedLine, with_logs
from cluster_core.replay.rows import EventRow, ReplayRow
from jobs.main import main
from slotscope.sources.bus.polls_and_logs import PollsAndLogs, read_polls_and_logs
from tests.benches.replayed_captures import Told, tell
from tests.builders.edited_captures import cut_to, packets_of, write
from tests.conftest import DATA

RECORDED = DATA / "bus-redis-7.0"
SNAPLEN = 200


@pytest.fixture(scope="module")
def whole() -> Told:
    return tell(RECORDED / "bus.pcap.gz")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    packets = packets_of(RECORDED / "bus.pcap.gz")
    return write(tmp_path_factory.mktemp("cut") / "bus.pcap", cut_to(packets, SNAPLEN))


def failover(incidents: list[Incident]) -> Incident:
    (found,) = [one for one in incidents if one.kind == "failover"]
    return found


def lines() -> list[LoggedLine]:
    """The lines of all recorded logs, as the table of log events has them."""
    told = read_polls_and_logs(PollsAndLogs((), tuple(map(str, sorted(RECORDED.glob("logs/*"))))), permissive=True)
    return [
        LoggedLine(
            row["observer"], row["address"].split(":")[0], int(row["address"].split(":")[1]), row["ts_ns"], row["kind"],
            row["subject"] or "", int(row["epoch"] or 0), row["text"],
        )
        for row in told.logs
        if row["observer"] and row["kind"] in KINDS
    ]  # fmt: skip


def by_logs(rows: list[ReplayRow]) -> list[Incident]:
    """The incidents of a history with these rows and the logs."""
    logged = lines()
    times = [line.ts_ns for line in logged]
    history = History(with_logs(rows, logged), [], {}, node_timeout_ms=1000, first_ns=min(times), last_ns=max(times))
    return find_incidents(history)


@pytest.mark.long
def test_the_first_bytes_of_messages_tell_of_elections_and_votes(whole: Told, cut: Path) -> None:
    """R3: type, sender and epochs stand in the first 80 bytes."""
    found, truth = failover(tell(cut).incidents), failover(whole.incidents)

    assert (found.winner, found.epoch, found.votes) == (truth.winner, truth.epoch, truth.votes)
    assert {step.actor for step in found.steps if step.kind == "vote"} == {
        step.actor for step in truth.steps if step.kind == "vote"
    }


def test_what_a_cut_message_says_is_shown(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bus-dump", str(cut), "--type", "auth-req", "--limit", "1"])

    line = capsys.readouterr().out
    assert "epoch 6/1" in line
    assert f"cut off: {SNAPLEN - 66} of" in line
    assert "not understood" not in line


@pytest.mark.parametrize("with_capture", [False, True])
def test_logs_alone_tell_of_the_failure_and_the_failover(whole: Told, cut: Path, with_capture: bool) -> None:
    """Who was held for failing by whom, who decided it, who voted and who won, at the times of the logs."""
    incidents = by_logs(tell(cut).rows if with_capture else [])
    truth = failover(whole.incidents)
    found = failover(incidents)

    assert (found.subject, found.winner, found.epoch, found.votes) == (
        truth.subject, truth.winner, truth.epoch, truth.votes,
    )  # fmt: skip
    mine, theirs = (
        {(step.kind, step.actor): step.ts_ns for step in one.steps if step.kind in ("fail-decided", "vote", "won")}
        for one in (found, truth)
    )
    assert mine.keys() == theirs.keys()
    assert all(abs(mine[key] - theirs[key]) < 150_000_000 for key in mine)


def test_logs_of_processes_that_a_capture_shows_change_no_belief(whole: Told) -> None:
    """They only tell when each held the cluster for down: headers miss it where no message was sent meanwhile."""
    rows = with_logs(whole.rows, lines())

    more = rows[len(whole.rows) :]
    assert rows[: len(whole.rows)] == whole.rows
    assert sorted((row.observer, row.ts_ns, row.kind) for row in more if isinstance(row, EventRow)) == sorted(
        (line.observer, line.ts_ns, line.kind) for line in lines() if line.kind in ("state-ok", "state-fail")
    )


def test_all_nodes_whose_logs_say_that_the_cluster_was_down_are_counted(whole: Told) -> None:
    """R107: with a quick election most of them sent no header in between."""
    incident = failover(by_logs(whole.rows))

    (down,) = [step for step in incident.steps if step.kind == "state-fail"]
    assert down.amount == len(
        {line.observer for line in lines() if line.kind == "state-fail" and line.ts_ns >= incident.started_ns}
    )
