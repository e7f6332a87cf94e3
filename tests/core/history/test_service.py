"""Service: which slots were not served, from when to when, by shard and for the whole cluster."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.gossip.causes import Cause
from cluster_core.history.logs import logged_views, with_logs
from cluster_core.history.service import InterruptionReason, Interval, common, contiguous
from cluster_core.history.statements import Lines, LoggedLine
from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident, Step
from cluster_core.incidents.story import step_text, summary_of
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import EventRow, NodeViewRow

S = 1_000_000_000
OLD, NEW, OTHER, THIRD = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
PORTS = {OLD: 7000, NEW: 7001, OTHER: 7002, THIRD: 7003}
LACKS = ("unserved", "unreached", "refused", "cluster-unserved")


def line(node: str, at_s: float, kind: str, **fields: object) -> LoggedLine:
    return LoggedLine(node, "10.0.0.1", PORTS[node], round(at_s * S), EventKind(kind), **fields)  # type: ignore[arg-type]


def followed() -> list[LoggedLine]:
    """NEW is a replica of OLD; OTHER has slots."""
    return [
        line(OLD, 1, "ready", role="M"),
        line(OTHER, 1, "ready", role="M"),
        line(NEW, 1, "master-connecting", detail="10.0.0.1:7000", role="S"),
        line(NEW, 2, "master-link-up", role="S"),
    ]


def killed(*more: LoggedLine) -> list[LoggedLine]:
    """OLD dies at 10 s, is marked FAIL at 12 s, and NEW is promoted at 13 s."""
    return [
        *followed(),
        line(NEW, 10, "master-link-lost", role="S"),
        line(OTHER, 12, "fail-decided", subject=OLD, role="M"),
        line(OTHER, 12, "state-fail", role="M"),
        line(NEW, 12, "state-fail", role="S"),
        line(OTHER, 12.9, "vote", subject=NEW, epoch=6, role="M"),
        line(NEW, 13, "election-won", role="S"),
        line(NEW, 13, "config-epoch", epoch=6, detail="failover", role="M"),
        line(NEW, 13.05, "state-ok", role="M"),
        line(OTHER, 13.1, "state-ok", role="M"),
        *more,
    ]


def history(lines: Sequence[LoggedLine], rows: Sequence[NodeViewRow] = (), **options: object) -> History:
    log = Lines(lines)
    times = [entry.ts_ns for entry in lines] + [row.valid_from_ns for row in rows]
    return History(
        [*with_logs(rows, log), *logged_views(rows, log)], [], {}, node_timeout_ms=15_000, knows_timeout=False, first_ns=min(times),
        last_ns=max(times) + S, lines=log, **options,  # type: ignore[arg-type]
    )  # fmt: skip


def lacks(incident: Incident) -> list[tuple[str, str, float, float, float | None, float | None]]:
    """What was not served: kind, node, earliest and latest begin, earliest and latest end."""
    return [(step.kind, step.actor, *ends(step)) for step in incident.steps if step.kind in LACKS]


def ends(step: Step) -> tuple[float, float, float | None, float | None]:
    low, high = step.min_ns or step.ts_ns, step.until_min_ns or step.until_ns
    until = None if step.until_ns is None else round(step.until_ns / S, 3)
    return round(low / S, 3), round(step.ts_ns / S, 3), None if high is None else round(high / S, 3), until


def of_kind(incidents: list[Incident], kind: str) -> Incident:
    return next(incident for incident in incidents if incident.kind == kind)


def test_a_shard_is_down_from_the_process_end_until_the_new_master_sees_the_cluster_up() -> None:
    """The replica's lost connection tells when the process ended; the new master refused until its state was ok."""
    failover = of_kind(find_incidents(history(killed())), "failover")

    assert lacks(failover) == [("unreached", OLD, 9.85, 10.001, 13.05, 13.05)]
    assert (failover.outage_min_ms, failover.outage_ms) == (3049, 3200)


