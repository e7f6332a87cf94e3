"""Slot claims, UPDATE, epochs and what losers do (R48, R64, R69 to R80)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.events import BecameReplica, EpochBumped, Ignored, SendUpdate, SlotsLost
from cluster_core.gossip.flags import MASTER, REPLICA
from cluster_core.gossip.profile import REDIS_7_0, REDIS_8, VALKEY_8_0, VALKEY_9_1, Profile
from tests.gossip_builder import ME, A, B, Bench, C, D, bits, ping, update

EVERY_PROFILE = pytest.mark.parametrize("profile", [REDIS_7_0, REDIS_8, VALKEY_8_0, VALKEY_9_1], ids=lambda p: p.name)


@EVERY_PROFILE
def test_unassigned_slots_go_to_whoever_claims_them(profile: Profile) -> None:
    """R70."""
    bench = Bench(profile=profile)

    bench.hear(ping(A, slots="0-99"))

    assert bench.peer(A).slots == bits("0-99")


@EVERY_PROFILE
@pytest.mark.parametrize(("epoch", "winner"), [(4, A), (5, A), (6, B)])
def test_only_a_greater_epoch_takes_a_slot(profile: Profile, epoch: int, winner: str) -> None:
    """R70: equal never wins."""
    bench = Bench(profile=profile, slots={A: "0-99"}, epochs={A: 5})

    bench.hear(ping(B, slots="50-60", config_epoch=epoch, current_epoch=9))

    assert bench.peer(winner).slots & bits("50-60") == bits("50-60")


@EVERY_PROFILE
def test_a_slot_that_its_owner_stops_to_claim_stays_but_is_free_to_take(profile: Profile) -> None:
    """R71."""
    bench = Bench(profile=profile, slots={A: "0-99"}, epochs={A: 5})

    bench.hear(ping(A, slots="0-98", config_epoch=5, current_epoch=5))

    assert bench.peer(A).slots == bits("0-99")
    bench.hear(ping(B, slots="99", config_epoch=1, current_epoch=5))
    assert bench.peer(B).slots == bits("99")


@EVERY_PROFILE
def test_a_master_that_loses_its_last_slot_follows_the_winner(profile: Profile) -> None:
    """R73."""
    bench = Bench(profile=profile, slots={ME: "0-99"}, epochs={ME: 1})

    effects = bench.hear(ping(A, slots="0-99", config_epoch=2, current_epoch=2))

    assert SlotsLost(A, bits("0-99")) in effects
    assert BecameReplica(A, "R73") in effects
    assert bench.view.myself.flags & REPLICA


def test_a_master_that_keeps_a_slot_stays_one() -> None:
    """R73."""
    bench = Bench(slots={ME: "0-99"}, epochs={ME: 1})

    bench.hear(ping(A, slots="0-98", config_epoch=2, current_epoch=2))

    assert bench.view.myself.is_master
    assert bench.view.myself.slots == bits("99")


def test_slots_that_are_imported_are_left_alone_by_redis() -> None:
    """R70."""
    bench = Bench(slots={A: "5"})
    bench.view.importing[5] = A

    bench.hear(ping(B, slots="5", config_epoch=9, current_epoch=9))

    assert bench.peer(A).slots == bits("5")


@EVERY_PROFILE
def test_a_stale_claim_is_answered_with_one_update(profile: Profile) -> None:
    """R76: about the owner of the first slot in dispute."""
    bench = Bench(profile=profile, slots={A: "10-19", B: "20-29"}, epochs={A: 5, B: 6})

    effects = bench.hear(ping(C, slots="10-29", config_epoch=1, current_epoch=6))

    assert [e for e in effects if isinstance(e, SendUpdate)] == [SendUpdate(C, A)]


def test_an_update_makes_a_replica_the_owner() -> None:
    """R78."""
    bench = Bench(slots={A: "0-99"}, epochs={A: 5})
    bench.hear(ping(B, slots="0-99", replicaof=A, config_epoch=5, current_epoch=5))

    bench.hear(update(C, B, 6, "0-99"))

    assert bench.peer(B).is_master
    assert (bench.peer(B).slots, bench.peer(A).slots) == (bits("0-99"), 0)


def test_an_update_of_an_epoch_that_we_know_is_ignored() -> None:
    """R78."""
    bench = Bench(slots={A: "0-99"}, epochs={A: 5, B: 6})

    bench.hear(update(C, B, 6, "0-99"))

    assert bench.peer(A).slots == bits("0-99")


@pytest.mark.parametrize(("sender", "moves"), [(A, False), ("f" * 40, True)])
def test_the_smaller_id_moves_when_epochs_collide(sender: str, moves: bool) -> None:
    """R80: our id is e…; the greatest id keeps its epoch."""
    bench = Bench(epochs={ME: 3})
    bench.view.nodes[sender] = bench.view.nodes.pop(A) if sender != A else bench.view.nodes[A]
    bench.view.nodes[sender].id = sender
    for link in (10, 11):
        bench.view.links[link].node = sender

    effects = bench.hear(ping(sender, config_epoch=3, current_epoch=3), link=11)

    assert (EpochBumped(4, "R80") in effects) == moves
    assert bench.view.myself.config_epoch == (4 if moves else 3)


def test_redis_7_unassigns_the_slots_of_a_master_that_became_a_replica() -> None:
    """R64."""
    bench = Bench(slots={A: "0-99"}, epochs={A: 1})

    bench.hear(ping(A, slots="", replicaof=B, config_epoch=0))

    assert (bench.peer(A).slots, bench.peer(A).replicaof) == (0, B)


def test_redis_8_moves_them_to_its_master_in_the_same_shard() -> None:
    """R64."""
    bench = Bench(profile=REDIS_8, slots={A: "0-99"}, epochs={A: 1})
    bench.peer(A).shard_id = bench.peer(B).shard_id = "s" * 40

    bench.hear(ping(A, slots="0-99", replicaof=B, config_epoch=2, current_epoch=2))

    assert (bench.peer(A).slots, bench.peer(B).slots) == (0, bits("0-99"))
    assert bench.peer(B).config_epoch == 2


def test_valkey_9_drops_a_message_in_which_a_master_is_a_replica_of_long_ago() -> None:
    """R64, R133: stale by the epoch of its master."""
    bench = Bench(profile=VALKEY_9_1, slots={A: "0-99"}, epochs={A: 1, B: 7})
    bench.peer(A).shard_id = bench.peer(B).shard_id = "s" * 40

    effects = bench.hear(ping(A, slots="", replicaof=B, config_epoch=2, current_epoch=7))

    assert Ignored("stale role") in effects
    assert bench.peer(A).flags & MASTER


@pytest.mark.parametrize(("profile", "epoch"), [(REDIS_7_0, 8), (VALKEY_8_0, 0)])
def test_the_header_of_a_replica_raises_its_epoch_in_redis_only(profile: Profile, epoch: int) -> None:
    """R48."""
    bench = Bench(profile=profile, slots={A: "0-99"})
    bench.hear(ping(B, slots="0-99", replicaof=A))

    bench.hear(ping(B, slots="0-99", replicaof=A, config_epoch=8, current_epoch=8))

    assert bench.peer(B).config_epoch == epoch


def test_a_replica_shows_the_epoch_of_its_master() -> None:
    """R128."""
    bench = Bench(slots={A: "0-99"}, epochs={A: 5})

    bench.hear(ping(B, slots="0-99", replicaof=A, config_epoch=2))

    assert bench.view.epoch_shown(bench.peer(B)) == 5


def test_the_replica_of_a_replica_goes_to_the_top() -> None:
    """R66."""
    bench = Bench((A, B, C, D), profile=VALKEY_8_0, slots={C: "0-99"})
    bench.view.set_role(bench.view.myself, REPLICA)
    bench.view.myself.replicaof = A

    effects = bench.hear(ping(A, slots="0-99", replicaof=C))

    assert BecameReplica(C, "R66") in effects
