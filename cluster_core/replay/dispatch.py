"""Who saw what?  Clues of a capture, polls and log lines, in order, to the processes that they concern, as they come.

A process is known by the address that it listens on: the accepting end of a connection.  The opening end has a port
of no meaning; the id in the messages that it sends leads to the process, because the same id answers at its listening
address, or else the bus port in its headers does (R3).  An id may change while the process lives (R82), so evidence
is sorted by process.  A connection without a message belongs to a process only if no other process shares the
address.

A clue waits until it is known whose it is, at most `WAIT_NS`, and all that follow wait behind it.  So what comes out
depends on the clues alone and not on how a capture was cut into files; `attribution` does the same for a capture that
is there as a whole, with knowledge from its end at its start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from cluster_core.replay.evidence import Endpoint, LinkChange, SightingKind

WAIT_NS: Final = 2_000_000_000
"""How long a clue waits for the id that tells whose it is; nodes that are linked speak each second (R31)."""
WAITING_MAX: Final = 1_000_000
"""Bound of the clues that wait."""
CLOSED_NS: Final = 60_000_000_000
"""How long a connection is remembered after its end; stray packets may follow."""
CONNECTIONS_MAX: Final = 100_000
PROCESSES_MAX: Final = 20_000
"""Addresses that are taken for processes; a scan of ports must not make observers without end."""
CLOCK_BACK_NS: Final = 1_000_000_000
"""Packets of several processors are out of order by microseconds; a clock that goes back by more was set."""


NEVER_NS: Final = 1 << 62

DeliveryKind = LinkChange | Literal["message", "poll", "log"]


class Clue(NamedTuple):
    """One thing seen on the wire: a whole message, a packet that opens or ends a connection, or bytes that are missing.

    *kind* is ``message``, ``syn``, ``syn-ack``, ``fin``, ``rst``, ``gap``, ``unread`` (what this side sent at *since_ns*
    or later has not arrived) or ``read`` (it has after all); *from_opener* says which side sent it.
    *sender* and *cport* are those of a full header, *ref* is the number of the message (-1 for none).  *packed* is the
    message without its bitmap, which has the number *bitmap* (-1 for none).  *held* if it waited for bytes before it
    that never came.
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
    """What a process said of itself outside the bus: a ``poll`` or a ``log`` line, as bytes of its own form.

    *node_id* or *address* (either may be missing) tells which process.
    """

    ts_ns: int
    kind: Literal["poll", "log"]
    node_id: str
    address: Endpoint | None
    told: bytes


