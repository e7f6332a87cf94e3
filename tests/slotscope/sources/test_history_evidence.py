"""Recorded clusters without packets, with parts of their evidence, and with all of it."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import pytest

from cluster_core.incidents.catalogue import find_findings
from cluster_core.incidents.incident import Incident
from tests.benches.history_evidence import Evidence, Recorded, TruePromotion
from tests.benches.replayed_captures import Told
from tests.conftest import DATA

RECORDED = {name: Recorded(DATA / name) for name in ("bus-redis-7.0", "bus-valkey-9.1")}
LOGS, POLLS, FEW = Evidence(logs=None), Evidence(polls=None), Evidence(polls=2, every_s=2)


@cache
def told(name: str, evidence: Evidence) -> Told:
    return RECORDED[name].told(evidence)


def failover(name: str, evidence: Evidence) -> Incident:
    (found,) = [one for one in told(name, evidence).incidents if one.kind == "failover"]
    return found


def won(one: Incident) -> tuple[int, int]:
    """Between which times it was promoted."""
    won_ns = next(step.ts_ns for step in one.steps if step.kind == "won")
    return one.promoted_min_ns or won_ns, won_ns


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("evidence", [LOGS, POLLS, FEW, Evidence(logs=None, polls=None)], ids=lambda one: one.name)
def test_a_failover_is_found_without_packets(name: str, evidence: Evidence) -> None:
    """Winner, old master, epoch, and a time that holds the true one."""
    (true,) = RECORDED[name].promotions

    found = failover(name, evidence)

    low_ns, high_ns = won(found)
    assert TruePromotion(found.winner, found.subject, found.epoch or 0, true.min_ns, true.max_ns) == true
    assert low_ns <= true.max_ns
    assert high_ns >= true.min_ns


def test_rules_of_the_bus_are_not_checked_without_packets() -> None:
    """R164 and R165: logs and polls do not show the reports and votes that a verdict or a win rests on."""
    found = find_findings(told("bus-redis-7.0", Evidence(logs=None, polls=None)).history, (), ())

    assert {one.code for one in found} == {"one-host"}


KINDS = ("packets", "logs", "polls")
SURE = ("failover", "failure", "outage", "restart", "resync", "data-loss")
SUBSETS = [some for count in (1, 2) for some in combinations(KINDS, count)]


def subset(kinds: tuple[str, ...]) -> Evidence:
    return Evidence("packets" in kinds, None if "logs" in kinds else 0, None if "polls" in kinds else 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("kinds", SUBSETS, ids="+".join)
def test_more_evidence_never_finds_less(name: str, kinds: tuple[str, ...]) -> None:
    """Every incident found from a subset is found from each superset, and the times of promotions only narrow."""
    supersets = [subset((*kinds, other)) for other in KINDS if other not in kinds]
    low_ns, high_ns = won(failover(name, subset(kinds)))
    found = {(one.kind, one.winner) for one in told(name, subset(kinds)).incidents if one.kind in SURE}

    missing = [found - {(one.kind, one.winner) for one in told(name, more).incidents} for more in supersets]
    bounds = [won(failover(name, more)) for more in supersets]
    assert missing == [set()] * len(supersets)
    assert [low_ns <= low <= high <= high_ns for low, high in bounds] == [True] * len(supersets)
