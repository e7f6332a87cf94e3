"""Layouts of simulated clusters: shards, replicas, zones, nodes.conf.

Masters are M1, M2 …, replicas of M1 are R1, R1b, R1c …, unattached nodes N1, N2 …
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from cluster_core.errors import ClusterCoreError
from cluster_core.node.state import NodeSettings, random_id
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Node, Topology

if TYPE_CHECKING:
    from random import Random

NODES_MAX: Final = 2_000
ZONES_MAX: Final = 250
REPLICA_LETTERS: Final = " bcdefghijklmnopqrstuvwxyz"
USUAL: Final = NodeSettings()
NO_SLOTS: Final = SlotSet()


class LayoutError(ClusterCoreError, ValueError):
    """An invalid layout."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Masters, replicas per master (number k is k + 1 zones further), and zones; *spares* are unattached nodes."""

    masters: int = 3
    replicas: int = 1
    zones: int = 1
    spares: int = 0

    @property
    def nodes(self) -> int:
        """Return the number of nodes without spares."""
        return self.masters * (1 + self.replicas)


@dataclass(frozen=True, slots=True)
class Place:
    """One node: name, zone and ids; *master* names its master."""

    name: str
    ip: str
    zone: str
    settings: NodeSettings
    node_id: str
    shard_id: str
    master: str = ""
    slots: SlotSet = NO_SLOTS
    is_spare: bool = False


def check_layout(layout: Layout) -> None:
    """Raise LayoutError for an invalid layout."""
    if layout.masters < 1 or layout.replicas < 0 or layout.spares < 0 or layout.zones < 1:
        raise LayoutError("a cluster has one master and one zone at least, and no negative number of anything")
    if layout.masters > SLOT_COUNT or layout.nodes + layout.spares > NODES_MAX:
        raise LayoutError(f"{layout.nodes + layout.spares} nodes are more than {NODES_MAX}")
    if layout.replicas >= len(REPLICA_LETTERS):
        raise LayoutError(f"{layout.replicas} replicas of a master are more than {len(REPLICA_LETTERS) - 1}")
    if layout.zones > min(layout.nodes + layout.spares, ZONES_MAX):
        raise LayoutError(f"{layout.zones} zones are more than there are nodes, or than {ZONES_MAX}")


def names_of(layout: Layout) -> dict[str, tuple[str, ...]]:
    """Return the names in scenarios: nodes, groups, zones; ``others`` means ``all`` here."""
    named = [(place.name, place.zone, place.master, place.is_spare) for place in _named(layout)]
    everybody = tuple(name for name, *_ in named)
    groups: dict[str, tuple[str, ...]] = {name: (name,) for name in everybody}
    groups["all"] = groups["others"] = everybody
    groups["masters"] = tuple(name for name, _, master, spare in named if not master and not spare)
    groups["replicas"] = tuple(name for name, _, master, _ in named if master)
    groups["spares"] = tuple(name for name, _, _, spare in named if spare)
    for name, zone, _, _ in named:
        groups[zone] = (*groups.get(zone, ()), name)
    return groups


def _named(layout: Layout) -> list[Place]:
    """Return the nodes, masters first, without ids and settings."""
    places: list[Place] = []

    def add(name: str, zone: int, master: str = "", *, is_spare: bool = False, slots: SlotSet = NO_SLOTS) -> None:
        number = len(places)
        ip = f"10.{zone}.{number // 250}.{number % 250 + 1}"
        places.append(Place(name, ip, f"Z{zone + 1}", USUAL, "", "", master, slots, is_spare))

    for index in range(layout.masters):
        first, last = SLOT_COUNT * index // layout.masters, SLOT_COUNT * (index + 1) // layout.masters - 1
        add(f"M{index + 1}", index % layout.zones, slots=SlotSet.parse(f"{first}-{last}"))
    for number in range(layout.replicas):
        for index in range(layout.masters):
            name = f"R{index + 1}{REPLICA_LETTERS[number].strip()}"
            add(name, (index + number + 1) % layout.zones, f"M{index + 1}")
    for index in range(layout.spares):
        add(f"N{index + 1}", index % layout.zones, is_spare=True)
    return places


def places_of(layout: Layout, settings_of: Callable[[str], NodeSettings], rng: Random) -> list[Place]:
    """Return the nodes, masters first, with random ids and settings by name; raises LayoutError."""
    check_layout(layout)
    shards: dict[str, str] = {}
    places = []
    for place in _named(layout):
        shard_id, node_id = random_id(rng), random_id(rng)
        shard_id = shards.setdefault(place.master or place.name, shard_id)
        places.append(replace(place, settings=settings_of(place.name), node_id=node_id, shard_id=shard_id))
    return places


def topology_of(places: Sequence[Place]) -> Topology:
    """Return the cluster of *places* with config epochs 1, 2, 3 … as set by the servers' tools."""
    ids = {place.name: place.node_id for place in places}
    masters = [place for place in places if not place.master]
    epochs = {place.name: number for number, place in enumerate(masters, 1)}
    nodes = [
        Node(
            id=place.node_id,
            ip=place.ip,
            port=place.settings.port,
            cport=place.settings.bus_port,
            hostname=place.settings.hostname,
            aux={"shard-id": place.shard_id},
            flags=NodeFlags.REPLICA if place.master else NodeFlags.MASTER,
            master_id=ids[place.master] if place.master else None,
            config_epoch=epochs.get(place.master or place.name, 0),
            slots=place.slots,
        )
        for place in places
    ]
    return Topology(tuple(nodes), "nodes.conf", max(epochs.values(), default=0), 0)
