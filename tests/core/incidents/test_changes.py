"""Incidents that are no failures: members, replicas, slots, epochs, partitions, flapping (R56 to R61, R80, R103, R123)."""

from __future__ import annotations

import pytest

from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.gossip.causes import Cause
from cluster_core.history.statements import Lines, LoggedLine
from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident
from cluster_core.incidents.story import summary_of
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import NodeViewRow
from tests.builders.history_builder import NODES, A, B, C, R, Tale, ns, quiet_tale

NEW = "e" * 40


def changes_of(tale: Tale) -> list[tuple[str, str, str, str]]:
    """Kind, variant, subject and winner of all incidents."""
    return [
        (incident.kind, incident.variant, incident.subject, incident.winner)
        for incident in find_incidents(tale.history())
    ]


def the_only(tale: Tale) -> Incident:
    (incident,) = find_incidents(tale.history())
    return incident


def test_a_met_node_joins_once() -> None:
    """A handshake was completed (R57); others learned of it by gossip (R46)."""
    tale = quiet_tale()
    tale.view(A, NEW, 10, cause="R57", slots="")
    for number, observer in enumerate((B, C, R)):
        tale.view(observer, NEW, 10.5 + number, cause="R46", slots="")

    incident = the_only(tale)

    assert (incident.kind, incident.variant, incident.subject) == ("membership", "joined", NEW)
    assert [(step.kind, step.actor, step.subject, step.amount) for step in incident.steps] == [("met", NEW, A, 4)]


def test_nodes_known_at_the_start_do_not_join() -> None:
    tale = quiet_tale()
    for observer in NODES:
        tale.view(observer, NEW, 0, cause="own gossip", slots="")

    assert changes_of(tale) == []


def test_a_node_that_polls_show_later_than_others_joined() -> None:
    """The first answer of R comes late and knows NEW already."""
    tale = Tale()
    for at_s, observer in ((10, A), (11, B), (13, R)):
        tale.view(observer, NEW, at_s, cause=Cause.POLL, slots="")

    (joined,) = find_incidents(
        tale.history(samples={**polls(A, *range(30)), **polls(B, *range(30)), **polls(R, 13, 14)})
    )

    assert (joined.variant, joined.nodes) == ("joined", (NEW,))


def test_a_dropped_node_is_forgotten() -> None:
    """FORGET by each observer is one incident about the node (R61)."""
    tale = quiet_tale()
    for number, observer in enumerate((A, B, C)):
        tale.view(observer, NEW, 0, 10 + number, cause="own gossip", slots="")

    incident = the_only(tale)

    assert (incident.variant, incident.subject, incident.nodes) == ("forgotten", NEW, (A, B, C))


def test_a_node_that_joins_the_shard_of_one_that_is_forgotten_replaces_it() -> None:
    """CLUSTER MEET, REPLICATE, and FORGET of the old replica are one operation."""
    tale = quiet_tale()
    tale.view(A, NEW, 10, cause="R57", slots="")
    for number, observer in enumerate((B, C)):
        tale.view(observer, NEW, 10.5 + number, cause="R46", slots="")
    tale.chatter(NEW, 10, 14)
    tale.chatter(NEW, 14.5, 30, replicaof=A)
    tale.rows = [row for row in tale.rows if not (isinstance(row, NodeViewRow) and row.node_id == R)]
    for observer in (A, B, C):
        tale.view(observer, R, 0, 20, flags="slave", master=A)

    incident = the_only(tale)

    assert (incident.variant, incident.subject, incident.winner) == ("replaced", R, NEW)
    assert [step.kind for step in incident.steps][:2] == ["met", "replica-attached"]

    tale.view(B, NEW, 11.5, 19)
    assert "replaced" not in {variant for _, variant, *_ in changes_of(tale)}  # NEW is forgotten, too


