"""Packed values (listpack, ziplist, intset, zipmap) in a walk: their entries, as the head counts them or by walking."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.formats.rdb import faults, grammar, limits, packed
from cluster_core.formats.rdb.strings import INT_STRING, LZF_STRING, RAW_STRING
from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.rdb import memory_sizes as sizes
from cluster_core.kernels.rdb import skim_state as state
from cluster_core.kernels.rdb import tables as columns
from cluster_core.kernels.rdb.atoms import ask, big_endian, little_endian, note_fault, pass_over, read_string
from cluster_core.kernels.rdb.strings import begin_compressed, expand, expand_head, is_whole

_PLAIN = compiled(
    packed, "stated_count", "listpack_entry_bytes", "ziplist_entry_bytes", "zipmap_entry_bytes", "entry_bytes",
    known={"little_endian": little_endian, "big_endian": big_endian}, boundscheck=False, _nrt=False,
)  # fmt: skip
_stated_count, entry_bytes, listpack_entry_bytes = (
    _PLAIN[name] for name in ("stated_count", "entry_bytes", "listpack_entry_bytes")
)


@borrowing()
def _walk_entries(
    data: Any, at: int, end: int, left: int, form: int, count: int, side: int
) -> tuple[int, int, int, int, int]:
    """Count packed entries from *at*: return (position, bytes left, entries, side, ended).

    *left* are the value's bytes from *at* on, its end mark included.  State 0: more bytes are needed; 1: the
    end mark was reached and was the last byte; -1: an entry has no defined form or runs past the end.  The
    position may lie beyond *end*.
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
    """Count the entries of the packed value whose string prefix is at *at* into `UNITS`; *begin* starts the atom."""
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
    """Walk the entries of a packed value whose head does not count them."""
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
    if raw > limits.LZF_WALK_BYTES_MAX or body > limits.LZF_WALK_BYTES_MAX:
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
    """The entries of a packed value are counted: so are its elements."""
    if st[state.SIZE_KNOWN]:
        st[state.SIZE_BYTES] += sizes.packed_size(m, st[state.TEXT])
    kind = st[state.TYPE_BYTE]
    entries = g[kind, columns.ENTRIES]
    units = st[state.UNITS] - g[kind, columns.SKIPPED_ENTRIES]
    if units < 0 or units % entries != 0:
        return note_fault(st, faults.PACKED_UNITS, st[state.WALK_AT] - st[state.BASE], max(units, np.int64(0)), entries)
    st[state.ELEMENTS] = units // entries
    st[state.PHASE] = state.P_EMIT
    return state.GO
