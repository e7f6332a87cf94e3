"""The RDB skim as one resumable state machine over a window of the file, compiled.

The batch twin of `tests.reference.rdb.reader`.

How this works.  The caller owns a window of bytes and a small array of numbers, `st`.  `skim` decodes *atoms*
(a record's attributes, type and key; a length; the prefix of a string; the header of a packed value) as long as
each lies whole in the window, and writes a row whenever a value has ended.  The bytes of a string are never
looked at: they are a number to pass over, `SKIP`, which may reach far beyond the window.  Compressed strings
are the exception: their control bytes are followed to see that they give the length that they claim (a liar
would falsify the sizes), but nothing is expanded.

An atom that is cut by the window's end is begun anew with the next window, so all that must survive is in `st`:
the phase, the record at hand and a few counters.  `skim` answers with a code (`NEED` bytes, `BATCH` full, an
`EVENT` for Python, `FAULT`, ...) and never raises.

Packed values (listpack, ziplist, intset, zipmap) state their entry count in their first bytes; compressed ones
have just those bytes expanded.  Where the header says "unknown", the entries are walked.
"""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.formats.rdb import faults
from cluster_core.formats.rdb.opcodes import (
    ARRAY_FLOAT,
    ARRAY_INTEGER,
    ARRAY_SHORT_STRING,
    ARRAY_STRING,
    AUX_NAME_BYTES_MAX,
    AUX_VALUE_BYTES_MAX,
    DATABASES_MAX,
    ELEMENTS_MAX,
    EMBSTR,
    HASHTABLE,
    INT,
    INTSET,
    KEY_BYTES_MAX,
    KEY_META_CLASSES_MAX,
    LINKEDLIST,
    LISTPACK,
    LISTPACKEX,
    LZF_WALK_BYTES_MAX,
    MODULE_DOUBLE,
    MODULE_EOF,
    MODULE_FLOAT,
    MODULE_SINT,
    MODULE_STRING,
    MODULE_UINT,
    OP_AUX,
    OP_EOF,
    OP_EXPIRE_MS,
    OP_EXPIRE_S,
    OP_FREQ,
    OP_FUNCTION2,
    OP_FUNCTION_PRE_GA,
    OP_HASH_TEMPLATE,
    OP_IDLE,
    OP_KEY_META,
    OP_MODULE_AUX,
    OP_RAM_LRU,
    OP_RESIZEDB,
    OP_SELECTDB,
    OP_SLOT_IMPORT,
    OP_SLOT_INFO,
    OP_SLOT_NUMBER,
    QUICKLIST,
    RAW,
    SKIPLIST,
    SLICED_ARRAY,
    STREAM_ENCODING,
    STRING_BYTES_MAX,
    T_ARRAY,
    T_HASH_2,
    T_HASH_LISTPACK,
    T_HASH_LISTPACK_EX,
    T_HASH_LISTPACK_EX_PRE_GA,
    T_HASH_METADATA,
    T_HASH_TEMPLATE_ARRAY_REF,
    T_HASH_TEMPLATE_LISTPACK_REF,
    T_HASH_ZIPLIST,
    T_HASH_ZIPMAP,
    T_LIST,
    T_LIST_QUICKLIST,
    T_LIST_QUICKLIST_2,
    T_LIST_ZIPLIST,
    T_MODULE_2,
    T_MODULE_PRE_GA,
    T_SET,
    T_SET_INTSET,
    T_SET_LISTPACK,
    T_STREAM,
    T_STREAM_2,
    T_STREAM_3,
    T_STREAM_4,
    T_STREAM_5,
    T_STRING,
    T_ZSET,
    T_ZSET_2,
    T_ZSET_LISTPACK,
    T_ZSET_ZIPLIST,
    TEMPLATE_ARRAY,
    TEMPLATE_LISTPACK,
    TEMPLATES_MAX,
    UNREADABLE_TYPES,
    ZIPLIST,
    ZIPMAP,
)
from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_slots import slot_of, tag_bounds
from cluster_core.kernels.rdb.memory_sizes import (
    CONSUMER,
    DEPTH,
    ESTIMATE,
    EXPIRING,
    GROUP,
    HAS_LONG,
    HAS_TEXT,
    LIST_NODE,
    STREAM,
    allocated,
    compressed_size,
    field_size,
    is_known,
    last_stream_node_size,
    packed_size,
    scored_member_units,
    set_member_size,
    string_size,
    tree_size,
    whole_size,
)
from cluster_core.kernels.rdb.skim_state import (
    AUX_MODULE,
    BASE,
    BATCH,
    BY_RECORD,
    CONSUMERS,
    DB,
    DIVISOR,
    ELEMENTS,
    EMBSTR_RULE,
    ENCODING,
    END,
    EVENT,
    EVENT_A,
    EVENT_AUX,
    EVENT_B,
    EVENT_KIND,
    EVENT_RESIZEDB,
    EVENT_SELECTDB,
    EVENT_TEMPLATE,
    EXPIRE,
    F_INTSET,
    F_LISTPACK,
    F_ZIPLIST,
    F_ZIPMAP,
    FAULT,
    FAULT_A,
    FAULT_AT,
    FAULT_B,
    FAULT_CODE,
    FIELD,
    FIELD_EXPIRES,
    FIELD_VALUE,
    FREQ,
    FUNCTIONS,
    GO,
    GROUPS,
    IDLE,
    KEY_LENGTH,
    KEY_POS,
    KEYS,
    LEFT,
    LIST_COMPRESSED,
    LIST_ENDS,
    LISTPACK_LISTS,
    LZF_AT,
    LZF_LEFT,
    LZF_LITERALS,
    LZF_MADE,
    LZF_RAW,
    LZF_SIZE,
    M_EXPIRY_FIRST,
    M_PLAIN,
    M_POST8,
    M_SCORED,
    M_TRIPLE,
    MARKS,
    META_AT,
    MODE,
    MODULE_AUXES,
    NEED,
    NODES,
    OTHER_BEGIN,
    OTHER_KEYS,
    OTHER_OP,
    OTHER_SLOT,
    P_ARRAY,
    P_BLOB,
    P_BLOB_END,
    P_COUNT,
    P_ELEMENTS,
    P_EMIT,
    P_FUNCTION_PRE_GA,
    P_IMPORT,
    P_IMPORT_RANGES,
    P_KEY_META,
    P_MODULE,
    P_PRODUCERS,
    P_QUICK,
    P_RECORD,
    P_STREAM_CONSUMER,
    P_STREAM_CONSUMER_META,
    P_STREAM_CONSUMER_PEL,
    P_STREAM_CONSUMERS,
    P_STREAM_GROUP,
    P_STREAM_GROUP_META,
    P_STREAM_HANDED_BACK,
    P_STREAM_META,
    P_STREAM_NODES,
    P_STREAM_PEL,
    P_TEMPLATE,
    PEL,
    PHASE,
    POS,
    REC,
    RECORD,
    ROW,
    SCRATCH,
    SIZE_BYTES,
    SIZE_KNOWN,
    SIZE_UNITS,
    SKIP,
    SLOT,
    STEP,
    STOP,
    STREAM_NODE,
    TAG_LENGTH,
    TAG_START,
    TEXT,
    TEXT_LZF,
    TREE_BYTES,
    TREE_CHILDREN,
    TREE_HIGH,
    TREE_IDS,
    TREE_LOW,
    TREE_NODES,
    TYPE_BYTE,
    TYPE_MAX,
    UNITS,
    VALKEY,
    WALK_AT,
    WALK_COUNT,
    WALK_FORM,
    WALK_LEFT,
    WALK_SIDE,
    WANT,
)
from cluster_core.memory.model import LEAF_BYTES, LONG_ELEMENT_BYTES, PENDING_BYTES

# By value type.
_KEY_TYPE = np.array(
    [0, 1, 2, 3, 4, 3, 6, 6, 0, 4, 1, 2, 3, 4, 1, 5, 4, 3, 1, 5, 2, 5, 4, 4, 4, 4, 5, 5, 7, 4, 4, 4, 4, 0],
    dtype=np.uint8,
)
_ENCODING = np.array(
    [
        *(
            RAW,
            LINKEDLIST,
            HASHTABLE,
            SKIPLIST,
            HASHTABLE,
            SKIPLIST,
            RAW,
            RAW,
            0,
            ZIPMAP,
            ZIPLIST,
            INTSET,
            ZIPLIST,
        ),
        *(ZIPLIST, QUICKLIST, STREAM_ENCODING, LISTPACK, LISTPACK, QUICKLIST, STREAM_ENCODING, LISTPACK),
        *(
            STREAM_ENCODING,
            HASHTABLE,
            LISTPACKEX,
            HASHTABLE,
            LISTPACKEX,
            STREAM_ENCODING,
            STREAM_ENCODING,
            SLICED_ARRAY,
        ),
        *(TEMPLATE_LISTPACK, TEMPLATE_LISTPACK, TEMPLATE_ARRAY, TEMPLATE_ARRAY, RAW),
    ],
    dtype=np.int64,
)
_RAW_STRING, _INT_STRING, _LZF_STRING = 0, 1, 2
# How a HyperLogLog begins.  PFADD makes one in place, so it is raw however short, until a server loads it from a
# file; the file does not say which.  Idle times and frequencies are taken for the sign of a server that has loaded
# its keys.
_HYLL = 0x48594C4C


@njit(boundscheck=False, forceinline=True)
def _be(data: Any, at: int, count: int) -> int:
    value = np.int64(0)
    for i in range(count):
        value = (value << 8) | np.int64(data[at + i])
    return value


@njit(boundscheck=False, forceinline=True)
def _le(data: Any, at: int, count: int) -> int:
    value = np.int64(0)
    for i in range(count):
        value |= np.int64(data[at + i]) << (8 * i)
    return value


