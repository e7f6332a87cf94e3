"""Restarts, resynchronisations, and a master that comes back empty and wipes its replica, from logs."""

from __future__ import annotations

from collections.abc import Iterable

from cluster_core.history.logs import logged_views
from cluster_core.history.processes import data_losses, restarts_of, resyncs_of
from cluster_core.history.service import InterruptionReason, Interval
from cluster_core.history.statements import Lines, LoggedLine
from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.finders.outages import Outage, Service
from cluster_core.incidents.finders.processes import find_restarts
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident, Step
from cluster_core.incidents.story import summary_of
from cluster_core.kinds import EventKind, IncidentKind, Source
from cluster_core.replay.rows import EventRow, NodeViewRow

S = 1_000_000_000
MASTER, REPLICA, THIRD = ("a" * 40, "b" * 40, "c" * 40)
PORTS = {MASTER: 7000, REPLICA: 7001, THIRD: 7002}
DOWN = {MASTER: 10, THIRD: 50}


def line(node: str, at_s: float, kind: str, detail: str = "", role: str = "M") -> LoggedLine:
    return LoggedLine(node, "10.0.0.1", PORTS[node], round(at_s * S), EventKind(kind), detail=detail, role=role)


def restart(node: str, at_s: float) -> list[LoggedLine]:
    """Stopped, and started again a second later."""
    kinds = (("stopping", 0), ("stopped", 0.1), ("started", 1), ("ready", 1.2))
    return [line(node, 0, "started"), *(line(node, at_s + after, kind) for kind, after in kinds)]


def wiped(keys: int) -> list[LoggedLine]:
    """The master restarts at 10 s; its replica then loads so many keys."""
    follows = [
        line(REPLICA, 0, "started"),
        line(REPLICA, 1, "master-connecting", "10.0.0.1:7000", "S"),
        line(REPLICA, 2, "master-link-up", role="S"),
        line(REPLICA, 10.1, "master-link-lost", role="S"),
        line(REPLICA, 11.5, "resync-asked", "900", "S"),
        line(REPLICA, 11.6, "full-resync", role="S"),
        line(REPLICA, 11.7, "data-flushed", role="S"),
        line(REPLICA, 11.8, "data-loaded", str(keys), "S"),
        line(REPLICA, 11.9, "master-link-up", role="S"),
    ]
    return [*restart(MASTER, 10), *follows]


def history(lines: list[LoggedLine], rows: Iterable[NodeViewRow] = ()) -> History:
    times = [entry.ts_ns for entry in lines]
    return History(rows, [], {}, node_timeout_ms=2000, first_ns=min(times), last_ns=max(times), lines=Lines(lines))


def test_a_restart_has_the_end_of_the_old_process_and_the_start_of_the_new_one() -> None:
    (process,) = restarts_of(Lines(restart(MASTER, 10)), ())

    assert (process.node, process.how, process.end_max_ns, process.start_ns, process.ready_ns) == (
        MASTER, "stopped", 10_101_000_000, 11 * S, 11_200_000_000,
    )  # fmt: skip


def test_a_killed_process_ended_between_its_last_line_and_the_next_start() -> None:
    lines = [line(MASTER, 0, "started"), line(MASTER, 4, "state-ok"), line(MASTER, 9, "started")]

    (process,) = restarts_of(Lines(lines), ())

    assert (process.how, process.end_min_ns, process.end_max_ns) == ("", 4 * S, 9 * S)


def test_packets_and_a_log_that_show_one_restart_show_one() -> None:
    events = [
        EventRow(MASTER, 10_050_000_000, EventKind.PROCESS_ENDED, MASTER, 0, "", -1),
        EventRow(MASTER, 11_300_000_000, EventKind.PROCESS_STARTED, MASTER, 0, "", 7),
    ]

    (process,) = restarts_of(Lines(restart(MASTER, 10)), events)

    assert (process.how, process.source) == ("stopped", Source.LOG)


def test_a_master_that_comes_back_empty_and_wipes_its_replica_is_a_loss_of_data() -> None:
    lines = Lines(wiped(0))

    (incident,) = data_losses(restarts_of(lines, ()), resyncs_of(lines), lines)

    assert (incident.master, [resync.node for resync in incident.wiped]) == (MASTER, [REPLICA])


def test_a_replica_that_loads_keys_from_the_restarted_master_lost_nothing() -> None:
    lines = Lines(wiped(5))

    assert data_losses(restarts_of(lines, ()), resyncs_of(lines), lines) == []


def test_a_copy_made_after_the_next_restart_is_no_loss_by_the_first() -> None:
    """Both restarts were empty; its replica copied the data of the second process."""
    copied = [
        entry._replace(ts_ns=entry.ts_ns + 10 * S) if entry.observer == REPLICA and entry.ts_ns > 11 * S else entry
        for entry in wiped(0)
    ]
    lines = Lines([*copied, line(MASTER, 21, "started"), line(MASTER, 21.2, "ready")])

    (loss,) = data_losses(restarts_of(lines, ()), resyncs_of(lines), lines)

    assert loss.restart.start_ns == 21 * S


