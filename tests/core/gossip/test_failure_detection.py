"""PFAIL, failure reports, FAIL and its clearing (R44, R51 to R55)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.events import BroadcastFail, Changed, PingSent, ReportAdded, ReportRemoved, Tick
from cluster_core.gossip.flags import FAIL, MASTER, PFAIL, REPLICA
from cluster_core.gossip.profile import REDIS_7_0, REDIS_8, VALKEY_8_0, VALKEY_8_1, VALKEY_9_1, Profile
from tests.builders.gossip_builder import TIMEOUT_MS, A, B, Bench, C, entry, fail, ping

SLOTS = {"e" * 40: "0-99", A: "100-199", B: "200-299", C: "300-16383"}


def silent_bench(profile: Profile = REDIS_7_0) -> Bench:
    """A machine whose ping to C is pending for longer than the timeout."""
    bench = Bench(profile=profile, slots=SLOTS)
    bench.node.handle(PingSent(C), bench.now_ms)
    bench.now_ms += TIMEOUT_MS + 1
    bench.node.handle(Tick(), bench.now_ms)
    return bench


def test_silence_up_to_the_timeout_is_not_doubt() -> None:
    """R53: more than T, not T."""
    bench = Bench(slots=SLOTS)
    bench.node.handle(PingSent(C), bench.now_ms)

    bench.node.handle(Tick(), bench.now_ms + TIMEOUT_MS)

    assert not bench.peer(C).flags & PFAIL


def test_silence_beyond_the_timeout_is_doubt() -> None:
    """R53."""
    assert silent_bench().peer(C).flags & PFAIL


def test_any_message_from_a_node_postpones_doubt() -> None:
    """R37, R53: the younger of ping and data counts."""
    bench = Bench(slots=SLOTS)
    bench.node.handle(PingSent(C), bench.now_ms)
    bench.now_ms += 1500
    bench.hear(ping(C, slots=SLOTS[C]))

    bench.node.handle(Tick(), bench.now_ms + TIMEOUT_MS)

    assert not bench.peer(C).flags & PFAIL


def test_a_reconnection_does_not_hide_an_outage() -> None:
    """R30: the ping of a new link keeps the time of the old one."""
    bench = Bench(slots=SLOTS)
    bench.node.handle(PingSent(C), bench.now_ms)

    bench.node.handle(PingSent(C, reconnected=True), bench.now_ms + 500)

    assert bench.peer(C).ping_sent_ms == bench.now_ms


def test_doubt_of_a_quorum_is_a_failure_that_everybody_is_told() -> None:
    """R51, R54: four voters, three doubts."""
    bench = silent_bench()
    bench.hear(ping(A, entry(C, MASTER | PFAIL), slots=SLOTS[A]))

    effects = bench.hear(ping(B, entry(C, MASTER | PFAIL), slots=SLOTS[B]))

    assert Changed(C, "fail", "R54") in effects
    assert BroadcastFail(C) in effects
    assert bench.peer(C).flags & (PFAIL | FAIL) == FAIL


def test_reports_about_a_node_that_we_reach_do_not_suffice() -> None:
    """R54: our own PFAIL is needed."""
    bench = Bench(slots=SLOTS)

    for reporter in (A, B):
        bench.hear(ping(reporter, entry(C, MASTER | FAIL), slots=SLOTS[reporter]))

    assert not bench.peer(C).flags & (PFAIL | FAIL)
    assert set(bench.peer(C).reports) == {A, B}


def test_a_report_expires_after_two_timeouts() -> None:
    """R52."""
    bench = silent_bench()
    bench.hear(ping(A, entry(C, MASTER | PFAIL), slots=SLOTS[A]))
    bench.now_ms += 2 * TIMEOUT_MS + 1

    effects = bench.hear(ping(B, entry(C, MASTER | PFAIL), slots=SLOTS[B]))

    assert ReportRemoved(A, C, "expired") in effects
    assert bench.peer(C).flags & PFAIL


def test_healthy_gossip_takes_a_report_back() -> None:
    """R52."""
    bench = silent_bench()
    bench.hear(ping(A, entry(C, MASTER | PFAIL), slots=SLOTS[A]))

    effects = bench.hear(ping(A, entry(C), slots=SLOTS[A]))

    assert ReportRemoved(A, C, "withdrawn") in effects
    assert not bench.peer(C).reports


@pytest.mark.parametrize(("profile", "counts"), [(REDIS_7_0, True), (REDIS_8, True), (VALKEY_8_0, False)])
def test_a_master_without_slots_reports_in_redis_only(profile: Profile, counts: bool) -> None:
    """R51."""
    bench = Bench(profile=profile, slots={C: "0-16383"})

    effects = bench.hear(ping(A, entry(C, MASTER | PFAIL)))

    assert (ReportAdded(A, C) in effects) == counts


def test_a_replica_reports_nothing() -> None:
    """R51."""
    bench = Bench(slots=SLOTS)
    bench.hear(ping(A, slots=SLOTS[B], replicaof=B))

    bench.hear(ping(A, entry(C, MASTER | PFAIL), slots=SLOTS[B], replicaof=B))

    assert not bench.peer(C).reports


def test_valkey_9_takes_no_reports_about_a_failed_node() -> None:
    """R51 of Valkey 9."""
    bench = Bench(profile=VALKEY_9_1, slots=SLOTS)
    bench.hear(fail(B, C))

    bench.hear(ping(A, entry(C, MASTER | FAIL), slots=SLOTS[A]))

    assert not bench.peer(C).reports


@pytest.mark.parametrize(("profile", "decides"), [(REDIS_7_0, False), (VALKEY_8_0, False), (VALKEY_8_1, True)])
def test_a_voter_of_valkey_8_1_decides_when_its_own_doubt_is_the_last_that_was_missing(
    profile: Profile, decides: bool
) -> None:
    """R53, R132."""
    bench = Bench(profile=profile, slots=SLOTS)
    bench.node.handle(PingSent(C), bench.now_ms)
    bench.now_ms += TIMEOUT_MS
    for reporter in (A, B):
        bench.hear(ping(reporter, entry(C, MASTER | PFAIL), slots=SLOTS[reporter]))

    effects = bench.node.handle(Tick(), bench.now_ms + 1)

    assert (BroadcastFail(C) in effects) == decides


def test_a_fail_message_of_a_known_node_is_believed() -> None:
    """R55."""
    bench = Bench(slots=SLOTS)

    bench.hear(fail(A, C))

    assert bench.peer(C).flags & FAIL


def test_nobody_marks_itself() -> None:
    """R55."""
    bench = Bench(slots=SLOTS)

    bench.hear(fail(A, bench.view.myself.id))

    assert not bench.view.myself.flags & FAIL


def test_a_fail_message_of_a_stranger_is_ignored() -> None:
    """R55."""
    bench = Bench(slots=SLOTS)

    bench.hear(fail("9" * 40, C))

    assert not bench.peer(C).flags & FAIL


@pytest.mark.parametrize(("after_ms", "cleared"), [(2 * TIMEOUT_MS, False), (2 * TIMEOUT_MS + 1, True)])
def test_a_voting_master_stays_failed_for_two_timeouts(after_ms: int, cleared: bool) -> None:
    """R55b."""
    bench = Bench(slots=SLOTS)
    bench.hear(fail(A, C))
    bench.now_ms += after_ms

    bench.pong(C, slots=SLOTS[C])

    assert bool(bench.peer(C).flags & FAIL) != cleared


def test_a_replica_is_well_again_with_its_first_pong() -> None:
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
