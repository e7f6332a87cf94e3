"""What INFO and CLUSTER INFO of polls and metrics show: restarts, refusals, lost keys, silence; each between bounds that hold the truth."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from cluster_core.formats.prometheus_answer import MetricReader, MetricSample
from cluster_core.gossip.causes import Cause
from cluster_core.history.processes import Restart
from cluster_core.history.samples import StateChange, sampled_restarts, silences, state_changes, without_refuted
from cluster_core.history.service import InterruptionReason
from cluster_core.incidents.catalogue import find_findings, find_incidents
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident
from cluster_core.incidents.story import summary_of
from cluster_core.kinds import FindingCode, Source
from cluster_core.replay.rows import NodeViewRow

S = 1_000_000_000
MASTER, REPLICA, OTHER = "a" * 40, "b" * 40, "c" * 40
RECORDED = Path(__file__).parents[2] / "data" / "prometheus" / "query_range.json.gz"
KILLED_NS, RESTARTED_NS = 1795824131_130_000_000, 1795824143_216_000_000


def sample(at_s: float, took_s: float = 0.001, **values: Any) -> MetricSample:
    return MetricSample(round(at_s * S), round((at_s + took_s) * S), "10.0.0.1:7000", **values)


def restarts(*samples: MetricSample) -> list[tuple[float, float, float, float]]:
    """End of the process, and when the next one accepted connections: each at least and at most, in seconds."""
    spans = sampled_restarts({(MASTER, Source.POLL): samples})
    return [
        tuple(
            round(ns / S, 1)
            for ns in (restart.end_min_ns, restart.end_max_ns, restart.earliest_ready_ns, restart.ready_ns or 0)
        )  # type: ignore[misc]
        for restart in spans
    ]


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        ([sample(10, server_run_id="x"), sample(11, server_run_id="y")], [(10, 11, 10, 11)]),
        ([sample(10, uptime_s=500), sample(20), sample(30), sample(40, uptime_s=15)], [(20, 26, 24, 30)]),
        ([sample(at, messages_sent=sent) for at, sent in ((10, 900), (11, 910), (12, 4), (13, 14))], [(11, 12, 11, 12)]),
        ([sample(10, uptime_s=90, server_run_id="x"), sample(60, uptime_s=140, server_run_id="x")], []),
    ],
    ids=["another run id", "a smaller uptime", "smaller counters", "the same process"],
)  # fmt: skip
def test_answers_date_a_restart(polls: list[MetricSample], expected: list[tuple[float, ...]]) -> None:
    """INFO has the run id and the uptime, in whole seconds; CLUSTER INFO has counters and comes with every answer."""
    assert restarts(*polls) == expected


def test_metrics_show_the_restart_of_a_recorded_master() -> None:
    """Killed with SIGKILL, started 12 s later."""
    reader = MetricReader()
    reader.feed(gzip.decompress(RECORDED.read_bytes()))
    scrapes: dict[tuple[str, Source], list[MetricSample]] = {}
    for sample in reader.samples():
        scrapes.setdefault((sample.address, Source.METRICS), []).append(sample)

    (restart,) = sampled_restarts(scrapes)

    assert restart.end_min_ns <= KILLED_NS <= restart.end_max_ns
    assert restart.earliest_ready_ns <= RESTARTED_NS <= (restart.ready_ns or 0)


# -- the state of the cluster ------------------------------------------------------------------------------------------


def states(
    *logged: tuple[float, bool], polls: list[MetricSample], started: Any = ()
) -> list[tuple[float, float, bool]]:
    changes = [StateChange(round(at * S), round(at * S), is_up) for at, is_up in logged]
    merged = state_changes(changes, polls, started, 0)
    return [(change.min_ns / S, change.max_ns / S, change.is_up) for change in merged]


def test_a_line_of_the_log_gives_the_moment_that_polls_give_roughly() -> None:
    """Each change once, and none before the log says so."""
    polls = [sample(at, 0, cluster_ok=is_up) for at, is_up in ((1, True), (2, False), (3, False), (4, True))]

    assert states(polls=polls) == [(1, 2, False), (3, 4, True)]
    assert states((1.5, False), (3.2, True), polls=polls) == [(1.5, 1.5, False), (3.2, 3.2, True)]


def test_a_new_process_that_may_have_been_ok_at_once_was_not_down() -> None:
    """The first answer comes late; the log of a replica is OK a millisecond before it accepts connections."""
    late = Restart(MASTER, 2 * S, 5 * S, 5 * S, 9 * S, "", None, Source.POLL, 4 * S)

    assert states(polls=[sample(1, cluster_ok=True), sample(8.5, 0.5, cluster_ok=True)], started=[late]) == []
    assert states((5.1, True), polls=[], started=[late]) == [(5.1, 5.1, True)]


# -- silence -----------------------------------------------------------------------------------------------------------


def polled(*times: float) -> list[MetricSample]:
    return [sample(at, server_run_id="x") for at in times]


@pytest.mark.parametrize(
    ("until_s", "answers", "expected"),
    [
        (11, polled(1, 2, 3, 8, 9, 10), [3, 4.5, 4.5, 8]),
        (8, [sample(at) for at in (1, 2, 3, 5, 6, 7)], [3, 4.5, 3, 5]),
        (8, [*polled(1, 2, 3), sample(4, 1.4, server_run_id="x"), *polled(6.4, 7.4)], [3, 4, 5.3, 5.4]),
    ],
    ids=["out of reach", "perhaps another process", "a late answer"],
)
def test_a_node_without_answers_while_another_answers_was_unreachable(
    until_s: int, answers: list[MetricSample], expected: list[float]
) -> None:
    """After a silence, a process with an unknown run id may have been back at once, on another connection."""
    samples = {(MASTER, Source.POLL): answers, (OTHER, Source.POLL): polled(*(at + 0.5 for at in range(until_s)))}

    (silence,) = silences(samples, MASTER)

    assert silence.lack is InterruptionReason.UNREACHED
    assert [round(ns / S, 1) for ns in silence[2:] if ns is not None] == expected


@pytest.mark.parametrize(
    ("answers", "others_answers"),
    [
        (polled(1, 2, 3, 8, 9, 10), polled(1, 2, 3, 8, 9, 10)),
        (polled(1, 2, 3, 5, 6, 7), polled(*(at + 0.5 for at in range(8)))),
        ([*polled(1), *(sample(at) for at in (2, 3, 5, 6)), *polled(7)], polled(*(at + 0.5 for at in range(8)))),
        ([*polled(1), *(sample(at) for at in (2, 3, 5))], polled(*(at + 0.5 for at in range(6)))),
        ([*polled(1, 2), sample(3, 0.4), *polled(4)], [*polled(0.5, 1.5), sample(2.5, 0.2), *polled(3.5, 4.5)]),
    ],
    ids=[
        "a pause of the collector",
        "one lost poll",
        "one lost poll between run ids",
        "one lost poll before the next run id",
        "a stalled collector",
    ],
)
def test_missing_polls_without_other_evidence_are_no_silence(
    answers: list[MetricSample], others_answers: list[MetricSample]
) -> None:
    assert list(silences({(MASTER, Source.POLL): answers, (OTHER, Source.POLL): others_answers}, MASTER)) == []


# -- incidents ---------------------------------------------------------------------------------------------------------


def view(observer: str, role: str, master: str = "", slots: str = "") -> NodeViewRow:
    return NodeViewRow(
        observer, observer, "10.0.0.1", 7000, 17000, "", f"myself,{role}", master, 1, slots, True, S, None, Cause.POLL, -1, S,
        Source.POLL,
    )  # fmt: skip


def incidents(master: list[MetricSample], replica: list[MetricSample], **options: Any) -> list[Incident]:
    return find_incidents(history(master, replica, **options))


def history(master: list[MetricSample], replica: list[MetricSample], **options: Any) -> History:
    samples = {(MASTER, Source.POLL): master, (REPLICA, Source.POLL): replica}
    return History(
        [view(MASTER, "master", slots="0-16383"), view(REPLICA, "slave", MASTER)], [], {},
        node_timeout_ms=2000, first_ns=S, last_ns=30 * S, samples=samples,
        **options,
    )  # fmt: skip


def of(run_id: str, keys: int | None, *times: float, is_up: bool | None = True) -> list[MetricSample]:
    return [sample(at, server_run_id=run_id, keys=keys, cluster_ok=is_up) for at in times]


def test_a_master_without_keys_after_its_restart_lost_the_data_of_its_shard() -> None:
    """Its replica loses them too, by INFO."""
    master = [*of("x", 102, 1, 2, 3), *of("y", 0, 4, is_up=False), *of("y", 0, 5, 6)]
    replica = [*of("z", 102, 1.1, 2.1, 3.1, 4.1), *of("z", 0, 5.1, 6.1)]

    (loss,) = [incident for incident in incidents(master, replica) if incident.kind == "data-loss"]

    assert (loss.subject, loss.nodes, loss.slot_count) == (MASTER, (REPLICA,), 16384)
    assert summary_of(loss, {}).endswith("came back empty and its replica bbbbbbbb copied the empty data set")


def test_a_master_that_loads_its_keys_again_lost_nothing() -> None:
    incidents_ = incidents([*of("x", 102, 1, 2, 3), *of("y", 102, 4, 5)], of("z", 102, 1.1, 2.1, 3.1, 4.1, 5.1))

    assert [incident.kind for incident in incidents_] == ["restart"]


def test_an_outage_by_a_restart_ends_when_the_node_logs_cluster_up() -> None:
    """It refuses for two seconds after its start."""
    master = [*of("x", 9, 1, 2, 3), *of("y", 9, 4, 5, is_up=False), *of("y", 9, 6, 7)]

    (outage,) = [incident for incident in incidents(master, of("z", 9, *range(1, 8))) if incident.kind == "restart"]

    assert (outage.outage_min_ms, outage.outage_ms) == (999, 3001)


def lagging(*offsets: int) -> list[tuple[str, int | None]]:
    """Findings on replication with these offsets of the master, a second apart, and a replica that stays at 1,000."""
    master = [sample(2 + at, role="master", master_offset=offset) for at, offset in enumerate(offsets)]
    replica = [sample(2.5 + at, role="slave", replica_offset=1_000) for at in range(len(offsets))]
    findings = find_findings(history(master, replica))
    return [(finding.node, finding.amount) for finding in findings if finding.code is FindingCode.REPLICATION_LAG]


def test_a_replica_far_behind_its_master_has_its_largest_certain_lag() -> None:
    assert lagging(1_000, 9_000_000, 20_001_000, 30_001_000) == [(REPLICA, 20_000_000)]
    assert lagging(1_000, 2_000, 9_000_000, 9_000_001) == []


def test_a_restarted_master_with_new_offsets_shows_no_lag() -> None:
    assert lagging(1_000, 50_000_000, 0, 10) == []


def test_a_failed_scrape_between_two_answers_is_the_exporters_failure() -> None:
    """It may have lost its password; the node answered polls meanwhile."""
    scrapes = [sample(at, up=at not in (3, 9)) for at in (1, 3, 5, 9)]
    kept = without_refuted({(MASTER, Source.POLL): of("x", 1, 2, 3.5, 4.5), (MASTER, Source.METRICS): scrapes})

    assert kept[MASTER, Source.METRICS] == [scrapes[0], *scrapes[2:]]
