"""Simulations and recordings of real clusters: captures of simulated nodes, layouts of recorded ones.

Names are ``ip:port``.  Replication starts in sync; data, links and pending pings are not in a topology and begin anew.

It is the capture of somebody who listens at every host: a message has the time at which it arrived, one that never
arrived is not in it.  Rows become lines through `cluster_core.formats.capture.bus_lines`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from cluster_core.formats.capture import bus_capture as seen
from cluster_core.formats.capture.bus_lines import row_to_line
from cluster_core.node.state import NodeSettings
from cluster_core.sim.clock import START_US
from cluster_core.sim.host import Host, Stream
from cluster_core.sim.layouts import LayoutError, Place
from cluster_core.sim.network import Driver
from cluster_core.slots.node_flags import GONE
from cluster_core.topology.node import Node, Topology
from cluster_core.wire.bus import Header, Message, encode_message
from cluster_core.wire.tcp_stream import ACK, FIN, SYN

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


FIRST_PORT: Final = 32_768
PORTS: Final = 28_000
"""Ports that a system gives to those who connect (Linux's ip_local_port_range)."""


class Recorder:
    """Keeps what arrives; set it as `World.recorder` before the run."""

    def __init__(self, world: Driver) -> None:
        self.world = world
        self.kept: list[tuple[int, Stream, Message | str]] = []

    def delivered(self, stream: Stream, message: Message) -> None:
        """A message arrived."""
        self.kept.append((self.world.now_us, stream, message))

    def connected(self, stream: Stream) -> None:
        """A connection was accepted; *stream* is that of the side that opened it."""
        self.kept.append((self.world.now_us, stream, "open"))

    def closed(self, stream: Stream) -> None:
        """The end of *stream* arrived."""
        self.kept.append((self.world.now_us, stream, "closed"))

    def rows(self) -> Iterator[seen.Row]:
        """The rows, in order of time."""
        speakers: dict[tuple[int, bool], str] = {}
        for number, (at_us, stream, what) in enumerate(self.kept, 1):
            if isinstance(what, Message):
                header = what.header
                side = (stream.connection, stream.is_ours)
                if isinstance(header, Header):
                    speakers[side] = header.sender
                raw = encode_message(what)
                listener = speakers.get((stream.connection, not stream.is_ours), "")
                origin = _origin(number, at_us, stream)
                yield seen.CapturedMessage(origin, raw, len(raw), speakers.get(side, ""), listener)
            elif what == "open":
                yield seen.ConnectionEvent(_origin(number, at_us, stream), SYN)
                if stream.reverse is not None:
                    yield seen.ConnectionEvent(_origin(number, at_us, stream.reverse), SYN | ACK)
            else:
                yield seen.ConnectionEvent(_origin(number, at_us, stream), FIN | ACK)

    def lines(self) -> Iterator[str]:
        """The rows as lines of JSON."""
        return (row_to_line(row) for row in self.rows())


def _origin(number: int, at_us: int, stream: Stream) -> seen.Origin:
    opener, acceptor = (stream.source, stream.target) if stream.is_ours else (stream.target, stream.source)
    ends = _opening_end(opener, stream.connection), seen.Endpoint(acceptor.ip, acceptor.settings.bus_port)
    source, target = ends if stream.is_ours else ends[::-1]
    return seen.Origin(
        ts_ns=(START_US + at_us) * 1000,
        packet=number,
        offset=0,
        stream=2 * stream.connection + (0 if stream.is_ours else 1),
        connection=stream.connection,
        direction=seen.INITIATOR if stream.is_ours else seen.ACCEPTOR,
        source=source,
        target=target,
    )


def _opening_end(host: Host, connection: int) -> seen.Endpoint:
    return seen.Endpoint(host.ip, FIRST_PORT + connection % PORTS)
