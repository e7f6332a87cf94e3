"""Whose connection is it?  Sightings on the wire, sorted into what each node sent and received.

A process is known by the address that it listens on: the accepting end of a connection.  The opening end has a port
of no meaning; the id in the messages that it sends leads to the process, because the same id answers at its listening
address, or else the bus port in its headers does (R3).  An id may change while the process lives (R82), so streams
are kept by process.  A connection without a message belongs to a process only if no other process shares the address.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster_core.replay.evidence import Endpoint, Evidence, LinkSeen, MessageSeen
from cluster_core.wire.bus import Header
from tests.reference.sightings import Sighting


class Attribution:
    """Learns from sightings which process opened which connection; feed all, then ask."""

    def __init__(self) -> None:
        self._process_of_id: dict[str, Endpoint] = {}
        self._guessed: dict[str, Endpoint] = {}
        self._opener_id: dict[int, str] = {}
        self._opener_ip: dict[int, str] = {}
        self._acceptor: dict[int, Endpoint] = {}

    def learn(self, sighting: Sighting) -> None:
        """Take in one sighting."""
        connection = sighting.connection
        if connection not in self._acceptor:
            self._acceptor[connection] = sighting.acceptor
            self._opener_ip[connection] = sighting.opener.ip
        header = sighting.message.header if sighting.message is not None else None
        if not isinstance(header, Header) or not header.sender:
            return
        if not sighting.from_opener:
            self._process_of_id.setdefault(header.sender, sighting.acceptor)
            return
        self._opener_id.setdefault(connection, header.sender)
        self._guessed.setdefault(header.sender, Endpoint(sighting.opener.ip, header.cport))

    def processes(self) -> list[Endpoint]:
        """The listening addresses of all processes that spoke, in order."""
        found = {*self._process_of_id.values(), *(self._process_of(i) for i in self._opener_id.values())}
        return sorted(found)

    def ids_of(self, process: Endpoint) -> list[str]:
        """The node ids that a process has had."""
        ids = dict.fromkeys([*self._process_of_id, *self._guessed])
        return [node_id for node_id in ids if self._process_of(node_id) == process]

    def acceptor_of(self, connection: int) -> Endpoint | None:
        """The process that accepted a connection."""
        return self._acceptor.get(connection)

    def openers(self) -> dict[int, Endpoint]:
        """The process that opened each connection, where it can be told."""
        alone: dict[str, Endpoint | None] = {}
        for process in self.processes():
            alone[process.ip] = None if process.ip in alone else process
        found: dict[int, Endpoint] = {}
        for connection, ip in self._opener_ip.items():
            node_id = self._opener_id.get(connection)
            owner = alone.get(ip) if node_id is None else self._process_of(node_id)
            if owner is not None and owner != self._acceptor[connection]:
                found[connection] = owner
        return found

    def _process_of(self, node_id: str) -> Endpoint:
        return self._process_of_id.get(node_id) or self._guessed[node_id]


def sort_out(sightings: Iterable[Sighting], attribution: Attribution) -> dict[Endpoint, list[Evidence]]:
    """Give every process its evidence, in the order of the sightings; both ends of a connection see its messages."""
    openers = attribution.openers()
    found: dict[Endpoint, list[Evidence]] = {process: [] for process in attribution.processes()}
    opened: set[int] = set()
    for sighting in sightings:
        opener, acceptor = openers.get(sighting.connection), attribution.acceptor_of(sighting.connection)
        for process, outbound in ((opener, True), (acceptor, False)):
            if process is not None and process in found:
                evidence = _evidence(sighting, outbound=outbound, opened=sighting.connection in opened)
                if evidence is not None:
                    found[process].append(evidence)
        if sighting.kind == "syn-ack" or sighting.kind == "message":
            opened.add(sighting.connection)
    return found


def _evidence(sighting: Sighting, *, outbound: bool, opened: bool) -> Evidence | None:
    sent = sighting.from_opener == outbound
    peer = sighting.acceptor if outbound else sighting.opener
    if sighting.message is not None:
        return MessageSeen(sighting.ts_ns, sighting.ref, sighting.connection, outbound, sent, peer, sighting.message)
    what = {"syn-ack": "opened", "fin": "closed", "rst": "closed" if opened else "refused"}.get(sighting.kind)
    if what is None:
        return None
    return LinkSeen(sighting.ts_ns, sighting.ref, sighting.connection, outbound, what, sent, peer)
