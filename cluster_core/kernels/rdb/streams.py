"""Streams in a walk, and the radix trees of their ids, which are measured without being built."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.formats.rdb import faults
from cluster_core.formats.rdb.strings import LZF_STRING, RAW_STRING
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.rdb import memory_sizes as sizes
from cluster_core.kernels.rdb import skim_state as state
from cluster_core.kernels.rdb import tables as columns
from cluster_core.kernels.rdb.atoms import (
    ask,
    big_endian,
    is_wild,
    note_fault,
    pass_over,
    read_length,
    read_lengths,
    read_string,
)
from cluster_core.kernels.rdb.strings import pass_string
from cluster_core.memory.model import LEAF_BYTES, PENDING_BYTES


@borrowing()
def begin_tree(st: Any) -> None:
    """Begin a radix tree of ids (`tests.reference.rdb.radix.RadixTree`)."""
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
    """The last id's leaf and every branch below *depth* are complete."""
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
def _tree_add(data: Any, at: int, st: Any, m: Any) -> None:
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
def _tree_end(st: Any, m: Any) -> int:
    """Return what the tree costs and begin another one."""
    if st[state.TREE_IDS] > 0:
        _tree_close(st, m, np.int64(-1))
    else:
        _tree_node(st, m, np.int64(8))
    size = sizes.tree_size(m, st[state.TREE_IDS], st[state.TREE_NODES], st[state.TREE_BYTES])
    begin_tree(st)
    return size


@borrowing()
def pass_nodes(data: Any, st: Any, m: Any) -> int:
    """Pass over a stream's nodes: an id of 16 bytes and a listpack each."""
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
                    _tree_add(data, at + size, st, m)
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
        st[state.SIZE_BYTES] += m[sizes.STREAM] + _tree_end(st, m)
    st[state.PHASE] = state.P_STREAM_META
    return state.GO


@borrowing()
def _stream_meta(data: Any, st: Any, at: int, generation: int) -> int:
    """Read a stream's length and ids, and how many groups it has."""
    rc, _, length, _ = read_lengths(data, st, at, 1)
    if rc != state.GO:
        return rc
    if is_wild(length):
        return note_fault(st, faults.COUNT, at, length, 0)
    if length > 0 and st[state.NODES] == 0:
        return note_fault(st, faults.STREAM_EMPTY, at, length, 0)
    rc, pos, count, last = read_lengths(data, st, at, 4 if generation == 1 else 9)
    if rc != state.GO:
        return rc
    if is_wild(count):
        return note_fault(st, faults.COUNT, last, count, 0)
    st[state.ELEMENTS] = length
    st[state.GROUPS] = count
    st[state.POS] = pos
    st[state.PHASE] = state.P_STREAM_GROUP
    return state.GO


@borrowing()
def read_stream(data: Any, st: Any, g: Any) -> int:
    """Read the numbers of a stream after its nodes, or of one of its groups and consumers."""
    phase = st[state.PHASE]
    at = st[state.POS]
    generation = g[st[state.TYPE_BYTE], columns.GENERATION]
    if phase == state.P_STREAM_META:
        return _stream_meta(data, st, at, generation)
    if phase == state.P_STREAM_GROUP:
        if st[state.GROUPS] == 0:
            st[state.PHASE] = state.P_PRODUCERS if generation >= 4 else state.P_EMIT
            st[state.STEP] = 0
            return state.GO
        rc = pass_string(data, st, at, at)
        if rc == state.GO:
            st[state.GROUPS] -= 1
            st[state.PHASE] = state.P_STREAM_GROUP_META
        return rc
    if phase == state.P_STREAM_CONSUMER:
        if st[state.CONSUMERS] == 0:
            st[state.PHASE] = state.P_STREAM_HANDED_BACK if generation >= 5 else state.P_STREAM_GROUP
            return state.GO
        rc = pass_string(data, st, at, at)
        if rc == state.GO:
            st[state.CONSUMERS] -= 1
            st[state.FIELD] = st[state.TEXT]
            st[state.SKIP] += 16 if generation >= 3 else 8
            st[state.PHASE] = state.P_STREAM_CONSUMER_META
        return rc
    group_lengths = 3 if generation == 1 else 4
    rc, pos, count, last = read_lengths(data, st, at, group_lengths if phase == state.P_STREAM_GROUP_META else 1)
    if rc != state.GO:
        return rc
    if is_wild(count):
        return note_fault(st, faults.COUNT, last, count, 0)
    st[state.POS] = pos
    if phase == state.P_STREAM_GROUP_META:
        st[state.PEL] = count
        st[state.PHASE] = state.P_STREAM_PEL
    elif phase == state.P_STREAM_CONSUMERS:
        st[state.CONSUMERS] = count
        st[state.PHASE] = state.P_STREAM_CONSUMER
    elif phase == state.P_STREAM_HANDED_BACK:
        pass_over(st, pos + 16 * count)
        st[state.PHASE] = state.P_STREAM_GROUP
    elif st[state.SIZE_KNOWN]:  # what waits for a consumer
        st[state.PEL] = count
        st[state.PHASE] = state.P_STREAM_CONSUMER_PEL
    else:
        pass_over(st, pos + 16 * count)
        st[state.PHASE] = state.P_STREAM_CONSUMER
    return state.GO