def test_the_whole_cluster_is_down_while_every_shard_is() -> None:
    outage = of_kind(find_incidents(history(killed())), "outage")

    assert outage.variant == "whole cluster"
    assert lacks(outage)[1:] == [
        ("refused", OTHER, 12.0, 12.0, 13.1, 13.1), ("cluster-unserved", OLD, 12.0, 12.0, 13.05, 13.05),
    ]  # fmt: skip
    assert summary_of(outage, {}).startswith("The whole cluster was down for 1.05 s. ")


def test_an_old_master_that_answers_again_ends_its_outage() -> None:
    """It was stopped for a while and went on before anybody took over; others cleared FAIL before it was polled."""
    lines = [
        *followed(),
        line(OTHER, 12, "fail-decided", subject=OLD, role="M"),
        line(OTHER, 12.8, "fail-cleared", subject=OLD),
    ]
    times_ns = [round(at * S) for at in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 15)]
    answered = {(OLD, Source.POLL): [MetricSample(ts_ns, ts_ns, OLD) for ts_ns in times_ns]}

    incident = of_kind(find_incidents(history(lines, [polled(OLD, "0-99", 1)], samples=answered)), "failure")

    assert lacks(incident) == [("unserved", OLD, 9.0, 10.5, 12.0, 12.8)]
    assert incident.ended_ns is not None


def test_the_last_line_of_a_process_that_saves_is_no_answer() -> None:
    """It stops for four seconds and loads for six."""
    lines = [
        *followed(), line(OLD, 9, "stopping"), line(OTHER, 12, "fail-decided", subject=OLD, role="M"), line(OLD, 13, "stopped"),
        line(OLD, 14, "started"), line(OLD, 20, "ready", role="M"), line(OTHER, 22, "fail-cleared", subject=OLD),
    ]  # fmt: skip
    samples = {(OLD, Source.POLL): [MetricSample(at * S, at * S, OLD) for at in (*range(1, 9), 21, 22)]}

    failure = of_kind(find_incidents(history(lines, [polled(OLD, "0-99", 1)], samples=samples)), "failure")

    assert ". It answered again after 11.00 s. " in summary_of(failure, {})


def polled(node: str, slots: str, from_s: float) -> NodeViewRow:
    return NodeViewRow(
        node, node, "10.0.0.1", PORTS[node], 0, "", "myself,master", "", 1, slots, True, round(from_s * S), None,
        Cause.POLL, -1, None, Source.POLL,
    )  # fmt: skip


def test_a_starting_process_refuses_until_it_logs_cluster_up() -> None:
    lines = [
        *followed(), line(OLD, 9, "stopping"), line(OLD, 10.1, "stopped"), line(NEW, 10.1, "master-link-lost"), line(OLD, 11, "started"),
        line(OLD, 11.2, "ready", role="M"), line(OLD, 13.2, "state-ok", role="M"),
    ]  # fmt: skip

    incident = of_kind(find_incidents(history([line(OLD, 0, "started"), *lines])), "restart")

    assert lacks(incident) == [("unserved", OLD, 9.0, 10.101, 13.2, 13.2)]


def test_a_replica_of_a_master_without_a_log_leaves_no_slots_unserved() -> None:
    """It logs the address of its master, which no other log names."""
    lines = [line(NEW, 1, "ready", role="M"), line(NEW, 2, "master-connecting", detail="10.0.0.9:7009", role="S")]
    marks = [line(OTHER, 12, "fail-decided", subject=NEW), line(OTHER, 20, "fail-cleared", subject=NEW)]

    assert not any(map(lacks, find_incidents(history([*lines, *marks]))))


def test_a_replica_that_starts_again_refuses_nothing() -> None:
    """It may never write that the cluster is up."""
    lines = [
        line(NEW, 0, "started"),
        *followed(),
        line(NEW, 10, "stopped"),
        line(NEW, 11, "started"),
        line(NEW, 11.1, "ready"),
    ]

    assert lacks(of_kind(find_incidents(history(lines)), "restart")) == []


