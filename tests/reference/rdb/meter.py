"""Adds up what the parts of one value cost while a skim passes over them."""

from __future__ import annotations

from cluster_core.memory.model import (
    LISTPACKEX_BYTES,
    LONG_ELEMENT_BYTES,
    PENDING_BYTES,
    QUICKLIST_BYTES,
    UNMEASURED,
)
from cluster_core.memory.tables import UNIT_BITS
from cluster_core.rdb import grammar as of
from tests.reference.rdb.plain_model import PlainModel
from tests.reference.rdb.radix import RadixTree

_HALF = 1 << (UNIT_BITS - 1)


class KeyMeter:
    """The parts of one value: `begin`, then whatever is met, then `finish`."""

    def __init__(self, model: PlainModel) -> None:
        self.model = model
        self._tree = RadixTree(model.allocator)
        self.begin(of.VALUE_TYPES[0])

    def begin(self, row: of.ValueType) -> None:
        """A value of that type begins."""
        self._row = row
        self._kind = row.measure
        self._bytes = 0
        self._units = 0
        self._known = row.name in self.model.layout.types
        self._field = self._value = -1
        self._expires = self._has_long = self._has_text = False
        self._expiring = 0
        self._node = 0
        self._nodes_compressed = 0
        self._is_first_raw = self._is_last_raw = self._has_lzf = False
        if row.layout == of.L_STREAM:
            self._tree.clear()

    # Elements.

    def text(self, length: int, is_integer: bool) -> None:
        """A member, a field or a value of a hash, a member with its score."""
        self._has_long |= length >= LONG_ELEMENT_BYTES
        self._has_text |= not is_integer
        if self._kind == of.M_SET:
            self._bytes += self.model.set_member_bytes(length)
        elif self._kind == of.M_ZSET:
            self._units += self.model.scored_member_units(length)
        elif self._field < 0:
            self._field = length
        elif self._row.element == of.E_EXPIRY_AFTER:
            self._value = length
        else:
            self._add_field(length)

    def expiry_before(self, expires: bool) -> None:
        """The field that follows *expires* or not (Redis 7.4)."""
        self._expires = expires

    def expiry_after(self, expires: bool) -> None:
        """The field and value that came last expire or not (Valkey 9)."""
        self._expires = expires
        self._expiring += expires
        self._add_field(self._value)

    def _add_field(self, value_length: int) -> None:
        self._bytes += self.model.field_bytes(self._field, value_length, self._expires)
        self._field = -1

    # Packed values.

    def packed(self, length: int) -> None:
        """The packed value of *length* bytes."""
        self._bytes += self.model.packed_bytes(length)

    def list_node(self, place: int, count: int, length: int, lzf_length: int) -> None:
        """Node number *place* of *count* of a list: *length* bytes, in the dump compressed to *lzf_length*, or -1."""
        model = self.model
        is_lzf = lzf_length >= 0
        compressed = model.compressed_node_bytes(lzf_length) if is_lzf else model.list_node_bytes(length)
        plain = model.list_node_bytes(length)
        depth = model.compress_depth
        self._bytes += compressed if depth and depth <= place < count - depth else plain
        self._nodes_compressed += compressed
        self._has_lzf |= is_lzf
        self._is_first_raw |= not place and not is_lzf
        self._is_last_raw = not is_lzf

    # Streams.

    def stream_id(self, id_: bytes) -> None:
        """The id that a node of a stream begins with, or one of a list of pending entries; empty if it could not be seen."""
        if id_:
            self._tree.add(id_)
        else:
            self._known = False

    def stream_node(self, length: int) -> None:
        """The listpack of a node."""
        if self._node:
            self._bytes += self.model.allocated(self._node)
        self._node = length

    def stream_nodes_end(self) -> None:
        """All nodes of a stream were seen."""
        if self._node:
            self._bytes += self.model.last_stream_node_bytes(self._node)
        self._bytes += self.model.layout.stream + self._tree_bytes()

    def group_pending_end(self) -> None:
        """All pending entries of a group were seen."""
        self._bytes += self.model.layout.group + PENDING_BYTES * self._tree.count + self._tree_bytes()

    def consumer_pending_end(self, name_length: int) -> None:
        """All pending entries of the consumer whose name has *name_length* bytes were seen."""
        self._bytes += self.model.layout.consumer + name_length + self._tree_bytes()

    def _tree_bytes(self) -> int:
        return self.model.tree_bytes(*self._tree.finish())

    # The whole.

    def finish(self, encoding: int, elements: int, key_length: int, expires: bool) -> int:
        """Return the size of the key in bytes, or `UNMEASURED` where the layout is not known."""
        if not self._known:
            return UNMEASURED
        model, kind = self.model, self._kind
        if kind == of.M_STRING:
            return model.string_bytes(key_length, expires, encoding, elements)
        total, units = self._bytes + model.key_bytes(key_length, expires), self._units
        if kind == of.M_LIST:
            if encoding == of.LISTPACK:
                return total - model.layout.list_node
            if self._is_first_raw and self._is_last_raw and self._has_lzf and not model.compress_depth:
                total += self._nodes_compressed - self._bytes
            return total + QUICKLIST_BYTES
        layout = model.layout
        if kind == of.M_SET:
            low, high = layout.set_presized if self._has_text else layout.integers_presized
            units += model.table_units(elements, 1, low <= elements <= high)
        elif kind == of.M_HASH:
            low, high = layout.hash_presized
            units += model.table_units(elements, layout.hash_steps, low <= elements <= high and not self._has_long)
            total += layout.hash_extra + model.expiring_fields_bytes(self._expiring)
        elif kind == of.M_ZSET:
            low, high = layout.zset_presized
            units += model.table_units(elements, 2, low <= elements <= high)
            total += model.zset_bytes()
        elif kind == of.M_PACKED_EXPIRY:
            total += model.allocated(LISTPACKEX_BYTES)
        return total + ((units + _HALF) >> UNIT_BITS)
