"""Addresses for clients of either family: told in extensions, kept, shown to those who ask over it (R15, R120, R128, R131)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.profile import VALKEY_7_2, VALKEY_8_0, VALKEY_9_1, Profile
from tests.benches.node_cluster import FIRST_PORT, Cluster

IPV4, IPV6 = "192.0.2.7", "2001:db8::7"


def formed(profile: Profile, **settings: str) -> Cluster:
    """Two masters, both with the addresses of *settings*."""
    cluster = Cluster(2, profile=profile, **settings)
    cluster.form(2)
    cluster.run(3000)
    return cluster


def asked(cluster: Cluster, ip: str, *words: str) -> object:
    """What the first node answers to a client at *ip*."""
    return cluster.command(0, *words, ip=ip)


@pytest.mark.parametrize("profile", [VALKEY_8_0, VALKEY_9_1], ids=lambda p: p.name)
@pytest.mark.parametrize(("client", "shown"), [("198.51.100.1", IPV4), ("2001:db8::1", IPV6), ("", "127.0.0.1")])
def test_a_client_is_shown_the_addresses_of_its_family(profile: Profile, client: str, shown: str) -> None:
    """CLUSTER NODES, SLOTS and SHARDS, and MOVED; who asks from nowhere (a script, ourselves) sees those of the bus."""
    cluster = formed(profile, client_ipv4=IPV4, client_ipv6=IPV6)

    nodes = asked(cluster, client, "CLUSTER", "NODES")
    slots, shards = (str(asked(cluster, client, "CLUSTER", word)) for word in ("SLOTS", "SHARDS"))
    moved = str(asked(cluster, client, "GET", "foo"))  # slot 12182

    assert str(getattr(nodes, "data", nodes)).count(f" {shown}:") == 2
    assert slots.count(f"b'{shown}'") == 2
    assert f"b'{shown}'" in shards
    assert moved.endswith(f"MOVED 12182 {shown}:{FIRST_PORT + 1}')") or f"MOVED 12182 {shown}:{FIRST_PORT + 1}" in moved


def test_one_family_alone_leaves_the_other_as_it_was() -> None:
    """clusterNodeIp: an empty address is none."""
    cluster = formed(VALKEY_9_1, client_ipv6=IPV6)

    assert f"MOVED 12182 127.0.0.1:{FIRST_PORT + 1}" in str(asked(cluster, "198.51.100.1", "GET", "foo"))


def test_they_are_kept_in_nodes_conf() -> None:
    """R129: auxiliary fields."""
    text = formed(VALKEY_9_1, client_ipv4=IPV4).hosts[0].node.config_text()

    assert text.count(f"client-ipv4={IPV4}") == 2
    assert "client-ipv6" not in text


def test_servers_before_valkey_8_know_nothing_of_them() -> None:
    """R15: they neither tell nor keep them."""
    cluster = formed(VALKEY_7_2, client_ipv4=IPV4)

    assert "client-ipv4" not in cluster.hosts[0].node.config_text()
    assert f"MOVED 12182 127.0.0.1:{FIRST_PORT + 1}" in str(asked(cluster, "198.51.100.1", "GET", "foo"))
