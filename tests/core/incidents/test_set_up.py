"""The set-up of a cluster is no incident."""

from __future__ import annotations

from cluster_core.incidents.catalogue import find_story
from cluster_core.incidents.incident import SetUp
from cluster_core.replay.rows import NodeViewRow
from tests.builders.history_builder import NODES, A, B, C, R, Tale, ns

NEW = "e" * 40


def created() -> Tale:
    """Four processes begin without a cluster, meet at 1 s, have all slots and hold the cluster for up at 2 s; R follows A at 4 s."""
    tale = Tale()
    for node in NODES:
        tale.view(node, node, 0, cause="assumed new", flags="slave" if node == R else "master")
        tale.event(node, 0.5, "state-fail")
        tale.event(node, 2, "state-ok")
        for other in NODES:
            if other != node:
                tale.view(node, other, 1, cause="R57")
    for node in (A, B, C):
        tale.says(node, 0.2, slots="", state=1)
        tale.chatter(node, 1, 30)
    tale.chatter(R, 0, 4, slots="", epoch=0)
    tale.chatter(R, 4, 30, replicaof=A)
    return tale


def test_nodes_that_meet_take_slots_and_follow_masters_are_a_set_up() -> None:
    set_up, incidents = find_story(created().history())

    assert incidents == []
    assert set_up == SetUp(ns(0), ns(4), 4, 300, 1)


def test_a_node_with_lost_first_packets_is_part_of_the_set_up() -> None:
    """Its own view begins with a header of a later time; the others met in the capture."""
    tale = created()
    tale.rows = [row for row in tale.rows if not isinstance(row, NodeViewRow) or row.observer != B]
    for other in NODES:
        tale.view(B, other, 1, flags="slave" if other == R else "master", cause="first header" if other == B else "R46")

    set_up, incidents = find_story(tale.history())

    assert incidents == []
    assert set_up is not None
    assert set_up.nodes == 4


def test_a_node_that_joins_later_is_an_incident() -> None:
    tale = created()
    tale.view(A, NEW, 20, cause="R57", slots="")
    tale.view(NEW, NEW, 19, cause="assumed new", slots="")

    set_up, incidents = find_story(tale.history())

    assert set_up is not None
    assert set_up.nodes == 4
    assert [(incident.kind, incident.variant, incident.subject) for incident in incidents] == [
        ("membership", "joined", NEW)
    ]


def test_processes_that_never_meet_are_no_cluster() -> None:
    tale = Tale()
    for node in NODES:
        tale.view(node, node, 0, cause="assumed new", slots="")

    assert find_story(tale.history()) == (None, [])


def test_evidence_that_begins_later_shows_no_set_up() -> None:
    tale = Tale()
    tale.everybody_knows()

    assert find_story(tale.history()) == (None, [])
