"""What a key-space report says, as plain values: filled from the tables, drawn by `terminal` and `html`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.caveats import Caveat, Code

if TYPE_CHECKING:
    from cluster_core.memory.model import MemoryBasis
    from slotscope.reports.keyspace.key_use import UseReport
    from slotscope.reports.keyspace.log_load import LogLoad
    from slotscope.reports.keyspace.savings import SavingsReport

SLOT_COUNT = 16384


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """Load of one master; *node_id* is None where no topology was given. Bytes are None where no source knows sizes.

    *unread_share* of its inputs could not be read; None: some, but how much is not known.
    """

    node_id: str | None
    address: str
    slots: int
    keys: int
    expires: int
    serialized_bytes: int | None
    memory_bytes: int | None
    ops: int | None
    unread_share: float | None = 0.0


@dataclass(frozen=True, slots=True)
class SlotLoad:
    """Load of one of the 16384 slots, summed over the nodes that hold keys of it; *owner* indexes `KeyspaceReport.nodes`."""

    slot: int
    owner: int | None
    keys: int
    serialized_bytes: int | None
    expires: int
    top_key: bytes | None
    top_key_bytes: int | None
    memory_bytes: int | None = None
    top_key_memory: int | None = None


@dataclass(frozen=True, slots=True)
class BigKey:
    """One key of the largest."""

    key: bytes
    db: int
    slot: int
    node_id: str | None
    type: str
    encoding: str
    elements: int | None
    serialized_bytes: int | None
    expire_at_ms: int | None
    memory_bytes: int | None = None
    estimate: str | None = None


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Keys that share a hash tag or a prefix; the true figures are at most *keys_error*, *bytes_error* and *memory_error* higher."""

    name: bytes
    slot: int | None = None
    keys: int = 0
    serialized_bytes: int | None = None
    keys_error: int = 0
    bytes_error: int = 0
    depth: int = 0
    memory_bytes: int | None = None
    memory_error: int = 0


@dataclass(frozen=True, slots=True)
class TtlBucket:
    """Keys whose remaining time to live, counted from the dump's own clock, lies in one range."""

    label: str
    keys: int
    serialized_bytes: int | None


@dataclass(frozen=True, slots=True)
class Source:
    """One input file and what was found in it."""

    path: str
    kind: str
    node_id: str | None
    keys: int
    file_bytes: int
    facts: dict[str, str] = field(default_factory=dict)
    unread_share: float | None = 0.0


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Keys from *at_least* to below the double of it, and what they have together."""

    at_least: int
    keys: int
    total: int


@dataclass(frozen=True, slots=True)
class KeyspaceReport:
    """One snapshot.  *slots* has 16384 entries; every list is ordered as it is to be shown; *log* is None without append-only logs,
    *memory* where nothing was measured."""

    snapshot_id: str
    taken_at_ms: int | None
    sources: list[Source]
    warnings: list[Caveat]
    nodes: list[NodeLoad]
    slots: list[SlotLoad]
    big_keys: list[BigKey]
    hash_tags: list[KeyGroup]
    prefixes: list[KeyGroup]
    ttl_buckets: list[TtlBucket]
    bad_records: int = 0
    is_partial: bool = False
    log: LogLoad | None = None
    memory: MemoryBasis | None = None
    use: UseReport | None = None
    savings: SavingsReport | None = None
    sizes: list[SizeRange] = field(default_factory=list)
    """By what keys are weighed by: their memory, or their bytes in the dumps."""
    elements: list[SizeRange] = field(default_factory=list)

    @property
    def keys(self) -> int:
        """All keys of the snapshot."""
        return sum(slot.keys for slot in self.slots)

    @property
    def partial_words(self) -> list[str]:
        """What of its inputs could not be read, in sentences; empty for a whole snapshot."""
        said = [warning.text for warning in self.warnings if warning.code == Code.PARTIAL]
        return said or (["partial: some of its inputs could not be read"] if self.is_partial else [])
