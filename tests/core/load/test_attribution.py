"""Whose dump is it: a node id in the path, then the owner of most keys."""

from __future__ import annotations

import pytest

from cluster_core.load.unread import Attribution, attribute
from cluster_core.topology.nodes_text import read_nodes

A, B, R = "a" * 40, "b" * 40, "c" * 40
NODES = read_nodes(
    f"{A} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-8191\n"
    f"{B} 10.0.0.2:6380@16380 master - 0 0 2 connected 8192-16383\n"
    f"{R} 10.0.0.3:6381@16381 slave {A} 0 0 1 connected\n".encode()
)


def test_the_owner_of_most_keys_is_the_node():
    assert attribute("x.rdb", {A: 51, B: 49}, NODES) == Attribution(A, "keys")


@pytest.mark.parametrize("keys", [{A: 50, B: 50}, {None: 60, A: 40}, {}])
def test_without_a_majority_the_dump_has_no_node(keys):
    assert attribute("x.rdb", keys, NODES) == Attribution(None, "unknown")


def test_a_node_id_in_the_path_wins_over_the_keys_and_a_replica_stands_for_its_master():
    assert attribute(f"dumps/{B}/dump.rdb", {A: 100}, NODES) == Attribution(B, "name")
    assert attribute(f"dumps/{R}/dump.rdb", {B: 100}, NODES) == Attribution(A, "name")


def test_without_a_topology_no_node_is_known():
    assert attribute(f"{A}.rdb", {None: 5}, None) == Attribution(None, "unknown")
