"""From rows of a replay to failures and failovers (R51 to R55, R83 to R102)."""

from __future__ import annotations

import pytest

from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.finders.failovers import without_pings
from cluster_core.incidents.history import OffsetSeen
from cluster_core.incidents.incident import Incident, Loss
from cluster_core.incidents.story import loss_text, name_all, step_text, summary_of
from cluster_core.replay.rows import NodeViewRow
from tests.builders.history_builder import NODES, A, B, C, R, Tale, failover_tale, ns, quiet_tale


def only(incidents: list[Incident], kind: str) -> Incident:
    (incident,) = [candidate for candidate in incidents if candidate.kind == kind]
    return incident


def steps(incident: Incident, *kinds: str) -> list[tuple[str, str, str]]:
    """Kind, actor and subject of the steps, or of those of some kinds."""
    return [(s.kind, s.actor, s.subject) for s in incident.steps if not kinds or s.kind in kinds]


def test_nothing_is_invented_in_a_quiet_cluster() -> None:
    assert find_incidents(quiet_tale().history()) == []


def test_a_failure_and_its_failover_are_one_incident() -> None:
    incident, outage = find_incidents(failover_tale().history())

    assert outage.kind == "outage"
    assert (incident.kind, incident.variant, incident.subject, incident.winner) == ("failover", "automatic", A, R)
    assert incident.started_ns == ns(9.5)


def test_the_durations_of_a_failover_are_those_of_its_steps() -> None:
    incident = only(find_incidents(failover_tale().history()), "failover")

    times = (incident.silence_to_pfail_ms, incident.silence_to_fail_ms, incident.fail_to_election_ms)
    assert times == (2500, 3000, 1000)
    assert (incident.election_ms, incident.outage_ms, incident.adoption_ms) == (200, 4200, 6350)
    assert (incident.epoch, incident.votes, incident.refusals) == (4, 2, 0)
    assert (incident.slots, incident.slot_count) == ("0-99", 100)


def test_the_story_of_a_failover_runs_from_the_last_sign_of_life_to_the_return() -> None:
    incident = only(find_incidents(failover_tale().history()), "failover")

    assert [step.ts_ns for step in incident.steps] == sorted(step.ts_ns for step in incident.steps)
    assert steps(incident) == [
        ("last-sign", A, A), ("unreached", A, ""), ("pfail", B, A), ("pfail", C, A), ("pfail", R, A), ("report", C, A),
        ("fail-decided", B, A), ("fail-learned", C, A), ("fail-learned", R, A), ("state-fail", B, ""), ("election-started", R, A),
        ("vote", B, R), ("vote", C, R), ("won", R, A), ("adopted", B, R), ("adopted", C, R), ("state-ok", B, ""), ("back", A, A),
        ("adopted", A, R), ("trusted", B, A), ("trusted", C, A), ("trusted", R, A), ("demoted", A, R),
    ]  # fmt: skip


def test_a_refusal_has_its_reason() -> None:
    """A vote that was refused counts and has a step (R90)."""
    tale = failover_tale()
    tale.vote(A, R, 13.6, 4, "already voted in this epoch")

    incident = only(find_incidents(tale.history()), "failover")

    assert (incident.votes, incident.refusals) == (2, 1)
    assert [step.detail for step in incident.steps if step.kind == "no-vote"] == ["already voted in this epoch"]


def test_logs_show_the_due_time_of_an_election_and_reasons_of_refusals() -> None:
    """What the bus does not show (R86, R160)."""
    tale = failover_tale()
    tale.event(R, 12.6, "election-scheduled", "", 0, "Start of election delayed for 900 milliseconds")
    tale.event(C, 13.55, "election-scheduled", "", 0, "of another shard")
    tale.event(B, 13.55, "vote-refused", R, 4, "reqEpoch (3) < curEpoch(4)")

    incident = only(find_incidents(tale.history()), "failover")

    assert steps(incident, "election-scheduled", "vote-refused") == [
        ("election-scheduled", R, A),
        ("vote-refused", B, R),
    ]