def interval(begin: tuple[int, int], end: tuple[int, int | None]) -> Interval:
    return Interval(OLD, InterruptionReason.DOWN, *begin, *end)


@pytest.mark.parametrize(
    ("shards", "both"),
    [
        ([[((0, 1), (9, 10))], [((4, 5), (12, 13))]], [((4, 5), (9, 10))]),
        ([[((0, 1), (2, 3))], [((4, 5), (12, 13))]], []),
        ([[((0, 1), (9, None))], [((4, 5), (12, 13))]], [((4, 5), (9, 13))]),
    ],
)
def test_the_whole_cluster_is_down_where_the_outages_of_all_shards_overlap(
    shards: list[list[tuple[tuple[int, int], tuple[int, int | None]]]], both: list[object]
) -> None:
    overlaps = common([[interval(*bounds) for bounds in shard] for shard in shards])

    assert [
        ((overlap.from_min_ns, overlap.from_max_ns), (overlap.to_min_ns, overlap.to_max_ns)) for overlap in overlaps
    ] == both


def test_a_possible_pause_between_two_outages_is_not_counted_as_certain() -> None:
    refused, late = interval((0, 0), (S, S)), interval((S, 2 * S), (3 * S, 3 * S))

    assert contiguous([refused, late]) == [[refused], [late]]
    assert contiguous([refused, late._replace(from_max_ns=S)]) == [[refused, late._replace(from_max_ns=S)]]


def test_a_late_header_changes_no_state_that_the_log_of_its_node_covers() -> None:
    """Headers may leave in another order than they were built; the log names each change."""
    late = [
        EventRow(OTHER, round(at * S), EventKind(kind), "", 0, "", 5)
        for at, kind in ((12.1, "state-ok"), (12.9, "state-fail"))
    ]

    assert not set(late) & set(with_logs(late, Lines(killed())))


def test_a_replica_that_is_promoted_ends_the_link_to_its_master_itself() -> None:
    """That does not show when the master's process ended."""
    lines = [entry for entry in killed() if entry.kind != "master-link-lost"]
    lines.append(line(NEW, 13, "master-link-lost", role="M"))

    failover = of_kind(find_incidents(history(lines)), "failover")

    assert lacks(failover) == [("unreached", OLD, 1.0, 12.0, 13.05, 13.05)]


@pytest.mark.parametrize("why", ["address-updated", "answers", "fail-decided"])
def test_a_link_lost_at_another_time_ends_no_process(why: str) -> None:
    """By a new announced address, before answers to polls, or by a replica that hung while others marked its master."""
    polls = [sample for at in range(11) if (sample := MetricSample(at * S, at * S, OLD)) and why == "answers"]
    lines = [
        *followed(), line(OTHER if why == "fail-decided" else NEW, 5, "ready" if polls else why, subject=OLD), line(NEW, 5.05, "master-link-lost"),
        line(OLD, 20, "started"), line(OLD, 20.1, "ready", role="M"),
    ]  # fmt: skip

    outage = next(filter(None, map(lacks, find_incidents(history(lines, samples={(OLD, Source.POLL): polls})))))

    assert outage[0][2:4] == ((10.0 if polls else 1.0), 5.0 if why == "fail-decided" else 20.0)


def test_an_epoch_without_evidence_is_unknown_and_not_zero() -> None:
    """The log of a takeover may leave its epoch out."""
    lines = [*followed(), line(NEW, 13, "takeover", role="M"), line(OLD, 13.2, "became-replica", subject=NEW, role="S")]

    (failover,) = [incident for incident in find_incidents(history(lines)) if incident.kind == "failover"]
    won = next(step for step in failover.steps if step.kind == EventKind.TOOK_OVER)

    assert (failover.variant, failover.epoch, won.epoch) == ("takeover", None, None)
    assert ", epoch unknown (" in summary_of(failover, {})
    assert step_text(won, {}) == f"{NEW[:8]} promotes itself with epoch unknown"


