"""The sums of the keys of a task's inputs: per slot, the largest, heavy tags and prefixes, times to live."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.key_batch import KeyBatch, encoding_names, known, memory_columns, part_of, type_names
from cluster_core.kernels.key_slots import key_slots
from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.kernels.keys.slot_tally import USES, KeyTally, KeyUses, TopKeys, add_by_group
from cluster_core.load.key_use import accesses_per_s
from cluster_core.rdb.grammar import KEY_TYPES
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas import interim
from slotscope.sources.keys.partial_rows import PartialRows, TallyOptions, amount_lists

_UNKNOWN_TYPE = len(KEY_TYPES)
_PLACE_BITS = 44
"""A key's place among all inputs of a task: the input's number above, its offset, from 1, in this number of bits (16 TB)."""


@dataclass(slots=True)
class KnownLoads:
    """The loads that an input has for each key."""

    sizes: bool = False
    expiry: bool = False
    memory: bool = False

    def columns(self, sums: NDArray[np.int64]) -> dict[str, pa.Array]:
        """The columns of *sums* (int64[rows, 4]: keys, bytes, expiring keys, memory) that are known."""
        keys, sizes, expires, memory = map(pa.array, sums.T)
        columns = {"keys": keys}
        columns |= {"serialized_bytes": sizes} if self.sizes else {}
        columns |= {"expires": expires} if self.expiry else {}
        return columns | ({"memory_bytes": memory} if self.memory else {})


class InputSums:
    """Sums of one input; its node is known only at its end; *ops* are operations by slot."""

    def __init__(self, source: str, options: TallyOptions, owners: int, loads: KnownLoads) -> None:
        self.source = source
        self._options = options
        self.loads = loads
        self.keys = 0
        self.untracked_before = 0
        self.tally = KeyTally()
        self.ops: NDArray[np.int64] | None = None
        self.uses: KeyUses | None = None
        self.slot_uses: NDArray[np.int64] = np.zeros((SLOT_COUNT, len(USES)), np.int64)
        self.top_type = TopKeys(_UNKNOWN_TYPE + 1, options.top if options.details else 0)
        self.top_owner = TopKeys(owners, options.top if options.details and options.topology else 0)

    def set_time(self, taken_at_ms: int) -> None:
        """Set the time of the dump, from which times to live count."""
        self.tally.set_time(taken_at_ms)
        self.uses = KeyUses(taken_at_ms, accesses_per_s(self._options.lfu))


class NodeSums:
    """Sums of all inputs of one node; *source* is the first of them."""

    def __init__(self, source: str, loads: KnownLoads, options: TallyOptions) -> None:
        self.source = source
        self.loads = loads
        self.tally = KeyTally()
        self.ops: NDArray[np.int64] | None = None
        self.slot_uses: NDArray[np.int64] = np.zeros((SLOT_COUNT, len(USES)), np.int64)
        self.top = TopKeys(1, options.top if options.details and options.topology else 0)

    def add(self, part: InputSums) -> None:
        """Add the sums of one input."""
        self.tally.merge(part.tally)
        if part.uses is not None:
            present = np.flatnonzero(part.tally.slots[:, 0])
            self.slot_uses[present] += part.slot_uses[present]
        if part.ops is not None:
            self.ops = part.ops if self.ops is None else self.ops + part.ops


class KeySums:
    """Sum the keys of one input after the other: `begin` it, `add` its batches, `end` it; then take the rows of all.

    Inputs are read in the order of their names, so that of equally large keys the first of all stays.
    """

    def __init__(self, rows: PartialRows, options: TallyOptions) -> None:
        self._rows = rows
        self._options = options
        self._owners = int(rows.owner_of.max()) + 1
        self._sources: list[str] = []
        self._nodes: dict[tuple[str | bool | None, ...], NodeSums] = {}
        self._owned: list[tuple[str, NDArray[np.int64]]] = []
        if options.details:
            self._top_slot = TopKeys(SLOT_COUNT, options.top_per_slot)
            self._top_type = TopKeys(_UNKNOWN_TYPE + 1, options.top)
            self._top_owner = TopKeys(self._owners, options.top if options.topology else 0)
            self._tags = GroupTally(options.groups_max)
            self._prefixes = GroupTally(options.groups_max, len(USES))

    def begin(self, source: str, loads: KnownLoads) -> InputSums:
        """Begin an input that has at least these *loads*."""
        self._sources.append(source)
        part = InputSums(source, self._options, self._owners, loads)
        part.untracked_before = self._untracked()
        return part

    def add(self, part: InputSums, batch: KeyBatch) -> None:
        """Count the keys of *batch*, a piece of *part*."""
        options = self._options
        part.keys += len(batch)
        part.tally.add(batch, details=options.details)
        if not options.details or not len(batch):
            return
        if part.loads.sizes:
            placed = dataclasses.replace(batch, offset=batch.offset + ((len(self._sources) - 1 << _PLACE_BITS) + 1))
            self._top_slot.add(placed, batch.slot.astype(np.int64))
            part.top_type.add(placed, np.minimum(batch.type, _UNKNOWN_TYPE).astype(np.int64))
            if options.topology:
                part.top_owner.add(placed, self._rows.owner_of[batch.slot])
        self._tags.add_tags(batch)
        amounts = None if part.uses is None else part.uses.amounts(batch)
        if amounts is not None:
            add_by_group(batch.slot, amounts, part.slot_uses)
        self._prefixes.add_prefixes(batch, options.separators, options.prefix_depth, amounts)

    def add_slots(self, part: InputSums, slots: NDArray[np.uint16], sizes: NDArray[np.int64] | None) -> None:
        """Count keys of *part* by slot only."""
        part.keys += len(slots)
        part.tally.add_slots(slots, sizes)

    def add_ops(self, part: InputSums, slots: NDArray[np.uint16], ops: NDArray[np.int64]) -> None:
        """Count operations on keys of *slots*."""
        if part.ops is None:
            part.ops = np.zeros(SLOT_COUNT, np.int64)
        np.add.at(part.ops, slots, np.maximum(ops, 0))

    def keys_by_owner(self, part: InputSums) -> dict[str | None, int]:
        """Count the keys of *part* by the owner of their slots, None for nobody."""
        counts = self._owner_counts(part)
        owners = np.flatnonzero(counts)
        return dict(zip(self._rows.owner_ids_of(owners).to_pylist(), counts[owners].tolist(), strict=True))

    def end(
        self, part: InputSums, facts: interim.UnitFacts, node_id: str | None = None, *, is_whole: bool = False
    ) -> None:
        """Add the sums of *part* to those of its node, and write its loads to *facts*.

        Whole inputs of one node, or of no known node, share their sums if they have the same loads. A piece of a file has its own sums: its
        node is known only when all pieces are read.
        """
        key = (node_id, None if is_whole else part.source, part.loads.sizes, part.loads.memory, part.ops is not None)
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = NodeSums(part.source, part.loads, self._options)
        node.add(part)
        if self._options.topology:
            self._owned.append((part.source, self._owner_counts(part)))
        self._note(part, facts)
        if not self._options.details:
            return
        self._top_type.merge(part.top_type)
        if self._options.topology and node_id is None:
            self._top_owner.merge(part.top_owner)
        if self._options.topology and not (is_whole and node_id is None):
            node.top.merge(part.top_type, np.zeros(len(part.top_type.facts()), np.int64))

    def _owner_counts(self, part: InputSums) -> NDArray[np.int64]:
        counts = np.zeros(self._owners, np.int64)
        np.add.at(counts, self._rows.owner_of, part.tally.slots[:, 0])
        return counts

    def _untracked(self) -> int:
        return int(self._tags.untracked_keys + self._prefixes.untracked_keys) if self._options.details else 0

    def _note(self, part: InputSums, facts: interim.UnitFacts) -> None:
        facts.source = part.source
        facts.keys = part.keys
        facts.knows_serialized_bytes = part.loads.sizes
        facts.knows_expires = part.loads.expiry
        facts.knows_memory_bytes = part.loads.memory
        facts.knows_ops = part.ops is not None
        if part.uses is not None:
            facts.knows_idle, facts.knows_counters = part.uses.knows_idle, part.uses.knows_counters
        if self._options.details:
            facts.untracked_keys = self._untracked() - part.untracked_before

    def note_missed(self, facts: interim.UnitFacts) -> None:
        """Write to the *facts* of the first input, once all have ended, the upper bounds of groups that are not listed."""
        if self._options.details:
            tags, prefixes = self._tags, self._prefixes
            facts.missed_tag_keys, facts.missed_tag_bytes = tags.missed_keys, tags.missed_bytes
            facts.missed_prefix_keys, facts.missed_prefix_bytes = prefixes.missed_keys, prefixes.missed_bytes
            facts.missed_tag_memory, facts.missed_prefix_memory = tags.missed_memory, prefixes.missed_memory

    def yield_rows(self) -> Iterator[pa.RecordBatch]:
        """Keys and loads per slot and node, the keys of each input by owner, and the details: largest keys, heavy groups, times to live."""
        for node in self._nodes.values():
            yield self._slot_rows(node)
        if self._owned:
            yield self._owner_rows()
        if self._options.details:
            yield from self._detail_rows()

    def _slot_rows(self, node: NodeSums) -> pa.RecordBatch:
        present = np.flatnonzero(node.tally.slots[:, 0])
        return self._rows.of(
            interim.SLOT, len(present),
            source=_repeated(node.source, len(present)), slot=pa.array(present),
            **node.loads.columns(node.tally.slots[present]),
            **({"ops": pa.array(node.ops[present])} if node.ops is not None else {}),
            **({"amounts": amount_lists(node.slot_uses[present])} if self._options.details else {}),
        )  # fmt: skip

    def _owner_rows(self) -> pa.RecordBatch:
        """Keys of each input by the owner of their slots."""
        places = [np.flatnonzero(counts) for _, counts in self._owned]
        sources = np.repeat(np.arange(len(places)), [len(result) for result in places])
        owners = np.concatenate(places)
        keys = np.concatenate([counts[result] for (_, counts), result in zip(self._owned, places, strict=True)])
        names = pa.array([source for source, _ in self._owned], pa.string())
        return self._rows.of(
            interim.OWNER, len(owners), source=names.take(pa.array(sources)), owner_id=self._rows.owner_ids_of(owners), keys=pa.array(keys)
        )  # fmt: skip

    def _detail_rows(self) -> Iterator[pa.RecordBatch]:
        yield self._top_rows(interim.TOP_SLOT, self._top_slot)
        yield self._top_rows(interim.TOP_TYPE, self._top_type)
        for top in (self._top_owner, *(node.top for node in self._nodes.values())):
            yield self._top_rows(interim.TOP_OWNER, top)
        for node in self._nodes.values():
            yield self._type_rows(node)
            yield self._range_rows(node)
            if node.tally.ttl is not None:
                yield self._ttl_rows(node.source, node.tally.ttl)
        yield self._rows.groups(interim.TAG, self._tags, "keys", slot=pa.array(key_slots(self._tags.names())))
        yield self._rows.groups(interim.PREFIX, self._prefixes, "keys", amounts=amount_lists(self._prefixes.amounts()))

    def _ttl_rows(self, source: str, buckets: NDArray[np.int64]) -> pa.RecordBatch:
        keys, sizes = buckets.T
        return self._rows.of(
            interim.TTL, len(keys), source=_repeated(source, len(keys)),
            number=pa.array(np.arange(len(keys))), keys=pa.array(keys), serialized_bytes=pa.array(sizes),
        )  # fmt: skip

    def _type_rows(self, node: NodeSums) -> pa.RecordBatch:
        present = np.flatnonzero(node.tally.types[:, 0])
        return self._rows.of(
            interim.TYPE, len(present), source=_repeated(node.source, len(present)), type=type_names(present),
            **node.loads.columns(node.tally.types[present]),
        )  # fmt: skip

    def _range_rows(self, node: NodeSums) -> pa.RecordBatch:
        """Keys by size and by elements, each range twice as wide as the one before."""
        measure, types, bits = np.nonzero(node.tally.ranges[:, :, :, 0])
        keys, sums = node.tally.ranges[measure, types, bits].T
        names = pa.array(["memory_bytes" if node.loads.memory else "serialized_bytes", "elements"])
        return self._rows.of(
            interim.RANGE, len(keys), source=_repeated(node.source, len(keys)), type=type_names(types), number=pa.array(bits),
            text=names.take(pa.array(measure)), keys=pa.array(keys), offset=pa.array(sums),
        )  # fmt: skip

    def _top_rows(self, kind: int, top: TopKeys) -> pa.RecordBatch:
        facts = top.facts()
        names = top.keys()
        group, db, slot, tag_start, tag_length, type_, encoding, elements, size, expire, idle, freq, place = facts.T[
            :13
        ]
        memory_bytes, estimate = memory_columns(facts.T[13], facts.T[14], len(facts))
        offset = (place & ((1 << _PLACE_BITS) - 1)) - 1
        return self._rows.of(
            kind, len(facts), source=pa.array(self._sources, pa.string()).take(pa.array(place >> _PLACE_BITS)),
            name=names, hash_tag=part_of(names, tag_start, tag_length), slot=pa.array(slot), db=pa.array(db), number=pa.array(group),
            type=type_names(type_), encoding=encoding_names(encoding), elements=known(elements, pa.int64()),
            serialized_bytes=known(size, pa.int64()), expire_at_ms=known(expire, pa.int64()),
            idle_s=known(idle, pa.int64()), freq=known(freq, pa.int16()), offset=known(offset, pa.int64()),
            memory_bytes=memory_bytes, estimate=estimate,
        )  # fmt: skip


def _repeated(text: str, count: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(count, np.int8)))
