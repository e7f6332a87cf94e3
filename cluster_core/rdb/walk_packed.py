"""Walk packed values and streams: entry counts by head or by walking, and radix trees of ids."""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.memory.model import LEAF_BYTES
from cluster_core.rdb import faults, grammar, packed
from cluster_core.rdb import memory_sizes as sizes
from cluster_core.rdb import skim_state as state
from cluster_core.rdb.atoms import (
    ask,
    begin_compressed,
    big_endian,
    expand,
    expand_head,
    is_whole,
    little_endian,
    note_fault,
    pass_over,
    pass_string,
    read_string,
    signed_integer,
)
from cluster_core.rdb.strings import INT_STRING, LZF_STRING, RAW_STRING

_PLAIN = compiled(
    packed, "stated_count", "listpack_entry_bytes", "ziplist_entry_bytes", "zipmap_entry_bytes", "entry_bytes", "entry_value",
    known={"little_endian": little_endian, "big_endian": big_endian, "signed_integer": signed_integer}, boundscheck=False, _nrt=False,
)  # fmt: skip
_stated_count, entry_bytes, entry_value, listpack_entry_bytes = (
    _PLAIN[name] for name in ("stated_count", "entry_bytes", "entry_value", "listpack_entry_bytes")
)


@borrowing()
def _walk_entries(
    data: Any, at: int, end: int, left: int, form: int, count: int, side: int
) -> tuple[int, int, int, int, int]:
    """Count packed entries from *at*: return (position, bytes left, entries, side, ended).

    *left* counts the value's bytes from *at*, with the end mark. *ended* 0: more bytes are needed; 1: the end mark was the
    last byte; -1: an entry is invalid or too long. The position may lie beyond *end*.
    """
    while left > 0:
        if at >= end:
            return at, left, count, side, np.int64(0)
        if data[at] == 255:
            if left != 1 or side != 0:
                return at, left, count, side, np.int64(-1)
            return at + 1, np.int64(0), count, side, np.int64(1)
        size = entry_bytes(data, at, end, form, side)
        if size < 0 or size >= left or (size == 0 and end - at >= left):
            return at, left, count, side, np.int64(-1)
        if size == 0:
            return at, left, count, side, np.int64(0)
        at += size
        left -= size
        if form == grammar.F_ZIPMAP:
            count += side
            side = 1 - side
        else:
            count += 1
    return at, left, count, side, np.int64(-1)


@borrowing()
def resume_entries(data: Any, st: Any) -> int:
    at, left, count, side, ended = _walk_entries(
        data,
        st[state.POS],
        st[state.STOP],
        st[state.WALK_LEFT],
        st[state.WALK_FORM],
        st[state.WALK_COUNT],
        st[state.WALK_SIDE],
    )
    st[state.WALK_LEFT] = left
    st[state.WALK_COUNT] = count
    st[state.WALK_SIDE] = side
    if ended < 0:
        return note_fault(st, faults.PACKED_ENTRY, st[state.WALK_AT] - st[state.BASE], count, 0)
    if ended > 0:
        st[state.UNITS] += count
        st[state.POS] = at
        return state.GO
    if at > st[state.STOP]:
        st[state.SKIP] = at - st[state.STOP]
        st[state.POS] = st[state.STOP]
        return state.GO
    return ask(st, at, min(left, np.int64(11)))


