"""PFAIL, failure reports, FAIL and its clearing (R44, R51 to R55)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.events import BroadcastFail, Changed, PingSent, ReportAdded, ReportRemoved, Tick
from cluster_core.gossip.flags import FAIL, MASTER, PFAIL, REPLICA
from cluster_core.gossip.profile import REDIS_7_0, REDIS_8, VALKEY_8_0, VALKEY_8_1, VALKEY_9_1, Profile
from cluster_core.wire.bus import Message
from tests.builders.gossip_builder import ME, TIMEOUT_MS, A, B, Bench, C, entry, fail, ping

SLOTS = {ME: "0-99", A: "100-199", B: "200-299", C: "300-16383"}


def report(reporter: str, flags: int = MASTER | PFAIL) -> Message:
    """A PING of a voter with a doubt of C."""
    return ping(reporter, entry(C, flags), slots=SLOTS[reporter])


def pinged_bench(wait_ms: int, profile: Profile = REDIS_7_0) -> Bench:
    """A machine with a PING to C pending for *wait_ms*."""
    bench = Bench(profile=profile, slots=SLOTS)
    bench.node.handle(PingSent(C), bench.now_ms)
    bench.now_ms += wait_ms
    return bench


def silent_bench() -> Bench:
    bench = pinged_bench(TIMEOUT_MS + 1)
    bench.node.handle(Tick(), bench.now_ms)
    return bench


@pytest.mark.parametrize(
    ("heard_ms", "after_ms", "is_pfail"), [(None, 0, False), (None, 1, True), (1500, 0, False), (1500, 1, True)]
)
def test_silence_beyond_the_timeout_is_pfail(heard_ms: int | None, after_ms: int, is_pfail: bool) -> None:
    """R37, R53: more than T since the younger of ping and data."""
    bench = pinged_bench(heard_ms or 0)
    if heard_ms:
        bench.hear(ping(C, slots=SLOTS[C]))

    bench.node.handle(Tick(), bench.now_ms + TIMEOUT_MS + after_ms)

    assert bool(bench.peer(C).flags & PFAIL) == is_pfail


def test_a_reconnection_does_not_hide_an_outage() -> None:
    """R30: the ping of a new link keeps the time of the old one."""
    bench = pinged_bench(500)

    bench.node.handle(PingSent(C, reconnected=True), bench.now_ms)

    assert bench.peer(C).ping_sent_ms == bench.now_ms - 500


def test_pfail_of_a_quorum_is_a_broadcast_failure() -> None:
    """R51, R54: four voters, three doubts."""
    bench = silent_bench()
    bench.hear(report(A))

    effects = bench.hear(report(B))

    assert Changed(C, "fail", "R54") in effects
    assert BroadcastFail(C) in effects
    assert bench.peer(C).flags & (PFAIL | FAIL) == FAIL


def test_reports_about_a_reachable_node_do_not_suffice() -> None:
    """R54: our own PFAIL is needed."""
    bench = Bench(slots=SLOTS)

    for reporter in (A, B):
        bench.hear(report(reporter, MASTER | FAIL))

    assert not bench.peer(C).flags & (PFAIL | FAIL)
    assert set(bench.peer(C).reports) == {A, B}


@pytest.mark.parametrize(
    ("after_ms", "message", "reason", "left"),
    [(2 * TIMEOUT_MS + 1, report(B), "expired", {B}), (0, ping(A, entry(C), slots=SLOTS[A]), "withdrawn", set())],
)
def test_a_report_expires_after_two_timeouts_or_is_withdrawn(
    after_ms: int, message: Message, reason: str, left: set[str]
) -> None:
    """R52."""
    bench = silent_bench()
    bench.hear(report(A))
    bench.now_ms += after_ms

    effects = bench.hear(message)

    assert ReportRemoved(A, C, reason) in effects
    assert bench.peer(C).flags & PFAIL
    assert set(bench.peer(C).reports) == left


@pytest.mark.parametrize(("profile", "counts"), [(REDIS_7_0, True), (REDIS_8, True), (VALKEY_8_0, False)])
def test_a_master_without_slots_reports_in_redis_only(profile: Profile, counts: bool) -> None:
    """R51."""
    bench = Bench(profile=profile, slots={C: "0-16383"})

    effects = bench.hear(ping(A, entry(C, MASTER | PFAIL)))

    assert (ReportAdded(A, C) in effects) == counts


@pytest.mark.parametrize(
    ("profile", "before", "message"),
    [
        (
            REDIS_7_0,
            ping(A, slots=SLOTS[B], replicaof=B),
            ping(A, entry(C, MASTER | PFAIL), slots=SLOTS[B], replicaof=B),
        ),
        (VALKEY_9_1, fail(B, C), report(A, MASTER | FAIL)),
    ],
    ids=["of a replica", "about a failed node in Valkey 9"],
)
def test_a_report_that_does_not_count(profile: Profile, before: Message, message: Message) -> None:
    """R51."""
    bench = Bench(profile=profile, slots=SLOTS)
    bench.hear(before)

    bench.hear(message)

    assert not bench.peer(C).reports


@pytest.mark.parametrize(("profile", "decides"), [(REDIS_7_0, False), (VALKEY_8_0, False), (VALKEY_8_1, True)])
def test_a_voter_of_valkey_8_1_decides_with_its_own_pfail_as_the_last(profile: Profile, decides: bool) -> None:
    """R53, R132."""
    bench = pinged_bench(TIMEOUT_MS, profile)
    for reporter in (A, B):
        bench.hear(report(reporter))

    effects = bench.node.handle(Tick(), bench.now_ms + 1)

    assert (BroadcastFail(C) in effects) == decides


@pytest.mark.parametrize(("sender", "node", "failed"), [(A, C, True), (A, ME, False), ("9" * 40, C, False)])
def test_a_fail_message_of_a_known_node_about_another_is_believed(sender: str, node: str, failed: bool) -> None:
    """R55."""
    bench = Bench(slots=SLOTS)

    bench.hear(fail(sender, node))

    assert bool(bench.view.nodes[node].flags & FAIL) == failed


@pytest.mark.parametrize(("after_ms", "cleared"), [(2 * TIMEOUT_MS, False), (2 * TIMEOUT_MS + 1, True)])
def test_a_voting_master_stays_failed_for_two_timeouts(after_ms: int, cleared: bool) -> None:
    """R55b."""
    bench = Bench(slots=SLOTS)
    bench.hear(fail(A, C))
    bench.now_ms += after_ms

    bench.pong(C, slots=SLOTS[C])

    assert bool(bench.peer(C).flags & FAIL) != cleared


def test_a_replica_recovers_with_its_first_pong() -> None:
    """R55b."""
    bench = Bench(slots={A: "0-16383"})
    bench.hear(ping(C, slots="0-16383", replicaof=A))
    bench.hear(fail(A, C))

    bench.pong(C, slots="0-16383", replicaof=A)

    assert bench.peer(C).flags & (FAIL | REPLICA) == REPLICA


def test_gossip_makes_a_pong_younger_but_never_from_the_future() -> None:
    """R44: at most half a second ahead of our clock."""
    bench = Bench(slots=SLOTS)
    bench.now_ms += 5000
    now_s = bench.now_ms // 1000

    bench.hear(ping(A, entry(C, pong_received_s=now_s), entry(B, pong_received_s=now_s + 2), slots=SLOTS[A]))

    assert bench.peer(C).pong_received_ms == now_s * 1000
    assert bench.peer(B).pong_received_ms == bench.now_ms - 5000
