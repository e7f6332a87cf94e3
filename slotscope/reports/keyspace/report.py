"""The report on a snapshot as values: rows of its tables, and one `SlotLoad` a slot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.caveats import Caveat, Code

if TYPE_CHECKING:
    from cluster_core.memory.model import MemoryBasis
    from slotscope.reports.keyspace.key_use import UseReport
    from slotscope.reports.keyspace.log_load import LogLoad
    from slotscope.reports.keyspace.savings import SavingsReport
    from slotscope.reports.records import Row

SLOT_COUNT = 16384


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
class KeyspaceReport:
    """One snapshot, every list in the order of its tables on the page; *log* is None without append-only logs, *memory* without a model.

    Rows of *hash_tags* and *prefixes* have a *name*; their figures are at most *keys_error*, *bytes_error* and *memory_error* too low.  The
    *unread_share* of a node or a source is None where it is unknown.
    """

    snapshot_id: str
    taken_at_ms: int | None
    sources: list[Row]
    warnings: list[Caveat]
    nodes: list[Row]
    slots: list[SlotLoad]
    big_keys: list[Row]
    hash_tags: list[Row]
    prefixes: list[Row]
    ttl_buckets: list[Row]
    root: str = ""
    bad_records: int = 0
    is_partial: bool = False
    log: LogLoad | None = None
    memory: MemoryBasis | None = None
    use: UseReport | None = None
    savings: SavingsReport | None = None
    sizes: list[Row] = field(default_factory=list)
    """Keys by memory, or by dump bytes where memory is unknown: from *at_least* to below its double."""
    elements: list[Row] = field(default_factory=list)

    @property
    def keys(self) -> int:
        """All keys of the snapshot."""
        return sum(slot.keys for slot in self.slots)

    @property
    def partial_words(self) -> list[str]:
        """The parts of its inputs that could not be read, in sentences; empty for a whole snapshot."""
        lines = [warning.text for warning in self.warnings if warning.code == Code.PARTIAL]
        return lines or (["partial: some of its inputs could not be read"] if self.is_partial else [])
