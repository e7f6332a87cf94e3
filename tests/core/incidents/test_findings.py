"""Invariants R161 to R169, contradictions and risks: each is found when it is there, and only then."""

from __future__ import annotations

import pytest

from cluster_core.incidents.catalogue import find_findings
from cluster_core.incidents.checks.layout import Placed, layout_findings
from cluster_core.incidents.grouping import grouped_findings
from cluster_core.incidents.incident import Finding
from cluster_core.kinds import FindingCode, Source
from tests.builders.history_builder import MYSELF, T0, A, B, C, R, Tale, failover_tale, ns, quiet_tale

ALWAYS = {"one-host"}
"""What the builder's layout always gives."""


def findings(tale: Tale) -> list[Finding]:
    """All findings of a tale but those of its layout."""
    breaches = [breach for checks in tale.checks().values() for breach in checks.finish()]
    return [one for one in find_findings(tale.history(), breaches) if one.code not in ALWAYS]


def codes(tale: Tale) -> list[tuple[str, str, str]]:
    """Code, node and other of them."""
    return [(one.code, one.node, one.other) for one in findings(tale)]


@pytest.mark.parametrize("tale", [quiet_tale, failover_tale])
def test_a_cluster_that_keeps_the_rules_has_no_findings(tale: object) -> None:
    """Quiet, or with a clean failover."""
    assert codes(tale()) == []  # type: ignore[operator]


def test_an_epoch_that_goes_back_on_one_connection_is_an_error() -> None:
    """R161."""
    tale = quiet_tale()
    tale.says(B, 10.1, current=9)
    tale.headers.sort(key=lambda header: header[2].ts_ns)

    assert ("epoch-decreased", B, "") in codes(tale)


def test_an_epoch_that_goes_back_between_connections_is_not() -> None:
    """Headers of one node leave on different connections in another order than they were built."""
    tale = quiet_tale()
    tale.says(B, 29.9, current=9, connection=77)
    tale.says(B, 29.9, current=3)

    assert codes(tale) == []


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"flags": 0x2000}, "my-primary-fail"),
        ({"flags": 0x2}, "role-flags"),
        ({"flags": 0x8}, "flags-of-self"),
        ({"epoch": 5, "current": 3}, "config-epoch-ahead"),
    ],
)
def test_a_header_that_contradicts_itself_is_found(claims: dict[str, int], code: str) -> None:
    """R135, R161, R167, each with its number of messages."""
    tale = quiet_tale()
    tale.says(B, 29.9, **claims)  # type: ignore[arg-type]

    (one,) = findings(tale)

    assert (one.code, one.node, one.times) == (code, B, 1)


def test_a_replica_that_names_no_master_is_found() -> None:
    """R167."""
    tale = quiet_tale()
    tale.says(B, 29.9)
    node, way, said = tale.headers.pop()
    tale.headers.append((node, way, said._replace(flags=0x2 | MYSELF)))

    assert "role-without-master" in [code for code, _, _ in codes(tale)]


def test_my_primary_fail_is_fine_on_a_replica() -> None:
    """That is what the bit is for (R134)."""
    tale = quiet_tale()
    tale.says(R, 29.9, replicaof=A, flags=0x2000)

    assert codes(tale) == []


def test_an_offset_of_a_master_that_goes_back_is_found() -> None:
    """R169."""
    tale = quiet_tale()
    tale.says(B, 29.9, offset=1)

    assert codes(tale) == [("offset-decreased", B, "")]


def test_two_votes_in_one_epoch_are_an_error() -> None:
    """R162."""
    tale = failover_tale()
    tale.event(B, 13.61, "vote", C, 4)

    assert codes(tale) == [("double-vote", B, C)]


def test_two_winners_of_one_epoch_are_an_error() -> None:
    """R163; the second has no votes either (R164)."""
    tale = failover_tale()
    tale.epoch(C, 14, 4, "election")

    assert {code for code, _, _ in codes(tale)} == {"double-win", "win-without-quorum"}


def test_a_win_without_enough_votes_is_found() -> None:
    """R164: one vote of three masters."""
    tale = failover_tale()
    tale.rows = [row for row in tale.rows if getattr(row, "voter", "") != C]

    assert codes(tale) == [("win-without-quorum", R, "")]


def test_a_verdict_without_reports_is_found() -> None:
    """R165."""
    tale = failover_tale()
    tale.rows = [row for row in tale.rows if not hasattr(row, "reporter")]

    assert codes(tale) == [("verdict-without-quorum", B, A)]


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


def test_a_replica_that_keeps_showing_old_slots_is_found() -> None:
    """R168."""
    tale = quiet_tale(5.0)
    tale.end_s = 30
    tale.chatter(A, 5, 30, slots="0-98", epoch=4, current=4)
    tale.chatter(R, 5, 30, replicaof=A)
    for node in (B, C):
        tale.chatter(node, 5, 30)

    assert ("stale-replica", R, A) in codes(tale)


def test_a_replica_of_a_replica_that_lasts_is_found_by_observer() -> None:
    """R66 folds chains; a loop is an error."""
    tale = quiet_tale()
    tale.rows = [row for row in tale.rows if getattr(row, "node_id", "") != A]
    for observer in (A, B, C, R):
        tale.view(observer, A, 0, 5)
        tale.view(observer, A, 5, 25, flags="slave", master=B)
        tale.view(observer, A, 25)

    found = [one for one in findings(tale) if one.code.startswith("replica-")]

    assert [(one.code, one.node, one.times, one.amount) for one in found] == [("replica-chain", R, 4, 20_000)]


def test_a_loop_of_replicas_is_an_error() -> None:
    """Each of both."""
    tale = Tale()
    tale.view(B, A, 0, flags="slave", master=R)
    tale.view(B, R, 0, flags="slave", master=A)

    found = [one for one in findings(tale) if one.code == "replica-loop"]

    assert [(one.severity, one.node) for one in found] == [("error", A), ("error", R)]


def test_answers_of_different_times_are_no_disagreement() -> None:
    """Polls 10 s apart, of one node 5 s after those of the other: both may have changed their mind at once."""
    tale = quiet_tale()
    for observer, at_s in ((A, 10), (B, 15)):
        tale.rows = [row for row in tale.rows if (row.observer, row.node_id) != (observer, C)]
        tale.view(observer, C, 0, at_s, cause="poll")
        tale.view(observer, C, at_s, slots="", cause="poll")
        tale.rows[-1] = tale.rows[-1]._replace(valid_from_min_ns=ns(at_s - 10), evidence=Source.POLL)
    tale.rows = [row for row in tale.rows if row.node_id != C or row.observer in (A, B)]

    assert not [one for one in findings(tale) if one.code == "disagreement"]


def test_observers_that_disagree_for_long_are_found() -> None:
    """B holds C for a replica, the others do not; who is silent does not count."""
    tale = quiet_tale()
    tale.rows = [row for row in tale.rows if (getattr(row, "observer", ""), getattr(row, "node_id", "")) != (B, C)]
    tale.view(B, C, 0, flags="slave", master=A)

    (one,) = [one for one in findings(tale) if one.code == "disagreement"]

    assert (one.node, one.times, one.severity) == (C, 1, "warning")


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
