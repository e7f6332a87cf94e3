"""Slot claims, UPDATE, epochs and what losers do (R48, R64, R69 to R80)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.events import BecameReplica, EpochBumped, Ignored, SendUpdate, SlotsLost
from cluster_core.gossip.flags import MASTER, REPLICA
from cluster_core.gossip.profile import (
    PROFILES,
    REDIS_6_2,
    REDIS_7_0,
    REDIS_7_2,
    REDIS_7_4,
    REDIS_8,
    VALKEY_7_2,
    VALKEY_8_0,
    VALKEY_8_1,
    VALKEY_9_0,
    VALKEY_9_1,
    Profile,
)
from cluster_core.slots.slot_set import slot_bits
from cluster_core.wire.bus import Gossip, Message
from cluster_core.wire.bus_message import shard_id_extension
from tests.builders.gossip_builder import ME, A, B, Bench, C, ping, update

EVERY_PROFILE = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


@EVERY_PROFILE
def test_unassigned_slots_go_to_the_claiming_node(profile: Profile) -> None:
    """R70: the master's; those that a replica shows have another owner."""
    bench = Bench(profile=profile)

    bench.hear(ping(A, slots="0-99"))
    bench.hear(ping(B, slots="100-199", replicaof="9" * 40))

    assert (bench.peer(A).slots, bench.peer(B).slots) == (slot_bits("0-99"), 0)


@EVERY_PROFILE
@pytest.mark.parametrize(("epoch", "winner"), [(4, A), (5, A), (6, B)])
def test_only_a_greater_epoch_takes_a_slot(profile: Profile, epoch: int, winner: str) -> None:
    """R70: equal never wins."""
    bench = Bench(profile=profile, slots={A: "0-99"}, epochs={A: 5})

    bench.hear(ping(B, slots="50-60", config_epoch=epoch, current_epoch=9))

    assert bench.peer(winner).slots & slot_bits("50-60") == slot_bits("50-60")


@EVERY_PROFILE
def test_an_unclaimed_slot_stays_with_its_owner_but_is_free(profile: Profile) -> None:
    """R71; in Redis 6.2 an older epoch cannot take it."""
    bench = Bench(profile=profile, slots={A: "0-99"}, epochs={A: 5})

    bench.hear(ping(A, slots="0-98", config_epoch=5, current_epoch=5))

    assert bench.peer(A).slots == slot_bits("0-99")
    bench.hear(ping(B, slots="99", config_epoch=1, current_epoch=5))
    assert bench.peer(B).slots == (0 if profile is REDIS_6_2 else slot_bits("99"))


@EVERY_PROFILE
def test_a_master_that_loses_its_last_slot_follows_the_winner(profile: Profile) -> None:
    """R73: not before."""
    bench = Bench(profile=profile, slots={ME: "0-99"}, epochs={ME: 1})

    bench.hear(ping(A, slots="0-98", config_epoch=2, current_epoch=2))
    assert bench.view.myself.is_master
    effects = bench.hear(ping(A, slots="0-99", config_epoch=2, current_epoch=2))

    assert SlotsLost(A, slot_bits("99")) in effects
    assert BecameReplica(A, "R73") in effects
    assert bench.view.myself.flags & REPLICA


def test_slots_that_are_imported_are_left_alone_by_redis() -> None:
    """R70."""
    bench = Bench(slots={A: "5"})
    bench.view.importing[5] = A

    bench.hear(ping(B, slots="5", config_epoch=9, current_epoch=9))

    assert bench.peer(A).slots == slot_bits("5")


def test_open_slots_follow_the_other_side_in_valkey() -> None:
    """R72: an imported slot that its source gave up is ours; a migrating one goes to the successor of its target."""
    bench = Bench(profile=VALKEY_9_1, slots={ME: "3-4", A: "5-9"}, epochs={A: 5})
    bench.view.migrating |= {3: C, 4: A}
    bench.view.importing |= {5: A, 6: A}
    bench.peer(A).shard_id = bench.peer(B).shard_id = "s" * 40

    effects = bench.hear(ping(A, slots="6-9", config_epoch=5, current_epoch=5))
    assert EpochBumped(6, "R72") in effects
    bench.hear(ping(B, slots="6-9", config_epoch=7, current_epoch=7))

    assert (bench.view.myself.slots, bench.peer(B).slots) == (slot_bits("3-5"), slot_bits("6-9"))
    assert (bench.view.migrating, bench.view.importing) == ({3: C, 4: B}, {6: B})


