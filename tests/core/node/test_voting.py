"""Votes: one for each epoch, and every refusal with its reason, in the servers' text (R90 to R92, R95, R160)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster_core.formats.server_log import event_of
from cluster_core.gossip.events import MessageReceived
from cluster_core.gossip.flags import FAIL, MASTER, REPLICA
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_8_1, VALKEY_9_1, Profile
from cluster_core.node.candidacy import data_age_ms, data_is_too_old, election_delay_ms
from cluster_core.node.events import LogLine, SaveConfig, SendMessage, VoteCast
from cluster_core.wire.bus import Empty, Header, Message, MessageFlag, MessageType
from tests.benches.node_cluster import Cluster, Host, every_profile, formed

FORCE = bytes((MessageFlag.FORCEACK, 0, 0))


def before_election(profile: Profile) -> Cluster:
    """Three masters with a replica each; host 1 is asked, host 3 asks, host 0 is its master and FAIL for host 1."""
    cluster = formed(profile)
    master = cluster.hosts[1].node.view.nodes[cluster.hosts[0].id]
    master.flags |= FAIL
    master.fail_time_ms = cluster.now_ms
    return cluster


def ask(cluster: Cluster, **fields: Any) -> list[Any]:
    """What host 1 does with a request of host 3."""
    host, candidate = cluster.hosts[1], cluster.hosts[3]
    view = host.node.view
    master = view.nodes[cluster.hosts[0].id]
    peer = view.nodes[candidate.id]
    header = {
        "type": MessageType.AUTH_REQUEST,
        "sender": candidate.id,
        "current_epoch": view.current_epoch + 1,
        "config_epoch": master.config_epoch,
        "myslots": master.slots.to_bytes(2048, "little"),
        "replicaof": master.id,
        "flags": peer.flags,
        "port": peer.port,
        "cport": peer.cport,
        **fields,
    }
    assert peer.inbound is not None
    return host.node.handle(
        MessageReceived(peer.inbound, Message(Header(**header), Empty()), "127.0.0.1"), cluster.now_ms
    )


def sent(effects: list[Any]) -> list[int]:
    """The types of messages that leave."""
    return [effect.message.type for effect in effects if isinstance(effect, SendMessage)]


@every_profile
def test_a_vote_is_saved_then_sent(profile: Profile) -> None:
    """R90, R95: for all slots of masters with no greater epoch."""
    cluster = before_election(profile)
    effects = ask(cluster, config_epoch=3, myslots=b"\xff" * 2048)

    assert effects[0] == SaveConfig(fsync=True)
    assert sent(effects) == [MessageType.AUTH_ACK]
    assert [effect.refusal for effect in effects if isinstance(effect, VoteCast)] == [""]
    ack = next(effect.message.header for effect in effects if isinstance(effect, SendMessage))
    assert ack.current_epoch == cluster.hosts[1].node.view.last_vote_epoch


def not_voting(host: Host) -> dict[str, Any]:
    host.node.view.myself.slots = 0
    return {}


def voted(host: Host) -> dict[str, Any]:
    host.node.view.last_vote_epoch = host.node.view.current_epoch
    return {"current_epoch": host.node.view.current_epoch}


def master_is_up(host: Host) -> dict[str, Any]:
    for peer in host.node.view.nodes.values():
        peer.flags &= ~FAIL
    return {}


def without_master(host: Host) -> dict[str, Any]:
    for peer in host.node.view.nodes.values():
        if peer.replicaof:
            peer.replicaof = ""
    return {}


def is_master(host: Host) -> dict[str, Any]:
    for peer in host.node.view.nodes.values():
        if peer.flags & REPLICA:
            peer.flags = peer.flags & ~REPLICA | MASTER
    return {}


def recent_vote(host: Host) -> dict[str, Any]:
    for peer in host.node.view.nodes.values():
        peer.voted_time_ms = host.node.state.now_ms
    return {}


REFUSALS: list[tuple[Callable[[Host], dict[str, Any]], str, str]] = [
    (not_voting, "not a voting master", ""),
    (lambda host: {"current_epoch": 1}, "request epoch is older than ours", r"reqEpoch (1) < curEpoch("),
    (voted, "already voted in this epoch", "already voted for epoch"),
    (is_master, "candidate is a master", "it is a {master} node"),
    (without_master, "candidate's master is not known", "I don't know its {master}"),
    (master_is_up, "candidate's master is up", "its {master} is up"),
    (lambda host: {"config_epoch": 0}, "a claimed slot has a greater epoch", "slot 0 epoch (1) > reqEpoch (0)"),
]


@every_profile
@pytest.mark.parametrize(("arrange", "refusal", "text"), REFUSALS, ids=[refusal for _, refusal, _ in REFUSALS])
def test_a_refusal_has_a_reason_and_sends_nothing(
    profile: Profile, arrange: Callable[[Host], dict[str, Any]], refusal: str, text: str
) -> None:
    """R90 in the order of the checks, R91; Valkey since 8.1 corrects a candidate with stale slots."""
    cluster = before_election(profile)
    before = cluster.hosts[1].node.view.last_vote_epoch
    fields = arrange(cluster.hosts[1])
    before = max(before, cluster.hosts[1].node.view.last_vote_epoch)
    effects = ask(cluster, **fields)

    assert [effect.refusal for effect in effects if isinstance(effect, VoteCast)] == [refusal]
    corrects = profile.refusal_updates and "claimed slot" in refusal
    assert sent(effects) == ([MessageType.UPDATE] if corrects else [])
    assert cluster.hosts[1].node.view.last_vote_epoch == before
    lines = [effect.text for effect in effects if isinstance(effect, LogLine) and "denied" in effect.text]
    assert len(lines) == bool(text)
    for line in lines:
        assert text.replace("{master}", profile.word_for_master) in line
        event = event_of(line)
        assert event is not None
        assert event.subject == cluster.hosts[3].id


@pytest.mark.parametrize("profile", [REDIS_7_0, VALKEY_8_1], ids=lambda p: p.name)
def test_votes_for_one_master_are_spaced_until_valkey_8_1(profile: Profile) -> None:
    """R90: twice the node timeout."""
    cluster = before_election(profile)
    effects = ask(cluster, **recent_vote(cluster.hosts[1]))
    refusals = [effect.refusal for effect in effects if isinstance(effect, VoteCast)]

    assert refusals == (["voted for this master too recently"] if profile is REDIS_7_0 else [""])


def test_force_is_enough_against_a_healthy_master() -> None:
    """R6, R90: a manual failover."""
    cluster = before_election(REDIS_7_0)
    fields = master_is_up(cluster.hosts[1])

    assert sent(ask(cluster, mflags=FORCE, **fields)) == [MessageType.AUTH_ACK]


def test_a_vote_without_a_link_is_spent() -> None:
    """R90: it cannot be delivered, and not be given again."""
    cluster = before_election(VALKEY_9_1)
    peer = cluster.hosts[1].node.view.nodes[cluster.hosts[3].id]
    peer.outbound = None

    assert sent(ask(cluster)) == []
    assert cluster.hosts[1].node.view.last_vote_epoch == cluster.hosts[1].node.view.current_epoch


@pytest.mark.parametrize(
    ("profile", "rank", "failed_rank", "offset", "least", "most"),
    [
        (REDIS_7_0, 0, 0, 9, 500, 999),
        (REDIS_7_0, 2, 0, 0, 2500, 2999),
        (VALKEY_8_1, 1, 2, 9, 2500, 2999),
        (VALKEY_9_1, 0, 0, 9, 500, 999),
        (VALKEY_9_1, 1, 1, 0, 2500, 2999),
    ],
)
def test_delays_at_the_default_timeout(
    profile: Profile, rank: int, failed_rank: int, offset: int, least: int, most: int
) -> None:
    """R86: 500 ms, up to 500 more by chance, a second for each better replica, half of one for each failed shard first."""
    delays = [
        election_delay_ms(profile, 15_000, chance=chance, rank=rank, failed_rank=failed_rank, offset=offset)
        for chance in (0.0, 0.999)
    ]

    assert delays == [least, most]


def test_the_age_of_data_counts_whole_seconds_less_the_timeout() -> None:
    """R85."""
    assert data_age_ms(10_999, 1_000, 2000) == 7000
    assert data_age_ms(2_999, 1_000, 2000) == 1000
    assert not data_is_too_old(10**9, node_timeout_ms=1, validity_factor=0, ping_period_s=1)