@borrowing()
def count_entries(data: Any, st: Any, begin: int, at: int, form: int, scratch: Any) -> int:
    """Count the entries of the packed value with its string prefix at *at* into `UNITS`; *begin* starts the atom."""
    end = st[state.STOP]
    size, body, raw, kind = read_string(data, at, end)
    if size == 0:
        return ask(st, begin, at - begin + 20)
    if size < 0:
        return note_fault(st, -size, at, body, raw)
    start = at + size
    st[state.WALK_AT] = st[state.BASE] + at
    if kind == INT_STRING:
        return note_fault(st, faults.PACKED_EMPTY, at, body, 0)
    st[state.TEXT] = raw
    st[state.TEXT_LZF] = body if kind == LZF_STRING else -1
    if kind == RAW_STRING:
        need = min(body, np.int64(10))
        if start + need > end:
            return ask(st, begin, start + need - begin)
        count, a, b = _stated_count(data, start, body, form)
    else:
        need = min(body, np.int64(40))
        if start + need > end:
            return ask(st, begin, start + need - begin)
        if not expand_head(data, start, start + need, scratch, min(raw, np.int64(10))):
            return note_fault(st, faults.LZF, at, body, raw)
        count, a, b = _stated_count(scratch, 0, raw, form)
    if count < -1:
        return note_fault(st, -1 - count, at, a, b)
    if count == -1:
        return _count_by_walking(data, st, begin, at, form, scratch)
    if kind == LZF_STRING:
        if start + body > end:
            begin_compressed(st, at, start, body, raw)
            st[state.UNITS] += count
            return state.GO
        if not is_whole(data, start, start + body, raw):
            return note_fault(st, faults.LZF, at, body, raw)
    st[state.UNITS] += count
    return pass_over(st, start + body)


@borrowing()
def _count_by_walking(data: Any, st: Any, begin: int, at: int, form: int, scratch: Any) -> int:
    """Walk the entries of a packed value without a count in its head."""
    end = st[state.STOP]
    size, body, raw, kind = read_string(data, at, end)
    start = at + size
    head = np.int64(packed.HEAD_BYTES[form])
    if kind == RAW_STRING:
        st[state.WALK_FORM] = form
        st[state.WALK_LEFT] = body - head
        st[state.WALK_COUNT] = 0
        st[state.WALK_SIDE] = 0
        st[state.POS] = start + head
        return state.GO
    if raw > grammar.LZF_WALK_BYTES_MAX or body > grammar.LZF_WALK_BYTES_MAX:
        return note_fault(st, faults.WALK_BYTES, at, max(raw, body), 0)
    if start + body > end:
        return ask(st, begin, start + body - begin)
    if raw > scratch.size:
        st[state.POS] = begin
        st[state.WANT] = raw
        return state.SCRATCH
    if not expand(data, start, start + body, scratch, 0, raw):
        return note_fault(st, faults.LZF, at, body, raw)
    _, _, count, _, ended = _walk_entries(scratch, head, raw, raw - head, form, np.int64(0), np.int64(0))
    if ended != 1:
        return note_fault(st, faults.PACKED_ENTRY, at, count, 0)
    st[state.UNITS] += count
    st[state.POS] = start + body
    return state.GO


@borrowing()
def end_packed(st: Any, m: Any, g: Any) -> int:
    """Set the element count of a packed value from its entries."""
    if st[state.SIZE_KNOWN]:
        st[state.SIZE_BYTES] += sizes.packed_size(m, st[state.TEXT])
    kind = st[state.TYPE_BYTE]
    entries = g[kind, state.ENTRIES]
    units = st[state.UNITS] - g[kind, state.SKIPPED_ENTRIES]
    if units < 0 or units % entries != 0:
        return note_fault(st, faults.PACKED_UNITS, st[state.WALK_AT] - st[state.BASE], max(units, np.int64(0)), entries)
    st[state.ELEMENTS] = units // entries
    st[state.PHASE] = state.P_EMIT
    return state.GO


@borrowing()
def begin_tree(st: Any) -> None:
    """Begin a radix tree of ids."""
    st[state.TREE_IDS] = 0
    st[state.TREE_NODES] = 0
    st[state.TREE_BYTES] = 0
    for depth in range(16):
        st[state.TREE_CHILDREN + depth] = 0


@borrowing(forceinline=True)
def _tree_node(st: Any, m: Any, size: int) -> None:
    st[state.TREE_NODES] += 1
    st[state.TREE_BYTES] += sizes.allocated(m, size)


