"""Memory sizes of values in kernels, from a model (`cluster_core.memory.model`) as an array of numbers and tables."""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.memory import structures
from cluster_core.memory.layouts import (
    BUCKETS,
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
    EMBEDDED_NODE_BYTES,
    ENTRY_BYTES,
    ENTRY_EMBEDS_BYTES_MAX,
    EXPIRY_RESERVED_KEY_BYTES,
    GUESSED_NODE_BYTES,
    ID_BYTES,
    LISTPACKEX_BYTES,
    LZF_BYTES,
    OBJECT_BYTES,
    QUICKLIST_BYTES,
    STREAM_NODE_BYTES,
    TREE_BYTES,
    MemoryModel,
)
from cluster_core.memory.structures import (
    BUCKET_BYTES,
    BUCKET_ENTRIES,
    LEVEL_BYTES,
    LEVEL_WEIGHTS,
    LOADS,
    SMALL_ALLOCATION_BYTES,
    SMALL_MAX,
    UNIT_BITS,
    chained_units,
    node_units,
    small_allocations,
    small_tables,
)
from cluster_core.rdb.grammar import EMBSTR, INT, LISTPACK, M_HASH, M_LIST, M_PACKED_EXPIRY, M_SET, M_ZSET

# Places in a model's array.
(
    ALLOCATOR,
    KEY_PLACE,
    LINK,
    EMBSTR_FORM,
    EMBEDS_MAX,
    PACKED_EXACT,
    LIST_NODE,
    SET_ENTRY,
    HASH_ENTRY,
    ZSET_ENTRY,
    FIELD_FORM,
    TABLE_KIND,
    TABLE,
    HASH_EXTRA,
    HASH_STEPS,
    ZSET_EMBEDS,
    ZSET,
    STREAM,
    TREE_EXACT,
    GROUP,
    CONSUMER,
    NODE_UNITS,
    SET_LOW,
    SET_HIGH,
    INTEGERS_LOW,
    INTEGERS_HIGH,
    HASH_LOW,
    HASH_HIGH,
    ZSET_LOW,
    ZSET_HIGH,
    LOADED,
    ESTIMATE,
) = range(32)
HAS_LONG, HAS_TEXT, EXPIRING = 1, 2, 4
_SIZES = 40
_SIZES_COUNT = SMALL_ALLOCATION_BYTES
_NODES = _SIZES + _SIZES_COUNT
_NODES_COUNT = 128
_SMALL = _NODES + _NODES_COUNT
_CHAINED = _SMALL + 3 * (SMALL_MAX + 1)
_LENGTH = _CHAINED + BUCKET_ENTRIES * LOADS + 1
_WEIGHTS = np.array(LEVEL_WEIGHTS, np.int64)
_HALF = 1 << (UNIT_BITS - 1)


_allocated_large = compiled(structures, "allocated_bytes")["allocated_bytes"]
_STRINGS = compiled(structures, "embedded_sds_bytes", "sds_bytes", "field_sds_bytes", "mstr_bytes", forceinline=True)
embedded_sds_bytes, sds_bytes = _STRINGS["embedded_sds_bytes"], _STRINGS["sds_bytes"]
field_sds_bytes, mstr_bytes = _STRINGS["field_sds_bytes"], _STRINGS["mstr_bytes"]


@cache
def model_array(model: MemoryModel | None) -> NDArray[np.int64]:
    """Return *model* as int64 numbers; None is the model that knows no layout."""
    array = np.zeros(_LENGTH, np.int64)
    if model is None:
        return array
    layout = model.layout
    array[: ESTIMATE + 1] = (
        model.allocator, layout.key_place,
        layout.slot_link if model.cluster else 0, layout.embstr, layout.embeds_max, layout.packed_exact, layout.list_node, layout.set_entry,
        layout.hash_entry, layout.zset_entry, layout.field_form, layout.table_kind, layout.table, layout.hash_extra,
        layout.hash_steps, layout.zset_embeds, model.zset_bytes(), layout.stream, layout.tree_is_exact, layout.group,
        layout.consumer, node_units(model.allocator, 24),
        *layout.set_presized, *layout.integers_presized, *layout.hash_presized, *layout.zset_presized, model.loaded, model.estimate,
    )  # fmt: skip
    array[_SIZES:_NODES] = small_allocations(model.allocator)
    array[_NODES:_SMALL] = [_long_member_units(array, length) for length in range(_NODES_COUNT)]
    if layout.table_kind == BUCKETS:
        array[_SMALL:_CHAINED] = (*small_tables(0), *small_tables(1), *small_tables(2))
        array[_CHAINED:] = chained_units()
    return array


