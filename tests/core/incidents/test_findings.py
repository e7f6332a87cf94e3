"""Contradictions and risks: each is found when it is there, and only then."""

from __future__ import annotations

import pytest

from cluster_core.incidents.catalogue import find_findings
from cluster_core.incidents.checks.layout import Placed, layout_findings
from cluster_core.incidents.grouping import grouped_findings
from cluster_core.incidents.incident import Finding
from cluster_core.kinds import FindingCode
from tests.builders.history_builder import T0, A, B, C, R, Tale, failover_tale, ns, quiet_tale

ALWAYS = {"one-host"}
"""What the builder's layout always gives."""


def findings(tale: Tale) -> list[Finding]:
    """All findings of a tale but those of its layout."""
    return [one for one in find_findings(tale.history()) if one.code not in ALWAYS]


def codes(tale: Tale) -> list[tuple[str, str, str]]:
    """Code, node and other of them."""
    return [(one.code, one.node, one.other) for one in findings(tale)]


@pytest.mark.parametrize("tale", [quiet_tale, failover_tale])
def test_a_cluster_that_keeps_the_rules_has_no_findings(tale: object) -> None:
    """Quiet, or with a clean failover."""
    assert codes(tale()) == []  # type: ignore[operator]


def test_two_masters_that_claim_one_slot_for_long_are_found() -> None:
    """R166; a claim that is settled at once is not."""
    tale = quiet_tale(8.0)
    tale.chatter(C, 8, 20, slots="150-299")
    tale.chatter(B, 8, 20)
    tale.end_s = 20

    (one,) = [one for one in findings(tale) if one.code == "split-claim"]

    assert (one.node, one.other, one.severity) == (B, C, "error")
    assert "50 slots" in one.text
    assert "150-199" in one.text


def test_masters_that_keep_one_epoch_are_found() -> None:
    """R80 must end it."""
    tale = Tale()
    tale.everybody_knows()
    tale.chatter(B, 0, 30)
    tale.chatter(C, 0, 30, epoch=2)

    assert ("equal-epochs", B, C) in codes(tale)


def test_two_masters_of_one_shard_are_an_error() -> None:
    """By shard id (R65), or without it because one replicated the other before."""
    tale = failover_tale()
    tale.headers = [header for header in tale.headers if not (header[0] == A and header[2].ts_ns > ns(19))]
    tale.chatter(A, 20, 30)

    assert ("two-masters", A, R) in codes(tale)


def test_shard_ids_say_who_belongs_together() -> None:
    """Two masters that never replicated each other, with one shard id."""
    tale = Tale()
    tale.everybody_knows()
    tale.chatter(B, 0, 30, shard="5" * 40)
    tale.chatter(C, 0, 30, shard="5" * 40)

    assert codes(tale) == [("two-masters", B, C)]


def test_a_replica_of_a_replica_that_lasts_is_found() -> None:
    """R66 folds chains."""
    tale = quiet_tale(5.0)
    tale.end_s = 30
    tale.chatter(A, 5, 25, replicaof=B, slots="")
    tale.chatter(R, 5, 30, replicaof=A)
    tale.chatter(A, 25, 30)

    found = [one for one in findings(tale) if one.code.startswith("replica-")]

    assert [(one.code, one.node, one.other, one.amount) for one in found] == [("replica-chain", R, A, 19_500)]


def test_a_loop_of_replicas_is_an_error() -> None:
    tale = Tale()
    tale.chatter(A, 0, 30, replicaof=R)
    tale.chatter(R, 0, 30, replicaof=A)

    (one,) = [one for one in findings(tale) if one.code == "replica-loop"]

    assert (one.severity, {one.node, one.other}) == ("error", {A, R})


def test_doubt_that_comes_to_nothing_is_a_note() -> None:
    """R53 without R54."""
    tale = quiet_tale()
    tale.rows = [row for row in tale.rows if (getattr(row, "observer", ""), getattr(row, "node_id", "")) != (B, C)]
    tale.view(B, C, 0, 10)
    tale.view(B, C, 10, 11, flags="master,fail?")
    tale.view(B, C, 11)

    assert codes(tale) == [("suspected", C, "")]


def placed(*hosts: str, replicas: tuple[tuple[int, str], ...] = ()) -> list[Placed]:
    """Masters on these hosts; replicas of the n-th on others."""
    masters = [Placed(f"m{number}", host, "", True) for number, host in enumerate(hosts)]
    return masters + [Placed(f"r{number}", host, f"m{of}", False) for number, (of, host) in enumerate(replicas)]


SPREAD = ((0, "h2"), (1, "h3"), (2, "h1"))


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (placed("h1", "h2", "h3", replicas=SPREAD), []),
        (placed("h1", "h1", "h3", replicas=((0, "h3"), (1, "h3"), (2, "h1"))), [("quorum-impossible", "h1")]),
        (placed("h1", "h2", "h3", replicas=SPREAD[:2]), [("shard-on-one-host", "h3")]),
        (placed("h1", "h2", replicas=((0, "h2"), (1, "h1")))[:2], None),
        (placed("h1", "h1", "h1"), [("one-host", "")]),
    ],
)
def test_the_loss_of_each_host_is_judged(layout: list[Placed], expected: list[tuple[str, str]] | None) -> None:
    """R93: the quorum counts failed masters too; with two masters nobody can be elected at all."""
    found = [(one.code, one.other) for one in layout_findings(layout, T0)]

    if expected is None:
        assert ("quorum-impossible", "") in found
    else:
        assert found == expected


def test_nothing_is_found_where_nothing_was_read() -> None:
    """No rows, no layout, no findings."""
    assert findings(Tale()) == []


def test_findings_about_many_nodes_are_one_sentence() -> None:
    """With the worst of them, their number and the first names."""
    nodes = [f"{number:040x}" for number in range(1, 31)]
    alike = [
        Finding("note", FindingCode.SUSPECTED, node, "", T0 + i, ns(1), 1, i, f"{i} ms", (i,))
        for i, node in enumerate(nodes)
    ]

    (one,) = grouped_findings(alike)

    assert (one.times, one.amount, one.node, one.first_ns, one.refs) == (30, 29, "", T0, tuple(range(30)))
    assert one.text == "29 ms; the same of 29 more nodes, less or as much: " + ", ".join(["00000000"] * 5) + " …"
    assert grouped_findings(alike[:7]) == alike[:7]