@borrowing()
def _tree_close(st: Any, m: Any, depth: int) -> None:
    """Complete the last id's leaf and every branch below *depth*."""
    below = np.int64(16)
    _tree_node(st, m, np.int64(LEAF_BYTES))
    for at in range(15, depth, -1):
        children = st[state.TREE_CHILDREN + at]
        if children:
            if below - at > 1:
                _tree_node(st, m, 8 + ((below - at + 10) & ~7))
            _tree_node(st, m, 8 * children + ((children + 11) & ~7))
            st[state.TREE_CHILDREN + at] = 0
            below = np.int64(at)
    if below - depth > 1:
        _tree_node(st, m, 8 + ((below - depth + 10) & ~7))


@borrowing()
def add_to_tree(data: Any, at: int, st: Any, m: Any) -> None:
    """Add the id of 16 bytes at *at*."""
    high = big_endian(data, at, 8)
    low = big_endian(data, at + 8, 8)
    if st[state.TREE_IDS] > 0:
        depth = np.int64(0)
        unlike = high ^ st[state.TREE_HIGH]
        if unlike == 0:
            depth = np.int64(8)
            unlike = low ^ st[state.TREE_LOW]
            if unlike == 0:
                return
        while (unlike >> 56) & 255 == 0:
            unlike <<= 8
            depth += 1
        _tree_close(st, m, depth)
        children = st[state.TREE_CHILDREN + depth]
        st[state.TREE_CHILDREN + depth] = children + 1 if children else 2
    st[state.TREE_HIGH] = high
    st[state.TREE_LOW] = low
    st[state.TREE_IDS] += 1


@borrowing()
def end_tree(st: Any, m: Any) -> int:
    """Return the cost of the tree and begin another one."""
    if st[state.TREE_IDS] > 0:
        _tree_close(st, m, np.int64(-1))
    else:
        _tree_node(st, m, np.int64(8))
    size = sizes.tree_size(m, st[state.TREE_IDS], st[state.TREE_NODES], st[state.TREE_BYTES])
    begin_tree(st)
    return size


@borrowing()
def pass_nodes(data: Any, st: Any, m: Any) -> int:
    """Skip a stream's nodes: an id of 16 bytes and a listpack each."""
    while st[state.LEFT] > 0:
        at = st[state.POS]
        if st[state.LEFT] & 1 == 0:
            size, body, raw, kind = read_string(data, at, st[state.STOP])
            if size == 0:
                return ask(st, at, 20)
            if size < 0:
                return note_fault(st, -size, at, body, raw)
            if (body if kind == RAW_STRING else raw) != 16:
                return note_fault(st, faults.STREAM_ID, at, 0, 0)
            if st[state.SIZE_KNOWN]:
                if kind == LZF_STRING:
                    st[state.SIZE_KNOWN] = 0
                elif at + size + 16 > st[state.STOP]:
                    return ask(st, at, size + 16)
                else:
                    add_to_tree(data, at + size, st, m)
        rc = pass_string(data, st, at, at)
        if rc != state.GO:
            return rc
        if st[state.SIZE_KNOWN] and st[state.LEFT] & 1:
            if st[state.STREAM_NODE]:
                st[state.SIZE_BYTES] += sizes.allocated(m, st[state.STREAM_NODE])
            st[state.STREAM_NODE] = st[state.TEXT]
        st[state.LEFT] -= 1
        if st[state.SKIP] > 0 or st[state.LZF_RAW] > 0:
            return state.GO
    if st[state.SIZE_KNOWN]:
        if st[state.STREAM_NODE]:
            st[state.SIZE_BYTES] += sizes.last_stream_node_size(m, st[state.STREAM_NODE])
        st[state.SIZE_BYTES] += m[sizes.STREAM] + end_tree(st, m)
    st[state.PHASE] = state.P_STEPS
    return state.GO
