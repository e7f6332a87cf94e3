"""Recorded clusters without packets, with parts of their evidence, and with all of it."""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from cluster_core.history.service import NEVER, Interval
from cluster_core.history.statements import LINE_NS
from cluster_core.incidents.catalogue import find_findings
from cluster_core.incidents.finders.failovers import find_promotions
from cluster_core.incidents.finders.failures import find_episodes
from cluster_core.incidents.finders.outages import Outage, find_service
from cluster_core.incidents.incident import Incident
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from tests.benches.history_evidence import Evidence, Recorded, TruePromotion
from tests.benches.replayed_captures import Replayed, replay_captures
from tests.conftest import DATA

KINDS = {
    "bus-redis-7.0": ("packets", "logs", "polls"),
    "bus-valkey-9.1": ("packets", "logs", "polls"),
    "scraped-failover": ("logs", "polls", "metrics"),
}
RECORDED = {name: Recorded(DATA / name) for name in KINDS}
RESTARTED = Recorded(DATA / "polled-restart")
"""Redis 7.0 without persistence, polled each second with CLUSTER INFO and INFO: a master is killed and started again at once."""
LOGS, POLLS, FEW = Evidence(logs=None), Evidence(polls=None), Evidence(polls=2, every_s=2)
BOTH = Evidence(logs=None, polls=None)


@cache
def replay(name: str, evidence: Evidence) -> Replayed:
    return RECORDED[name].replay(evidence)


def failover(name: str, evidence: Evidence) -> Incident:
    (incident,) = [incident for incident in replay(name, evidence).incidents if incident.kind == "failover"]
    return incident


def won(incident: Incident) -> tuple[int, int]:
    """Between which times it was promoted."""
    won_ns = next(step.ts_ns for step in incident.steps if step.kind == "won")
    return incident.promoted_min_ns or won_ns, won_ns


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("evidence", [LOGS, POLLS, FEW, BOTH], ids=lambda case: case.name)
def test_a_failover_is_detected_without_packets(name: str, evidence: Evidence) -> None:
    (true,) = RECORDED[name].promotions

    actual = failover(name, evidence)

    low_ns, high_ns = won(actual)
    assert TruePromotion(actual.winner, actual.subject, actual.epoch or 0, true.min_ns, true.max_ns) == true
    assert low_ns <= true.max_ns
    assert high_ns >= true.min_ns


@pytest.mark.parametrize("name", RECORDED)
def test_the_time_of_a_promotion_is_known_within_one_interval_of_the_polls(name: str) -> None:
    """And the time that news takes: 150 ms."""
    actual = failover(name, POLLS)
    answers = [poll["asked"] for poll in RECORDED[name].polls(1, None) if f"{actual.winner} " in _own_row(poll["text"])]
    longest_ns = max(after - before for before, after in pairwise(answers))

    low_ns, high_ns = won(actual)

    assert high_ns - low_ns <= longest_ns + 150_000_000


@pytest.mark.parametrize("name", RECORDED)
def test_logs_alone_leave_the_slots_and_the_adoption_of_a_failover_unknown(name: str) -> None:
    actual = failover(name, LOGS)

    assert (actual.slots, actual.slot_count, actual.adoption_ms) == ("", None, None)


def _own_row(text: str) -> str:
    return next(line for line in text.splitlines() if "myself" in line)


@pytest.mark.parametrize("part", [LOGS, POLLS], ids=lambda case: case.name)
@pytest.mark.parametrize("name", [*RECORDED, "polled-restart"])
def test_logs_and_polls_together_know_each_outage_of_either_within_its_bounds(name: str, part: Evidence) -> None:
    assert len(outages(name, part)) > 0
    assert lost_outages(name, part, BOTH) == []


@cache
def outages(name: str, evidence: Evidence) -> list[Outage]:
    """When which slots were not served, by the addresses of nodes."""
    history = RESTARTED.replay(evidence).history if name == "polled-restart" else replay(name, evidence).history
    service = find_service(history, find_episodes(history), find_promotions(history)).outages
    at = history.addresses
    return [row._replace(interval=row.interval._replace(node=at[row.interval.node])) for row in service]


def lost_outages(name: str, some: Evidence, more: Evidence) -> list[Outage]:
    """Outages by *some* evidence that *more* does not show within the same bounds; a master may turn out to have no slots."""
    known = [outage.interval for outage in outages(name, more)]
    return [
        outage
        for outage in outages(name, some)
        if not any(_is_narrower(other, outage.interval) for other in known)
        and (outage.bits is not None or any(other.node == outage.interval.node for other in known))
    ]


