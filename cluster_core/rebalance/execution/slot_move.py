"""Moving one slot by hand, key by key, as a state machine without IO (cluster rules on IMPORTING, MIGRATING and NODE).

Feed it what the servers answered; it returns what to send next.  The order is the one that survives a crash at any step: the target
imports before the source migrates, and the target learns first that the slot is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from cluster_core.errors import ProtocolError

KEYS_MAX = 100
"""Keys asked for at a time."""


class State(Enum):
    """Where the move of a slot stands."""

    NEW = "new"
    IMPORTING = "importing"
    MIGRATING = "migrating"
    LISTING = "listing keys"
    SENDING = "sending keys"
    TAKING = "target takes the slot"
    GIVING = "source gives up the slot"
    TELLING = "others are told"
    UNDOING = "undoing"
    DONE = "done"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Started:
    """Begin, or begin again: every step may be repeated."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Begin at the end: the target owns the slot already, the others may not know it."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The server answered OK (or NOKEY, for keys that expired on the way)."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Keys that the source still holds in the slot."""

    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The server answered an error."""

    text: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The user wants the move undone, said in place of the answer just read; possible as long as no key has moved."""


Event = Started | Owned | Accepted | Listed | Refused | Stopped


@dataclass(frozen=True, slots=True)
class Send:
    """Send *words* to *node*."""

    node: str
    words: tuple[str | bytes, ...]