@borrowing()
def pass_pending(data: Any, st: Any, m: Any) -> int:
    """Pass over a group's pending entries: an id, a time and a delivery count each."""
    pos = st[state.POS]
    is_measured = st[state.SIZE_KNOWN] != 0
    while st[state.PEL] > 0:
        size, value = read_length(data, pos + 24, st[state.STOP])
        if size == 0:
            return ask(st, pos, 33)
        if size < 0:
            return note_fault(st, -size, pos + 24, value, 0)
        if is_measured:
            _tree_add(data, pos, st, m)
        pos += 24 + size
        st[state.POS] = pos
        st[state.PEL] -= 1
    if is_measured:
        st[state.SIZE_BYTES] += m[sizes.GROUP] + PENDING_BYTES * st[state.TREE_IDS]
        st[state.SIZE_BYTES] += _tree_end(st, m)
    st[state.PHASE] = state.P_STREAM_CONSUMERS
    return state.GO


@borrowing()
def pass_consumer_pending(data: Any, st: Any, m: Any) -> int:
    """Read the ids that are pending for a consumer."""
    pos = st[state.POS]
    while st[state.PEL] > 0:
        if pos + 16 > st[state.STOP]:
            return ask(st, pos, 16)
        _tree_add(data, pos, st, m)
        pos += 16
        st[state.POS] = pos
        st[state.PEL] -= 1
    st[state.SIZE_BYTES] += m[sizes.CONSUMER] + st[state.FIELD] + _tree_end(st, m)
    st[state.PHASE] = state.P_STREAM_CONSUMER
    return state.GO


@borrowing()
def pass_producers(data: Any, st: Any) -> int:
    """Pass over a stream's idempotent producers: two limits; ids that each has used, with the entries they made; two counters."""
    at = st[state.POS]
    step = st[state.STEP]
    if step == 0:  # limits and the number of producers
        rc, pos, count, last = read_lengths(data, st, at, 3)
        if rc == state.GO:
            if is_wild(count):
                return note_fault(st, faults.COUNT, last, count, 0)
            st[state.GROUPS] = count
            st[state.POS] = pos
            st[state.STEP] = 1
        return rc
    if step == 1:  # a producer's name, or the counters
        if st[state.GROUPS] == 0:
            rc, pos, _, _ = read_lengths(data, st, at, 2)
            if rc == state.GO:
                st[state.POS] = pos
                st[state.PHASE] = state.P_EMIT
            return rc
        rc = pass_string(data, st, at, at)
        if rc == state.GO:
            st[state.GROUPS] -= 1
            st[state.STEP] = 2
        return rc
    if step == 2:  # how many ids it has used
        rc, pos, count, last = read_lengths(data, st, at, 1)
        if rc == state.GO:
            if is_wild(count):
                return note_fault(st, faults.COUNT, last, count, 0)
            st[state.PEL] = count
            st[state.POS] = pos
            st[state.STEP] = 3
        return rc
    if step == 3:  # an id
        if st[state.PEL] == 0:
            st[state.STEP] = 1
            return state.GO
        rc = pass_string(data, st, at, at)
        if rc == state.GO:
            st[state.STEP] = 4
        return rc
    rc, pos, _, _ = read_lengths(data, st, at, 2)
    if rc == state.GO:
        st[state.POS] = pos
        st[state.PEL] -= 1
        st[state.STEP] = 3
    return rc