def test_the_log_of_one_master_never_shows_that_the_whole_cluster_was_down() -> None:
    lines = [line(OLD, 10, "state-fail", role="M"), line(OLD, 20, "state-ok", role="M")]
    incidents = find_incidents(history(lines))

    assert [(incident.kind, incident.variant) for incident in incidents] == [("outage", "one shard")]
    assert "whole cluster" not in summary_of(incidents[0], {})


def test_an_outage_of_seconds_is_not_joined_to_one_of_an_hour_before_and_a_new_master_was_reached() -> None:
    """A log is silent for as long as nothing happens: OLD refuses for a second, is stopped 2,000 s later, and wins its shard back from NEW."""
    lines = [
        *followed(),
        line(OLD, 20, "state-fail", role="M"),
        line(OLD, 21, "state-ok", role="M"),
        line(OTHER, 2000, "fail-decided", subject=OLD, role="M"),
        line(NEW, 2001, "election-won", role="S"),
        line(NEW, 2001, "config-epoch", epoch=6, detail="failover", role="M"),
        line(OLD, 2010, "became-replica", subject=NEW, role="S"),
        line(OTHER, 2060, "fail-decided", subject=NEW, role="M"),
        line(OLD, 2061, "election-won", role="S"),
        line(OLD, 2061, "config-epoch", epoch=7, detail="failover", role="M"),
        line(OTHER, 2100, "fail-cleared", subject=NEW, role="M"),
    ]
    incidents = find_incidents(history(lines))
    failovers = [incident for incident in incidents if incident.kind == "failover"]

    assert [(incident.winner, *lacks(incident)) for incident in failovers] == [
        (NEW, ("unreached", OLD, 21.0, 2000.0, 2001.0, 2001.001)),
        (OLD, ("unreached", NEW, 2001.0, 2060.0, 2061.0, 2061.001)),
    ]


def test_slots_of_a_master_that_starts_without_its_nodes_conf_stay_unserved() -> None:
    """It has a new id then; the process does not serve again as the old one."""
    lines = [line(OLD, 1, "started"), line(OLD, 20, "started"), line(NEW, 20.1, "identity")._replace(port=7000)]

    scraped = {(NEW, Source.METRICS): [MetricSample(at * S, at * S, NEW) for at in (5, 25)]}  # by its address
    known = history([*lines, line(OTHER, 60, "ready")], [polled(OLD, "0-99", 1)], samples=scraped)
    incidents = find_incidents(known)

    assert [sample.ts_ns for sample in known.samples[NEW, Source.METRICS]] == [25 * S]
    assert lacks(of_kind(incidents, "restart")) == [("unserved", OLD, 1.0, 20.0, 20.1, None)]
    assert summary_of(of_kind(incidents, "membership"), {}).endswith("without its nodes.conf: bbbbbbbb")


def test_only_a_majority_of_voters_can_have_elected_a_replica() -> None:
    """A cluster of one shard has no voter left: the promotion was ordered, which polls do not show."""
    rows = [
        row._replace(observer=THIRD, node_id=node, flags=flags, valid_from_ns=at * S, valid_to_ns=end and end * S, slots=slots, master_id=master)
        for row in [polled(NEW, "", 1)._replace(valid_from_min_ns=8 * S)]
        for node, flags, at, end, slots, master in (
            (OLD, "master", 1, 5, "0-16383", ""), (OLD, "master,fail?", 5, None, "0-16383", ""),
            (NEW, "slave", 1, 9, "", OLD), (NEW, "master", 9, None, "0-16383", ""),
        )
    ]  # fmt: skip

    assert of_kind(find_incidents(history([line(OTHER, 60, "ready")], rows)), "failover").variant == "unknown"
