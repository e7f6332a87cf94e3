"""A simulated cluster that starts from what a real one was at some time: nodes, roles, slots and epochs of a topology.

Names are ``ip:port``.  Replication starts in sync; data, links and pending pings are not in a topology and begin anew.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cluster_core.node.settings import NodeSettings
from cluster_core.sim.layouts import LayoutError, Place
from cluster_core.slots.node_flags import GONE
from cluster_core.topology.node import Node, Topology

NO_ZONE = "Z"


def recorded_places(
    topology: Topology, settings: NodeSettings, zones: Mapping[str, Sequence[str]] | None = None
) -> list[Place]:
    """The nodes of *topology* that ran, masters first; raises LayoutError if no cluster can be made of them.

    Left out are nodes that were FAIL, unnamed or without an address, and replicas of such masters: they had failed already.

    *zones* maps a zone to what is in it: addresses ``ip:port``, ips, networks such as ``10.0.1.0/24``, or beginnings of ids.
    """
    alive = [node for node in topology.nodes if not node.flags & GONE and node.ip and node.port]
    if not any(node.is_master and node.slots for node in alive):
        raise LayoutError("no master with slots ran then: there is nothing to simulate")
    masters = {node.id for node in alive if node.is_master}
    alive = [node for node in alive if node.is_master or node.master_id in masters]
    names = {node.id: node.address for node in alive}
    if len(set(names.values())) < len(names):
        raise LayoutError("two nodes have one address")
    ordered = sorted(alive, key=lambda node: (not node.is_master, node.id))
    return [_place(node, names, settings, zones or {}) for node in ordered]


def _place(node: Node, names: Mapping[str, str], settings: NodeSettings, zones: Mapping[str, Sequence[str]]) -> Place:
    own = replace(settings, port=node.port, cport=node.cport or 0, hostname=node.hostname)
    master = "" if node.is_master else names.get(node.master_id or "", "")
    shard_id = node.aux.get("shard-id") or (node.id if node.is_master else node.master_id or node.id)
    slots = node.slots if node.is_master else type(node.slots)()
    zone = next((zone for zone, parts in zones.items() if any(is_in(node, part) for part in parts)), NO_ZONE)
    return Place(names[node.id], node.ip, zone, own, node.id, shard_id, master, slots, config_epoch=node.config_epoch)


def is_in(node: Node, part: str) -> bool:
    """Whether *part* names *node*: its address, its ip, a network that holds it, or the beginning of its id."""
    if part in (node.address, node.ip) or (len(part) >= 4 and node.id.startswith(part)):
        return True
    if "/" not in part:
        return False
    try:
        return ipaddress.ip_address(node.ip) in ipaddress.ip_network(part, strict=False)
    except ValueError:
        return False