def test_a_new_replica_of_an_empty_master_is_no_loss() -> None:
    """It had not followed that master before."""
    lines = Lines([entry for entry in wiped(0) if entry.observer != REPLICA or entry.ts_ns > 11 * S])

    assert data_losses(restarts_of(lines, ()), resyncs_of(lines), lines) == []


def test_successive_restarts_are_a_rolling_restart() -> None:
    lines = [entry for at, node in enumerate(PORTS) for entry in restart(node, 10 + 20 * at)]

    (incident,) = find_incidents(history(lines))

    assert (incident.kind, incident.variant, incident.nodes) == ("restart", "rolling", (MASTER, REPLICA, THIRD))
    assert [step.kind for step in incident.steps] == ["process-ended", "process-started"] * 3


def test_a_copy_after_restarts_of_both_nodes_is_one_step() -> None:
    lines = sorted([*wiped(0), *restart(REPLICA, 9.3), *restart(THIRD, 30)], key=lambda entry: entry.ts_ns)

    (incident,) = [found for found in find_incidents(history(lines)) if found.kind == IncidentKind.RESTART]

    assert [step.kind for step in incident.steps].count(EventKind.FULL_RESYNC) == 1


def test_attempts_of_a_full_copy_are_one_incident_with_their_success() -> None:
    """A small output buffer limit for replicas ends each copy; no attempt took one."""
    tries = [
        line(REPLICA, 20 + at + after, kind, role="S")
        for at in range(3)
        for after, kind in ((0, "resync-asked"), (0.1, "full-resync"))
    ]
    (open_,) = find_incidents(history([*wiped(1)[5:8], *tries]))
    (copied,) = find_incidents(history([*wiped(1)[5:8], *tries, line(REPLICA, 24, "master-link-up", role="S")]))

    assert (open_.ended_ns, copied.started_ns, copied.ended_ns) == (None, 20 * S, 24 * S)
    assert summary_of(open_, {}).endswith("started a full copy of the data of its master 3 times; none ended")
    assert summary_of(copied, {}).endswith("took a full copy of the data of its master after 2 failed attempts")


def test_simultaneous_restarts_are_not_a_rolling_restart() -> None:
    (incident,) = find_incidents(history([line for node in PORTS for line in restart(node, 10)]))

    assert (incident.kind, incident.variant) == ("restart", "together")
    assert summary_of(incident, {}) == "3 nodes were restarted, some at the same time"


def test_killed_processes_that_start_together_were_down_together() -> None:
    """Their logs do not tell when they ended, but that of a replica which lost its link or a mark of FAIL does."""
    follows = (
        line(THIRD, 1, "master-connecting", "10.0.0.1:7001", "S"),
        line(THIRD, 9.8, "master-link-lost", role="S"),
    )
    marked = line(THIRD, 9, "fail-decided")._replace(subject=REPLICA)
    for start_s, more in ((10.2, ()), (11.6, follows), (20.0, (marked,))):
        ends = {MASTER: 10.0, REPLICA: start_s, THIRD: 40.0}
        lines = [line(node, at_s, "started") for node, end_s in ends.items() for at_s in (0, end_s)]

        lines += more
        incidents = find_incidents(history(lines, logged_views((), Lines(lines))))

        assert [incident.variant for incident in incidents if incident.kind == "restart"] == ["together"]


def test_slots_that_moved_between_two_restarts_count_once() -> None:
    """The last slot is served by one shard, then by another."""
    last = 1 << 16383
    served = history([entry for at, node in enumerate(PORTS) for entry in restart(node, 10 + 20 * at)])
    gaps = [
        Interval(node, InterruptionReason.DOWN, *(n * S for n in (at, at, at + 1, at + 1))) for node, at in DOWN.items()
    ]
    service = Service([Outage(0, gaps[0], last | 1), Outage(1, gaps[1], last)], [])

    (incident,) = find_restarts(served, [], service)

    assert (incident.slots, incident.slot_count) == ("0 16383", 2)


def test_unknown_slots_of_several_restarted_nodes_are_named_by_their_node() -> None:
    outages = tuple(Step(0, EventKind.UNSERVED, node, "", until_ns=5 * S) for node in (MASTER, THIRD))
    restarts = Incident(
        kind=IncidentKind.RESTART, variant="rolling", subject="", started_ns=0, ended_ns=5 * S, nodes=(MASTER, THIRD),
        steps=outages,
    )  # fmt: skip

    assert summary_of(restarts, {MASTER: "m", THIRD: "t"}).split(". ")[1:] == [
        "The slots of m were not served for 5.00 s",
        "The slots of t were not served for 5.00 s",
    ]