@njit(boundscheck=False, forceinline=True)
def _length(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return (bytes of the prefix, value): 0 bytes if more are needed, a negative fault code with its number."""
    if at >= end:
        return np.int64(0), np.int64(0)
    first = np.int64(data[at])
    if first < 0x40:
        return np.int64(1), first
    if first < 0x80:
        if at + 2 > end:
            return np.int64(0), np.int64(0)
        return np.int64(2), ((first & 0x3F) << 8) | np.int64(data[at + 1])
    if first == 0x80:
        if at + 5 > end:
            return np.int64(0), np.int64(0)
        return np.int64(5), _be(data, at + 1, 4)
    if first == 0x81:
        if at + 9 > end:
            return np.int64(0), np.int64(0)
        return np.int64(9), _be(data, at + 1, 8)
    if first < 0xC0:
        return np.int64(-faults.LENGTH_PREFIX), first
    return np.int64(-faults.LENGTH_IS_STRING), first


@njit(boundscheck=False, forceinline=True)
def _string(data: Any, at: int, end: int) -> tuple[int, int, int, int]:
    """Return (bytes of the prefix, bytes of the body, bytes of the string, form), or faults as `_length` does."""
    if at >= end:
        return np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    first = np.int64(data[at])
    if first < 0xC0:
        size, body = _length(data, at, end)
        if size > 0 and (body < 0 or body > STRING_BYTES_MAX):
            return np.int64(-faults.STRING_BYTES), body, np.int64(0), np.int64(0)
        return size, body, body, np.int64(_RAW_STRING)
    if first < 0xC3:
        return np.int64(1), np.int64(1) << (first & 3), np.int64(0), np.int64(_INT_STRING)
    if first == 0xC3:
        size, body = _length(data, at + 1, end)
        if size <= 0:
            return size, body, np.int64(0), np.int64(0)
        more, raw = _length(data, at + 1 + size, end)
        if more <= 0:
            return more, raw, np.int64(0), np.int64(0)
        if body < 0 or body > STRING_BYTES_MAX:
            return np.int64(-faults.STRING_BYTES), body, np.int64(0), np.int64(0)
        if raw < 0 or raw > STRING_BYTES_MAX:
            return np.int64(-faults.STRING_BYTES), raw, np.int64(0), np.int64(0)
        if raw == 0 or raw > 88 * body:
            return np.int64(-faults.LZF), body, raw, np.int64(0)
        return 1 + size + more, body, raw, np.int64(_LZF_STRING)
    return np.int64(-faults.STRING_PREFIX), first, np.int64(0), np.int64(0)


@njit(boundscheck=False)
def _fault(st: Any, code: int, at: int, a: int, b: int) -> int:
    """Note a fault whose first byte is at *at* in the window."""
    st[FAULT_CODE] = code
    st[FAULT_AT] = st[BASE] + at
    st[FAULT_A] = a
    st[FAULT_B] = b
    return FAULT


@njit(boundscheck=False)
def _short(st: Any, pos: int, want: int) -> int:
    """Ask for *want* bytes from *pos* on."""
    st[POS] = pos
    st[WANT] = want
    return NEED


@njit(boundscheck=False)
def _lzf_is_whole(data: Any, at: int, stop: int, raw: int) -> bool:
    """Whether ``data[at:stop]`` expands to exactly *raw* bytes; control bytes are followed, nothing is expanded."""
    made = np.int64(0)
    while at < stop:
        control = np.int64(data[at])
        if control < 32:
            at += control + 2
            made += control + 1
            continue
        run = control >> 5
        low = at + 1
        if run == 7:
            if at + 2 >= stop:
                return False
            run += np.int64(data[low])
            low += 1
        if low >= stop:
            return False
        if ((control & 31) << 8) + np.int64(data[low]) >= made:
            return False
        made += run + 2
        at = low + 1
    return at == stop and made == raw


@njit(boundscheck=False)
def _lzf_expand(data: Any, at: int, stop: int, out: Any, start: int, raw: int) -> bool:
    """Expand ``data[at:stop]`` to ``out[start:start + raw]``; False if it does not give exactly *raw* bytes."""
    put = start
    last = start + raw
    while at < stop:
        control = np.int64(data[at])
        at += 1
        if control < 32:
            run = control + 1
            if at + run > stop or put + run > last:
                return False
            for _ in range(run):
                out[put] = data[at]
                put += 1
                at += 1
            continue
        run = control >> 5
        if run == 7:
            if at >= stop:
                return False
            run += np.int64(data[at])
            at += 1
        if at >= stop:
            return False
        back = put - ((control & 31) << 8) - np.int64(data[at]) - 1
        at += 1
        run += 2
        if back < start or put + run > last:
            return False
        for _ in range(run):
            out[put] = out[back]
            put += 1
            back += 1
    return put == last


@njit(boundscheck=False)
def _lzf_head(data: Any, at: int, stop: int, out: Any, want: int) -> bool:
    """Expand the first *want* bytes (<= 16) of ``data[at:stop]`` to *out*; False if they are not there."""
    put = np.int64(0)
    while put < want:
        if at >= stop:
            return False
        control = np.int64(data[at])
        at += 1
        if control < 32:
            for _ in range(min(control + 1, want - put)):
                if at >= stop:
                    return False
                out[put] = data[at]
                put += 1
                at += 1
            continue
        run = control >> 5
        if run == 7:
            if at >= stop:
                return False
            run += np.int64(data[at])
            at += 1
        if at >= stop:
            return False
        back = put - ((control & 31) << 8) - np.int64(data[at]) - 1
        at += 1
        if back < 0:
            return False
        for _ in range(min(run + 2, want - put)):
            out[put] = out[back]
            put += 1
            back += 1
    return True


@njit(boundscheck=False)
def _lzf_begin(st: Any, prefix_at: int, at: int, body: int, raw: int) -> None:
    """Note a compressed string, prefix at *prefix_at*, that does not end in this window."""
    st[LZF_LEFT] = body
    st[LZF_MADE] = 0
    st[LZF_RAW] = raw
    st[LZF_LITERALS] = 0
    st[LZF_AT] = st[BASE] + prefix_at
    st[LZF_SIZE] = body
    st[POS] = at


@njit(boundscheck=False)
def _lzf_lies(st: Any) -> int:
    return _fault(st, faults.LZF, st[LZF_AT] - st[BASE], st[LZF_SIZE], st[LZF_RAW])


@njit(boundscheck=False)
def _lzf_resume(data: Any, st: Any) -> int:
    """Follow the control bytes of a compressed string, as `_lzf_is_whole` does, as far as the window goes."""
    at = st[POS]
    end = st[STOP]
    left = st[LZF_LEFT]
    made = st[LZF_MADE]
    literals = st[LZF_LITERALS]
    while left > 0:
        if literals > 0:
            take = min(literals, end - at)
            at += take
            left -= take
            literals -= take
            if literals == 0:
                continue
            break
        if at >= end:
            break
        control = np.int64(data[at])
        if control < 32:
            literals = control + 1
            if literals + 1 > left:
                return _lzf_lies(st)
            at += 1
            left -= 1
            made += literals
            continue
        run = control >> 5
        size = np.int64(3 if run == 7 else 2)
        if size > left:
            return _lzf_lies(st)
        if at + size > end:
            break
        if run == 7:
            run += np.int64(data[at + 1])
        if ((control & 31) << 8) + np.int64(data[at + size - 1]) >= made:
            return _lzf_lies(st)
        made += run + 2
        at += size
        left -= size
    st[POS] = at
    st[LZF_LEFT] = left
    st[LZF_MADE] = made
    st[LZF_LITERALS] = literals
    if left > 0:
        return _short(st, at, 3)
    if made != st[LZF_RAW]:
        return _lzf_lies(st)
    st[LZF_RAW] = 0
    return GO


@njit(boundscheck=False)
def _packed(data: Any, at: int, total: int, form: int) -> tuple[int, int, int]:
    """Return the entry count that a packed value of *total* bytes states in its head, -1 for "walk me".

    A count below -1 is a fault: its code, negated, less 1; the two other numbers describe it.
    """
    zero = np.int64(0)
    if form == F_ZIPMAP:
        if total < 2:
            return np.int64(-1 - faults.PACKED_EMPTY), total, zero
        count = np.int64(data[at])
        if count >= 254:
            return np.int64(-1), zero, zero
        if 3 * count + 2 > total:
            return np.int64(-1 - faults.PACKED_COUNT), count, total
        return count, zero, zero
    if form == F_INTSET:
        if total < 8:
            return np.int64(-1 - faults.PACKED_EMPTY), total, zero
        width = _le(data, at, 4)
        if width != 2 and width != 4 and width != 8:
            return np.int64(-1 - faults.INTSET_WIDTH), width, zero
        count = _le(data, at + 4, 4)
        if 8 + count * width != total:
            return np.int64(-1 - faults.PACKED_BYTES), 8 + count * width, total
        return count, zero, zero
    head = 7 if form == F_LISTPACK else 11
    if total < head:
        return np.int64(-1 - faults.PACKED_EMPTY), total, zero
    said = _le(data, at, 4)
    if said != total:
        return np.int64(-1 - faults.PACKED_BYTES), said, total
    count = _le(data, at + head - 3, 2)
    if count == 65535:
        return np.int64(-1), zero, zero
    if 2 * count + head > total:
        return np.int64(-1 - faults.PACKED_COUNT), count, total
    return count, zero, zero


@njit(boundscheck=False)
def _listpack_entry(data: Any, at: int, end: int) -> int:
    """Return the bytes of the listpack entry at *at*: 0 if more are needed, -1 if it has no defined form."""
    first = np.int64(data[at])
    if first < 0x80:
        size = np.int64(1)
    elif first < 0xC0:
        size = 1 + (first & 63)
    elif first < 0xE0:
        size = np.int64(2)
    elif first < 0xF0:
        if at + 2 > end:
            return np.int64(0)
        size = 2 + (((first & 15) << 8) | np.int64(data[at + 1]))
    elif first == 0xF0:
        if at + 5 > end:
            return np.int64(0)
        size = 5 + _le(data, at + 1, 4)
    elif first < 0xF4:
        size = first - 0xF1 + 3
    elif first == 0xF4:
        size = np.int64(9)
    else:
        return np.int64(-1)
    if size <= 127:
        return size + 1
    if size < 16383:
        return size + 2
    if size < 2097151:
        return size + 3
    if size < 268435455:
        return size + 4
    return size + 5


@njit(boundscheck=False)
def _ziplist_entry(data: Any, at: int, end: int) -> int:
    """Return the bytes of the ziplist entry at *at*: 0 if more are needed, -1 if it has no defined form."""
    head = np.int64(1 if data[at] < 254 else 5)
    at += head
    if at >= end:
        return np.int64(0)
    first = np.int64(data[at])
    if first < 0x40:
        return head + 1 + first
    if first < 0x80:
        if at + 2 > end:
            return np.int64(0)
        return head + 2 + (((first & 0x3F) << 8) | np.int64(data[at + 1]))
    if first == 0x80:
        if at + 5 > end:
            return np.int64(0)
        return head + 5 + _be(data, at + 1, 4)
    if first == 0xC0:
        return head + 3
    if first == 0xD0:
        return head + 5
    if first == 0xE0:
        return head + 9
    if first == 0xF0:
        return head + 4
    if first == 0xFE:
        return head + 2
    if 0xF1 <= first <= 0xFD:
        return head + 1
    return np.int64(-1)


@njit(boundscheck=False)
def _zipmap_entry(data: Any, at: int, end: int, side: int) -> int:
    """Return the bytes of the zipmap key (*side* 0) or value (1) at *at*: 0 if more are needed, -1 if undefined."""
    first = np.int64(data[at])
    if first < 254:
        if side == 0:
            return 1 + first
        if at + 2 > end:
            return np.int64(0)
        return 2 + first + np.int64(data[at + 1])
    if first == 255:
        return np.int64(-1)
    if at + 5 + side > end:
        return np.int64(0)
    size = 5 + _le(data, at + 1, 4)
    return size + 1 + np.int64(data[at + 5]) if side else size


@njit(boundscheck=False)
def _walk(data: Any, at: int, end: int, left: int, form: int, count: int, side: int) -> tuple[int, int, int, int, int]:
    """Count packed entries from *at*: return (position, bytes left, entries, side, state).

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
        if form == F_LISTPACK:
            size = _listpack_entry(data, at, end)
        elif form == F_ZIPLIST:
            size = _ziplist_entry(data, at, end)
        else:
            size = _zipmap_entry(data, at, end, side)
        if size < 0 or size >= left or (size == 0 and end - at >= left):
            return at, left, count, side, np.int64(-1)
        if size == 0:
            return at, left, count, side, np.int64(0)
        at += size
        left -= size
        if form == F_ZIPMAP:
            count += side
            side = 1 - side
        else:
            count += 1
    return at, left, count, side, np.int64(-1)


@njit(boundscheck=False)
def _walk_resume(data: Any, st: Any) -> int:
    at, left, count, side, state = _walk(
        data, st[POS], st[STOP], st[WALK_LEFT], st[WALK_FORM], st[WALK_COUNT], st[WALK_SIDE]
    )
    st[WALK_LEFT] = left
    st[WALK_COUNT] = count
    st[WALK_SIDE] = side
    if state < 0:
        return _fault(st, faults.PACKED_ENTRY, st[WALK_AT] - st[BASE], count, 0)
    if state > 0:
        st[UNITS] += count
        st[POS] = at
        return GO
    if at > st[STOP]:
        st[SKIP] = at - st[STOP]
        st[POS] = st[STOP]
        return GO
    return _short(st, at, min(left, np.int64(11)))


@njit(boundscheck=False)
def _blob(data: Any, st: Any, begin: int, at: int, form: int, scratch: Any) -> int:
    """Count the entries of the packed value whose string prefix is at *at* into `UNITS`; *begin* starts the atom."""
    end = st[STOP]
    size, body, raw, kind = _string(data, at, end)
    if size == 0:
        return _short(st, begin, at - begin + 20)
    if size < 0:
        return _fault(st, -size, at, body, raw)
    start = at + size
    st[WALK_AT] = st[BASE] + at
    if kind == _INT_STRING:
        return _fault(st, faults.PACKED_EMPTY, at, body, 0)
    st[TEXT] = raw
    st[TEXT_LZF] = body if kind == _LZF_STRING else -1
    if kind == _RAW_STRING:
        need = min(body, np.int64(10))
        if start + need > end:
            return _short(st, begin, start + need - begin)
        count, a, b = _packed(data, start, body, form)
    else:
        need = min(body, np.int64(40))
        if start + need > end:
            return _short(st, begin, start + need - begin)
        if not _lzf_head(data, start, start + need, scratch, min(raw, np.int64(10))):
            return _fault(st, faults.LZF, at, body, raw)
        count, a, b = _packed(scratch, 0, raw, form)
    if count < -1:
        return _fault(st, -1 - count, at, a, b)
    if count == -1:
        return _blob_walk(data, st, begin, at, form, scratch)
    if kind == _LZF_STRING:
        if start + body > end:
            _lzf_begin(st, at, start, body, raw)
            st[UNITS] += count
            return GO
        if not _lzf_is_whole(data, start, start + body, raw):
            return _fault(st, faults.LZF, at, body, raw)
    st[UNITS] += count
    return _pass(st, start + body)


@njit(boundscheck=False, forceinline=True)
def _pass(st: Any, to: int) -> int:
    """Go on at *to*, which may lie beyond the window."""
    end = st[STOP]
    if to > end:
        st[SKIP] += to - end
        st[POS] = end
    else:
        st[POS] = to
    return GO


@njit(boundscheck=False)
def _blob_walk(data: Any, st: Any, begin: int, at: int, form: int, scratch: Any) -> int:
    """Walk the entries of a packed value whose head does not count them."""
    end = st[STOP]
    size, body, raw, kind = _string(data, at, end)
    start = at + size
    head = np.int64(6)
    if form == F_ZIPLIST:
        head = np.int64(10)
    elif form == F_ZIPMAP:
        head = np.int64(1)
    if kind == _RAW_STRING:
        st[WALK_FORM] = form
        st[WALK_LEFT] = body - head
        st[WALK_COUNT] = 0
        st[WALK_SIDE] = 0
        st[POS] = start + head
        return GO
    if raw > LZF_WALK_BYTES_MAX or body > LZF_WALK_BYTES_MAX:
        return _fault(st, faults.WALK_BYTES, at, max(raw, body), 0)
    if start + body > end:
        return _short(st, begin, start + body - begin)
    if raw > scratch.size:
        st[POS] = begin
        st[WANT] = raw
        return SCRATCH
    if not _lzf_expand(data, start, start + body, scratch, 0, raw):
        return _fault(st, faults.LZF, at, body, raw)
    _, _, count, _, state = _walk(scratch, head, raw, raw - head, form, np.int64(0), np.int64(0))
    if state != 1:
        return _fault(st, faults.PACKED_ENTRY, at, count, 0)
    st[UNITS] += count
    st[POS] = start + body
    return GO


@njit(boundscheck=False, forceinline=True)
def _digits(value: int) -> int:
    """Return how many characters *value*, of 32 bits, has in decimal."""
    count = np.int64(1)
    if value < 0:
        count = np.int64(2)
        value = -value
    limit = np.int64(10)
    while value >= limit:
        count += 1
        limit *= 10
    return count


@njit(boundscheck=False, forceinline=True)
def _element(st: Any, m: Any, kind: int, length: int, form: int) -> None:
    """Add what one string of a value costs, which is no packed one (`KeyMeter.text`)."""
    if length >= LONG_ELEMENT_BYTES:
        st[MARKS] |= HAS_LONG
    if form != _INT_STRING:
        st[MARKS] |= HAS_TEXT
    if kind == T_SET:
        st[SIZE_BYTES] += set_member_size(m, length)
    elif kind == T_ZSET_2:
        st[SIZE_UNITS] += scored_member_units(m, length)
    elif st[FIELD] < 0:
        st[FIELD] = length
    elif kind == T_HASH_2:
        st[FIELD_VALUE] = length
    else:
        st[SIZE_BYTES] += field_size(m, st[FIELD], length, st[FIELD_EXPIRES] != 0)
        st[FIELD] = -1


@njit(boundscheck=False)
def _elements(data: Any, st: Any, m: Any) -> int:
    """Pass over the strings of a value that is not packed; `MODE` says what stands before and after each."""
    pos = st[POS]
    end = st[STOP]
    left = st[LEFT]
    mode = st[MODE]
    is_measured = st[SIZE_KNOWN] != 0
    type_byte = st[TYPE_BYTE]
    while left > 0:
        at = pos
        if mode == M_SCORED and left & 1:
            if at >= end:
                st[LEFT] = left
                return _short(st, pos, 1)
            size = np.int64(data[at])
            if size == 0:
                return _fault(st, faults.SCORE, at, 0, 0)
            pos += 1 + (0 if size >= 253 else size)
        elif mode == M_TRIPLE and left % 3 == 1:
            if at + 8 > end:
                st[LEFT] = left
                return _short(st, pos, 8)
            if is_measured:
                expires = _le(data, at, 8) != -1
                if expires:
                    st[MARKS] += EXPIRING
                st[SIZE_BYTES] += field_size(m, st[FIELD], st[FIELD_VALUE], expires)
                st[FIELD] = -1
            pos += 8
        else:
            if mode == M_EXPIRY_FIRST and not left & 1:
                size, body = _length(data, at, end)
                if size <= 0:
                    st[LEFT] = left
                    return _short(st, pos, 9) if size == 0 else _fault(st, -size, at, body, 0)
                at += size
                st[FIELD_EXPIRES] = body != 0
            size, body, raw, kind = _string(data, at, end)
            if size <= 0:
                st[LEFT] = left
                return _short(st, pos, at - pos + 20) if size == 0 else _fault(st, -size, at, body, raw)
            post = np.int64(8 if mode == M_POST8 else 0)
            if kind == _INT_STRING:
                if at + size + body > end:
                    st[LEFT] = left
                    return _short(st, pos, at + size + body - pos)
                if is_measured:
                    raw = _digits(_integer(data, at + size, body))
            pos = at + size + body
            if kind == _LZF_STRING:
                if pos > end:
                    _lzf_begin(st, at, at + size, body, raw)
                    st[SKIP] = post
                    left -= 1
                    if is_measured:
                        _element(st, m, type_byte, raw, kind)
                    break
                if not _lzf_is_whole(data, at + size, pos, raw):
                    return _fault(st, faults.LZF, at, body, raw)
            if is_measured:
                _element(st, m, type_byte, raw, kind)
            pos += post
        left -= 1
        if pos > end:
            _pass(st, pos)
            break
        st[POS] = pos
    st[LEFT] = left
    if left == 0:
        st[PHASE] = P_EMIT
    return GO


@njit(boundscheck=False)
def _one_string(data: Any, st: Any, begin: int, at: int) -> int:
    """Pass over one string, prefix at *at*; the atom starts at *begin*."""
    end = st[STOP]
    size, body, raw, kind = _string(data, at, end)
    if size <= 0:
        return _short(st, begin, at - begin + 20) if size == 0 else _fault(st, -size, at, body, raw)
    start = at + size
    if kind == _INT_STRING:
        if start + body > end:
            return _short(st, begin, start + body - begin)
        raw = _digits(_integer(data, start, body))
    st[TEXT] = raw
    if kind == _LZF_STRING:
        if start + body > end:
            _lzf_begin(st, at, start, body, raw)
            return GO
        if not _lzf_is_whole(data, start, start + body, raw):
            return _fault(st, faults.LZF, at, body, raw)
    return _pass(st, start + body)


@njit(boundscheck=False)
def _lengths(data: Any, st: Any, at: int, count: int) -> tuple[int, int, int, int]:
    """Read *count* lengths: return (`GO` or the answer, position after, last value, its position)."""
    begin = at
    last = at
    value = np.int64(0)
    for _ in range(count):
        last = at
        size, value = _length(data, at, st[STOP])
        if size == 0:
            return np.int64(_short(st, begin, at - begin + 9)), at, value, last
        if size < 0:
            return np.int64(_fault(st, -size, at, value, 0)), at, value, last
        at += size
    return np.int64(GO), at, value, last


@njit(boundscheck=False)
def _count_is_wild(count: int) -> bool:
    return count < 0 or count > ELEMENTS_MAX


@njit(boundscheck=False)
def _count(data: Any, st: Any, templates: Any) -> int:
    """Read a value's element count and choose how its elements are passed over."""
    at = st[POS]
    rc, pos, count, last = _lengths(data, st, at, 1)
    if rc != GO:
        return rc
    if _count_is_wild(count):
        return _fault(st, faults.COUNT, last, count, 0)
    kind = st[TYPE_BYTE]
    if kind == T_HASH_TEMPLATE_ARRAY_REF:
        if count >= len(templates) or templates[count] < 0:
            return _fault(st, faults.TEMPLATE, last, count, 0)
        count = templates[count]
    st[POS] = pos
    st[ELEMENTS] = count
    st[LEFT] = count
    st[MODE] = M_PLAIN
    st[PHASE] = P_ELEMENTS
    if kind == T_HASH_TEMPLATE_ARRAY_REF:
        return GO
    if kind == T_ARRAY:
        st[PHASE] = P_ARRAY
        st[STEP] = 0
        return GO
    if kind in (T_LIST_QUICKLIST, T_LIST_QUICKLIST_2):
        st[PHASE] = P_QUICK
        st[NODES] = 0
    elif kind in (T_STREAM, T_STREAM_2, T_STREAM_3, T_STREAM_4, T_STREAM_5):
        st[PHASE] = P_STREAM_NODES
        st[NODES] = count
        st[LEFT] = 2 * count
    elif kind == T_ZSET_2:
        st[MODE] = M_POST8
    elif kind != T_LIST and kind != T_SET:
        st[LEFT] = 2 * count
        if kind == T_ZSET:
            st[MODE] = M_SCORED
        elif kind == T_HASH_2 and st[VALKEY]:
            st[MODE] = M_TRIPLE
            st[LEFT] = 3 * count
        elif kind in (T_HASH_2, T_HASH_METADATA):
            st[MODE] = M_EXPIRY_FIRST
    return GO


@njit(boundscheck=False)
def _begin_value(st: Any, m: Any) -> None:
    """Choose the first phase of the value whose type is `TYPE_BYTE`."""
    kind = st[TYPE_BYTE]
    st[SIZE_KNOWN] = is_known(m, kind)
    if st[SIZE_KNOWN]:
        st[SIZE_BYTES] = 0
        st[SIZE_UNITS] = 0
        st[FIELD] = -1
        st[FIELD_EXPIRES] = 0
        st[MARKS] = 0
        st[LIST_COMPRESSED] = 0
        st[LIST_ENDS] = 0
        st[STREAM_NODE] = 0
        if kind >= T_STREAM:
            _tree_begin(st)
    st[UNITS] = 0
    st[ENCODING] = _ENCODING[kind]
    st[SKIP] = 0
    if kind == T_MODULE_2:
        st[PHASE] = P_MODULE
        st[STEP] = 0
        st[AUX_MODULE] = 0
        st[ELEMENTS] = -1
        return
    if kind in (T_HASH_METADATA, T_HASH_LISTPACK_EX):
        st[SKIP] = 8
    st[PHASE] = P_COUNT
    st[DIVISOR] = 1
    if kind == T_HASH_ZIPMAP:
        st[MODE] = F_ZIPMAP
    elif kind == T_SET_INTSET:
        st[MODE] = F_INTSET
    elif kind in (T_LIST_ZIPLIST, T_ZSET_ZIPLIST, T_HASH_ZIPLIST):
        st[MODE] = F_ZIPLIST
        st[DIVISOR] = 1 if kind == T_LIST_ZIPLIST else 2
    elif kind == T_HASH_TEMPLATE_LISTPACK_REF:
        st[MODE] = F_LISTPACK
    elif kind in (T_HASH_LISTPACK, T_ZSET_LISTPACK, T_SET_LISTPACK, T_HASH_LISTPACK_EX_PRE_GA, T_HASH_LISTPACK_EX):
        st[MODE] = F_LISTPACK
        st[DIVISOR] = 1 if kind == T_SET_LISTPACK else 3 if kind >= T_HASH_LISTPACK_EX_PRE_GA else 2
    else:
        return
    st[PHASE] = P_BLOB


@njit(boundscheck=False)
def _blob_end(st: Any, m: Any) -> int:
    if st[SIZE_KNOWN]:
        st[SIZE_BYTES] += packed_size(m, st[TEXT])
    units = st[UNITS]
    if st[TYPE_BYTE] == T_HASH_TEMPLATE_LISTPACK_REF:  # its first entry is the template's number
        if units == 0:
            return _fault(st, faults.PACKED_UNITS, st[WALK_AT] - st[BASE], units, st[DIVISOR])
        units -= 1
    if units % st[DIVISOR] != 0:
        return _fault(st, faults.PACKED_UNITS, st[WALK_AT] - st[BASE], units, st[DIVISOR])
    st[ELEMENTS] = units // st[DIVISOR]
    st[PHASE] = P_EMIT
    return GO


@njit(boundscheck=False)
def _list_node(st: Any, m: Any) -> None:
    """Add what a node of a list costs (`KeyMeter.list_node`); of `LIST_ENDS`, 1: the first is raw, 2: the last, 4: one is not."""
    plain = m[LIST_NODE] + packed_size(m, st[TEXT])
    is_lzf = st[TEXT_LZF] >= 0
    compressed = compressed_size(m, st[TEXT_LZF]) if is_lzf else plain
    depth = m[DEPTH]
    place = st[ELEMENTS] - st[LEFT]
    st[SIZE_BYTES] += compressed if depth > 0 and depth <= place < st[ELEMENTS] - depth else plain
    st[LIST_COMPRESSED] += compressed
    ends = st[LIST_ENDS] & 5
    if is_lzf:
        ends |= 4
    else:
        ends |= 2 if place else 3
    st[LIST_ENDS] = ends


@njit(boundscheck=False)
def _quicklist(data: Any, st: Any, m: Any, scratch: Any) -> int:
    """Count the entries of one node of a quicklist."""
    if st[LEFT] == 0:
        if st[LIST_ENDS] == 7 and m[DEPTH] == 0:
            st[SIZE_BYTES] = st[LIST_COMPRESSED]
        st[ELEMENTS] = st[UNITS]
        if st[TYPE_BYTE] == T_LIST_QUICKLIST_2 and st[NODES] == 1 and st[LISTPACK_LISTS]:
            st[ENCODING] = LISTPACK
        st[PHASE] = P_EMIT
        return GO
    begin = st[POS]
    at = begin
    nodes = np.int64(1)
    if st[TYPE_BYTE] == T_LIST_QUICKLIST:
        rc = _blob(data, st, begin, at, F_ZIPLIST, scratch)
    else:
        rc, at, container, _ = _lengths(data, st, begin, 1)
        if rc != GO:
            return rc
        if container == 2:
            rc = _blob(data, st, begin, at, F_LISTPACK, scratch)
        elif container == 1:
            st[TEXT_LZF] = -1
            size, body, _, form = _string(data, at, st[STOP])
            if size > 0 and form == _LZF_STRING:
                st[TEXT_LZF] = body
            rc = _one_string(data, st, begin, at)
            nodes = np.int64(2)  # a plain node alone is a quicklist still
            if rc == GO:
                st[UNITS] += 1
        else:
            return _fault(st, faults.CONTAINER, begin, container, 0)
    if rc == GO:
        if st[SIZE_KNOWN]:
            _list_node(st, m)
        st[LEFT] -= 1
        st[NODES] += nodes
    return rc


@njit(boundscheck=False)
def _tree_begin(st: Any) -> None:
    """Begin a radix tree of ids (`tests.reference.rdb.radix.RadixTree`)."""
    st[TREE_IDS] = 0
    st[TREE_NODES] = 0
    st[TREE_BYTES] = 0
    for depth in range(16):
        st[TREE_CHILDREN + depth] = 0


@njit(boundscheck=False, forceinline=True)
def _tree_node(st: Any, m: Any, size: int) -> None:
    st[TREE_NODES] += 1
    st[TREE_BYTES] += allocated(m, size)


@njit(boundscheck=False)
def _tree_close(st: Any, m: Any, depth: int) -> None:
    """The last id's leaf and every branch below *depth* are complete."""
    below = np.int64(16)
    _tree_node(st, m, np.int64(LEAF_BYTES))
    for at in range(15, depth, -1):
        children = st[TREE_CHILDREN + at]
        if children:
            if below - at > 1:
                _tree_node(st, m, 8 + ((below - at + 10) & ~7))
            _tree_node(st, m, 8 * children + ((children + 11) & ~7))
            st[TREE_CHILDREN + at] = 0
            below = np.int64(at)
    if below - depth > 1:
        _tree_node(st, m, 8 + ((below - depth + 10) & ~7))


@njit(boundscheck=False)
def _tree_add(data: Any, at: int, st: Any, m: Any) -> None:
    """Add the id of 16 bytes at *at*."""
    high = _be(data, at, 8)
    low = _be(data, at + 8, 8)
    if st[TREE_IDS] > 0:
        depth = np.int64(0)
        unlike = high ^ st[TREE_HIGH]
        if unlike == 0:
            depth = np.int64(8)
            unlike = low ^ st[TREE_LOW]
            if unlike == 0:
                return
        while (unlike >> 56) & 255 == 0:
            unlike <<= 8
            depth += 1
        _tree_close(st, m, depth)
        children = st[TREE_CHILDREN + depth]
        st[TREE_CHILDREN + depth] = children + 1 if children else 2
    st[TREE_HIGH] = high
    st[TREE_LOW] = low
    st[TREE_IDS] += 1


@njit(boundscheck=False)
def _tree_end(st: Any, m: Any) -> int:
    """Return what the tree costs and begin another one."""
    if st[TREE_IDS] > 0:
        _tree_close(st, m, np.int64(-1))
    else:
        _tree_node(st, m, np.int64(8))
    size = tree_size(m, st[TREE_IDS], st[TREE_NODES], st[TREE_BYTES])
    _tree_begin(st)
    return size


@njit(boundscheck=False)
def _stream_nodes(data: Any, st: Any, m: Any) -> int:
    """Pass over a stream's nodes: an id of 16 bytes and a listpack each."""
    while st[LEFT] > 0:
        at = st[POS]
        if st[LEFT] & 1 == 0:
            size, body, raw, kind = _string(data, at, st[STOP])
            if size == 0:
                return _short(st, at, 20)
            if size < 0:
                return _fault(st, -size, at, body, raw)
            if (body if kind == _RAW_STRING else raw) != 16:
                return _fault(st, faults.STREAM_ID, at, 0, 0)
            if st[SIZE_KNOWN]:
                if kind == _LZF_STRING:
                    st[SIZE_KNOWN] = 0
                elif at + size + 16 > st[STOP]:
                    return _short(st, at, size + 16)
                else:
                    _tree_add(data, at + size, st, m)
        rc = _one_string(data, st, at, at)
        if rc != GO:
            return rc
        if st[SIZE_KNOWN] and st[LEFT] & 1:
            if st[STREAM_NODE]:
                st[SIZE_BYTES] += allocated(m, st[STREAM_NODE])
            st[STREAM_NODE] = st[TEXT]
        st[LEFT] -= 1
        if st[SKIP] > 0 or st[LZF_RAW] > 0:
            return GO
    if st[SIZE_KNOWN]:
        if st[STREAM_NODE]:
            st[SIZE_BYTES] += last_stream_node_size(m, st[STREAM_NODE])
        st[SIZE_BYTES] += m[STREAM] + _tree_end(st, m)
    st[PHASE] = P_STREAM_META
    return GO


@njit(boundscheck=False)
def _stream(data: Any, st: Any) -> int:
    """Read the numbers of a stream after its nodes, or of one of its groups and consumers."""
    phase = st[PHASE]
    at = st[POS]
    kind = st[TYPE_BYTE]
    if phase == P_STREAM_META:
        rc, pos, length, last = _lengths(data, st, at, 1)
        if rc != GO:
            return rc
        if _count_is_wild(length):
            return _fault(st, faults.COUNT, at, length, 0)
        if length > 0 and st[NODES] == 0:
            return _fault(st, faults.STREAM_EMPTY, at, length, 0)
        rc, pos, count, last = _lengths(data, st, at, 4 if kind == T_STREAM else 9)
        if rc != GO:
            return rc
        st[ELEMENTS] = length
        st[GROUPS] = count
        st[POS] = pos
        st[PHASE] = P_STREAM_GROUP
    elif phase == P_STREAM_GROUP:
        if st[GROUPS] == 0:
            st[PHASE] = P_PRODUCERS if kind >= T_STREAM_4 else P_EMIT
            st[STEP] = 0
            return GO
        rc = _one_string(data, st, at, at)
        if rc != GO:
            return rc
        st[GROUPS] -= 1
        st[PHASE] = P_STREAM_GROUP_META
        return GO
    elif phase == P_STREAM_GROUP_META:
        rc, pos, count, last = _lengths(data, st, at, 3 if kind == T_STREAM else 4)
        if rc != GO:
            return rc
        st[PEL] = count
        st[POS] = pos
        st[PHASE] = P_STREAM_PEL
    elif phase == P_STREAM_CONSUMERS:
        rc, pos, count, last = _lengths(data, st, at, 1)
        if rc != GO:
            return rc
        st[CONSUMERS] = count
        st[POS] = pos
        st[PHASE] = P_STREAM_CONSUMER
    elif phase == P_STREAM_HANDED_BACK:
        rc, pos, count, last = _lengths(data, st, at, 1)
        if rc != GO:
            return rc
        if not _count_is_wild(count):
            _pass(st, pos + 16 * count)
        st[PHASE] = P_STREAM_GROUP
    elif phase == P_STREAM_CONSUMER:
        if st[CONSUMERS] == 0:
            st[PHASE] = P_STREAM_HANDED_BACK if kind == T_STREAM_5 else P_STREAM_GROUP
            return GO
        rc = _one_string(data, st, at, at)
        if rc != GO:
            return rc
        st[CONSUMERS] -= 1
        st[FIELD] = st[TEXT]
        st[SKIP] += 16 if kind >= T_STREAM_3 else 8
        st[PHASE] = P_STREAM_CONSUMER_META
        return GO
    else:
        rc, pos, count, last = _lengths(data, st, at, 1)
        if rc != GO:
            return rc
        if not _count_is_wild(count):
            if st[SIZE_KNOWN]:
                st[POS] = pos
                st[PEL] = count
                st[PHASE] = P_STREAM_CONSUMER_PEL
                return GO
            _pass(st, pos + 16 * count)
        st[PHASE] = P_STREAM_CONSUMER
    if _count_is_wild(count):
        return _fault(st, faults.COUNT, last, count, 0)
    return GO


@njit(boundscheck=False)
def _stream_pel(data: Any, st: Any, m: Any) -> int:
    """Pass over a group's pending entries: an id, a time and a delivery count each."""
    pos = st[POS]
    is_measured = st[SIZE_KNOWN] != 0
    while st[PEL] > 0:
        size, value = _length(data, pos + 24, st[STOP])
        if size == 0:
            return _short(st, pos, 33)
        if size < 0:
            return _fault(st, -size, pos + 24, value, 0)
        if is_measured:
            _tree_add(data, pos, st, m)
        pos += 24 + size
        st[POS] = pos
        st[PEL] -= 1
    if is_measured:
        st[SIZE_BYTES] += m[GROUP] + PENDING_BYTES * st[TREE_IDS]
        st[SIZE_BYTES] += _tree_end(st, m)
    st[PHASE] = P_STREAM_CONSUMERS
    return GO


@njit(boundscheck=False)
def _stream_consumer_pel(data: Any, st: Any, m: Any) -> int:
    """Read the ids that are pending for a consumer."""
    pos = st[POS]
    while st[PEL] > 0:
        if pos + 16 > st[STOP]:
            return _short(st, pos, 16)
        _tree_add(data, pos, st, m)
        pos += 16
        st[POS] = pos
        st[PEL] -= 1
    st[SIZE_BYTES] += m[CONSUMER] + st[FIELD] + _tree_end(st, m)
    st[PHASE] = P_STREAM_CONSUMER
    return GO


@njit(boundscheck=False)
def _producers(data: Any, st: Any) -> int:
    """Pass over a stream's idempotent producers: two limits; ids that each has used, with the entries they made; two counters."""
    at = st[POS]
    step = st[STEP]
    if step == 0:  # limits and the number of producers
        rc, pos, count, last = _lengths(data, st, at, 3)
        if rc == GO:
            if _count_is_wild(count):
                return _fault(st, faults.COUNT, last, count, 0)
            st[GROUPS] = count
            st[POS] = pos
            st[STEP] = 1
        return rc
    if step == 1:  # a producer's name, or the counters
        if st[GROUPS] == 0:
            rc, pos, _, _ = _lengths(data, st, at, 2)
            if rc == GO:
                st[POS] = pos
                st[PHASE] = P_EMIT
            return rc
        rc = _one_string(data, st, at, at)
        if rc == GO:
            st[GROUPS] -= 1
            st[STEP] = 2
        return rc
    if step == 2:  # how many ids it has used
        rc, pos, count, last = _lengths(data, st, at, 1)
        if rc == GO:
            if _count_is_wild(count):
                return _fault(st, faults.COUNT, last, count, 0)
            st[PEL] = count
            st[POS] = pos
            st[STEP] = 3
        return rc
    if step == 3:  # an id
        if st[PEL] == 0:
            st[STEP] = 1
            return GO
        rc = _one_string(data, st, at, at)
        if rc == GO:
            st[STEP] = 4
        return rc
    rc, pos, _, _ = _lengths(data, st, at, 2)
    if rc == GO:
        st[POS] = pos
        st[PEL] -= 1
        st[STEP] = 3
    return rc


@njit(boundscheck=False)
def _array(data: Any, st: Any) -> int:
    """Pass over an array: whether and where it inserts next, then elements with their index and kind."""
    at = st[POS]
    if st[STEP] == 0:
        rc, pos, flag, last = _lengths(data, st, at, 1)
        if rc == GO:
            if flag < 0 or flag > 1:
                return _fault(st, faults.ARRAY, last, flag, 0)
            st[POS] = pos
            st[STEP] = 1 if flag else 2
        return rc
    if st[STEP] == 1:
        rc, pos, _, _ = _lengths(data, st, at, 1)
        if rc == GO:
            st[POS] = pos
            st[STEP] = 2
        return rc
    if st[LEFT] == 0:
        st[PHASE] = P_EMIT
        return GO
    rc, pos, kind, last = _lengths(data, st, at, 2)
    if rc != GO:
        return rc
    if kind in (ARRAY_INTEGER, ARRAY_FLOAT):
        rc = _pass(st, pos + 8)
    elif kind in (ARRAY_STRING, ARRAY_SHORT_STRING):
        rc = _one_string(data, st, at, pos)
    else:
        return _fault(st, faults.ARRAY, last, kind, 0)
    if rc == GO:
        st[LEFT] -= 1
    return rc


@njit(boundscheck=False)
def _template(data: Any, st: Any) -> int:
    """Pass over the names of a hash template's fields."""
    if st[LEFT] == 0:
        st[PHASE] = P_RECORD
        return GO
    rc = _one_string(data, st, st[POS], st[POS])
    if rc == GO:
        st[LEFT] -= 1
    return rc


@njit(boundscheck=False)
def _key_meta(data: Any, st: Any) -> int:
    """Pass over what modules keep beside a key: classes of four bytes, a module's opcodes each."""
    if st[STEP] == 0:
        rc, pos, classes, last = _lengths(data, st, st[POS], 1)
        if rc == GO:
            if classes < 0 or classes > KEY_META_CLASSES_MAX:
                return _fault(st, faults.KEY_META, last, classes, 0)
            st[LEFT] = classes
            st[POS] = pos
            st[STEP] = 1
        return rc
    if st[LEFT] == 0:
        st[PHASE] = P_RECORD
        return GO
    st[LEFT] -= 1
    st[AUX_MODULE] = 2
    st[PHASE] = P_MODULE
    return _pass(st, st[POS] + 4)


@njit(boundscheck=False)
def _module(data: Any, st: Any) -> int:
    """Pass over a module's value by its opcodes."""
    at = st[POS]
    if st[STEP] == 0:
        rc, pos, _, _ = _lengths(data, st, at, 1)
        if rc == GO:
            st[POS] = pos
            st[STEP] = 1
        return rc
    rc, pos, opcode, _last = _lengths(data, st, at, 1)
    if rc != GO:
        return rc
    if opcode == MODULE_EOF:
        st[POS] = pos
        if st[AUX_MODULE] == 2:
            st[PHASE] = P_KEY_META
        elif st[AUX_MODULE]:
            st[MODULE_AUXES] += 1
            st[PHASE] = P_RECORD
        else:
            st[PHASE] = P_EMIT
        return GO
    if opcode in (MODULE_SINT, MODULE_UINT):
        rc, pos, _, _ = _lengths(data, st, at, 2)
        if rc == GO:
            st[POS] = pos
        return rc
    if opcode == MODULE_FLOAT:
        return _pass(st, pos + 4)
    if opcode == MODULE_DOUBLE:
        return _pass(st, pos + 8)
    if opcode == MODULE_STRING:
        return _one_string(data, st, at, pos)
    return _fault(st, faults.MODULE_OPCODE, at, opcode, 0)


@njit(boundscheck=False)
def _function_pre_ga(data: Any, st: Any) -> int:
    """Pass over a function library of a Redis 7.0 release candidate: name, engine, perhaps a description, code."""
    at = st[POS]
    step = st[STEP]
    if step == 5:  # the code has been passed over to its last byte
        st[FUNCTIONS] += 1
        st[PHASE] = P_RECORD
        return GO
    if step == 2:
        rc, pos, described, _ = _lengths(data, st, at, 1)
        if rc == GO:
            st[POS] = pos
            st[STEP] = 3 if described else 4
        return rc
    rc = _one_string(data, st, at, at)
    if rc == GO:
        st[STEP] += 1
    return rc


@njit(boundscheck=False)
def _slot_import(data: Any, st: Any) -> int:
    """Pass over a slot import of Valkey 9: the job's name, then ranges of slots (`clusterRDBLoadSlotImport`)."""
    at = st[POS]
    if st[PHASE] == P_IMPORT:
        if st[STEP] == 0:
            rc = _one_string(data, st, at, at)
            if rc == GO:
                st[STEP] = 1
            return rc
        rc, pos, count, last = _lengths(data, st, at, 1)
        if rc != GO:
            return rc
        if _count_is_wild(count):
            return _fault(st, faults.COUNT, last, count, 0)
        st[LEFT] = count
        st[POS] = pos
        st[PHASE] = P_IMPORT_RANGES
        return GO
    while st[LEFT] > 0:
        rc, pos, _, _ = _lengths(data, st, st[POS], 2)
        if rc != GO:
            return rc
        st[POS] = pos
        st[LEFT] -= 1
    st[PHASE] = P_RECORD
    return GO


@njit(boundscheck=False)
def _decimal(data: Any, at: int, stop: int) -> tuple[int, int]:
    """Read a decimal number below 10**15 of ``data[at:stop]``: return (position after it, value), or position -1."""
    value = np.int64(0)
    begin = at
    while at < stop and 48 <= data[at] <= 57 and at - begin < 15:
        value = 10 * value + np.int64(data[at]) - 48
        at += 1
    if at == begin:
        return np.int64(-1), value
    return at, value


@njit(boundscheck=False)
def _note_slot(st: Any, slot: int, keys: int, expires: int, declared_keys: Any, declared_expires: Any) -> bool:
    if slot < 0 or slot > 16383 or keys < 0 or expires < 0 or keys > ELEMENTS_MAX or expires > keys:
        return False
    declared_keys[slot] = max(declared_keys[slot], np.int64(0)) + keys
    declared_expires[slot] = max(declared_expires[slot], np.int64(0)) + expires
    st[OTHER_SLOT] = slot
    st[OTHER_KEYS] = keys
    return True


@njit(boundscheck=False)
def _aux(data: Any, st: Any, begin: int, at: int, declared_keys: Any, declared_expires: Any) -> int:
    """Read an aux field: slot info here, any other is an event for Python."""
    end = st[STOP]
    size, body, raw, kind = _string(data, at, end)
    if size <= 0:
        return _short(st, begin, 40) if size == 0 else _fault(st, -size, at, body, raw)
    name = at + size
    if body > AUX_NAME_BYTES_MAX or raw > AUX_NAME_BYTES_MAX:
        return _fault(st, faults.AUX_NAME, at, max(body, raw), 0)
    value = name + body
    size, body, raw, kind2 = _string(data, value, end)
    if size <= 0:
        return _short(st, begin, value - begin + 20) if size == 0 else _fault(st, -size, value, body, raw)
    start = value + size
    is_large = body > AUX_VALUE_BYTES_MAX or raw > AUX_VALUE_BYTES_MAX
    if not is_large and start + body > end:
        return _short(st, begin, start + body - begin)
    st[EVENT_KIND] = EVENT_AUX
    st[EVENT_A] = at
    st[EVENT_B] = -1 if is_large else value
    if is_large:
        rc = _one_string(data, st, begin, value)
        return EVENT if rc == GO else rc
    if kind == _RAW_STRING and kind2 == _RAW_STRING and value - name == 9:  # noqa: SIM102 - nine bytes first
        # "slot-info", letter by letter in two words
        if _be(data, name, 8) == 0x736C6F742D696E66 and data[name + 8] == 0x6F:
            pos, slot = _decimal(data, start, start + body)
            keys = np.int64(-1)
            expires = np.int64(-1)
            if pos > 0 and pos < start + body and data[pos] == 44:
                pos, keys = _decimal(data, pos + 1, start + body)
                if pos > 0 and pos < start + body and data[pos] == 44:
                    pos, expires = _decimal(data, pos + 1, start + body)
            while pos > 0 and pos < start + body and data[pos] == 44:  # Valkey 9 adds the keys with expiring fields
                pos, _ = _decimal(data, pos + 1, start + body)
            if pos != start + body or not _note_slot(st, slot, keys, expires, declared_keys, declared_expires):
                return _fault(st, faults.SLOT_INFO, begin, 0, 0)
            st[POS] = start + body
            return GO
    if kind2 == _LZF_STRING and not _lzf_is_whole(data, start, start + body, raw):
        return _fault(st, faults.LZF, value, body, raw)
    if kind == _LZF_STRING:
        _, body, raw, _ = _string(data, at, end)
        if not _lzf_is_whole(data, name, name + body, raw):
            return _fault(st, faults.LZF, at, body, raw)
    st[POS] = start + body
    return EVENT


@njit(boundscheck=False)
def _opcode(data: Any, st: Any, op: int, at: int, declared_keys: Any, declared_expires: Any) -> int:
    """Handle a record that is no key; *at* is the place of its opcode."""
    if op == OP_AUX:
        return _aux(data, st, at, at + 1, declared_keys, declared_expires)
    if op == OP_EOF:
        st[POS] = at + 1
        return END
    if op == OP_SELECTDB:
        rc, pos, db, _ = _lengths(data, st, at + 1, 1)
        if rc == GO:
            if db < 0 or db >= DATABASES_MAX:
                return _fault(st, faults.DATABASE, at, db, 0)
            st[EVENT_KIND] = EVENT_SELECTDB
            st[EVENT_A] = db
            st[DB] = db
    elif op == OP_RESIZEDB:
        rc, pos, keys, _ = _lengths(data, st, at + 1, 1)
        if rc == GO:
            st[EVENT_A] = keys
            rc, pos, expires, _ = _lengths(data, st, at + 1, 2)
            st[EVENT_B] = expires
            st[EVENT_KIND] = EVENT_RESIZEDB
            if rc == GO and (_count_is_wild(keys) or _count_is_wild(expires)):
                return _fault(st, faults.COUNT, at, keys if _count_is_wild(keys) else expires, 0)
    elif op == OP_SLOT_INFO:
        rc, pos, slot, _ = _lengths(data, st, at + 1, 1)
        if rc == GO:
            rc, pos, keys, _ = _lengths(data, st, at + 1, 2)
        if rc == GO:
            rc, pos, expires, _ = _lengths(data, st, at + 1, 3)
            if rc == GO:
                if not _note_slot(st, slot, keys, expires, declared_keys, declared_expires):
                    return _fault(st, faults.SLOT_INFO, at, 0, 0)
                st[POS] = pos
                return GO
    elif op == OP_MODULE_AUX:
        rc, pos, when, _last = _lengths(data, st, at + 1, 2)
        if rc == GO:
            if when != MODULE_UINT:
                return _fault(st, faults.MODULE_WHEN, at, when, 0)
            rc, pos, _, _ = _lengths(data, st, at + 1, 3)
            if rc == GO:
                st[POS] = pos
                st[PHASE] = P_MODULE
                st[STEP] = 1
                st[AUX_MODULE] = 1
                return GO
    elif op in (OP_FUNCTION2, OP_FUNCTION_PRE_GA) or (op == OP_SLOT_IMPORT and st[VALKEY]):
        st[POS] = at + 1
        st[STEP] = 4 if op == OP_FUNCTION2 else 0
        st[PHASE] = P_IMPORT if op == OP_SLOT_IMPORT else P_FUNCTION_PRE_GA
        return GO
    elif op in (OP_RAM_LRU, OP_SLOT_NUMBER) and not st[VALKEY]:
        rc, pos, _, _ = _lengths(data, st, at + 1, 1)
        if rc == GO:
            st[POS] = pos
            return GO
    elif op == OP_HASH_TEMPLATE and st[TYPE_MAX] >= T_STREAM_4:
        rc, pos, number, _ = _lengths(data, st, at + 1, 1)
        if rc == GO:
            rc, pos, count, _ = _lengths(data, st, at + 1, 2)
        if rc == GO:
            if number < 0 or number >= TEMPLATES_MAX:
                return _fault(st, faults.TEMPLATE_NUMBER, at, number, 0)
            if _count_is_wild(count):
                return _fault(st, faults.COUNT, at, count, 0)
            st[EVENT_KIND] = EVENT_TEMPLATE
            st[EVENT_A] = number
            st[EVENT_B] = count
            st[LEFT] = count
            st[PHASE] = P_TEMPLATE
    else:
        return _fault(st, faults.OPCODE if op >= 128 else faults.TYPE, at, op, st[VALKEY])
    if rc == GO:
        st[POS] = pos
        return EVENT
    if rc == NEED:
        st[POS] = at
        st[WANT] += 1
    return rc


@njit(boundscheck=False)
def _memory(st: Any, m: Any) -> int:
    """Return the size in memory of the key at hand, or -1 where the layout is not known."""
    kind = st[TYPE_BYTE]
    expires = st[EXPIRE] >= 0
    if kind == T_STRING and is_known(m, kind):
        return string_size(m, st[KEY_LENGTH], expires, st[ENCODING], st[ELEMENTS])
    if kind != T_STRING and st[SIZE_KNOWN]:
        return whole_size(
            m, kind, st[ENCODING], st[ELEMENTS], st[KEY_LENGTH], expires, st[SIZE_BYTES], st[SIZE_UNITS], st[MARKS]
        )
    return np.int64(-1)


@njit(boundscheck=False, forceinline=True)
def _emit(st: Any, m: Any, row: int, rows: Any, pos: int, memory: int) -> None:
    rows[0][row] = st[DB]
    rows[1][row] = st[SLOT]
    rows[2][row] = st[TAG_START]
    rows[3][row] = st[TAG_LENGTH]
    rows[4][row] = _KEY_TYPE[st[TYPE_BYTE]]
    rows[5][row] = st[ENCODING]
    rows[6][row] = st[ELEMENTS]
    rows[7][row] = st[BASE] + pos - st[REC]
    rows[8][row] = st[EXPIRE]
    rows[9][row] = st[IDLE]
    rows[10][row] = st[FREQ]
    rows[11][row] = st[REC]
    rows[12][row] = memory
    rows[13][row] = m[ESTIMATE]
    st[KEY_POS] += st[KEY_LENGTH]
    rows[14][row + 1] = st[KEY_POS]
    st[ROW] = row + 1


@njit(boundscheck=False)
def _put_decimal(out: Any, at: int, value: int) -> int:
    """Write *value* in decimal to *out* from *at*; return the bytes written."""
    left = -value if value < 0 else value
    count = 1
    limit = np.int64(10)
    while left >= limit:
        count += 1
        limit *= 10
    if value < 0:
        out[at] = 45
        at += 1
    for i in range(count - 1, -1, -1):
        out[at + i] = 48 + left % 10
        left //= 10
    return count + (1 if value < 0 else 0)


@njit(boundscheck=False, forceinline=True)
def _integer(data: Any, at: int, count: int) -> int:
    """Return the signed little-endian integer of 1, 2 or 4 bytes at *at*."""
    value = _le(data, at, count)
    top = np.int64(1) << (8 * count - 1)
    return (value ^ top) - top


@njit(boundscheck=False)
def _is_integer(data: Any, at: int, size: int) -> bool:
    """Whether ``data[at:at + size]`` is a 64-bit integer written as a server writes it (`string2ll`)."""
    negative = data[at] == 45
    if negative:
        at += 1
        size -= 1
    if size == 0 or size > 19:
        return False
    if data[at] == 48:
        return size == 1 and not negative
    value = np.uint64(0)
    for i in range(size):
        digit = np.int64(data[at + i]) - 48
        if digit < 0 or digit > 9:
            return False
        value = value * np.uint64(10) + np.uint64(digit)
    return value <= np.uint64(0x7FFFFFFFFFFFFFFF) + np.uint64(1 if negative else 0)


@njit(boundscheck=False, forceinline=True)
def _embstr_max(rule: int, key_bytes: int, expires: bool) -> int:
    if rule == 2:
        return np.int64(44)
    if rule < 2:
        return np.int64(-1 if rule == 0 else 39)
    header = 1 if key_bytes < 32 else 3 if key_bytes < 256 else 5 if key_bytes < 65536 else 9
    return min(np.int64(255), rule - 8 - (header + key_bytes + 2) - (8 if expires else 0) - 4)


@njit(boundscheck=False)
def _records(
    data: Any, st: Any, m: Any, keys: Any, rows: Any, declared_keys: Any, declared_expires: Any, capacity: int
) -> int:
    """Decode records from a record's boundary on, until one needs another phase."""
    end = st[STOP]
    base = st[BASE]
    rule = st[EMBSTR_RULE]
    type_max = st[TYPE_MAX]
    valkey = st[VALKEY]
    knows_strings = is_known(m, T_STRING)
    room = np.int64(keys.size)
    by_record = st[BY_RECORD] != 0
    while True:
        pos = st[POS]
        if by_record and st[OTHER_OP] != 0:
            return RECORD
        if st[ROW] >= capacity:
            return BATCH
        if pos >= end:
            return _short(st, pos, 1)
        begin = pos
        expire = np.int64(-1)
        idle = np.int64(-1)
        freq = np.int64(-1)
        op = np.int64(data[pos])
        meta = st[META_AT]
        if meta > 0:
            expire = st[EXPIRE]
            idle = st[IDLE]
            freq = st[FREQ]
        while meta == 0 and (
            (op >= OP_IDLE and op != OP_AUX and op != OP_RESIZEDB and op < OP_SELECTDB)
            or (pos != begin and not valkey and op in (OP_RAM_LRU, OP_SLOT_NUMBER))
        ):
            if op in (OP_RAM_LRU, OP_SLOT_NUMBER):
                size, value = _length(data, pos + 1, end)
                if size < 0:
                    return _fault(st, -size, pos + 1, value, 0)
                if size == 0 or pos + 1 + size >= end:
                    return _short(st, begin, pos + 11 - begin)
                pos += 1 + size
            elif op == OP_EXPIRE_MS:
                if pos + 10 > end:
                    return _short(st, begin, pos + 10 - begin)
                expire = _le(data, pos + 1, 8)
                if expire < 0:
                    return _fault(st, faults.EXPIRY, pos, expire, 0)
                pos += 9
            elif op == OP_EXPIRE_S:
                if pos + 6 > end:
                    return _short(st, begin, pos + 6 - begin)
                expire = 1000 * _integer(data, pos + 1, 4)
                if expire < 0:
                    return _fault(st, faults.EXPIRY, pos, expire, 0)
                pos += 5
            elif op == OP_FREQ:
                if pos + 3 > end:
                    return _short(st, begin, pos + 3 - begin)
                freq = np.int64(data[pos + 1])
                pos += 2
            else:
                size, idle = _length(data, pos + 1, end)
                if size < 0:
                    return _fault(st, -size, pos + 1, idle, 0)
                if size == 0 or pos + 1 + size >= end:
                    return _short(st, begin, pos + 11 - begin)
                if idle < 0 or idle > 0xFFFFFFFFFF:
                    return _fault(st, faults.IDLE, pos, idle, 0)
                pos += 1 + size
            if pos - begin > 64:
                return _fault(st, faults.ATTRIBUTE, pos, op, 0)
            op = np.int64(data[pos])
        if op == OP_KEY_META and type_max >= T_STREAM_4 and meta == 0:
            st[META_AT] = base + begin + 1
            st[EXPIRE] = expire
            st[IDLE] = idle
            st[FREQ] = freq
            st[POS] = pos + 1
            st[STEP] = 0
            st[PHASE] = P_KEY_META
            return GO
        if op > type_max or op == 8:
            if pos != begin or meta > 0:
                return _fault(st, faults.ATTRIBUTE, pos, op, 0)
            rc = _opcode(data, st, op, pos, declared_keys, declared_expires)
            if rc in (GO, EVENT):
                st[OTHER_OP] = op
                st[OTHER_BEGIN] = base + pos
            if rc != GO:
                return rc
            if st[PHASE] != P_RECORD or st[SKIP] > 0 or st[LZF_RAW] > 0:
                return GO
            continue
        if op == T_MODULE_PRE_GA:
            return _fault(st, faults.MODULE_PRE_GA, pos, 0, 0)
        if op in UNREADABLE_TYPES:
            return _fault(st, faults.TYPE_UNREADABLE, pos, op, 0)
        # The key.
        at = pos + 1
        size, body, raw, kind = _string(data, at, end)
        if size <= 0:
            return _short(st, begin, at + 20 - begin) if size == 0 else _fault(st, -size, at, body, raw)
        if body > KEY_BYTES_MAX or raw > KEY_BYTES_MAX:
            return _fault(st, faults.KEY_BYTES, at, max(body, raw), 0)
        at += size
        pos = at + body
        if pos >= end:
            return _short(st, begin, pos + 1 - begin)
        put = st[KEY_POS]
        if put + raw + 16 > room:
            if st[ROW] > 0:
                return BATCH
            st[WANT] = raw + 16
            return KEYS
        if kind == _RAW_STRING:
            for i in range(body):
                keys[put + i] = data[at + i]
            key_bytes = body
        elif kind == _INT_STRING:
            key_bytes = np.int64(_put_decimal(keys, put, _integer(data, at, body)))
        else:
            if not _lzf_expand(data, at, pos, keys, put, raw):
                return _fault(st, faults.LZF, at - size, body, raw)
            key_bytes = raw
        first, last = tag_bounds(keys, put, put + key_bytes)
        st[SLOT] = slot_of(keys, put, put + key_bytes)
        st[TAG_START] = first - put if last - first != key_bytes else 0
        st[TAG_LENGTH] = last - first if last - first != key_bytes else 0
        st[KEY_LENGTH] = key_bytes
        st[REC] = base + begin if meta == 0 else meta - 1
        st[EXPIRE] = expire
        st[IDLE] = idle
        st[FREQ] = freq
        st[TYPE_BYTE] = op
        if op != T_STRING:
            st[POS] = pos
            st[META_AT] = 0
            _begin_value(st, m)
            return GO
        # A string value.
        at = pos
        size, body, raw, kind = _string(data, at, end)
        if size <= 0:
            return _short(st, begin, at + 20 - begin) if size == 0 else _fault(st, -size, at, body, raw)
        at += size
        pos = at + body
        encoding = np.int64(RAW)
        if kind == _INT_STRING:
            if pos > end:
                return _short(st, begin, pos - begin)
            encoding = np.int64(INT)
            raw = _digits(_integer(data, at, body))
        else:
            if raw <= 255 and raw <= _embstr_max(rule, key_bytes, expire >= 0):
                encoding = np.int64(EMBSTR)
            if kind == _RAW_STRING and 0 < raw <= 20:
                if pos > end:
                    return _short(st, begin, pos - begin)
                if (data[at] == 45 or 48 <= data[at] <= 57) and _is_integer(data, at, raw):
                    encoding = np.int64(INT)
            elif encoding == EMBSTR and idle < 0 and freq < 0:
                if min(pos, at + 5) > end:
                    return _short(st, begin, at + 5 - begin)
                if body >= 5 and _be(data, at + (1 if kind == _LZF_STRING else 0), 4) == _HYLL:
                    encoding = np.int64(RAW)
        st[ELEMENTS] = raw
        st[ENCODING] = encoding
        st[META_AT] = 0
        if pos > end:
            st[PHASE] = P_EMIT
            if kind == _LZF_STRING:
                _lzf_begin(st, at - size, at, body, raw)
            else:
                _pass(st, pos)
            return GO
        if kind == _LZF_STRING and not _lzf_is_whole(data, at, pos, raw):
            return _fault(st, faults.LZF, at - size, body, raw)
        st[POS] = pos
        memory = np.int64(-1)
        if knows_strings:
            memory = string_size(m, key_bytes, expire >= 0, encoding, raw)
        _emit(st, m, st[ROW], rows, pos, memory)


@njit(boundscheck=False)
def skim(
    data: Any,
    st: Any,
    m: Any,
    keys: Any,
    rows: Any,
    declared_keys: Any,
    declared_expires: Any,
    scratch: Any,
    templates: Any,
    capacity: int,
) -> int:
    """Decode as much of the window as there is; return an answer of `rdb_skim_state`.

    *data* uint8 window, filled to ``st[STOP]``; *st* int64 state; *m* the memory model (`memory_sizes.model_array`); *keys* uint8, key names of the batch; *rows*
    the columns of the batch in the order of `_emit`, each of *capacity* (key offsets: one more);
    *declared_keys* and *declared_expires* int64[16384]; *scratch* uint8, for packed values that must be
    expanded; *templates* int64, the fields of each hash template by its number, -1 where there is none.
    """
    while True:
        if st[LZF_RAW] > 0:
            rc = _lzf_resume(data, st)
            if rc != GO:
                return rc
        if st[SKIP] > 0:
            take = min(st[SKIP], st[STOP] - st[POS])
            st[SKIP] -= take
            st[POS] += take
            if st[SKIP] > 0:
                st[WANT] = 1
                return NEED
        if st[WALK_LEFT] > 0:
            rc = _walk_resume(data, st)
            if rc != GO:
                return rc
            continue
        phase = st[PHASE]
        if phase == P_RECORD:
            rc = _records(data, st, m, keys, rows, declared_keys, declared_expires, capacity)
        elif phase == P_EMIT:
            _emit(st, m, st[ROW], rows, st[POS], _memory(st, m))
            st[PHASE] = P_RECORD
            rc = GO
        elif phase == P_COUNT:
            rc = _count(data, st, templates)
        elif phase == P_ELEMENTS:
            rc = _elements(data, st, m)
        elif phase == P_BLOB:
            rc = _blob(data, st, st[POS], st[POS], st[MODE], scratch)
            if rc == GO:
                st[PHASE] = P_BLOB_END
        elif phase == P_BLOB_END:
            rc = _blob_end(st, m)
        elif phase == P_QUICK:
            rc = _quicklist(data, st, m, scratch)
        elif phase == P_STREAM_NODES:
            rc = _stream_nodes(data, st, m)
        elif phase == P_STREAM_PEL:
            rc = _stream_pel(data, st, m)
        elif phase == P_STREAM_CONSUMER_PEL:
            rc = _stream_consumer_pel(data, st, m)
        elif phase == P_MODULE:
            rc = _module(data, st)
        elif phase == P_FUNCTION_PRE_GA:
            rc = _function_pre_ga(data, st)
        elif phase == P_PRODUCERS:
            rc = _producers(data, st)
        elif phase == P_ARRAY:
            rc = _array(data, st)
        elif phase == P_TEMPLATE:
            rc = _template(data, st)
        elif phase == P_KEY_META:
            rc = _key_meta(data, st)
        elif phase in (P_IMPORT, P_IMPORT_RANGES):
            rc = _slot_import(data, st)
        else:
            rc = _stream(data, st)
        if rc != GO:
            return rc