def _is_narrower(inner: Interval, outer: Interval) -> bool:
    """Whether the bounds of an outage lie within those of another; logs have whole milliseconds."""
    ends = [NEVER if each.to_max_ns is None else each.to_max_ns for each in (inner, outer)]
    return (
        inner.node == outer.node
        and inner.from_min_ns >= outer.from_min_ns - LINE_NS
        and inner.from_max_ns <= outer.from_max_ns + LINE_NS
        and inner.to_min_ns >= outer.to_min_ns - LINE_NS
        and ends[0] <= ends[1] + LINE_NS
    )


def test_polls_alone_show_that_a_restarted_master_lost_the_data_of_its_shard() -> None:
    """Its run id is another one, and neither it nor its replica has a key."""
    actual = RESTARTED.replay(POLLS).incidents

    (loss,) = [incident for incident in actual if incident.kind == "data-loss"]
    (restart,) = [incident for incident in actual if incident.kind == "restart"]
    assert (loss.subject, len(loss.nodes), loss.slot_count) == (restart.subject, 1, 5461)
    assert (restart.outage_min_ms or 0) <= 2320 <= (restart.outage_ms or 0)


def test_rules_of_the_bus_are_not_checked_without_packets() -> None:
    """R164 and R165: logs and polls do not show the reports and votes that a verdict or a win rests on."""
    findings = find_findings(replay("bus-redis-7.0", BOTH).history)

    assert {finding.code for finding in findings} == {"one-host"}


SURE = ("failover", "failure", "outage", "restart", "resync", "data-loss")
SUBSETS = [(name, some) for name, kinds in KINDS.items() for count in (1, 2) for some in combinations(kinds, count)]


def subset(kinds: tuple[str, ...]) -> Evidence:
    logs, polls = (None if kind in kinds else 0 for kind in ("logs", "polls"))
    return Evidence("packets" in kinds, logs, polls, metrics="metrics" in kinds)


def incidents(name: str, evidence: Evidence) -> set[tuple[str, str]]:
    """Kind and winner of each incident; a restart may be part of the failover that it ended."""
    at = replay(name, evidence).history.addresses
    result = {(incident.kind, at.get(incident.winner, "")) for incident in replay(name, evidence).incidents}
    starts = (
        step.kind == "process-started" for incident in replay(name, evidence).incidents for step in incident.steps
    )
    return result | {("restart", "")} if any(starts) else result


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kinds"), SUBSETS, ids=lambda case: case if isinstance(case, str) else "+".join(case))
def test_more_evidence_never_finds_less(name: str, kinds: tuple[str, ...]) -> None:
    """Every incident found from a subset is found from each superset; the bounds of promotions and outages only narrow."""
    some = subset(kinds)
    supersets = [subset((*kinds, other)) for other in KINDS[name] if other not in kinds]
    low_ns, high_ns = won(failover(name, some))
    actual = {incident for incident in incidents(name, some) if incident[0] in SURE}

    bounds = [won(failover(name, more)) for more in supersets]
    assert [actual - incidents(name, more) for more in supersets] == [set()] * len(supersets)
    assert [low_ns <= low + LINE_NS and high <= high_ns + LINE_NS for low, high in bounds] == [True] * len(supersets)
    assert [lost_outages(name, some, more) for more in supersets] == [[]] * len(supersets)


@pytest.mark.parametrize(("nodes", "named"), [("a", ["a", "a"]), ("ab", ["a", "b"])])
def test_a_port_names_the_node_of_a_log_unless_two_nodes_have_it(tmp_path: Path, nodes: str, named: list[str]) -> None:
    paths = [tmp_path / name / "7000.log" for name in (*nodes, "new")]
    for path, node in zip(paths, (*nodes, ""), strict=True):
        path.parent.mkdir()
        start = f"7:M 21 Nov 2026 10:11:12.345 * No cluster configuration found, I'm {node * 40}\n" if node else ""
        path.write_text(start + "7:M 21 Nov 2026 10:11:13.345 # Cluster state changed: fail\n" * (not start))

    lines = replay_captures(statements=PollsAndLogs((), tuple(map(str, paths)))).history.lines.all

    assert [line.observer[0] for line in lines] == named