@EVERY_PROFILE
def test_a_stale_claim_is_answered_with_one_update(profile: Profile) -> None:
    """R76: about the owner of the first slot in dispute, if its epoch is greater."""
    bench = Bench(profile=profile, slots={A: "11-29", B: "10 30"}, epochs={A: 6, B: 5})

    for epoch, owners in ((1, [B]), (5, [A]), (6, [])):
        effects = bench.hear(ping(C, slots="10-30", config_epoch=epoch, current_epoch=6))

        assert [e for e in effects if isinstance(e, SendUpdate)] == [SendUpdate(C, owner) for owner in owners]


def test_an_update_makes_a_replica_the_owner() -> None:
    """R78: with an epoch that is not known yet."""
    bench = Bench(slots={A: "0-99"}, epochs={A: 4})
    bench.hear(ping(B, slots="0-99", replicaof=A, config_epoch=5, current_epoch=5))

    bench.hear(update(C, B, 5, "0-99"))
    assert bench.peer(A).slots == slot_bits("0-99")
    bench.hear(update(C, B, 6, "0-99"))

    assert bench.peer(B).is_master
    assert (bench.peer(B).slots, bench.peer(B).config_epoch, bench.peer(A).slots) == (slot_bits("0-99"), 6, 0)


@pytest.mark.parametrize(("sender", "known", "moves"), [(A, 0, False), ("f" * 40, 0, True), ("f" * 40, 5, False)])
def test_the_smaller_id_moves_when_epochs_collide(sender: str, known: int, moves: bool) -> None:
    """R80: our id is e…; the greatest id keeps its epoch. A header behind an epoch from an UPDATE is no collision."""
    bench = Bench(epochs={ME: 3})
    bench.view.nodes[sender] = bench.view.nodes.pop(A)
    bench.view.nodes[sender].id = sender
    bench.view.nodes[sender].config_epoch = known
    for link in (10, 11):
        bench.view.links[link].node = sender

    effects = bench.hear(ping(sender, config_epoch=3, current_epoch=max(3, known)), link=11)

    assert [effect for effect in effects if isinstance(effect, EpochBumped)] == moves * [EpochBumped(4, "R80")]
    assert bench.view.myself.config_epoch == 3 + moves


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

    assert (bench.peer(A).slots, bench.peer(B).slots) == (0, slot_bits("0-99"))
    assert bench.peer(B).config_epoch == 2


def test_valkey_9_drops_a_message_with_an_outdated_replica_role() -> None:
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


def shard_of_an_empty_master(profile: Profile) -> Bench:
    """A (empty, epoch 1) was our master and that of B; all three are one shard, other masters have the slots."""
    bench = Bench((A, B, C), profile=profile, slots={C: "0-99"}, epochs={A: 1, C: 2})
    for peer in (bench.view.myself, bench.peer(A), bench.peer(B)):
        peer.shard_id = "s" * 40
    for peer in (bench.view.myself, bench.peer(B)):
        bench.view.set_role(peer, REPLICA)
        peer.replicaof = A
    return bench


VALKEY_8_UP = [VALKEY_8_0, VALKEY_8_1, VALKEY_9_0, VALKEY_9_1]


@pytest.mark.parametrize("profile", VALKEY_8_UP, ids=lambda p: p.name)
@pytest.mark.parametrize(
    ("shard", "epoch", "slots", "left", "follows"),
    [
        ("s", 6, "", "", True),
        ("s", 1, "", "", False),
        ("t", 6, "", "", False),
        ("s", 6, "200-300", "", False),
        ("s", 6, "", "500", False),
    ],
    ids=["took its place", "old epoch", "other shard", "winner with slots", "master with a slot left"],
)
def test_a_replica_follows_the_successor_of_its_master_without_slots(
    profile: Profile, shard: str, epoch: int, slots: str, left: str, follows: bool
) -> None:
    """R73: no slot changes hands, but the winner's epoch is greater; each condition of the special case."""
    bench = shard_of_an_empty_master(profile)
    bench.peer(B).shard_id = shard * 40
    bench.peer(A).slots = slot_bits(left)

    effects = bench.hear(ping(B, slots=slots, config_epoch=epoch, current_epoch=epoch))

    assert [effect for effect in effects if isinstance(effect, BecameReplica)] == follows * [BecameReplica(B, "R73")]


