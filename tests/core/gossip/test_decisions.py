"""Cluster state, votes, manual failover marks, profiles (R20, R90, R98, R99, R106 to R109)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.events import ManualFailoverMarked, StateChanged, Tick
from cluster_core.gossip.flags import FAIL, PFAIL
from cluster_core.wire.bus import Message, MessageType
from tests.builders.gossip_builder import ME, A, B, Bench, C, header, ping

LAYOUT = {ME: "1-199", A: "0", B: "200-16383"}


@pytest.mark.parametrize(
    ("flags", "full", "reason"),
    [
        ({C: FAIL}, True, ""),
        ({A: PFAIL}, True, ""),
        ({A: FAIL}, True, "uncovered slots"),
        ({A: FAIL}, False, ""),
        ({A: PFAIL, B: FAIL}, True, "minority"),
    ],
)
def test_the_cluster_is_up_with_every_slot_and_a_majority(flags: dict[str, int], full: bool, reason: str) -> None:
    """R107, R108; C is a master without slots and has no vote."""
    bench = Bench(slots=LAYOUT)
    bench.view.ok, bench.view.full_coverage_required = True, full
    for node, flag in flags.items():
        bench.peer(node).flags |= flag

    assert bench.node.handle(Tick(), bench.now_ms) == ([StateChanged(False, reason)] if reason else [])


def test_a_master_waits_before_it_serves_after_its_start() -> None:
    """R106."""
    bench = Bench(slots=LAYOUT)
    assert bench.node.handle(Tick(), bench.now_ms) == []

    effects = bench.node.handle(Tick(), bench.now_ms + 2000)

    assert effects == [StateChanged(True, "")]


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
