"""The tables of a snapshot from its partial sums, wherever these are: which rows, which step over pieces of them, what becomes of what that leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial as bind

import pyarrow as pa

from schemas import interim
from slotscope.transforms import key_distribution, key_groups, key_kinds, largest_keys
from slotscope.transforms.findings import Foreign, SuspiciousSlot
from slotscope.transforms.partial_sums import PartialSums


def keys_by_owner(partial: PartialSums) -> list[Foreign]:
    """Keys of each file by the owner of their slots; of a log that is not replayed, the writes."""
    return key_distribution.keys_by_owner(
        partial.of(interim.OWNER, interim.LOG_SLOT, step=key_distribution.owned_keys, by="source")
    )


def suspicious_slots(partial: PartialSums) -> list[SuspiciousSlot]:
    """Slots of cluster dumps that hold another number of keys than they declare, or are in several dumps."""
    return key_distribution.suspicious_slots(
        partial.of(interim.DECLARED, step=key_distribution.suspicious_rows, by="slot")
    )


@dataclass(frozen=True, slots=True)
class SnapshotTables:
    """Makes the tables of *partial*.

    *nodes* says whose data each source holds (None without topology), *known* names the loads that some input knows, and what it says of how keys
    are used. Listed are *top* keys, *top_per_slot* of a slot, and so many *groups*.
    """

    partial: PartialSums
    nodes: Mapping[str, str | None] | None
    known: frozenset[str]
    top: int
    top_per_slot: int
    groups: int

    def slot_load(self, owners: Sequence[str | None]) -> pa.Table:
        """Every slot on every node that owns it or holds keys of it."""
        held = self.partial.of(
            interim.SLOT, interim.LOG_SLOT, step=bind(key_distribution.held_slots, nodes=self.nodes), by="slot"
        )
        return key_distribution.slot_load(held, owners, self.known)

    def big_keys(self) -> pa.Table:
        """The largest keys of the cluster and of each node, slot and type."""
        listed = {"top": self.top, "top_per_slot": self.top_per_slot}
        step = bind(largest_keys.largest_of, nodes=self.nodes, **listed)
        found = self.partial.of(interim.TOP_TYPE, interim.TOP_OWNER, interim.TOP_SLOT, step=step, by="slot")
        return largest_keys.big_keys(largest_keys.largest(found, **listed))

    def hash_tags(self) -> pa.Table:
        """The heaviest tags by keys, and by memory or bytes."""
        top = self._heaviest(interim.TAG, key_groups.heaviest_tags)
        return top.rename_columns({"name": "hash_tag", "name_text": "hash_tag_text", "owner_id": "node_id"})

    def prefixes(self) -> pa.Table:
        """The heaviest prefixes of each depth, of which `key_prefixes` and `key_use` are made."""
        return self._heaviest(interim.PREFIX, key_groups.heaviest_prefixes)

    def _heaviest(self, kind: int, heaviest: Callable[[pa.Table, int], pa.Table]) -> pa.Table:
        """The groups of *kind* that are *heaviest* of what each piece of the rows leaves of them."""
        missed = key_groups.missed_of(self.partial.told, kind)
        step = bind(_heaviest_of, heaviest=heaviest, missed=missed, known=self.known, count=self.groups)
        return heaviest(self.partial.of(kind, step=step, by="name"), self.groups)

    def key_use(self, prefixes: pa.Table) -> pa.Table:
        """How keys are used, of the cluster, each node, each slot and the heaviest *prefixes*."""
        slots = self.partial.of(interim.SLOT, step=bind(key_groups.slot_uses, nodes=self.nodes), by="slot")
        return key_groups.key_use(slots, prefixes, self.known)

    def key_types(self) -> pa.Table:
        """Keys and loads per node and type."""
        return key_kinds.key_types(self._by_kind(interim.TYPE, "type"))

    def key_sizes(self) -> pa.Table:
        """Keys per node, type and range of sizes or elements."""
        return key_kinds.key_sizes(self._by_kind(interim.RANGE, "number"))

    def ttl_buckets(self) -> pa.Table:
        """Keys and bytes per node and remaining time to live."""
        return key_kinds.ttl_buckets(self._by_kind(interim.TTL, "number"))

    def _by_kind(self, kind: int, by: str) -> pa.Table:
        return self.partial.of(kind, step=bind(key_kinds.by_kind, nodes=self.nodes), by=by)


def key_prefixes(top: pa.Table) -> pa.Table:
    """Rows of ``gold/key_prefixes`` from `SnapshotTables.prefixes`."""
    return top.rename_columns({"name": "prefix", "name_text": "prefix_text"})


def _heaviest_of(
    rows: pa.Table,
    heaviest: Callable[[pa.Table, int], pa.Table],
    missed: pa.Table,
    known: frozenset[str],
    count: int,
) -> pa.Table:
    return heaviest(key_groups.groups(rows, missed, known), count)