@borrowing(forceinline=True)
def allocated(m: Any, size: int) -> int:
    """Return `cluster_core.memory.structures.allocated_bytes`."""
    return m[_SIZES + size] if size < _SIZES_COUNT else _allocated_large(m[ALLOCATOR], size)


@borrowing(forceinline=True)
def _string(m: Any, length: int) -> int:
    """Return the size of a separate string."""
    return allocated(m, sds_bytes(length))


@borrowing(forceinline=True)
def _key(m: Any, key_length: int, expires: bool) -> int:
    place = m[KEY_PLACE]
    if place == KEY_APART:
        return ENTRY_BYTES + m[LINK] + _string(m, key_length) + OBJECT_BYTES
    if place == KEY_IN_ENTRY:
        return allocated(m, 17 + embedded_sds_bytes(key_length)) + OBJECT_BYTES
    reserved = 8 if expires or key_length >= EXPIRY_RESERVED_KEY_BYTES else 0
    return allocated(m, OBJECT_BYTES + embedded_sds_bytes(key_length) + 1 + reserved)


@borrowing(forceinline=True)
def string_size(m: Any, key_length: int, expires: bool, encoding: int, length: int) -> int:
    """Return the size of a key with a string value of *length* characters in that *encoding*."""
    if encoding == INT:
        return _key(m, key_length, expires)
    form = m[EMBSTR_FORM]
    if encoding != EMBSTR:
        if expires and form == EMBSTR_FOR_POINTER and not m[LOADED]:
            whole = OBJECT_BYTES - 8 + 1 + embedded_sds_bytes(key_length) + length + 4
            if whole <= m[EMBEDS_MAX] and allocated(m, whole) >= whole + 8:
                return allocated(m, whole)
        return _key(m, key_length, expires) + _string(m, length)
    if form == EMBSTR_LENGTH:
        return _key(m, key_length, expires) + length + 2
    if form == EMBSTR_ALLOCATED:
        return _key(m, key_length, expires) - OBJECT_BYTES + allocated(m, OBJECT_BYTES + 4 + length)
    head = OBJECT_BYTES - (8 if form == EMBSTR_FOR_POINTER else 0) + (8 if expires else 0)
    return allocated(m, head + 1 + embedded_sds_bytes(key_length) + length + 4)


@borrowing()
def packed_size(m: Any, length: int) -> int:
    """Return the size of a packed value of *length* bytes."""
    return length if m[PACKED_EXACT] else allocated(m, length)


@borrowing()
def compressed_size(m: Any, length: int) -> int:
    """Return the size of a compressed list node of *length* compressed bytes."""
    return m[LIST_NODE] + allocated(m, LZF_BYTES + length)


@borrowing(forceinline=True)
def set_member_size(m: Any, length: int) -> int:
    """Return the size of a member of *length* characters in the table of a set."""
    return m[SET_ENTRY] + _string(m, length)


@borrowing()
def field_size(m: Any, length: int, value_length: int, expires: bool) -> int:
    """Return the size of a field of *length* characters in the table of a hash."""
    form = m[FIELD_FORM]
    if form == FIELD_APART:
        return m[HASH_ENTRY] + _string(m, length) + _string(m, value_length)
    if form == FIELD_MSTR:
        name = allocated(m, mstr_bytes(length, expires))
        return m[HASH_ENTRY] + name + _string(m, value_length)
    expiry = 8 if expires else 0
    whole = expiry + (field_sds_bytes(length) if expires else embedded_sds_bytes(length)) + value_length + 4
    if whole <= ENTRY_EMBEDS_BYTES_MAX:
        return allocated(m, whole)
    return allocated(m, expiry + 8 + field_sds_bytes(length)) + _string(m, value_length)


@borrowing()
def scored_member_units(m: Any, length: int) -> int:
    """Return the expected size, in units, of a member of a sorted set that is a skip list."""
    return m[_NODES + length] if length < _NODES_COUNT else _long_member_units(m, length)


@borrowing()
def _long_member_units(m: Any, length: int) -> int:
    if not m[ZSET_EMBEDS]:
        return ((m[ZSET_ENTRY] + _string(m, length)) << UNIT_BITS) + m[NODE_UNITS]
    fixed = EMBEDDED_NODE_BYTES + embedded_sds_bytes(length)
    units = np.int64(0)
    for level in range(_WEIGHTS.size):
        units += _WEIGHTS[level] * allocated(m, fixed + (level + 1) * LEVEL_BYTES)
    return units


