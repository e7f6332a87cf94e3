"""Cluster state, votes, manual failover marks, profiles (R20, R90, R98, R99, R106 to R109)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.epochs import bumped_epoch
from cluster_core.gossip.events import ManualFailoverMarked, StateChanged, Tick
from cluster_core.gossip.failure_detection import down_reason, ping_is_due, quorum_of, rejoin_delay_ms
from cluster_core.gossip.flags import FAIL, PFAIL
from cluster_core.gossip.view import Coverage, coverage_of
from cluster_core.wire.bus import Message, MessageType
from tests.builders.gossip_builder import ME, A, B, Bench, C, header, ping

LAYOUT = {ME: "0-99", A: "100-199", B: "200-16383"}


@pytest.mark.parametrize(("size", "quorum"), [(0, 1), (1, 1), (2, 2), (3, 2), (5, 3)])
def test_a_quorum_is_more_than_half(size: int, quorum: int) -> None:
    """Notation of the rules."""
    assert quorum_of(size) == quorum


@pytest.mark.parametrize(
    ("coverage", "full", "reason"),
    [
        (Coverage(False, 3, 3), True, ""),
        (Coverage(True, 3, 3), True, "uncovered slots"),
        (Coverage(True, 3, 3), False, ""),
        (Coverage(False, 3, 1), False, "minority"),
    ],
)
def test_the_cluster_is_up_with_every_slot_and_a_majority(coverage: Coverage, full: bool, reason: str) -> None:
    """R107, R108."""
    assert down_reason(coverage, full_coverage_required=full) == reason


@pytest.mark.parametrize(
    ("flag", "expected"), [(0, Coverage(False, 3, 3)), (PFAIL, Coverage(False, 3, 2)), (FAIL, Coverage(True, 3, 2))]
)
def test_a_failed_owner_leaves_its_slots_uncovered_and_a_doubted_one_only_does_not_count(
    flag: int, expected: Coverage
) -> None:
    """R107, R108; C is a master without slots and has no vote."""
    bench = Bench(slots=LAYOUT)
    bench.view.nodes[A].flags |= flag

    assert coverage_of(bench.view) == expected


def test_a_master_waits_before_it_serves_after_its_start() -> None:
    """R106."""
    bench = Bench(slots=LAYOUT)
    assert bench.node.handle(Tick(), bench.now_ms) == []

    effects = bench.node.handle(Tick(), bench.now_ms + 2000)

    assert effects == [StateChanged(True, "")]


@pytest.mark.parametrize(("timeout_ms", "delay_ms"), [(100, 500), (2000, 2000), (15000, 5000)])
def test_the_wait_after_a_minority_has_bounds(timeout_ms: int, delay_ms: int) -> None:
    """R109."""
    assert rejoin_delay_ms(timeout_ms) == delay_ms


def test_a_bump_takes_an_epoch_above_all_unless_it_is_ours() -> None:
    """R79."""
    assert (bumped_epoch(0, 0, 0), bumped_epoch(3, 7, 9), bumped_epoch(9, 9, 9)) == (1, 10, None)


def test_a_ping_is_due_when_the_pong_is_older_than_the_interval() -> None:
    """R32."""
    assert ping_is_due(0, 0, 1001, 1000)
    assert not ping_is_due(0, 0, 1000, 1000)
    assert not ping_is_due(5, 0, 9999, 1000)


def test_mfstart_of_our_replica_is_marked() -> None:
    """R98."""
    bench = Bench(slots=LAYOUT)
    bench.hear(ping(C, slots=LAYOUT[ME], replicaof=ME))

    effects = bench.hear(Message(header(C, MessageType.MFSTART, slots=LAYOUT[ME], replicaof=ME, offset=7)))

    assert ManualFailoverMarked(C, "mfstart", 7) in effects
    assert bench.view.mf_end_ms == bench.now_ms + 5000


def test_the_first_paused_header_of_our_master_gives_the_offset_to_reach() -> None:
    """R48, R99."""
    bench = Bench(slots={A: "0-99"})
    bench.view.myself.replicaof = A

    first = bench.hear(ping(A, slots="0-99", offset=10, mflags=b"\x01\0\0"))
    second = bench.hear(ping(A, slots="0-99", offset=20, mflags=b"\x01\0\0"))

    assert ManualFailoverMarked(A, "paused", 10) in first
    assert not [effect for effect in second if isinstance(effect, ManualFailoverMarked)]
