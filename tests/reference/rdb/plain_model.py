"""The memory model as plain functions: what the compiled sizes are compared with."""

from __future__ import annotations

from cluster_core.memory.layouts import (
    DICT,
    EMBSTR_ALLOCATED,
    EMBSTR_FOR_POINTER,
    EMBSTR_LENGTH,
    FIELD_APART,
    FIELD_MSTR,
    KEY_APART,
    KEY_IN_ENTRY,
)
from cluster_core.memory.model import (
    ENTRY_BYTES,
    ENTRY_EMBEDS_BYTES_MAX,
    EXPIRY_RESERVED_KEY_BYTES,
    GUESSED_NODE_BYTES,
    ID_BYTES,
    LZF_BYTES,
    OBJECT_BYTES,
    STREAM_NODE_BYTES,
    MemoryModel,
)
from cluster_core.memory.strings import embedded_sds_bytes, field_sds_bytes, mstr_bytes, sds_bytes
from cluster_core.memory.tables import UNIT_BITS, bucket_table_units, dict_slots
from cluster_core.rdb.grammar import EMBSTR, INT


class PlainModel(MemoryModel):
    """`MemoryModel` with the size of each part of a key."""

    def key_bytes(self, key_length: int, expires: bool) -> int:
        """Return what a key costs besides its value: entry, name and object (`memoryCommand`)."""
        place = self.layout.key_place
        if place == KEY_APART:
            link = self.layout.slot_link if self.cluster else 0
            return ENTRY_BYTES + link + self.allocated(sds_bytes(key_length)) + OBJECT_BYTES
        if place == KEY_IN_ENTRY:
            return self.allocated(17 + embedded_sds_bytes(key_length)) + OBJECT_BYTES
        return self.allocated(OBJECT_BYTES + self._embedded_key(key_length, expires))

    def _embedded_key(self, key_length: int, expires: bool) -> int:
        is_reserved = expires or key_length >= EXPIRY_RESERVED_KEY_BYTES
        return embedded_sds_bytes(key_length) + 1 + (8 if is_reserved else 0)

    def string_bytes(self, key_length: int, expires: bool, encoding: int, length: int) -> int:
        """Return the size of a key that holds a string of *length* in *encoding*.

        A string that is too long to be embedded beside an expiry is embedded all the same where its key got the expiry later and
        the allocation had eight bytes to spare (`objectSetExpire`).
        """
        if encoding == INT:
            return self.key_bytes(key_length, expires)
        form = self.layout.embstr
        if encoding != EMBSTR:
            if expires and form == EMBSTR_FOR_POINTER and not self.loaded:
                whole = OBJECT_BYTES - 8 + 1 + embedded_sds_bytes(key_length) + length + 4
                room = self.allocated(whole)
                if whole <= self.layout.embeds_max and room >= whole + 8:
                    return room
            return self.key_bytes(key_length, expires) + self.allocated(sds_bytes(length))
        if form == EMBSTR_LENGTH:
            return self.key_bytes(key_length, expires) + length + 2
        if form == EMBSTR_ALLOCATED:
            whole = self.allocated(OBJECT_BYTES + 4 + length)
            return self.key_bytes(key_length, expires) - OBJECT_BYTES + whole
        head = OBJECT_BYTES - (8 if form == EMBSTR_FOR_POINTER else 0) + (8 if expires else 0)
        return self.allocated(head + 1 + embedded_sds_bytes(key_length) + length + 4)

    def packed_bytes(self, length: int) -> int:
        """Return the size of a packed value (listpack, ziplist, intset) of *length* bytes."""
        return length if self.layout.packed_exact else self.allocated(length)

    def list_node_bytes(self, length: int) -> int:
        """Return the size of a node of a list that holds *length* bytes."""
        return self.layout.list_node + self.packed_bytes(length)

    def compressed_node_bytes(self, length: int) -> int:
        """Return the size of a node that is compressed in memory to *length* bytes (``quicklistLZF``)."""
        return self.layout.list_node + self.allocated(LZF_BYTES + length)

    def set_member_bytes(self, length: int) -> int:
        """Return the size of a member of a set that is a hash table."""
        return self.layout.set_entry + self.allocated(sds_bytes(length))

    def field_bytes(self, length: int, value_length: int, expires: bool) -> int:
        """Return the size of a field and its value in a hash table (`hashTypeSet`, `entryMemUsage`)."""
        form = self.layout.field_form
        value = self.allocated(sds_bytes(value_length))
        if form == FIELD_APART:
            return self.layout.hash_entry + self.allocated(sds_bytes(length)) + value
        if form == FIELD_MSTR:
            return self.layout.hash_entry + self.allocated(mstr_bytes(length, expires)) + value
        expiry = 8 if expires else 0
        name = field_sds_bytes(length) if expires else embedded_sds_bytes(length)
        whole = expiry + name + value_length + 4  # an ``sdshdr8``
        if whole <= ENTRY_EMBEDS_BYTES_MAX:
            return self.allocated(whole)
        return self.allocated(expiry + 8 + field_sds_bytes(length)) + value

    def expiring_fields_bytes(self, count: int) -> int:
        """Return what a hash of Valkey 9 keeps to find *count* fields that expire: a vector, from two on (`vsetMemUsage`)."""
        return self.allocated(8 + 8 * count) if count > 1 else 0

    def table_units(self, count: int, steps: int, presized: bool) -> int:
        """Return the expected size, in units, of the hash table of *count* elements without them."""
        layout = self.layout
        presized |= self.loaded
        if layout.table_kind == DICT:
            return (layout.table + 8 * dict_slots(count, steps, presized)) << UNIT_BITS
        return (layout.table << UNIT_BITS) + bucket_table_units(count, steps, presized)

    def last_stream_node_bytes(self, length: int) -> int:
        """Return the size of a stream's last node, which XADD makes larger than what it holds."""
        return self.allocated(length if self.loaded else max(length, STREAM_NODE_BYTES))

    def tree_bytes(self, ids: int, nodes: int, exact: int) -> int:
        """Return what the server counts for a radix tree of *ids* in *nodes*, which takes *exact* bytes."""
        return exact if self.layout.tree_is_exact else ids * ID_BYTES + nodes * GUESSED_NODE_BYTES