class Delivery(NamedTuple):
    """A piece of evidence for one process, not decoded yet.

    *kind* is ``message``, ``opened``, ``closed``, ``refused``, ``gap``, ``unread``, ``read``, ``poll`` or ``log``; *sent*
    tells who caused it.
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


class Passage(NamedTuple):
    """A clue or statement whose turn has come: *number* counts them, *ts_ns* never goes back.

    *opener* and *acceptor* are processes, None where not known; *was_open* tells whether the connection was up.  A gap
    lies somewhere after *since_ns*, the last message before it.
    """

    number: int
    ts_ns: int
    item: Clue | Statement
    opener: Endpoint | None
    acceptor: Endpoint | None
    was_open: bool
    since_ns: int = 0


class Known(NamedTuple):
    """A connection of which all is known: the process that opened it, and the addresses on the wire."""

    opener: Endpoint
    opener_end: Endpoint
    acceptor: Endpoint


@dataclass(slots=True)
class Connection:
    """What is known of a connection; *ends* are the addresses on the wire, of who opened and who accepted it, once *opener* is certain."""

    opener_id: str = ""
    ends: tuple[Endpoint, Endpoint] | None = None
    opener: Endpoint | None = None
    is_open: bool = False
    fins: int = 0
    spoke_ns: dict[bool, int] = field(default_factory=dict)
    marks: tuple[tuple[str, bool], ...] = ()


class Dispatcher:
    """Feed it clues in the order of the capture; it returns passages as soon as it is known whose they are.

    *homes* says where nodes listen as far as other sources know (addresses in polls); *statements* are in order of time.
    """

    def __init__(self) -> None:
        self.clock_ns = 0
        self.number = 0
        self.clock_steps: list[tuple[int, int]] = []
        self.forgotten: list[int] = []
        """Connections that are not known any more, until somebody took note of it."""
        self.renames = 0
        """How often a process said another id than before."""
        self._statements: deque[Statement] = deque()
        self._hints: dict[str, Endpoint] = {}
        self._waiting: deque[tuple[int, Clue | Statement]] = deque()
        self._connections: dict[int, Connection] = {}
        self._closed: deque[tuple[int, int]] = deque()
        self._homes: dict[str, Endpoint] = {}
        self._guesses: dict[str, Endpoint] = {}
        self._alone: dict[str, Endpoint | None] = {}
        self._ids: dict[Endpoint, str] = {}
        self._told_ns = 0

    def tell(self, statements: list[Statement], hints: dict[str, Endpoint]) -> bool:
        """Add statements; False, and nothing is added, when one is older than what has had its turn."""
        if statements and self.number and min(statement.ts_ns for statement in statements) <= self._told_ns:
            return False
        self._statements = deque(sorted([*self._statements, *statements], key=_turn_of))
        self._hints = {**hints, **self._hints}
        return True

    def feed(self, clue: Clue) -> list[Passage]:
        """Add a clue and return what has its turn now."""
        is_late = clue.held or clue.kind == "gap"
        if clue.ts_ns < self.clock_ns - CLOCK_BACK_NS and not is_late and len(self.clock_steps) < CONNECTIONS_MAX:
            self.clock_steps.append((clue.ref, self.clock_ns - clue.ts_ns))
        self.clock_ns = max(self.clock_ns, clue.ts_ns)
        while self._statements and self._statements[0].ts_ns <= self.clock_ns:
            statement = self._statements.popleft()
            self._waiting.append((statement.ts_ns, statement))
        if self._learn(clue):
            self._waiting.append((self.clock_ns, clue))
        return self._release()

    @property
    def quiet_before_ns(self) -> int:
        """Messages on connections of which all is known may pass by themselves up to before this time; 0 while anything waits."""
        if self._waiting:
            return 0
        return self._statements[0].ts_ns if self._statements else NEVER_NS

    def known(self, connection_id: int, sender: str, *, from_opener: bool) -> Known | None:
        """Who opened a connection and its ends, where a message that *sender* sends on it may pass by itself; else None."""
        connection = self._connections.get(connection_id)
        if connection is None or connection.opener is None or connection.ends is None:
            return None
        acceptor = connection.ends[1]
        if sender and not from_opener and (self._homes.get(sender) != acceptor or self._ids.get(acceptor) != sender):
            return None
        return Known(connection.opener, *connection.ends)

    def pass_over(self, now_ns: int, count: int) -> int:
        """So many messages passed by themselves, the last one at *now_ns*; return the number of the first one."""
        first = self.number + 1
        self.number += count
        self.clock_ns, self._told_ns = now_ns, max(self._told_ns, now_ns)
        return first

    def note_spoken(self, connection_id: int, *spoke_ns: int) -> None:
        """Who opened a connection, and who accepted it, spoke at these times, 0 for never, in messages that passed by themselves."""
        connection = self._connections.get(connection_id)
        if connection is None:
            return
        connection.is_open = True
        for from_opener, ts_ns in zip((True, False), spoke_ns, strict=True):
            if ts_ns:
                connection.spoke_ns[from_opener] = max(ts_ns, connection.spoke_ns.get(from_opener, ts_ns))

    def advance(self) -> list[Passage]:
        """There are no captures, only statements: the last of them is the time."""
        if not self._statements:
            return []
        self.clock_ns = max(self.clock_ns, self._statements[-1].ts_ns)
        self._waiting.extend((statement.ts_ns, statement) for statement in self._statements)
        self._statements.clear()
        return self._release()

    def finish(self) -> list[Passage]:
        """No more comes: return all that waits."""
        self._waiting.extend((statement.ts_ns, statement) for statement in self._statements)
        self._statements.clear()
        found = [self._pass(*item) for item in self._waiting]
        self._waiting.clear()
        return found

    def id_of(self, process: Endpoint | None) -> str:
        """The node id that a process had last; its address while it has not told."""
        if process is None:
            return ""
        return self._ids.get(process) or f"{process.ip}:{process.port}"

    def processes(self) -> dict[Endpoint, str]:
        """The processes that spoke, each with its last node id, in order of appearance."""
        return dict(self._ids)

    # -- learning ------------------------------------------------------------------------------------------------

    def _learn(self, clue: Clue) -> bool:
        """Learn whose a connection is; False for a copy of a packet that opened or ended it."""
        connection = self._connections.get(clue.connection)
        if connection is None:
            if len(self._connections) >= CONNECTIONS_MAX:
                for old in list(self._connections)[: CONNECTIONS_MAX // 4]:
                    self._forget(old)
            connection = self._connections[clue.connection] = Connection()
        if clue.kind in ("gap", "unread", "read"):
            return True
        if clue.kind != "message":
            mark = (clue.kind, clue.from_opener)
            is_new = mark not in connection.marks
            connection.marks += (mark,) if is_new else ()
            return is_new
        sender = clue.sender
        if not sender:
            return True
        if not clue.from_opener:
            home = self._homes.setdefault(sender, clue.acceptor)
            if home == clue.acceptor:
                self._name(home, sender)
            self._note_process(clue.acceptor)
        elif not connection.opener_id:
            connection.opener_id = sender
            if clue.cport:
                self._guesses.setdefault(sender, Endpoint(clue.opener.ip, clue.cport))
        return True

    def _note_process(self, process: Endpoint) -> None:
        known = self._alone.setdefault(process.ip, process)
        if known is not None and known != process:
            self._alone[process.ip] = None

    # -- turns ---------------------------------------------------------------------------------------------------

    def _release(self) -> list[Passage]:
        waiting = self._waiting
        if len(waiting) == 1 and self._is_certain(waiting[0][1]):
            return [self._pass(*waiting.popleft())]
        found = []
        limit_ns = self.clock_ns - WAIT_NS
        while waiting and (waiting[0][0] < limit_ns or len(waiting) > WAITING_MAX or self._is_certain(waiting[0][1])):
            found.append(self._pass(*waiting.popleft()))
        return found

    def _is_certain(self, item: Clue | Statement) -> bool:
        if isinstance(item, Statement):
            return item.node_id in self._homes
        connection = self._connections.get(item.connection)
        return connection is not None and (connection.opener is not None or connection.opener_id in self._homes)

    def _pass(self, ts_ns: int, item: Clue | Statement) -> Passage:
        self.number += 1
        self._told_ns = max(self._told_ns, ts_ns)
        if isinstance(item, Statement):
            return Passage(self.number, ts_ns, item, self._teller(item), None, False)
        connection = self._connections.get(item.connection) or Connection()
        opener = connection.opener or self._opener_of(item, connection)
        since_ns = connection.spoke_ns.get(item.from_opener, ts_ns)
        passage = Passage(self.number, ts_ns, item, opener, item.acceptor, connection.is_open, since_ns)
        if item.kind == "message":
            connection.spoke_ns[item.from_opener] = ts_ns
        if item.kind in ("syn-ack", "message"):
            connection.is_open = True
        elif item.kind == "rst" or item.kind == "fin":
            self._close(item, connection, ts_ns)
        return passage

    def _opener_of(self, clue: Clue, connection: Connection) -> Endpoint | None:
        node_id = connection.opener_id
        home = self._homes.get(node_id)
        opener = home or self._guesses.get(node_id) if node_id else self._alone.get(clue.opener.ip)
        if opener is None or opener == clue.acceptor:
            return None
        if home is not None:
            connection.opener, connection.ends = home, (clue.opener, clue.acceptor)
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

    def _close(self, clue: Clue, connection: Connection, ts_ns: int) -> None:
        connection.fins += 2 if clue.kind == "rst" else 1
        if connection.fins >= 2:
            self._closed.append((ts_ns, clue.connection))
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
    """What decides when a statement has its turn: of one process, the order in which it was told."""
    return statement.ts_ns, statement.node_id, f"{statement.address}"


def deliveries(passage: Passage) -> Iterator[Delivery]:
    """What a passage is to the processes that it concerns: both ends of a connection see its messages (R27)."""
    item = passage.item
    if isinstance(item, Statement):
        if passage.opener is not None:
            yield Delivery(
                passage.opener, passage.number, passage.ts_ns, -1, -1, True, True, item.kind, passage.opener, -1, item.told
            )  # fmt: skip
        return
    if item.kind == "syn":
        return
    kind: DeliveryKind = "closed" if item.kind == "fin" or passage.was_open else "refused"
    said = item.bitmap, item.packed
    if item.kind == "message" or item.kind == "gap":
        kind = item.kind
    elif item.kind == "unread" or item.kind == "read":
        kind, said = item.kind, (-1, str(item.since_ns).encode())
    elif item.kind == "syn-ack":
        kind = "opened"
    number, ts_ns, sent = passage.number, passage.ts_ns, item.from_opener
    seen = item.ref, item.connection
    if passage.opener is not None:
        yield Delivery(passage.opener, number, ts_ns, *seen, True, sent, kind, item.acceptor, *said)
    if passage.acceptor is not None:
        yield Delivery(passage.acceptor, number, ts_ns, *seen, False, not sent, kind, item.opener, *said)
