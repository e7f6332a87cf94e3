"""The sums of the keys of one unit: per slot, the largest, heavy tags and prefixes, times to live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.formats.rdb.grammar import KEY_TYPES
from cluster_core.kernels.columns import encoding_names, known, memory_columns, part_of, type_names
from cluster_core.kernels.group_tally import GroupTally
from cluster_core.kernels.key_batch import NONE, KeyBatch
from cluster_core.kernels.key_slots import key_slots
from cluster_core.kernels.key_use import USES, KeyUses, add_by_slot
from cluster_core.kernels.slot_tally import SlotTally, TtlTally, TypeTally
from cluster_core.kernels.top_keys import TopKeys
from cluster_core.load.access_rate import accesses_per_s
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import PREFIX, SLOT, TAG, TOP_OWNER, TOP_SLOT, TOP_TYPE, TTL, TYPE, UnitFacts
from slotscope.sources.partial_rows import PartialRows, TallyOptions, amount_lists

_UNKNOWN_TYPE = len(KEY_TYPES)


@dataclass(slots=True)
class Knows:
    """Which loads of its keys a unit knows."""

    sizes: bool = False
    expiry: bool = False
    memory: bool = False


class KeySums:
    """Add batches of keys; `yield_rows` makes their partial rows.  *declared* is what slots are said to hold, *ops* what was done with them."""

    def __init__(self, rows: PartialRows, options: TallyOptions, knows: Knows) -> None:
        self.keys = 0
        self.slots = SlotTally()
        self.knows = knows
        self.ops: NDArray[np.int64] | None = None
        self.declared = np.full(SLOT_COUNT, NONE, np.int64)
        self.ttl: TtlTally | None = None
        self.uses: KeyUses | None = None
        self._rows = rows
        self._options = options
        if options.details:
            self._top_slot = TopKeys(SLOT_COUNT, options.top_per_slot)
            self._top_type = TopKeys(_UNKNOWN_TYPE + 1, options.top)
            self._top_owner = TopKeys(int(rows.owner_of.max()) + 1, options.top if options.owners else 0)
            self._types = TypeTally()
            self._tags = GroupTally(options.groups_max)
            self._prefixes = GroupTally(options.groups_max, len(USES))
            self._slot_uses = np.zeros((SLOT_COUNT, len(USES)), np.int64)

    def add(self, batch: KeyBatch) -> None:
        """Count the keys of *batch*."""
        options = self._options
        self.keys += len(batch)
        self.slots.add(batch)
        if not options.details:
            return
        if self.ttl is not None:
            self.ttl.add(batch)
        self._types.add(batch)
        if self.knows.sizes:
            self._top_slot.add(batch, batch.slot.astype(np.int64))
            self._top_type.add(batch, np.minimum(batch.type, _UNKNOWN_TYPE).astype(np.int64))
            if options.owners:
                self._top_owner.add(batch, self._rows.owner_of[batch.slot])
        self._tags.add_tags(batch)
        amounts = None if self.uses is None else self.uses.amounts(batch)
        if amounts is not None:
            add_by_slot(batch.slot, amounts, self._slot_uses)
        self._prefixes.add_prefixes(batch, options.separators, options.prefix_depth, amounts)

    def set_time(self, taken_at_ms: int) -> None:
        """Say when the keys were as they are, from when on it is counted how long they stay."""
        self.ttl = TtlTally(taken_at_ms)
        self.uses = KeyUses(taken_at_ms, accesses_per_s(self._options.lfu))

    def add_slots(self, slots: NDArray[np.uint16], sizes: NDArray[np.int64] | None) -> None:
        """Count keys of which only the slots are wanted."""
        self.keys += len(slots)
        self.slots.add_slots(slots, sizes)

    def add_ops(self, slots: NDArray[np.uint16], ops: NDArray[np.int64]) -> None:
        """Count operations on keys of *slots*."""
        if self.ops is None:
            self.ops = np.zeros(SLOT_COUNT, np.int64)
        np.add.at(self.ops, slots, np.maximum(ops, 0))

    def note(self, facts: UnitFacts) -> None:
        """Say what the sums know, and how much of a group that is not listed they may have missed."""
        facts.keys = self.keys
        facts.knows_serialized_bytes = self.knows.sizes
        facts.knows_expires = self.knows.expiry
        facts.knows_memory_bytes = self.knows.memory
        facts.knows_ops = self.ops is not None
        if self.uses is not None:
            facts.knows_idle, facts.knows_counters = self.uses.knows_idle, self.uses.knows_counters
        if self._options.details:
            tags, prefixes = self._tags, self._prefixes
            facts.missed_tag_keys, facts.missed_tag_bytes = tags.missed_keys, tags.missed_bytes
            facts.missed_prefix_keys, facts.missed_prefix_bytes = prefixes.missed_keys, prefixes.missed_bytes
            facts.missed_tag_memory, facts.missed_prefix_memory = tags.missed_memory, prefixes.missed_memory
            facts.untracked_keys = int(tags.untracked_keys + prefixes.untracked_keys)

    def slot_rows(self) -> pa.RecordBatch:
        """Keys and loads per slot."""
        present = np.flatnonzero((self.slots.slots[:, 0] > 0) | (self.declared > 0))
        keys, sizes, expires = (self.slots.slots[present, column] for column in range(3))
        return self._rows.of(
            SLOT, len(present),
            slot=pa.array(present), keys=pa.array(keys),
            **({"serialized_bytes": pa.array(sizes)} if self.knows.sizes else {}),
            **({"expires": pa.array(expires)} if self.knows.expiry else {}),
            **({"ops": pa.array(self.ops[present])} if self.ops is not None else {}),
            **({"memory_bytes": pa.array(self.slots.memory[present])} if self.knows.memory else {}),
            number=pa.array(self.declared[present]),
            **({"amounts": amount_lists(self._slot_uses[present])} if self._options.details else {}),
        )  # fmt: skip

    def detail_rows(self) -> Iterator[pa.RecordBatch]:
        """The largest keys, heavy groups and times to live."""
        if not self._options.details:
            return
        for kind, top in ((TOP_SLOT, self._top_slot), (TOP_TYPE, self._top_type), (TOP_OWNER, self._top_owner)):
            yield self._top_rows(kind, top)
        yield self._type_rows()
        yield self._rows.groups(TAG, self._tags, "keys", slot=pa.array(key_slots(self._tags.names())))
        yield self._rows.groups(PREFIX, self._prefixes, "keys", amounts=amount_lists(self._prefixes.amounts()))
        if self.ttl is not None:
            keys, sizes = self.ttl.buckets.T
            yield self._rows.of(
                TTL, len(keys),
                number=pa.array(np.arange(len(keys))), keys=pa.array(keys), serialized_bytes=pa.array(sizes),
            )  # fmt: skip

    def _type_rows(self) -> pa.RecordBatch:
        present = np.flatnonzero(self._types.counts[:, 0])
        keys, sizes, expires, memory = self._types.counts[present].T
        knows = self.knows
        return self._rows.of(
            TYPE, len(present), type=type_names(present), keys=pa.array(keys),
            **({"serialized_bytes": pa.array(sizes)} if knows.sizes else {}),
            **({"expires": pa.array(expires)} if knows.expiry else {}),
            **({"memory_bytes": pa.array(memory)} if knows.memory else {}),
        )  # fmt: skip

    def _top_rows(self, kind: int, top: TopKeys) -> pa.RecordBatch:
        facts = top.facts()
        names = top.keys()
        group, db, slot, tag_start, tag_length, type_, encoding, elements, size, expire, idle, freq, offset = facts.T[
            :13
        ]
        memory_bytes, estimate = memory_columns(facts.T[13], facts.T[14], len(facts))
        return self._rows.of(
            kind, len(facts),
            name=names, hash_tag=part_of(names, tag_start, tag_length), slot=pa.array(slot), db=pa.array(db), number=pa.array(group),
            type=type_names(type_), encoding=encoding_names(encoding), elements=known(elements, pa.int64()),
            serialized_bytes=known(size, pa.int64()), expire_at_ms=known(expire, pa.int64()),
            idle_s=known(idle, pa.int64()), freq=known(freq, pa.int16()), offset=known(offset, pa.int64()),
            memory_bytes=memory_bytes, estimate=estimate,
        )  # fmt: skip