def test_a_backdated_belief_is_no_forgetting() -> None:
    """Slots moved one by one leave small holes between intervals; the node was never gone."""
    tale = quiet_tale()
    tale.view(A, NEW, 0, 10, cause="own gossip", slots="")
    tale.view(A, NEW, 10.2, cause="message", slots="5")

    assert changes_of(tale) == []


def test_a_reset_gives_a_process_another_id() -> None:
    """CLUSTER RESET HARD (R82): nodes forgotten with the old id are not listed one by one."""
    tale = Tale()
    for node in (A, B):
        tale.view(node, B, 0)
        tale.chatter(node, 0, 30)
    tale.view(B, A, 0)
    tale.view(A, A, 0)
    tale.view(NEW, A, 0, 10)
    tale.view(NEW, NEW, 0, 10, slots="")
    tale.view("f" * 40, "f" * 40, 10, cause="R82", slots="")

    assert ("membership", "reset", NEW, "f" * 40) in changes_of(tale)
    assert not any(variant == "forgotten" and subject == A for _, variant, subject, _ in changes_of(tale))


def test_a_node_that_forgets_all_others_at_once_was_reset() -> None:
    """CLUSTER RESET SOFT keeps the id (R82)."""
    tale = quiet_tale()
    tale.rows = [row for row in tale.rows if not (isinstance(row, NodeViewRow) and row.observer == R != row.node_id)]
    for node in (A, B, C):
        tale.view(R, node, 0, 10)

    incident = the_only(tale)

    assert (incident.variant, incident.subject, incident.started_ns) == ("reset", R, ns(10))
    assert summary_of(incident, {R: "r"}) == "r was reset: it forgot all other nodes"


def test_the_old_id_of_a_process_that_was_reset_did_not_fail() -> None:
    """Who reaches another id at its address marks it FAIL (R58): that is the reset, not a failure."""
    tale = Tale()
    tale.view(B, B, 0)
    tale.view(B, NEW, 0, 10.1, slots="")
    tale.view(B, NEW, 10.1, 14, flags="master,fail", slots="")
    tale.view(NEW, NEW, 0, 10, slots="")
    tale.view("f" * 40, "f" * 40, 10, cause="R82", slots="")
    tale.chatter(B, 0, 30)
    tale.chatter(NEW, 0, 10, connection=9)

    assert [(kind, variant) for kind, variant, _, _ in changes_of(tale)] == [
        ("membership", "reset"),
        ("membership", "forgotten"),
    ]


def test_a_replica_migration_is_named_as_such() -> None:
    """Replica migration (R103 to R105)."""
    tale = Tale()
    tale.everybody_knows()
    for node in (A, B, C):
        tale.chatter(node, 0, 30)
    tale.chatter(R, 0, 10, replicaof=A)
    tale.chatter(R, 10, 30, replicaof=B)

    (incident,) = find_incidents(tale.history())

    assert (incident.kind, incident.variant) == ("membership", "replicas changed")
    assert [(step.kind, step.actor, step.subject) for step in incident.steps] == [("replica-moved", R, B)]


def resharded(*, gap_s: float = 0.0, state: int = 0) -> Tale:
    """B hands 150-199 over at 10 s; C claims them *gap_s* later."""
    tale = Tale()
    tale.everybody_knows()
    tale.chatter(A, 0, 30)
    tale.chatter(R, 0, 30, replicaof=A)
    tale.chatter(B, 0, 10)
    tale.chatter(B, 10, 30, slots="100-149", state=state)
    tale.chatter(C, 0, 10 + gap_s)
    tale.chatter(C, 10 + gap_s, 30, slots="150-299", epoch=4, current=4)
    return tale


@pytest.mark.parametrize("gap_s", [0.0, 8.0])
def test_slots_that_change_masters_are_a_resharding(gap_s: float) -> None:
    """For any time without an owner: SETSLOT NODE reaches source and target separately (R124)."""
    incident = the_only(resharded(gap_s=gap_s))

    assert (incident.kind, incident.subject, incident.winner) == ("resharding", B, C)
    assert (incident.slots, incident.slot_count) == ("150-199", 50)