def ordered(*, mechanism: str = "election", forced: bool = False, asked: bool = False) -> Tale:
    """R takes over from a healthy A at 10 s."""
    tale = Tale()
    for observer in NODES:
        for node in (B, C):
            tale.view(observer, node, 0)
        tale.view(observer, A, 0, 10.1)
        tale.view(observer, A, 10.1, flags="slave", master=R, epoch=4, slots="")
        tale.view(observer, R, 0, 10, flags="slave", master=A)
        tale.view(observer, R, 10, epoch=4, slots="0-99")
    for node in (B, C):
        tale.chatter(node, 0, 30)
    tale.chatter(A, 0, 10)
    tale.chatter(A, 10.5, 30, replicaof=R, slots="0-99", epoch=4, current=4)
    tale.chatter(R, 0, 10, replicaof=A)
    tale.chatter(R, 10, 30, slots="0-99", epoch=4, current=4)
    if asked:
        tale.event(R, 9.8, "manual-failover-requested", A, 3)
        tale.event(A, 9.81, "paused", A, 3, "98")
    if mechanism == "election":
        tale.event(R, 9.9, "election-started", A, 4, "FORCEACK" if forced else "")
    tale.epoch(R, 10, 4, mechanism)
    return tale


def test_force_and_takeover_read_otherwise_than_a_plain_order() -> None:
    """FORCEACK while the master is healthy and was not asked to pause is FORCE; TAKEOVER needs no vote (R97, R134)."""
    tales = (ordered(asked=True, forced=True), ordered(forced=True), ordered(mechanism="takeover"))
    incidents = [incident for tale in tales for incident in find_incidents(tale.history())]

    assert [(incident.variant, incident.votes, incident.election_ms) for incident in incidents] == [
        ("manual", 0, 100),
        ("forced", 0, 100),
        ("takeover", 0, None),
    ]
    assert [summary_of(incident, {R: "r", A: "a"}).partition(". ")[0] for incident in incidents] == [
        "Manual failover: r replaced a, epoch 4",
        "Manual failover (FORCE): r replaced a, epoch 4 (writes to the old master were not stopped)",
        "Takeover: r replaced a, epoch 4 (CLUSTER FAILOVER TAKEOVER, without votes)",
    ]


@pytest.mark.parametrize("is_lost", [False, True], ids=["all packets", "the FAIL of the winner is lost"])
def test_forceack_in_an_election_of_valkey_for_a_failed_master_is_no_order(*, is_lost: bool) -> None:
    """Valkey 9.1 sets FORCEACK in automatic elections too (R134); its capability bit tells it from Redis."""
    tale = failover_tale()
    if is_lost:
        tale.rows = [
            row for row in tale.rows if not (isinstance(row, NodeViewRow) and row[:2] == (R, A) and "fail" in row.flags)
        ]
    tale.headers = [
        (node, way, header._replace(flags=header.flags | 0x1000) if node == R else header)
        for node, way, header in tale.headers
    ]
    tale.rows = [
        row._replace(detail="FORCEACK") if getattr(row, "kind", "") == "election-started" else row  # type: ignore[call-arg]
        for row in tale.rows
    ]

    assert only(find_incidents(tale.history()), "failover").variant == "automatic"


def test_pfail_of_most_without_fail_is_a_failure_without_agreement() -> None:
    """With too few masters left there is no FAIL, but the node is gone (R54, R93)."""
    tale = Tale()
    for observer in NODES:
        for node in NODES:
            shown = {"flags": "slave", "master": A} if node == R else {}
            if node == C and observer != C:
                tale.view(observer, C, 0, 12)
                tale.view(observer, C, 12, None, flags="master,fail?", cause="R53")
            else:
                tale.view(observer, node, 0, **shown)  # type: ignore[arg-type]
    for node in (A, B, R):
        tale.chatter(node, 0, 30, **({"replicaof": A} if node == R else {}))
    tale.chatter(C, 0, 10)

    (incident,) = find_incidents(tale.history())

    assert (incident.kind, incident.variant) == ("failure", "not agreed")
    assert incident.ended_ns is incident.silence_to_fail_ms is None


