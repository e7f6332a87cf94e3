"""Data of one simulated process, and its replication position (P1 to P8)."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.replication.psync import Lineage
from cluster_core.slots.key_slot import key_slot

WRITE_BYTES: Final = 60
"""Stream bytes of a SET of a short key, and of a DEL in a migration."""
PING_BYTES: Final = 14
"""Bytes of ``*1 $4 PING`` with line ends (P9)."""
BACKLOG_WRITES: Final = 20_000
"""Maximum writes in the backlog; a replica missing more needs a full resynchronization (P3)."""


class Write(NamedTuple):
    """Entry of the stream: *key* is set to *value*, or deleted if None; no key for a PING. *offset* is its end."""

    offset: int
    key: bytes
    value: bytes | None


class Store:
    """Keys by slot, replication id, offset and backlog; implements `cluster_core.node.state.Keyspace`."""

    __slots__ = ("backlog", "base", "held", "lineage", "shifts", "start")

    def __init__(self, replid: str) -> None:
        self.held: dict[int, dict[bytes, bytes]] = {}
        self.base = replid
        self.lineage = Lineage(replid)
        self.start = 0
        self.backlog: list[Write] = []
        self.shifts = 0

    # -- queries -------------------------------------------------------------------------------------------------

    def count(self, slot: int) -> int:
        """Return the number of keys in *slot*."""
        return len(self.held.get(slot, ()))

    def keys(self, slot: int, limit: int) -> list[bytes]:
        """Return up to *limit* keys of *slot*."""
        return list(self.held.get(slot, ()))[:limit]

    def holds(self, key: bytes) -> bool:
        """Return whether *key* exists."""
        return key in self.held.get(key_slot(key), ())

    def value(self, key: bytes) -> bytes | None:
        """Return the value of *key*."""
        return self.held.get(key_slot(key), {}).get(key)

    def is_empty(self) -> bool:
        """Return whether there are no keys."""
        return not self.held

    # -- changes -------------------------------------------------------------------------------------------------

    def append(self, key: bytes, value: bytes | None, size: int) -> Write:
        """Apply an own write and return its stream entry."""
        write = Write(self.offset + size, key, value)
        self.apply(write)
        return write

    def apply(self, write: Write) -> None:
        """Apply a stream entry and add it to the backlog."""
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
        """Delete the keys in *slots*, bit s for slot s (R74)."""
        for slot in [slot for slot in self.held if slots >> slot & 1]:
            del self.held[slot]

    def clear(self) -> None:
        """Delete all keys."""
        self.held.clear()

    # -- replication position ------------------------------------------------------------------------------------

    @property
    def replid(self) -> str:
        """Return the replication id."""
        return self.lineage.replid

    @property
    def offset(self) -> int:
        """Return the offset."""
        return self.lineage.offset

    @property
    def window(self) -> tuple[int, int]:
        """Return first byte and length of the backlog (P3)."""
        return self.start + 1, self.offset - self.start

    @property
    def next_replid(self) -> str:
        """Return the replication id of the next `shift`."""
        return f"{self.base}+{self.shifts + 1}"

    def shift(self) -> None:
        """Become a master: a new id with the old one valid up to here (P5, shiftReplicationId)."""
        self.lineage.promote(self.next_replid)
        self.shifts += 1

    def since(self, offset: int) -> list[Write]:
        """Return the entries after *offset*, oldest first."""
        writes = []
        for write in reversed(self.backlog):
            if write.offset <= offset:
                break
            writes.append(write)
        return writes[::-1]

    def copy_from(self, master: Store) -> None:
        """Take over the master's data and position (P7)."""
        self.held = {slot: dict(keys) for slot, keys in master.held.items()}
        self.lineage.replace(master.replid, master.offset)
        self.start = master.offset
        self.backlog = []
