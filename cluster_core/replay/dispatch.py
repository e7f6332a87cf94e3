"""Assign messages, polls and log lines, in order, to processes.

A process is identified by its listening address, the accepting end of a connection; the opening end by the node id in
its messages or the bus port in its headers (R3). Ids may change (R82). A connection without messages belongs to a process
only if no other shares the address.

A sighting waits up to `WAIT_NS` for its process, and later ones wait behind it. The order of sightings alone determines the
result, not how a capture is split into files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from cluster_core.replay.evidence import Endpoint, LinkChange, SightingKind

WAIT_NS: Final = 2_000_000_000
"""Maximum wait for the id that identifies a process; linked nodes send every second (R31)."""
WAITING_MAX: Final = 1_000_000
"""Maximum waiting sightings."""
CLOSED_NS: Final = 60_000_000_000
"""How long a closed connection is remembered for late packets."""
CONNECTIONS_MAX: Final = 100_000
PROCESSES_MAX: Final = 20_000
"""Maximum addresses treated as processes, against port scans."""
CLOCK_BACK_NS: Final = 1_000_000_000
"""Larger steps back mean a changed clock, not packets reordered between CPUs."""


NEVER_NS: Final = 1 << 62

DeliveryKind = LinkChange | Literal["message", "poll", "log"]


class BusSighting(NamedTuple):
    """One observation of a capture: a message, a packet that opens or ends a connection, or missing bytes.

    *kind*: ``message``, ``syn``, ``syn-ack``, ``fin``, ``rst``, ``gap``, ``unread`` (bytes sent at *since_ns* or later
    have not arrived) or ``read`` (they arrived after all). *from_opener*: the sending side. *sender* and *cport*: of a
    full header. *ref*: message number (-1 for none). *packed*: the message without its bitmap number *bitmap* (-1 for
    none). *held*: it waited for earlier bytes that never came.
    """

    ts_ns: int
    ref: int
    connection: int
    from_opener: bool
    opener: Endpoint
    acceptor: Endpoint
    kind: SightingKind
    sender: str = ""
    cport: int = 0
    type: int = -1
    total_bytes: int = 0
    bitmap: int = -1
    packed: bytes = b""
    held: bool = False
    since_ns: int = 0


class Statement(NamedTuple):
    """A ``poll`` or ``log`` line of the process with *node_id* or *address*, as raw bytes."""

    ts_ns: int
    kind: Literal["poll", "log"]
    node_id: str
    address: Endpoint | None
    payload: bytes


class Delivery(NamedTuple):
    """Undecoded evidence for one process.

    *kind*: ``message``, ``opened``, ``closed``, ``refused``, ``gap``, ``unread``, ``read``, ``poll`` or ``log``;
    *sent*: caused by this process.
    """

    process: Endpoint
    number: int
    ts_ns: int
    ref: int
    connection: int
    outbound: bool
    sent: bool
    kind: DeliveryKind
    peer: Endpoint
    bitmap: int
    packed: bytes


class OrderedEvidence(NamedTuple):
    """A sighting or statement in its final order: *number* counts them, *ts_ns* never decreases.

    *opener*, *acceptor*: processes, None if unknown; *was_open*: the connection was up. *since_ns*: last message before a gap.
    """

    number: int
    ts_ns: int
    item: BusSighting | Statement
    opener: Endpoint | None
    acceptor: Endpoint | None
    was_open: bool
    since_ns: int = 0


class KnownConnection(NamedTuple):
    """A fully identified connection: opening process and addresses."""

    opener: Endpoint
    opener_end: Endpoint
    acceptor: Endpoint


@dataclass(slots=True)
class Connection:
    """State of a connection; *ends* are its addresses, opener first, once *opener* is certain."""

    opener_id: str = ""
    ends: tuple[Endpoint, Endpoint] | None = None
    opener: Endpoint | None = None
    is_open: bool = False
    fins: int = 0
    spoke_ns: dict[bool, int] = field(default_factory=dict)
    marks: tuple[tuple[str, bool], ...] = ()


class Dispatcher:
    """Takes sightings in capture order; returns them in order once their processes are known.

    *homes*: listening addresses from polls; *statements* are in time order.
    """

    def __init__(self) -> None:
        self.clock_ns = 0
        self.number = 0
        self.clock_steps: list[tuple[int, int]] = []
        self.forgotten: list[int] = []
        """Dropped connections, until the caller has read them."""
        self.renames = 0
        """Number of id changes of processes."""
        self._statements: deque[Statement] = deque()
        self._hints: dict[str, Endpoint] = {}
        self._waiting: deque[tuple[int, BusSighting | Statement]] = deque()
        self._connections: dict[int, Connection] = {}
        self._closed: deque[tuple[int, int]] = deque()
        self._homes: dict[str, Endpoint] = {}
        self._places: dict[str, Endpoint] = {}
        """Last listening addresses by node id; a process keeps its first one as its name in `_homes`."""
        self._moved: dict[Endpoint, Endpoint] = {}
        """Processes by the later addresses at which they listened."""
        self._guesses: dict[str, Endpoint] = {}
        self._alone: dict[str, Endpoint | None] = {}
        self._ids: dict[Endpoint, str] = {}
        self._passed_ns = 0

    def tell(self, statements: list[Statement], hints: dict[str, Endpoint]) -> bool:
        """Add statements; return False, without effect, if one is older than the last ordered."""
        if statements and self.number and min(statement.ts_ns for statement in statements) <= self._passed_ns:
            return False
        self._statements = deque(sorted([*self._statements, *statements], key=_turn_of))
        self._hints = {**hints, **self._hints}
        return True

    def feed(self, sighting: BusSighting) -> list[OrderedEvidence]:
        """Add a sighting and return the ordered evidence that it releases."""
        is_late = sighting.held or sighting.kind == "gap"
        if sighting.ts_ns < self.clock_ns - CLOCK_BACK_NS and not is_late and len(self.clock_steps) < CONNECTIONS_MAX:
            self.clock_steps.append((sighting.ref, self.clock_ns - sighting.ts_ns))
        self.clock_ns = max(self.clock_ns, sighting.ts_ns)
        while self._statements and self._statements[0].ts_ns <= self.clock_ns:
            statement = self._statements.popleft()
            self._waiting.append((statement.ts_ns, statement))
        if self._learn(sighting):
            self._waiting.append((self.clock_ns, sighting))
        return self._release()

    @property
    def quiet_before_ns(self) -> int:
        """Return the time before which messages on known connections can skip the order; 0 while a sighting waits."""
        if self._waiting:
            return 0
        return self._statements[0].ts_ns if self._statements else NEVER_NS

    def known(self, connection_id: int, sender: str, *, from_opener: bool) -> KnownConnection | None:
        """Return the connection if a message of *sender* on it can skip the order; else None."""
        connection = self._connections.get(connection_id)
        if connection is None or connection.opener is None or connection.ends is None:
            return None
        opener_end, place = connection.ends
        acceptor = self._process_at(place)
        if sender and not from_opener and (self._homes.get(sender) != acceptor or self._ids.get(acceptor) != sender):
            return None
        return KnownConnection(connection.opener, opener_end, acceptor)

    def pass_over(self, now_ns: int, count: int) -> int:
        """Count *count* skipped messages, the last at *now_ns*; return the number of the first."""
        first = self.number + 1
        self.number += count
        self.clock_ns, self._passed_ns = now_ns, max(self._passed_ns, now_ns)
        return first

    def note_spoken(self, connection_id: int, *spoke_ns: int) -> None:
        """Record when opener and acceptor sent skipped messages; 0 for never."""
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        connection.is_open = True
        for from_opener, ts_ns in zip((True, False), spoke_ns, strict=True):
            if ts_ns:
                connection.spoke_ns[from_opener] = max(ts_ns, connection.spoke_ns.get(from_opener, ts_ns))

    def advance(self, until_ns: int = NEVER_NS) -> list[OrderedEvidence]:
        """Release statements up to *until_ns*, without captures."""
        while self._statements and self._statements[0].ts_ns <= until_ns:
            statement = self._statements.popleft()
            self.clock_ns = max(self.clock_ns, statement.ts_ns)
            self._waiting.append((statement.ts_ns, statement))
        return self._release()

    def finish(self) -> list[OrderedEvidence]:
        """End the input and return all waiting evidence."""
        self._waiting.extend((statement.ts_ns, statement) for statement in self._statements)
        self._statements.clear()
        passed = [self._pass(*item) for item in self._waiting]
        self._waiting.clear()
        return passed

    def id_of(self, process: Endpoint | None) -> str:
        """Return the last node id of a process; its address if unknown."""
        if process is None:
            return ""
        return self._ids.get(process) or f"{process.ip}:{process.port}"

    def processes(self) -> dict[Endpoint, str]:
        """Return active processes with their last node ids, in order of appearance."""
        return dict(self._ids)

    # -- identification ------------------------------------------------------------------------------------------

    def _learn(self, sighting: BusSighting) -> bool:
        """Identify a connection's processes; False for a copy of an opening or closing packet."""
        connection = self._connections.get(sighting.connection)
        if connection is None:
            if len(self._connections) >= CONNECTIONS_MAX:
                for old in list(self._connections)[: CONNECTIONS_MAX // 4]:
                    self._forget(old)
            connection = self._connections[sighting.connection] = Connection()
        if sighting.kind in ("gap", "unread", "read"):
            return True
        if sighting.kind != "message":
            mark = (sighting.kind, sighting.from_opener)
            is_new = mark not in connection.marks
            connection.marks += (mark,) if is_new else ()
            return is_new
        sender = sighting.sender
        if not sender:
            return True
        if not sighting.from_opener:
            self._name(self._home_of(sender, sighting.acceptor), sender)
            self._note_process(sighting.acceptor)
        elif not connection.opener_id:
            connection.opener_id = sender
            if sighting.cport:
                self._guesses.setdefault(sender, Endpoint(sighting.opener.ip, sighting.cport))
        return True

    def _home_of(self, sender: str, place: Endpoint) -> Endpoint:
        """Return the process of a node that listens at *place* now: its first address, also after a move."""
        home = self._homes.get(sender)
        if home is None:
            home = self._homes[sender] = Endpoint(sender, 0) if self._has_left(place) else self._process_at(place)
        if self._process_at(place) != home:
            self._moved[place] = home
            self.renames += 1
        self._places[sender] = place
        return home

    def _process_at(self, place: Endpoint) -> Endpoint:
        return self._moved.get(place, place)

    def _has_left(self, place: Endpoint) -> bool:
        """Return whether the last node at *place* listens elsewhere now."""
        node_id = self._ids.get(self._process_at(place), "")
        return self._places.get(node_id, place) != place

    def _note_process(self, process: Endpoint) -> None:
        known = self._alone.setdefault(process.ip, process)
        if known is not None and known != process:
            self._alone[process.ip] = None

    # -- order ---------------------------------------------------------------------------------------------------

    def _release(self) -> list[OrderedEvidence]:
        waiting = self._waiting
        if len(waiting) == 1 and self._is_certain(waiting[0][1]):
            return [self._pass(*waiting.popleft())]
        released = []
        limit_ns = self.clock_ns - WAIT_NS
        while waiting and (waiting[0][0] < limit_ns or len(waiting) > WAITING_MAX or self._is_certain(waiting[0][1])):
            released.append(self._pass(*waiting.popleft()))
        return released

    def _is_certain(self, item: BusSighting | Statement) -> bool:
        if isinstance(item, Statement):
            return item.node_id in self._homes
        connection = self._connections.get(item.connection)
        return connection is not None and (connection.opener is not None or connection.opener_id in self._homes)

    def _pass(self, ts_ns: int, item: BusSighting | Statement) -> OrderedEvidence:
        self.number += 1
        self._passed_ns = max(self._passed_ns, ts_ns)
        if isinstance(item, Statement):
            return OrderedEvidence(self.number, ts_ns, item, self._teller(item), None, False)
        connection = self._connections.get(item.connection) or Connection()
        opener = connection.opener or self._opener_of(item, connection)
        since_ns = connection.spoke_ns.get(item.from_opener, ts_ns)
        speaker = "" if item.from_opener else item.sender
        acceptor: Endpoint | None = self._homes.get(speaker) or self._process_at(item.acceptor)
        if item.kind in ("rst", "fin") and not connection.is_open and self._has_left(item.acceptor):
            acceptor = None  # refused at an old address
        ordered = OrderedEvidence(self.number, ts_ns, item, opener, acceptor, connection.is_open, since_ns)
        if item.kind == "message":
            connection.spoke_ns[item.from_opener] = ts_ns
        if item.kind in ("syn-ack", "message"):
            connection.is_open = True
        elif item.kind == "rst" or item.kind == "fin":
            self._close(item, connection, ts_ns)
        return ordered

    def _opener_of(self, sighting: BusSighting, connection: Connection) -> Endpoint | None:
        node_id = connection.opener_id
        home = self._homes.get(node_id)
        opener = home or self._guesses.get(node_id) if node_id else self._alone.get(sighting.opener.ip)
        opener = None if opener is None else self._process_at(opener)
        if opener is None or opener == self._process_at(sighting.acceptor):
            return None
        if home is not None:
            connection.opener, connection.ends = home, (sighting.opener, sighting.acceptor)
        elif node_id:
            self._note_process(opener)
            self._name(opener, self._ids.get(opener) or node_id)
        return opener

    def _teller(self, statement: Statement) -> Endpoint | None:
        node_id = statement.node_id
        known = self._homes.get(node_id) or self._hints.get(node_id) or self._guesses.get(node_id)
        process = known or statement.address or (Endpoint(node_id, 0) if node_id else None)
        if process is not None and node_id:
            self._name(process, self._ids.get(process) or node_id)
        return process

    def _close(self, sighting: BusSighting, connection: Connection, ts_ns: int) -> None:
        connection.fins += 2 if sighting.kind == "rst" else 1
        if connection.fins >= 2:
            self._closed.append((ts_ns, sighting.connection))
        while self._closed and self._closed[0][0] < ts_ns - CLOSED_NS:
            self._forget(self._closed.popleft()[1])

    def _forget(self, connection_id: int) -> None:
        if self._connections.pop(connection_id, None) is not None:
            self.forgotten.append(connection_id)

    def _name(self, process: Endpoint, node_id: str) -> None:
        if self._ids.get(process) != node_id:
            self._ids[process] = node_id
            self.renames += 1


def _turn_of(statement: Statement) -> tuple[int, str, str]:
    """Return the sort key of a statement: per process, the order of input."""
    return statement.ts_ns, statement.node_id, f"{statement.address}"


def deliveries(ordered: OrderedEvidence) -> Iterator[Delivery]:
    """Yield the deliveries of ordered evidence: both ends of a connection see its messages (R27)."""
    item = ordered.item
    if isinstance(item, Statement):
        if ordered.opener is not None:
            yield Delivery(
                ordered.opener, ordered.number, ordered.ts_ns, -1, -1, True, True, item.kind, ordered.opener, -1, item.payload
            )  # fmt: skip
        return
    if item.kind == "syn":
        return
    kind: DeliveryKind = "closed" if item.kind == "fin" or ordered.was_open else "refused"
    parts = item.bitmap, item.packed
    if item.kind == "message" or item.kind == "gap":
        kind = item.kind
    elif item.kind == "unread" or item.kind == "read":
        kind, parts = item.kind, (-1, str(item.since_ns).encode())
    elif item.kind == "syn-ack":
        kind = "opened"
    number, ts_ns, sent = ordered.number, ordered.ts_ns, item.from_opener
    seen = item.ref, item.connection
    if ordered.opener is not None:
        yield Delivery(ordered.opener, number, ts_ns, *seen, True, sent, kind, item.acceptor, *parts)
    if ordered.acceptor is not None:
        yield Delivery(ordered.acceptor, number, ts_ns, *seen, False, not sent, kind, item.opener, *parts)