@dataclass(frozen=True, slots=True)
class Migrate:
    """Send MIGRATE for *keys* to *source*, towards *target*'s address, database 0; with REPLACE when *replace*."""

    source: str
    target: str
    keys: tuple[bytes, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """The slot went from one state to the next."""

    before: State
    after: State
    cause: str


Effect = Send | Migrate | Transition


@dataclass(slots=True)
class SlotMove:
    """The move of *slot* from *source* to *target*; *others* are told of the new owner at the end.

    A move that is taken up again is given as *keys_sent* what the target holds of the slot: with keys there it cannot be undone.
    """

    slot: int
    source: str
    target: str
    others: tuple[str, ...] = ()
    state: State = State.NEW
    keys_sent: int = 0
    pending: tuple[bytes, ...] = ()
    replaced: bool = False
    keys_max: int = KEYS_MAX
    """Keys of one MIGRATE."""
    told: int = 0
    undone: int = 0
    failed: str = ""

    def handle(self, event: Event) -> list[Effect]:
        """Apply *event* and return what to do, in order; ProtocolError for one that this state cannot meet."""
        if isinstance(event, Started) and self.state not in (State.DONE, State.UNDONE):
            self.pending, self.told, self.undone = (), 0, 0
            return self._go(State.IMPORTING, "started", self._setslot(self.target, "IMPORTING", self.source))
        if isinstance(event, Owned) and self.state is State.NEW:
            return self._go(State.TAKING, "target owns it", self._setslot(self.target, "NODE", self.target))
        handler = _HANDLERS.get((self.state, type(event)))
        if handler is None:
            raise ProtocolError(f"slot {self.slot}: {type(event).__name__} in state {self.state.value}")
        return handler(self, event)

    @property
    def can_stop(self) -> bool:
        """Whether `Stopped` may be said now: nothing has been sent, and nothing is on its way."""
        begun = self.state in (State.IMPORTING, State.MIGRATING, State.LISTING)
        return begun and not self.keys_sent and not self.pending

    def _go(self, state: State, cause: str, *effects: Effect) -> list[Effect]:
        before, self.state = self.state, state
        return [Transition(before, state, cause), *effects]

    def _setslot(self, node: str, *words: str) -> Send:
        return Send(node, ("CLUSTER", "SETSLOT", str(self.slot), *words))

    def _list(self) -> Send:
        return Send(self.source, ("CLUSTER", "GETKEYSINSLOT", str(self.slot), str(self.keys_max)))

    def _listed(self, event: Event) -> list[Effect]:
        keys = event.keys if isinstance(event, Listed) else ()
        if not keys:
            return self._go(State.TAKING, "slot is empty", self._setslot(self.target, "NODE", self.target))
        self.pending, self.replaced = keys, False
        return self._go(State.SENDING, f"{len(keys)} keys", Migrate(self.source, self.target, keys))

    def _sent(self, event: Event) -> list[Effect]:
        self.keys_sent += len(self.pending)
        self.pending = ()
        return self._go(State.LISTING, "keys have moved", self._list())

    def _not_sent(self, event: Event) -> list[Effect]:
        """BUSYKEY: an earlier MIGRATE arrived and its answer did not; the source's copy is the one that clients changed.

        Whatever else is said, such as IOERR of a target that does not answer its source, is for the caller to wait for.
        """
        text = event.text if isinstance(event, Refused) else ""
        if "BUSYKEY" in text and not self.replaced:
            self.replaced = True
            return [Migrate(self.source, self.target, self.pending, replace=True)]
        self.failed = text
        raise ProtocolError(f"slot {self.slot}: keys do not move to {self.target}: {text}")

    def _given_by_replica(self, event: Event) -> list[Effect]:
        """A source that lost its last slot has become a replica by now, and may not be told (redis 9223)."""
        text = event.text if isinstance(event, Refused) else ""
        if "only with masters" not in text:
            raise ProtocolError(f"slot {self.slot}: {self.source} does not give it up: {text}")
        return self._tell("source is a replica now")

    def _tell(self, cause: str) -> list[Effect]:
        if self.told >= len(self.others):
            return self._go(State.DONE, cause)
        node = self.others[self.told]
        self.told += 1
        return self._go(State.TELLING, cause, self._setslot(node, "NODE", self.target))

    def _stop(self, event: Event) -> list[Effect]:
        if self.keys_sent or self.pending:
            raise ProtocolError(f"slot {self.slot}: {self.keys_sent} keys have moved, it can only go on")
        return self._go(State.UNDOING, "stopped", self._setslot(self.source, "STABLE"))

    def _stable(self, event: Event) -> list[Effect]:
        self.undone += 1
        if self.undone == 1:
            return [self._setslot(self.target, "STABLE")]
        return self._go(State.UNDONE, "both are stable")

    def _refused(self, event: Event) -> list[Effect]:
        self.failed = event.text if isinstance(event, Refused) else ""
        raise ProtocolError(f"slot {self.slot}: refused in state {self.state.value}: {self.failed}")


_HANDLERS: dict[tuple[State, type[Event]], Callable[[SlotMove, Event], list[Effect]]] = {
    (State.IMPORTING, Accepted): lambda move, _: move._go(
        State.MIGRATING, "target imports", move._setslot(move.source, "MIGRATING", move.target)
    ),
    (State.IMPORTING, Refused): SlotMove._refused,
    (State.IMPORTING, Stopped): SlotMove._stop,
    (State.MIGRATING, Accepted): lambda move, _: move._go(State.LISTING, "source migrates", move._list()),
    (State.MIGRATING, Refused): SlotMove._refused,
    (State.MIGRATING, Stopped): SlotMove._stop,
    (State.LISTING, Listed): SlotMove._listed,
    (State.LISTING, Refused): SlotMove._refused,
    (State.LISTING, Stopped): SlotMove._stop,
    (State.SENDING, Accepted): SlotMove._sent,
    (State.SENDING, Refused): SlotMove._not_sent,
    (State.SENDING, Stopped): SlotMove._stop,
    (State.TAKING, Accepted): lambda move, _: move._go(
        State.GIVING, "target owns it", move._setslot(move.source, "NODE", move.target)
    ),
    (State.TAKING, Refused): SlotMove._refused,
    (State.GIVING, Accepted): lambda move, _: move._tell("source knows"),
    (State.GIVING, Refused): SlotMove._given_by_replica,
    (State.TELLING, Accepted): lambda move, _: move._tell("told"),
    (State.TELLING, Refused): lambda move, _: move._tell("told"),  # gossip tells it later, whoever does not listen
    (State.UNDOING, Accepted): SlotMove._stable,
    (State.UNDOING, Refused): SlotMove._refused,
}
