"""Contradictions and risks: each is found when it is there, and only then."""

from __future__ import annotations

import pytest

from cluster_core.incidents.catalogue import find_findings
from cluster_core.incidents.checks import PlacedNode, layout_findings
from cluster_core.incidents.grouping import grouped_findings
from cluster_core.incidents.incident import Finding
from cluster_core.kinds import FindingCode
from tests.builders.history_builder import T0, B, C, Tale, failover_tale, ns, quiet_tale

ALWAYS = {"one-host"}
"""What the builder's layout always gives."""


def findings(tale: Tale) -> list[Finding]:
    """All findings of a tale but those of its layout."""
    return [finding for finding in find_findings(tale.history()) if finding.code not in ALWAYS]


def codes(tale: Tale) -> list[tuple[str, str, str]]:
    return [(finding.code, finding.node, finding.other) for finding in findings(tale)]


@pytest.mark.parametrize("tale", [quiet_tale, failover_tale])
def test_a_cluster_that_keeps_the_rules_has_no_findings(tale: object) -> None:
    assert codes(tale()) == []  # type: ignore[operator]


def test_two_masters_that_claim_one_slot_for_long_are_a_finding() -> None:
    """R166; a claim that is settled at once is not."""
    tale = quiet_tale(8.0)
    tale.chatter(C, 8, 20, slots="150-299")
    tale.chatter(B, 8, 20)
    tale.end_s = 20

    (finding,) = [finding for finding in findings(tale) if finding.code == "split-claim"]

    assert (finding.node, finding.other, finding.severity) == (B, C, "error")
    assert "50 slots" in finding.text
    assert "150-199" in finding.text


def placed(*hosts: str, replicas: tuple[tuple[int, str], ...] = ()) -> list[PlacedNode]:
    """Masters on these hosts; replicas of the n-th on others."""
    masters = [PlacedNode(f"m{number}", host, "", True) for number, host in enumerate(hosts)]
    return masters + [PlacedNode(f"r{number}", host, f"m{of}", False) for number, (of, host) in enumerate(replicas)]


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
def test_the_loss_of_each_host_is_judged(layout: list[PlacedNode], expected: list[tuple[str, str]] | None) -> None:
    """R93: the quorum counts failed masters too; with two masters no election is possible."""
    findings_ = [(finding.code, finding.other) for finding in layout_findings(layout, T0)]

    if expected is None:
        assert ("quorum-impossible", "") in findings_
    else:
        assert findings_ == expected


def test_findings_about_many_nodes_are_one_sentence() -> None:
    nodes = [f"{number:040x}" for number in range(1, 31)]
    alike = [
        Finding("note", FindingCode.REPLICATION_LAG, node, "", T0 + i, ns(1), 1, i, f"{i} ms", (i,))
        for i, node in enumerate(nodes)
    ]

    (finding,) = grouped_findings(alike)

    assert (finding.times, finding.amount, finding.node, finding.first_ns) == (30, 29, "", T0)
    assert finding.refs == tuple(range(30))
    assert finding.text == "29 ms; the same of 29 more nodes, less or as much: " + ", ".join(["00000000"] * 5) + " …"
    assert grouped_findings(alike[:7]) == alike[:7]