@pytest.mark.parametrize(
    ("profile", "left"),
    [(profile, "0-99") for profile in (REDIS_7_4, REDIS_8, VALKEY_8_0, VALKEY_8_1)]
    + [(profile, "") for profile in (REDIS_6_2, REDIS_7_0, REDIS_7_2, VALKEY_7_2)],
)
def test_the_sender_of_a_stale_message_becomes_a_replica_all_the_same(profile: Profile, left: str) -> None:
    """R64: "Ignore stale message" moves no slots and creates no master; older servers free them in any epoch."""
    bench = Bench(profile=profile, slots={A: "0-99"}, epochs={A: 10, B: 4})
    bench.peer(A).shard_id = bench.peer(B).shard_id = "s" * 40

    bench.hear(ping(A, slots="0-99", replicaof=B, config_epoch=5, current_epoch=10))

    assert bench.peer(A).flags & REPLICA
    assert bench.peer(A).replicaof == B
    assert bench.peer(A).slots == slot_bits(left)
    assert bench.peer(B).config_epoch == 4


def with_shard(sender: str, shard: str, **fields: object) -> Message:
    """A PING that tells a shard id."""
    plain = ping(sender, mflags=b"\4\0\0", extensions=1, **fields)  # type: ignore[arg-type]
    assert isinstance(plain.body, Gossip)
    return Message(plain.header, Gossip(plain.body.entries, (shard_id_extension(shard * 40),)))


@pytest.mark.parametrize(("profile", "is_aligned"), [(REDIS_7_4, False), (REDIS_8, True), (VALKEY_8_0, False)])
@pytest.mark.parametrize(("teller", "other"), [(A, B), (B, A)], ids=["master first", "replica first"])
def test_a_shard_shares_the_announced_id_in_redis_8(
    profile: Profile, is_aligned: bool, teller: str, other: str
) -> None:
    """R65, updateShardId: whoever is upgraded first takes the others along."""
    bench = Bench(profile=profile, slots={A: "0-99"})
    bench.hear(ping(B, slots="0-99", replicaof=A))

    bench.hear(with_shard(teller, "7", slots="0-99", replicaof=A if teller == B else ""))

    assert (bench.peer(other).shard_id == "7" * 40) == is_aligned


@pytest.mark.parametrize("profile", [REDIS_7_2, REDIS_8, VALKEY_7_2, VALKEY_9_1], ids=lambda p: p.name)
def test_our_shard_id_follows_our_masters(profile: Profile) -> None:
    """R65."""
    bench = Bench(profile=profile, slots={A: "0-99"})
    bench.view.set_role(bench.view.myself, REPLICA)
    bench.view.myself.replicaof = A

    bench.hear(with_shard(A, "7", slots="0-99"))

    assert bench.view.myself.shard_id == "7" * 40


@pytest.mark.parametrize(
    ("profile", "folds"), [(REDIS_6_2, False), (REDIS_7_0, True), (REDIS_8, True), (VALKEY_9_1, True)]
)
def test_redis_6_2_stays_the_replica_of_a_replica(profile: Profile, folds: bool) -> None:
    """R66: the safeguard against sub-replicas came with Redis 7.0."""
    bench = Bench((A, B, C), profile=profile, slots={C: "0-99"}, epochs={C: 1})
    bench.view.set_role(bench.view.myself, REPLICA)
    bench.view.myself.replicaof = A

    bench.hear(ping(A, slots="0-99", replicaof=C, config_epoch=1))
    bench.hear(ping(C, slots="0-100", config_epoch=1, current_epoch=1))

    assert (bench.view.myself.replicaof == C) == folds