def test_a_resharding_ends_where_one_of_its_nodes_fails() -> None:
    """What is moved when the node is back is another operation."""
    tale = Tale(40.0)
    tale.everybody_knows(nodes=(A, C, R))
    for node, claims in ((A, {}), (R, {"replicaof": A})):
        tale.chatter(node, 0, 40, **claims)
    tale.chatter(B, 0, 10)
    tale.chatter(B, 10, 11, slots="100-179")
    tale.chatter(B, 20, 21, slots="100-179")
    tale.chatter(B, 21, 40, slots="100-159")
    tale.chatter(C, 0, 10.2)
    tale.chatter(C, 10.5, 21.2, slots="180-299")
    tale.chatter(C, 21.5, 40, slots="160-299")
    tale.rows = [row for row in tale.rows if not (isinstance(row, NodeViewRow) and row.node_id == B)]
    for observer in (A, C):
        tale.view(observer, B, 0, 13)
        tale.view(observer, B, 13, 20, flags="master,fail", cause="R54")
        tale.view(observer, B, 20, cause="R55b")

    incidents = [incident for incident in find_incidents(tale.history()) if incident.kind == "resharding"]

    assert [(incident.variant, incident.slots) for incident in incidents] == [
        ("cut short", "180-199"),
        ("moved", "160-179"),
    ]


def test_slots_that_were_deleted_and_added_elsewhere_are_not_moved() -> None:
    """DELSLOTS leaves the owner with a cluster that is down (R107): that tells it from SETSLOT."""
    assert changes_of(resharded(gap_s=8.0, state=1)) == [
        ("slots-assigned", "given up", B, ""),
        ("slots-assigned", "taken", C, ""),
    ]


def test_polls_alone_separate_reassigned_slots_from_moved_slots() -> None:
    """They show no state in headers, but the answer to CLUSTER INFO does: the old owner held the cluster for down."""

    def steps_of(cluster_ok: bool) -> list[tuple[str, str]]:
        rows = [polled_row(B, "100-199", 0, 10), polled_row(B, "100-179", 10), polled_row(C, "200-299", 0, 18)]
        rows.append(polled_row(C, "180-299", 18))
        samples = [MetricSample(ns(at), ns(at), B, cluster_ok=cluster_ok or not 10 <= at < 18) for at in range(30)]
        history = History(
            rows, [], {}, node_timeout_ms=5000, first_ns=ns(0), last_ns=ns(30), samples={(B, Source.POLL): samples},
        )  # fmt: skip
        return [(incident.kind, incident.variant) for incident in find_incidents(history) if incident.kind != "outage"]

    assert steps_of(cluster_ok=False) == [("slots-assigned", "given up"), ("slots-assigned", "taken")]
    assert steps_of(cluster_ok=True) == [("resharding", "moved")]


def polled_row(node: str, slots: str, from_s: float, to_s: float | None = None) -> NodeViewRow:
    """What *node* answered of itself for a while."""
    until_ns = None if to_s is None else ns(to_s)
    return NodeViewRow(
        node, node, "10.0.0.1", 7000, 17000, "", "myself,master", "", 1, slots, True, ns(from_s), until_ns, Cause.POLL, -1,
        ns(from_s), Source.POLL,
    )  # fmt: skip


