"""Whatever happens to a cluster in memory, the invariants of the protocol hold (R161 to R169), and in the end all agree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_core.gossip.events import Changed
from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MASTER, MY_PRIMARY_FAIL, MYSELF, NOADDR, REPLICA
from cluster_core.gossip.profile import PROFILES, VALKEY_9_1, ChainFold, Demotion, Profile
from cluster_core.node.events import ElectionStep, VoteCast
from cluster_core.wire.bus import Header, MessageType
from tests.benches.node_cluster import Cluster, Host
from tests.examples import examples

T = 1000
MASTERS, REPLICAS = 3, 4
HOSTS = MASTERS + REPLICAS
numbers = st.integers(0, HOSTS - 1)
faults = st.one_of(
    st.tuples(st.just("crash"), numbers),
    st.tuples(st.just("restart"), numbers),
    st.tuples(st.just("pause"), numbers),
    st.tuples(st.just("resume"), numbers),
    st.tuples(st.just("cut"), st.lists(numbers, min_size=1, max_size=3)),
    st.tuples(st.just("heal"), st.none()),
    st.tuples(st.just("failover"), st.tuples(numbers, st.sampled_from([(), ("FORCE",), ("TAKEOVER",)]))),
    st.tuples(st.just("write"), numbers),
    st.tuples(st.just("bump"), numbers),
)
schedules = st.lists(st.tuples(faults, st.sampled_from([10, 200, 900, 2500, 4000])), max_size=8)


def apply(cluster: Cluster, kind: str, what: Any) -> None:
    """Do one thing to the cluster, if it makes sense."""
    hosts = cluster.hosts
    if kind == "crash" and hosts[what].alive:
        cluster.crash(what)
    elif kind == "restart" and not hosts[what].alive:
        cluster.restart(what)
    elif kind == "pause" and hosts[what].alive:
        cluster.pause(what)
    elif kind == "resume" and hosts[what].frozen:
        cluster.resume(what)
    elif kind == "cut":
        cluster.cut(*((one, other) for one in what for other in range(HOSTS) if other not in what))
    elif kind == "heal":
        cluster.heal()
    elif kind == "failover":
        cluster.command(what[0], "CLUSTER", "FAILOVER", *what[1])
    elif kind == "write" and hosts[what].alive and hosts[what].node.view.myself.flags & MASTER:
        cluster.write(what)
    elif kind == "bump":
        cluster.command(what, "CLUSTER", "BUMPEPOCH")


def check_headers(cluster: Cluster) -> None:
    """R161, R162, R167, for each process in the order in which it spoke: a message may wait for its connection,
    and an epoch that was only heard is not saved.
    """
    epochs: dict[tuple[int, int], int] = {}
    votes: dict[tuple[str, int], int] = {}
    for sender, link, message in cluster.spoken:
        header = message.header
        if not isinstance(header, Header):
            continue
        assert header.current_epoch >= epochs.get(sender, 0), "R161"
        epochs[sender] = header.current_epoch
        assert header.config_epoch <= header.current_epoch, "R161"
        flags = header.flags
        assert bool(flags & MASTER) != bool(flags & REPLICA), "R167"
        assert bool(flags & REPLICA) == bool(header.replicaof), "R167"
        assert flags & MYSELF, "R167"
        assert not flags & (FAILURES | HANDSHAKE | NOADDR), "R167"
        if header.type == MessageType.AUTH_ACK:
            assert votes.setdefault((header.sender, header.current_epoch), link) == link, "R162"


def check_elections(cluster: Cluster) -> None:
    """R162 to R165: one vote an epoch, one winner an epoch, a majority behind each, doubt before each verdict."""
    granted: dict[tuple[str, int], list[int]] = {}
    winners: dict[int, int] = {}
    for host in cluster.hosts:
        voted = [vote.epoch for vote in host.said(VoteCast) if not vote.refusal]
        assert len(voted) == len(set(voted)), "R162"
        for vote in host.said(VoteCast):
            if not vote.refusal:
                granted.setdefault((vote.candidate, vote.epoch), []).append(host.index)
        doubted: set[str] = set()
        for _, effect in host.effects:
            if isinstance(effect, Changed) and effect.what == "pfail":
                doubted.add(effect.node)
            if isinstance(effect, Changed) and (effect.what, effect.cause) == ("fail", "R54"):
                assert effect.node in doubted, "R165"
    for host in cluster.hosts:
        for step in host.said(ElectionStep):
            if step.step == "won":
                assert winners.setdefault(step.epoch, host.index) == host.index, "R163"
                assert len(granted.get((host.id, step.epoch), [])) >= quorum_of(MASTERS), "R164"


def check_agreement(cluster: Cluster) -> None:
    """R68, R166, R168: one owner a slot, all see the same, replicas follow masters."""
    for host in cluster.hosts:
        view = host.node.view
        seen = 0
        for peer in view.nodes.values():
            assert not seen & peer.slots, "R68"
            seen |= peer.slots
        myself = view.myself
        if myself.flags & REPLICA:
            master = view.nodes[myself.replicaof]
            assert master.flags & MASTER, "R168"
        assert not any(peer.flags & FAIL for peer in view.nodes.values())
    owned = sum(host.node.view.myself.slots.bit_count() for host in cluster.hosts)
    assert owned == 16384, "R166"


@given(st.sampled_from(list(PROFILES.values())), st.integers(0, 10_000), schedules)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_invariants_survive_every_fault(profile: Profile, seed: int, schedule: list[Any]) -> None:
    """R161 to R169; after the last fault everything is healed, and the cluster finds together."""
    cluster = Cluster(HOSTS, profile=profile, node_timeout_ms=T, seed=seed, validity_factor=0)
    cluster.form(MASTERS, REPLICAS)
    cluster.keep_messages = True
    for (kind, what), wait_ms in schedule:
        apply(cluster, kind, what)
        cluster.run(wait_ms)
    cluster.heal()
    for host in cluster.hosts:
        if host.frozen:
            cluster.resume(host.index)
        if not host.alive:
            cluster.restart(host.index)

    done = cluster.run_until(lambda: cluster.agree() and settled(cluster), 90_000)
    check_headers(cluster)
    check_elections(cluster)
    if leaves_chains(profile) and any(is_chained(host) for host in cluster.hosts):
        return  # R66: these servers fold a chain only with slots that change, which R64 has moved before, or never
    assert done, describe(cluster)
    check_agreement(cluster)


def leaves_chains(profile: Profile) -> bool:
    """Redis 6.2 never folds a chain; Redis 7.4 and 8 move the slots with the role."""
    return profile.chain_fold is ChainFold.NEVER or profile.demotion is Demotion.MOVE


def is_chained(host: Host) -> bool:
    """Whether it replicates a replica."""
    view = host.node.view
    master = view.nodes.get(view.myself.replicaof)
    return master is not None and bool(master.replicaof)


def settled(cluster: Cluster) -> bool:
    """Nobody is held for failing any more."""
    return not any(peer.flags & FAILURES for host in cluster.hosts for peer in host.node.view.nodes.values())


def describe(cluster: Cluster) -> str:
    """What each node believes, for a failure's message."""
    told = [host.node.config_text() for host in cluster.hosts]
    return "\n".join([f"ok {[h.node.view.ok for h in cluster.hosts]}", *told])


def test_the_checkers_notice_a_broken_node() -> None:
    """A check that cannot fail proves nothing: a node that votes twice, and one that claims what it must not."""
    cluster = Cluster(HOSTS, profile=VALKEY_9_1, node_timeout_ms=T)
    cluster.form(MASTERS, REPLICAS)
    cluster.hosts[1].effects += [(0, VoteCast("a" * 40, 9, "")), (0, VoteCast("b" * 40, 9, ""))]
    with pytest.raises(AssertionError, match="R162"):
        check_elections(cluster)

    cluster.keep_messages = True
    cluster.hosts[0].node.view.myself.flags |= REPLICA | MY_PRIMARY_FAIL
    cluster.run(2000)
    with pytest.raises(AssertionError, match="R167"):
        check_headers(cluster)
