"""The data of one simulated process, and its place in a stream of replication (P1 to P8).

A write is a key with a value; the stream is the writes in order, each at the offset behind it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.replication.psync import Lineage
from cluster_core.slots.key_slot import key_slot

WRITE_BYTES: Final = 60
"""What a SET of a short key takes in the stream, as do the DELs of a migration here."""
PING_BYTES: Final = 14
"""``*1 $4 PING`` with its line ends (P9)."""
BACKLOG_WRITES: Final = 20_000
"""So many writes a backlog holds; who misses more needs a full sync (P3)."""


class Write(NamedTuple):
    """One entry of the stream: *key* gets *value*, or goes if that is None; no key for a PING.  *offset* is its end."""

    offset: int
    key: bytes
    value: bytes | None


class Store:
    """Keys by slot, replication id and offset, backlog; it answers as a `cluster_core.node.state.Keyspace`."""

    __slots__ = ("backlog", "base", "held", "lineage", "shifts", "start")

    def __init__(self, replid: str) -> None:
        self.held: dict[int, dict[bytes, bytes]] = {}
        self.base = replid
        self.lineage = Lineage(replid)
        self.start = 0
        self.backlog: list[Write] = []
        self.shifts = 0

    # -- what the node asks --------------------------------------------------------------------------------------

    def count(self, slot: int) -> int:
        """How many keys are in *slot*."""
        return len(self.held.get(slot, ()))

    def keys(self, slot: int, limit: int) -> list[bytes]:
        """At most *limit* keys of *slot*."""
        return list(self.held.get(slot, ()))[:limit]

    def holds(self, key: bytes) -> bool:
        """Whether *key* is there."""
        return key in self.held.get(key_slot(key), ())

    def value(self, key: bytes) -> bytes | None:
        """What *key* holds."""
        return self.held.get(key_slot(key), {}).get(key)

    def is_empty(self) -> bool:
        """Whether there is no key at all."""
        return not self.held

    # -- what changes it -----------------------------------------------------------------------------------------

    def append(self, key: bytes, value: bytes | None, size: int) -> Write:
        """A write of our own: apply it and return its entry in the stream."""
        write = Write(self.offset + size, key, value)
        self.apply(write)
        return write

    def apply(self, write: Write) -> None:
        """Carry out an entry of the stream and keep it in the backlog."""
        self.lineage.offset = write.offset
        self.backlog.append(write)
        if len(self.backlog) > 2 * BACKLOG_WRITES:
            self.start = self.backlog[-BACKLOG_WRITES - 1].offset
            del self.backlog[:-BACKLOG_WRITES]
        if not write.key:
            return
        slot = key_slot(write.key)
        if write.value is not None:
            self.held.setdefault(slot, {})[write.key] = write.value
        elif slot in self.held:
            self.held[slot].pop(write.key, None)
            if not self.held[slot]:
                del self.held[slot]

    def drop(self, slots: int) -> None:
        """Forget the keys in *slots*, bit s for slot s (R74)."""
        for slot in [slot for slot in self.held if slots >> slot & 1]:
            del self.held[slot]

    def clear(self) -> None:
        """Forget every key."""
        self.held.clear()

    # -- its place in the stream ---------------------------------------------------------------------------------

    @property
    def replid(self) -> str:
        """The id of its history."""
        return self.lineage.replid

    @property
    def offset(self) -> int:
        """How far its history goes."""
        return self.lineage.offset

    @property
    def window(self) -> tuple[int, int]:
        """First byte and length of the backlog (P3)."""
        return self.start + 1, self.offset - self.start

    @property
    def next_replid(self) -> str:
        """The id of the history that `shift` will begin."""
        return f"{self.base}+{self.shifts + 1}"

    def shift(self) -> None:
        """Become a master: a new history that shares the old one up to here (P5, shiftReplicationId)."""
        self.lineage.promote(self.next_replid)
        self.shifts += 1

    def since(self, offset: int) -> list[Write]:
        """The entries behind *offset*, oldest first."""
        found = []
        for write in reversed(self.backlog):
            if write.offset <= offset:
                break
            found.append(write)
        return found[::-1]

    def copy_from(self, master: Store) -> None:
        """A full sync: the master's data and place, nothing of our own (P7)."""
        self.held = {slot: dict(keys) for slot, keys in master.held.items()}
        self.lineage.replace(master.replid, master.offset)
        self.start = master.offset
        self.backlog = []