def test_lines_of_the_log_show_slots_that_moved_each_once() -> None:
    """Masters of Valkey 8.1 and later log them, all of them each move."""
    lines = [
        LoggedLine(node, "10.0.0.1", 7000, ns(at_s), EventKind.SLOTS_MOVED, C, peer=B, detail=slots, role="M")
        for node, at_s, slots in ((B, 10, "180, 181"), (C, 10.1, "180, 181"), (C, 11, "182"))
    ]
    lines += [  # a master that is told of the slot by command logs only that
        LoggedLine(C, "10.0.0.1", 7000, ns(12), EventKind.SLOT_IMPORTING, B, detail="183", role="M"),
        LoggedLine(A, "10.0.0.2", 7000, ns(12.1), EventKind.SLOT_ASSIGNED, C, detail="183", role="M"),
        LoggedLine(C, "10.0.0.1", 7000, ns(12.2), EventKind.SLOT_ASSIGNED, C, detail="183", role="M"),
        LoggedLine(C, "10.0.0.1", 7000, ns(13), EventKind.SLOT_IMPORTING, B, detail="184", role="M"),
        LoggedLine(R, "10.0.0.1", 7000, ns(5), EventKind.TAKEOVER, role="S"),  # the old master of B logs its news later
        LoggedLine(R, "10.0.0.1", 7000, ns(5), EventKind.BECAME_MASTER, A, role="M"),
        LoggedLine(A, "10.0.0.1", 7000, ns(14), EventKind.SLOTS_MOVED, C, peer=A, detail="180", role="M"),
    ]
    history = History([], [], {}, node_timeout_ms=5000, first_ns=ns(0), last_ns=ns(30), lines=Lines(lines))

    (incident,) = [incident for incident in find_incidents(history) if incident.kind == "resharding"]

    assert (incident.variant, incident.subject, incident.winner, incident.slots) == ("moved", B, C, "180-183")


def test_a_master_that_gives_away_its_last_slot_follows_the_new_owner_within_the_resharding() -> None:
    """That it becomes a replica belongs to the story (R73, R124), and so do its replicas."""
    tale = Tale()
    tale.everybody_knows()
    for node in (B, C):
        tale.chatter(node, 0, 10)
    tale.chatter(B, 10, 30, slots="0-199", epoch=4, current=4)
    tale.chatter(C, 10, 30, current=4)
    tale.chatter(A, 0, 10.5)
    tale.chatter(A, 10.5, 30, replicaof=B, slots="0-199", epoch=4, current=4)
    tale.chatter(R, 0, 11, replicaof=A)
    tale.chatter(R, 11, 30, replicaof=B, slots="0-199", epoch=4, current=4)

    incident = the_only(tale)

    assert (incident.kind, incident.subject, incident.winner, incident.slot_count) == ("resharding", A, B, 100)
    assert [(step.kind, step.actor, step.subject) for step in incident.steps] == [
        ("moved", B, A),
        ("emptied", A, B),
        ("follows", R, B),
    ]


def test_claims_that_collide_when_clusters_meet_are_no_resharding() -> None:
    """A first claim takes nothing from anybody; the loss that settles it is no handing over either (R166)."""
    tale = Tale()
    tale.everybody_knows()
    tale.chatter(A, 0, 30)
    tale.chatter(R, 0, 30, replicaof=A)
    tale.chatter(B, 0, 2, slots="50-199")
    tale.chatter(B, 2, 30)
    tale.chatter(C, 0, 30)

    assert changes_of(tale) == []


def test_masters_with_one_epoch_collide_and_the_smaller_id_draws_another() -> None:
    """R80; the node with the greater id keeps its epoch."""
    tale = Tale()
    tale.everybody_knows()
    for node in (A, B):
        tale.chatter(node, 0, 10, epoch=7, current=7)
    tale.chatter(A, 10, 30, epoch=8, current=8)
    tale.chatter(B, 10, 30, epoch=7, current=8)
    tale.epoch(A, 10, 8, "collision")

    incident = the_only(tale)

    assert (incident.kind, incident.variant, incident.epoch) == ("epoch-collision", "collision", 8)
    assert [(step.actor, step.epoch) for step in incident.steps] == [(A, 8)]


