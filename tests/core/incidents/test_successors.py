"""Obstacles to a replacement: barred replicas, missing voters, unserved slots (R54, R84 to R93)."""

from __future__ import annotations

import pytest

from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.incident import Incident
from cluster_core.incidents.story import step_text, summary_of
from tests.builders.history_builder import NODES, A, B, C, R, Tale, ns

NOFAILOVER = 0x200
NAMES = {A: "a", B: "b", C: "c", R: "r"}


def dead(*gone: str, back_s: float = 20.0, agreed: bool = True, **replica: int) -> Tale:
    """Nodes of A and others fall silent at 9.5 s and send again at *back_s*, without a failover."""
    tale = Tale()
    for observer in NODES:
        for node in NODES:
            role, master = ("slave", A) if node == R else ("master", "")
            if node not in gone or observer in gone:
                tale.view(observer, node, 0, flags=role, master=master)
                continue
            tale.view(observer, node, 0, 12, flags=role, master=master)
            fail_s = 12.5 if agreed else back_s
            tale.view(observer, node, 12, fail_s, flags=f"{role},fail?", master=master, cause="R53")
            if agreed:
                tale.view(observer, node, fail_s, back_s, flags=f"{role},fail", master=master, cause="R54")
            tale.view(observer, node, back_s, flags=role, master=master)
    for node in NODES:
        claims: dict[str, object] = {"replicaof": A, **replica} if node == R else {}
        if node in gone:
            tale.chatter(node, 0, 10, **claims)
            tale.chatter(node, back_s, 30, **claims)
        else:
            tale.chatter(node, 0, 30, **claims)
    return tale


def incidents_of(tale: Tale) -> list[Incident]:
    return find_incidents(tale.history())


def reasons(incident: Incident) -> list[str]:
    """What the steps say of replicas and voters."""
    return [step_text(step, NAMES) for step in incident.steps if step.kind in ("barred", "no-replica", "voter-gone")]


def test_a_replica_that_may_not_be_elected_is_named_with_its_flag() -> None:
    """R84; the unserved slots and their duration are reported too."""
    (incident,) = incidents_of(dead(A, flags=NOFAILOVER))

    assert reasons(incident) == ["r, a replica of a, does not take over: it may not be elected (NOFAILOVER)"]
    assert (incident.slots, incident.slot_count) == ("0-99", 100)
    assert summary_of(incident, NAMES) == (
        "a was marked FAIL 3.00 s after its last sign of life. It answered again after 10.50 s."
        " 100 slots (0-99) were unreachable for 9.89 s to 10.50 s. No failover by its only replica r: it may not be elected (NOFAILOVER)"
    )


def test_a_master_without_replicas_is_named() -> None:
    (incident,) = incidents_of(dead(B))

    assert reasons(incident) == ["no failover of b: it has no replica"]
    assert incident.slots == "100-199"


def test_a_master_and_its_only_replica_that_die_together_are_one_failure() -> None:
    """Two processes that ended, or stood still, are no cut of the network."""
    (incident,) = incidents_of(dead(A, R))

    assert (incident.kind, incident.subject) == ("failure", A)
    assert reasons(incident) == ["r, a replica of a, does not take over: it was out of reach itself"]
    assert summary_of(incident, NAMES).startswith("a and r were marked FAIL ")
    assert " after the last sign of life of a. " in summary_of(incident, NAMES)


def test_a_replica_that_fails_in_its_own_failover_may_have_affected_slots() -> None:
    """Its master pauses clients until the order times out."""
    tale = dead(R)
    assert summary_of(incidents_of(tale)[0], NAMES).endswith("It is a replica of a: no slot was affected")
    tale.event(A, 9.4, "manual-failover-mfstart", R)

    assert "no slot was affected" not in summary_of(incidents_of(tale)[0], NAMES)


def test_processes_that_ended_are_no_partition() -> None:
    """Masters of two shards fall silent together and are started again; their end may be known by that alone."""
    tale, killed = dead(A, B), dead(A, B)
    for node in (A, B):
        tale.event(node, 9.6, "process-ended", node)
        tale.event(node, 20, "process-started", node)
        killed.event(node, 20, "process-started", node)

    assert [incident.kind for incident in incidents_of(dead(A, B))] == ["partition", "failure", "failure", "outage"]
    assert [incident.kind for incident in incidents_of(killed)] == ["failure", "failure", "outage"]
    assert [incident.kind for incident in incidents_of(tale)] == ["failure", "failure", "outage"]
    first = incidents_of(tale)[0]
    assert " Cause: its process ended. 100 slots (0-99) were not served for 10.50 s" in summary_of(first, NAMES)
    assert [s.kind for s in first.steps if s.kind.startswith("process")] == ["process-ended", "process-started"]
    (down,) = [step for step in first.steps if step.kind == "unserved"]
    assert (down.ts_ns, down.until_ns) == (ns(9.6), ns(20))


def test_voters_missing_for_a_majority_are_named() -> None:
    """R54: without two of three masters there is no agreement on FAIL."""
    incident = next(incident for incident in incidents_of(dead(A, C, agreed=False)) if incident.subject == A)

    assert reasons(incident)[:2] == [
        "voting master a has failed; 1 left, 2 of 3 are needed",
        "voting master c has failed; 1 left, 2 of 3 are needed",
    ]
    assert "2 voting masters failed (a and c): 1 left, 2 of 3 are needed" in summary_of(incident, NAMES)


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("Currently unable to failover: Disconnected from master for longer than allowed.", "its data is too old"),
        ("", "it never asked for votes"),
    ],
)
def test_a_replicas_log_is_quoted_and_a_missing_log_is_unknown(detail: str, expected: str) -> None:
    """R85 leaves no message."""
    tale = dead(A)
    if detail:
        tale.event(R, 13, "election-stalled", "", 0, detail)

    (incident,) = incidents_of(tale)

    assert expected in reasons(incident)[0]


def test_a_replica_without_enough_votes_is_named() -> None:
    """R90: the refusals are in the list as well."""
    tale = dead(A)
    tale.event(R, 14, "election-started", A, 4)
    tale.vote(B, R, 14, 4, "already voted in this epoch")

    (incident,) = incidents_of(tale)

    assert "too few masters voted for it" in reasons(incident)[0]
    assert [step.detail for step in incident.steps if step.kind == "no-vote"] == ["already voted in this epoch"]


def test_nodes_that_logged_cluster_down_are_counted_once() -> None:
    """Nodes, not events; and not a process that was just started, which always begins so (R106)."""
    tale = dead(A)
    for at_s, node in ((12.6, B), (12.7, C), (12.9, B), (20, A)):
        tale.event(node, at_s, "state-fail", node)
    for at_s, node in ((12.8, B), (20.1, B), (20.2, C), (22, A)):
        tale.event(node, at_s, "state-ok", node)
    tale.event(A, 9.6, "process-ended", A)
    tale.event(A, 20, "process-started", A)

    steps = [step for step in incidents_of(tale)[0].steps if step.kind in ("state-fail", "state-ok")]

    assert [(step.kind, step.actor, step.amount, step.until_ns) for step in steps] == [
        ("state-fail", B, 2, ns(12.7)),
        ("state-ok", B, 2, ns(20.2)),
    ]