def test_every_step_and_incident_has_a_text() -> None:
    history = failover_tale().history()
    names = name_all(history.nodes, history.addresses)
    incidents = find_incidents(history)

    assert summary_of(incidents[0], names) == (
        "Failover: 10.0.0.1:7003 (dddddddd) replaced 10.0.0.1:7000 (aaaaaaaa), epoch 4."
        " 100 slots (0-99) were unreachable for 3.50 s to 4.20 s. At least 20 bytes of writes were lost;"
        " the old master could take more for 500 ms after its last message"
    )
    assert [step_text(step, names) for step in incidents[0].steps][:3] == [
        "last message of 10.0.0.1:7000 (aaaaaaaa)",
        "100 slots of 10.0.0.1:7000 (aaaaaaaa) are unreachable for the other nodes from 22:13:29.500Z..30.000Z to "
        "22:13:33.500Z..33.700Z: 0-99",
        "10.0.0.1:7001 (bbbbbbbb) marks 10.0.0.1:7000 (aaaaaaaa) PFAIL: no reply for the node timeout",
    ]


def test_ids_of_incidents_do_not_depend_on_the_order_of_rows() -> None:
    tale, turned = failover_tale(), failover_tale()
    turned.rows.reverse()

    assert find_incidents(turned.history()) == find_incidents(tale.history())
    assert [incident.incident_id for incident in find_incidents(tale.history())] == [
        f"failover-aaaaaaaa-{ns(9.5)}",
        f"outage-cluster-{ns(10)}",
    ]


def loss(tale: Tale, *offsets: OffsetSeen) -> Loss:
    """Of the only failover of a tale."""
    tale.offsets += offsets
    (incident,) = [candidate.loss for candidate in find_incidents(tale.history()) if candidate.kind == "failover"]
    return incident


def killed() -> Tale:
    """A's process ends at 9.8 s and is started again at 20 s, with an empty stream."""
    tale = failover_tale()
    tale.headers = [(node, way, header) for node, way, header in tale.headers if node != A or header.ts_ns < ns(10)]
    tale.says(A, 20, offset=0)
    tale.chatter(A, 20.5, 30, replicaof=R, slots="0-99", epoch=4, current=4)
    tale.event(A, 9.8, "process-ended", A)
    tale.event(A, 20, "process-started", A)
    return tale


def test_captured_offsets_are_the_least_and_silence_has_its_duration() -> None:
    """Last offset 120, the winner's 100; the process ended 0.3 s after its last header."""
    assert loss(killed()) == Loss(20, 300)


@pytest.mark.parametrize(
    ("behind", "after_s", "lost"), [(14, 0, 0), (28, 10, 0), (28, 5, 28), (15, 0, 15), (14_000, 20, 14_000)]
)
def test_pings_of_replication_are_no_writes(behind: int, after_s: float, lost: int) -> None:
    """P5: a master writes a PING of 14 bytes into its stream every ten seconds, clients or not."""
    assert without_pings(behind, ns(after_s) - ns(0)) == lost


def test_a_master_without_further_messages_may_have_written_for_an_unknown_time() -> None:
    """It may have lived on unreachable."""
    tale = failover_tale()
    tale.headers = [(node, way, header) for node, way, header in tale.headers if node != A or header.ts_ns < ns(10)]

    assert loss(tale) == Loss(20, None)


def test_the_loss_is_unknown_for_a_master_without_messages() -> None:
    tale = failover_tale()
    tale.headers = [header for header in tale.headers if header[0] != A]

    assert loss(tale) == Loss(None, None)
    assert loss_text(Loss()) == "Lost writes: unknown"
    assert loss_text(Loss(0, 4)).startswith("Lost writes: unknown")


def test_a_master_that_stopped_its_writes_lost_none() -> None:
    """R99: the winner waited for its offset."""
    tale = ordered(asked=True, forced=True)
    tale.headers = [
        (node, way, header._replace(offset=98 if node in (A, R) else header.offset))
        for node, way, header in tale.headers
    ]

    assert loss(tale) == Loss(0, 0)


def test_an_offset_that_a_client_port_or_info_showed_narrows_the_range() -> None:
    """Its stream had reached 300 at 9.7 s: 200 more than the winner's, 0.1 s before the end."""
    assert loss(killed(), OffsetSeen(A, ns(9.7), 300)) == Loss(200, 100)


@pytest.mark.parametrize(("offset", "lost"), [(139, 39), (120, 20)])
def test_the_resync_request_of_a_deposed_master_shows_its_last_offset(offset: int, lost: int) -> None:
    """P6: it asks for the byte behind its own stream, so nothing is left unheard."""
    assert loss(failover_tale(), OffsetSeen(A, ns(20.6), offset, is_last=True)) == Loss(lost, 0)
    assert loss_text(Loss(lost, 0)) == f"{lost} bytes of writes were lost"