def test_the_first_epoch_of_a_new_master_is_no_incident() -> None:
    """It has epoch 0 and must draw another."""
    tale = quiet_tale()
    tale.view(A, NEW, 1, cause="R57", slots="")
    tale.says(NEW, 1, epoch=0)
    tale.chatter(NEW, 2, 30, epoch=4, current=4)
    tale.epoch(NEW, 2, 4, "collision")

    incident = the_only(tale)

    assert (incident.kind, incident.variant) == ("membership", "joined")
    assert [step.kind for step in incident.steps] == ["met"]


def cut(*silent: str, talk: bool = False, back_s: float = 18.0) -> Tale:
    """The *silent* nodes cannot be reached from 10 s until *back_s*; with *talk* they go on talking."""
    tale = Tale()
    for observer in NODES:
        for node in NODES:
            shown = {"flags": "slave", "master": A} if node == R else {"flags": "master"}
            if node in silent and observer not in silent:
                tale.view(observer, node, 0, 12, **shown)  # type: ignore[arg-type]
                tale.view(observer, node, 12, 13, **{**shown, "flags": shown["flags"] + ",fail?"})  # type: ignore[arg-type]
                tale.view(observer, node, 13, back_s, **{**shown, "flags": shown["flags"] + ",fail"})  # type: ignore[arg-type]
                tale.view(observer, node, back_s, **shown)  # type: ignore[arg-type]
            else:
                tale.view(observer, node, 0, **shown)  # type: ignore[arg-type]
    for node in NODES:
        claims = {"replicaof": A} if node == R else {}
        if node in silent and not talk:
            tale.chatter(node, 0, 10, **claims)
            tale.chatter(node, back_s, 30, **claims)
        else:
            tale.chatter(node, 0, 30, **claims)
    return tale


def test_nodes_that_go_and_return_together_were_partitioned() -> None:
    incidents = changes_of(cut(C, R))

    assert [(kind, variant) for kind, variant, _, _ in incidents] == [
        ("partition", "silent together"),
        ("failure", "agreed"),
        ("failure", "agreed"),
    ]
    tale = cut(C, R)
    tale.view("0" * 40, "0" * 40, 0, slots="")
    partition = find_incidents(tale.history())[0]
    assert partition.nodes == (C, R)
    assert [(s.actor, s.amount, s.detail) for s in partition.steps if s.kind == "quorum-side"] == [
        (A, 2, "of 3 voting masters")
    ]


def test_a_single_node_that_goes_and_returns_is_no_partition() -> None:
    """It may as well have been restarted."""
    assert [kind for kind, *_ in changes_of(cut(C))] == ["failure"]


def test_a_sending_node_that_its_peers_miss_is_cut_off() -> None:
    """The capture hears it, the others do not."""
    incidents = changes_of(cut(C, talk=True))

    assert ("partition", "cut off", C, "") in incidents


def test_without_messages_no_node_is_cut_off() -> None:
    """Polls and logs alone do not show who talked."""
    tale = cut(C, talk=True)
    tale.headers = []

    assert [kind for kind, *_ in changes_of(tale)] == ["failure"]


def polls(node: str, *seconds: float) -> dict[tuple[str, Source], list[MetricSample]]:
    """Replies of *node* to polls."""
    return {(node, Source.POLL): [MetricSample(ns(at_s), ns(at_s), node) for at_s in seconds]}


def test_a_node_that_answers_polls_while_others_miss_it_is_cut_off() -> None:
    """A process that is stopped answers nothing, and at once when it is continued."""
    tale = cut(C)
    tale.event(C, 14, "process-idle", C)
    running = find_incidents(tale.history(samples=polls(C, *range(30))))
    stopped = find_incidents(tale.history(samples=polls(C, *range(11), *range(18, 30))))

    assert [(incident.kind, incident.variant) for incident in running] == [
        ("partition", "cut off"),
        ("failure", "agreed"),
    ]
    assert "its process ran, but the other nodes did not reach it" in summary_of(running[1], {})
    assert [incident.kind for incident in stopped] == ["failure"]

    tale.headers = []  # others are polled two seconds after they reached it again
    back = {"evidence": Source.POLL, "valid_from_min_ns": ns(15)}
    tale.rows = [row._replace(**back) if getattr(row, "valid_from_ns", 0) == ns(18) else row for row in tale.rows]
    polled_late = find_incidents(tale.history(samples=polls(C, *range(0, 11, 2), *range(15, 30, 2))))
    assert "cut off" not in [incident.variant for incident in polled_late]