@borrowing()
def table_units(m: Any, count: int, steps: int, presized: bool) -> int:
    """Return the expected size, in units, of a table of *count* elements; each insertion moves *steps* buckets during growth.

    A full ``dict`` doubles (`_dictExpandIfNeeded`) and has two tables meanwhile; 1 - 1/e of its buckets are not empty. For a
    ``hashtable`` see `small_tables`.
    """
    presized = presized or m[LOADED] != 0
    if m[TABLE_KIND] == DICT:
        slots = np.int64(4)
        if count > 4:
            old = np.int64(4)
            while 2 * old < count:
                old *= 2
            slots = 2 * old if presized or (count - old - 1) * steps >= (old * 647) >> 10 else 3 * old
        return (m[TABLE] + 8 * slots) << UNIT_BITS
    if count <= SMALL_MAX:
        return (m[TABLE] << UNIT_BITS) + m[_SMALL + (0 if presized else steps) * (SMALL_MAX + 1) + count]
    buckets = np.int64(1)
    while BUCKET_ENTRIES * buckets < count:
        buckets *= 2
    old = buckets >> 1
    moved = (count - BUCKET_ENTRIES * old - 1) * steps
    if presized:
        moved = old
        while (count * 5 - 1) // 32 >= buckets:
            buckets *= 2
    load = m[_CHAINED + count * LOADS // buckets]
    if moved >= old:
        return ((m[TABLE] + buckets * BUCKET_BYTES) << UNIT_BITS) + buckets * load
    full = m[_CHAINED + BUCKET_ENTRIES * LOADS]
    return ((m[TABLE] + (buckets + old) * BUCKET_BYTES) << UNIT_BITS) + (old - moved) * full + 2 * moved * load


@borrowing()
def last_stream_node_size(m: Any, length: int) -> int:
    """Return the size of a stream's last node, which is allocated ahead unless loaded."""
    return allocated(m, length if m[LOADED] else max(length, np.int64(STREAM_NODE_BYTES)))


@borrowing()
def tree_size(m: Any, ids: int, nodes: int, node_bytes: int) -> int:
    """Return `MemoryModel.tree_bytes` of nodes with *node_bytes* in total, without the tree's head."""
    if m[TREE_EXACT]:
        return node_bytes + allocated(m, np.int64(TREE_BYTES))
    return ids * ID_BYTES + nodes * GUESSED_NODE_BYTES


class ValueParts(NamedTuple):
    """Bytes and units (`cluster_core.memory.structures`) of a value's parts.

    *marks*: `HAS_LONG`, `HAS_TEXT`, and the number of expiring fields from `EXPIRING` on.
    """

    bytes: int
    units: int
    marks: int


@borrowing()
def whole_size(
    m: Any, measure: int, encoding: int, elements: int, key_length: int, expires: bool, parts: ValueParts
) -> int:
    """Return the size of a key with a value other than a string, from its parts; *measure* is its measure (`grammar`)."""
    units = parts.units
    total = parts.bytes + _key(m, key_length, expires)
    if measure == M_LIST:
        return total - m[LIST_NODE] if encoding == LISTPACK else total + QUICKLIST_BYTES
    if measure == M_SET:
        low = SET_LOW if parts.marks & HAS_TEXT else INTEGERS_LOW
        units += table_units(m, elements, 1, m[low] <= elements <= m[low + 1])
    elif measure == M_HASH:
        presized = m[HASH_LOW] <= elements <= m[HASH_HIGH] and not parts.marks & HAS_LONG
        units += table_units(m, elements, m[HASH_STEPS], presized)
        total += m[HASH_EXTRA]
        expiring = parts.marks // EXPIRING
        if expiring > 1:
            total += allocated(m, 8 + 8 * expiring)
    elif measure == M_ZSET:
        units += table_units(m, elements, 2, m[ZSET_LOW] <= elements <= m[ZSET_HIGH])
        total += m[ZSET]
    elif measure == M_PACKED_EXPIRY:
        total += allocated(m, np.int64(LISTPACKEX_BYTES))
    return total + ((units + _HALF) >> UNIT_BITS)


def keyspace_bytes(model: MemoryModel, keys: int, expires: int) -> int:
    """Return the size of the tables of *keys* keys with *expires* expiring ones, beyond MEMORY USAGE of the keys."""
    m = model_array(model._replace(loaded=False))
    is_dict = model.layout.table_kind == DICT
    tables = sum(int(table_units(m, count, 1, is_dict) - (m[TABLE] << UNIT_BITS)) for count in (keys, expires))
    entry = model.allocated(ENTRY_BYTES) if is_dict else 0
    return (tables >> UNIT_BITS) + (keys * (entry - ENTRY_BYTES) + expires * entry if is_dict else 0)