@pytest.mark.parametrize(("kind", "is_cut_off"), [(EventKind.STATE_FAIL, True), (EventKind.FAIL_LEARNED, False)])
def test_a_node_that_logs_that_it_misses_others_is_cut_off(kind, is_cut_off) -> None:
    """Its own cluster state shows that it lost the majority; other lines may be earlier, by a clock that is ahead."""
    tale = cut(C)
    tale.headers = []
    lines = Lines([LoggedLine(C, "10.0.0.1", 7002, ns(14), kind)])

    incidents = find_incidents(tale.history(lines=lines))

    assert ("cut off" in [incident.variant for incident in incidents]) is is_cut_off


def test_two_nodes_that_do_not_reach_each_other_lost_one_link() -> None:
    """The others reach both: no majority marks either of them."""
    tale = quiet_tale()
    tale.rows = [row for row in tale.rows if (row.observer, row.node_id) not in ((B, C), (C, B))]  # type: ignore[union-attr]
    for observer, node, mark_s in ((B, C, 12.0), (C, B, 12.3)):
        tale.view(observer, node, 0, mark_s)
        tale.view(observer, node, mark_s, 20, flags="master,fail?")
        tale.view(observer, node, 20)

    (incident,) = find_incidents(tale.history())

    assert (incident.kind, incident.variant, incident.nodes) == ("partition", "one link", (B, C))
    assert (incident.started_ns, incident.ended_ns) == (ns(12), ns(20))
    assert [(step.kind, step.actor) for step in incident.steps] == [
        ("pfail", B), ("pfail", C), ("trusted", B), ("trusted", C)
    ]  # fmt: skip


def test_marks_of_a_node_that_is_cut_off_are_no_flapping_of_the_others() -> None:
    tale = cut(C)
    for at_s in (12.0, 14.0, 16.0):
        tale.view(C, A, at_s, at_s + 0.1, flags="master,fail?")
    incidents = find_incidents(tale.history(samples=polls(C, *range(30))))

    assert "flapping" not in [incident.kind for incident in incidents]


def test_a_node_that_was_started_again_each_time_is_not_flapping() -> None:
    tale = flapping()
    for at_s in (10, 20, 30):
        tale.event(B, at_s + 0.2, "process-ended", B)

    assert "flapping" in [kind for kind, *_ in changes_of(flapping())]
    assert "flapping" not in [kind for kind, *_ in changes_of(tale)]


def flapping() -> Tale:
    """A marks B PFAIL three times, for a second each."""
    tale = Tale(60.0)
    tale.everybody_knows(nodes=(A, C, R))
    tale.view(C, B, 0)
    tale.view(R, B, 0)
    for at_s in (10, 20, 30):
        tale.view(A, B, at_s - 5, at_s, ref=1)
        tale.view(A, B, at_s, at_s + 1, flags="master,fail?", cause="R53")
        tale.view(A, B, at_s + 1, at_s + 5 if at_s < 30 else None)
    for node in NODES:
        tale.chatter(node, 0, 60, **({"replicaof": A} if node == R else {}))
    return tale


def test_a_node_with_repeated_pfail_is_flapping() -> None:
    incident = the_only(flapping())

    assert (incident.kind, incident.subject, len(incident.steps), incident.started_ns) == ("flapping", B, 3, ns(10))
