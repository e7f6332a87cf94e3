"""Walk records: attributes and names of keys, and other records."""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.key_slots import slot_of, tag_bounds
from cluster_core.rdb import faults, grammar, head, steps
from cluster_core.rdb import skim_state as state
from cluster_core.rdb.atoms import (
    ask,
    begin_compressed,
    big_endian,
    digits_of,
    expand,
    is_whole,
    is_wild,
    little_endian,
    note_fault,
    pass_over,
    pass_string,
    read_length,
    read_lengths,
    read_string,
    signed_integer,
)
from cluster_core.rdb.steps import begin_steps
from cluster_core.rdb.strings import INT_STRING, LZF_STRING, RAW_STRING

embstr_bytes_max = compiled(head, "embstr_bytes_max", forceinline=True)["embstr_bytes_max"]
IDLE_SECONDS_MAX = 0xFFFFFFFFFF
ATTRIBUTE_BYTES_MAX = 64
"""Maximum bytes of attributes before a key's type."""
INTEGER_DIGITS_MAX = 19
HYLL = 0x48594C4C
"""First bytes of a HyperLogLog.

PFADD creates a raw string of any length; loading a file may re-encode it. Idle times and frequencies are taken as the
sign of a server that loaded its keys.
"""


NO_RECORD = -1


@borrowing()
def _pass_metadata(data: Any, at: int, end: int) -> int:
    """Return the position after the metadata at *at* that modules attach to a key, at most *end*."""
    size, classes = read_length(data, at, end)
    at += size
    while size > 0 and classes > 0 and at < end:
        classes -= 1
        at += 4
        size, opcode = read_length(data, at, end)
        at += size
        while size > 0 and opcode != grammar.MODULE_EOF:
            if opcode == grammar.MODULE_STRING:
                size, body, _, _ = read_string(data, at, end)
                at += size + body
            elif opcode == grammar.MODULE_FLOAT or opcode == grammar.MODULE_DOUBLE:
                at += 4 if opcode == grammar.MODULE_FLOAT else 8
            else:
                size, _ = read_length(data, at, end)
                at += size
            if size > 0:
                size, opcode = read_length(data, at, end)
                at += size
    return at if size > 0 and classes == 0 else end


@borrowing()
def find_value(data: Any, at: int, end: int, g: Any) -> tuple[int, int]:
    """Return (type byte, position of the value) of the record in ``data[at:end]``; `NO_RECORD` for invalid bytes."""
    while at < end:
        op = np.int64(data[at])
        begins = g[op, state.BEGINS]
        if begins == grammar.B_TYPE:
            size, body, _, _ = read_string(data, at + 1, end)
            pos = at + 1 + size + body
            return (op, pos) if size > 0 and pos <= end else (np.int64(NO_RECORD), at)
        if op == grammar.OP_EXPIRE_MS:
            at += 9
        elif op == grammar.OP_EXPIRE_S:
            at += 5
        elif op == grammar.OP_FREQ:
            at += 2
        elif begins == grammar.B_ATTRIBUTE or begins == grammar.B_INNER_ATTRIBUTE:
            size, _ = read_length(data, at + 1, end)
            if size <= 0:
                break
            at += 1 + size
        elif begins == grammar.B_KEY_META:
            at = _pass_metadata(data, at + 1, end)
        else:
            break
    return np.int64(NO_RECORD), at


@borrowing()
def put_decimal(out: Any, at: int, value: int) -> int:
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


@borrowing()
def is_integer(data: Any, at: int, size: int) -> bool:
    """Return whether ``data[at:at + size]`` is a 64-bit integer in a server's form (`string2ll`)."""
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


@borrowing(forceinline=True)
def read_attributes(data: Any, st: Any, g: Any, begin: int, end: int) -> tuple[int, int, int, int, int]:
    """Read expiry, idle time and frequency: return (answer, position of the type, expiry in ms, idle seconds, frequency)."""
    pos = begin
    none = np.int64(-1)
    expire = none
    idle = none
    freq = none
    op = np.int64(data[pos])
    begins = g[op, state.BEGINS]
    while begins == grammar.B_ATTRIBUTE or (begins == grammar.B_INNER_ATTRIBUTE and pos != begin):
        if op == grammar.OP_EXPIRE_MS:
            if pos + 10 > end:
                return ask(st, begin, pos + 10 - begin), pos, none, none, none
            expire = little_endian(data, pos + 1, 8)
            if expire < 0:
                return note_fault(st, faults.EXPIRY, pos, expire, 0), pos, none, none, none
            size = np.int64(8)
        elif op == grammar.OP_EXPIRE_S:
            if pos + 6 > end:
                return ask(st, begin, pos + 6 - begin), pos, none, none, none
            expire = 1000 * signed_integer(data, pos + 1, 4)
            if expire < 0:
                return note_fault(st, faults.EXPIRY, pos, expire, 0), pos, none, none, none
            size = np.int64(4)
        elif op == grammar.OP_FREQ:
            if pos + 3 > end:
                return ask(st, begin, pos + 3 - begin), pos, none, none, none
            freq = np.int64(data[pos + 1])
            size = np.int64(1)
        else:
            size, value = read_length(data, pos + 1, end)
            if size < 0:
                return note_fault(st, -size, pos + 1, value, 0), pos, none, none, none
            if size == 0 or pos + 1 + size >= end:
                return ask(st, begin, pos + 11 - begin), pos, none, none, none
            if op == grammar.OP_IDLE:
                idle = value
                if idle < 0 or idle > IDLE_SECONDS_MAX:
                    return note_fault(st, faults.IDLE, pos, idle, 0), pos, none, none, none
        pos += 1 + size
        if pos - begin > ATTRIBUTE_BYTES_MAX:
            return note_fault(st, faults.ATTRIBUTE, pos, op, 0), pos, none, none, none
        op = np.int64(data[pos])
        begins = g[op, state.BEGINS]
    return np.int64(state.GO), pos, expire, idle, freq


@borrowing(inline="always")
def read_key(data: Any, st: Any, keys: Any, begin: int, at: int) -> tuple[int, int]:
    """Copy the key with its prefix at *at* to *keys*: return (answer, position after it); the record starts at *begin*."""
    end = st[state.STOP]
    size, body, raw, kind = read_string(data, at, end)
    if size == 0:
        return ask(st, begin, at + 20 - begin), at
    if size < 0:
        return note_fault(st, -size, at, body, raw), at
    if body > grammar.KEY_BYTES_MAX or raw > grammar.KEY_BYTES_MAX:
        return note_fault(st, faults.KEY_BYTES, at, max(body, raw), 0), at
    at += size
    pos = at + body
    if pos >= end:
        return ask(st, begin, pos + 1 - begin), at
    put = st[state.KEY_POS]
    if put + raw + 16 > keys.size:
        st[state.WANT] = raw + 16
        return np.int64(state.BATCH if st[state.ROW] > 0 else state.KEYS), at
    key_bytes = raw
    if kind == RAW_STRING:
        for i in range(body):
            keys[put + i] = data[at + i]
    elif kind == INT_STRING:
        key_bytes = np.int64(put_decimal(keys, put, signed_integer(data, at, body)))
    elif not expand(data, at, pos, keys, put, raw):
        return note_fault(st, faults.LZF, at - size, body, raw), at
    first, last = tag_bounds(keys, put, put + key_bytes)
    st[state.SLOT] = slot_of(keys, put, put + key_bytes)
    st[state.TAG_START] = first - put if last - first != key_bytes else 0
    st[state.TAG_LENGTH] = last - first if last - first != key_bytes else 0
    st[state.KEY_LENGTH] = key_bytes
    return np.int64(state.GO), pos


@borrowing(inline="always")
def read_string_value(data: Any, st: Any, begin: int, at: int, expires: bool, is_new: bool) -> tuple[int, int]:
    """Read the current key's string value at *at* into `ELEMENTS` and `ENCODING`: return (answer, position after it).

    *is_new*: idle time and frequency are unknown. The position may lie beyond the window.
    """
    end = st[state.STOP]
    size, body, raw, kind = read_string(data, at, end)
    if size == 0:
        return ask(st, begin, at + 20 - begin), at
    if size < 0:
        return note_fault(st, -size, at, body, raw), at
    start = at + size
    pos = start + body
    encoding = np.int64(grammar.RAW)
    if kind == INT_STRING:
        if pos > end:
            return ask(st, begin, pos - begin), at
        encoding = np.int64(grammar.INT)
        raw = digits_of(signed_integer(data, start, body))
    else:
        if raw <= 255 and raw <= embstr_bytes_max(st[state.EMBSTR_RULE], st[state.KEY_LENGTH], expires):
            encoding = np.int64(grammar.EMBSTR)
        if kind == RAW_STRING and 0 < raw <= 20:
            if pos > end:
                return ask(st, begin, pos - begin), at
            if (data[start] == 45 or 48 <= data[start] <= 57) and is_integer(data, start, raw):
                encoding = np.int64(grammar.INT)
        elif encoding == grammar.EMBSTR and is_new:
            if min(pos, start + 5) > end:
                return ask(st, begin, start + 5 - begin), at
            if body >= 5 and big_endian(data, start + (1 if kind == LZF_STRING else 0), 4) == HYLL:
                encoding = np.int64(grammar.RAW)
    st[state.ELEMENTS] = raw
    st[state.ENCODING] = encoding
    if kind == LZF_STRING:
        if pos > end:
            begin_compressed(st, at, start, body, raw)
            st[state.PHASE] = state.P_EMIT
            return np.int64(state.GO), end
        if not is_whole(data, start, pos, raw):
            return note_fault(st, faults.LZF, at, body, raw), at
    elif pos > end:
        st[state.PHASE] = state.P_EMIT
        pass_over(st, pos)
    return np.int64(state.GO), pos


unknown = compiled(faults, "unknown")["unknown"]


@borrowing()
def _aux(data: Any, st: Any, begin: int, at: int) -> int:
    """Read an aux field: slot info is skipped, any other is an event for Python."""
    end = st[state.STOP]
    size, body, raw, kind = read_string(data, at, end)
    if size <= 0:
        return ask(st, begin, 40) if size == 0 else note_fault(st, -size, at, body, raw)
    name = at + size
    if body > grammar.AUX_NAME_BYTES_MAX or raw > grammar.AUX_NAME_BYTES_MAX:
        return note_fault(st, faults.AUX_NAME, at, max(body, raw), 0)
    value = name + body
    size, body, raw, kind2 = read_string(data, value, end)
    if size <= 0:
        return ask(st, begin, value - begin + 20) if size == 0 else note_fault(st, -size, value, body, raw)
    start = value + size
    is_large = body > grammar.AUX_VALUE_BYTES_MAX or raw > grammar.AUX_VALUE_BYTES_MAX
    if not is_large and start + body > end:
        return ask(st, begin, start + body - begin)
    st[state.EVENT_KIND] = state.EVENT_AUX
    st[state.EVENT_A] = at
    st[state.EVENT_B] = -1 if is_large else value
    if is_large:
        rc = pass_string(data, st, begin, value)
        return state.EVENT if rc == state.GO else rc
    if kind == RAW_STRING and kind2 == RAW_STRING and value - name == 9:  # noqa: SIM102 - nine bytes first
        # "slot-info" as two integers: a hint of sizes, thousands of them
        if big_endian(data, name, 8) == 0x736C6F742D696E66 and data[name + 8] == 0x6F:
            st[state.POS] = start + body
            return state.GO
    if kind2 == LZF_STRING and not is_whole(data, start, start + body, raw):
        return note_fault(st, faults.LZF, value, body, raw)
    if kind == LZF_STRING:
        _, body, raw, _ = read_string(data, at, end)
        if not is_whole(data, name, name + body, raw):
            return note_fault(st, faults.LZF, at, body, raw)
    st[state.POS] = start + body
    return state.EVENT


@borrowing()
def _module_aux(data: Any, st: Any, at: int) -> int:
    """Read module data outside keys: module id, load time, opcodes up to the end mark."""
    rc, pos, when, _ = read_lengths(data, st, at + 1, 2)
    if rc != state.GO:
        return rc
    if when != grammar.MODULE_UINT:
        return note_fault(st, faults.MODULE_WHEN, at, when, 0)
    rc, pos, _, _ = read_lengths(data, st, at + 1, 3)
    if rc == state.GO:
        st[state.POS] = pos
        return begin_steps(st, steps.MODULE_AUX)
    return rc


@borrowing()
def _announcement(data: Any, st: Any, op: int, at: int) -> int:
    """Read a database, its size, or a hash template as an event for Python."""
    rc, pos, first, _ = read_lengths(data, st, at + 1, 1)
    if rc != state.GO:
        return rc
    st[state.EVENT_A] = first
    if op == grammar.OP_SELECTDB:
        if first < 0 or first >= grammar.DATABASES_MAX:
            return note_fault(st, faults.DATABASE, at, first, 0)
        st[state.EVENT_KIND] = state.EVENT_SELECTDB
        st[state.DB] = first
        st[state.POS] = pos
        return state.EVENT
    rc, pos, second, _ = read_lengths(data, st, at + 1, 2)
    if rc != state.GO:
        return rc
    st[state.EVENT_B] = second
    if op == grammar.OP_RESIZEDB:
        if is_wild(first) or is_wild(second):
            return note_fault(st, faults.COUNT, at, first if is_wild(first) else second, 0)
        st[state.EVENT_KIND] = state.EVENT_RESIZEDB
    else:
        if first < 0 or first >= grammar.TEMPLATES_MAX:
            return note_fault(st, faults.TEMPLATE_NUMBER, at, first, 0)
        if is_wild(second):
            return note_fault(st, faults.COUNT, at, second, 0)
        st[state.EVENT_KIND] = state.EVENT_TEMPLATE
        st[state.LEFT] = second
        begin_steps(st, steps.TEMPLATE)
    st[state.POS] = pos
    return state.EVENT


@borrowing()
def read_record(data: Any, st: Any, g: Any, op: int, at: int) -> int:
    """Handle a record other than a key, with its opcode at *at*."""
    if op == grammar.OP_AUX:
        return _aux(data, st, at, at + 1)
    if op == grammar.OP_EOF:
        st[state.POS] = at + 1
        return state.END
    begins = g[op, state.BEGINS]
    if begins == grammar.B_UNKNOWN:
        return note_fault(st, unknown(op), at, op, st[state.VALKEY])
    if op in (grammar.OP_FUNCTION2, grammar.OP_FUNCTION_PRE_GA, grammar.OP_SLOT_IMPORT):
        st[state.POS] = at + 1
        if op == grammar.OP_SLOT_IMPORT:
            return begin_steps(st, steps.SLOT_IMPORT)
        return begin_steps(st, steps.FUNCTION2 if op == grammar.OP_FUNCTION2 else steps.FUNCTION_PRE_GA)
    if op == grammar.OP_MODULE_AUX:
        rc = _module_aux(data, st, at)
    elif op == grammar.OP_SLOT_INFO or begins == grammar.B_INNER_ATTRIBUTE:
        count = np.int64(3 if op == grammar.OP_SLOT_INFO else 1)  # a slot, its keys and its expiring keys
        rc, pos, _, _ = read_lengths(data, st, at + 1, count)
        if rc == state.GO:
            st[state.POS] = pos
    else:
        rc = _announcement(data, st, op, at)
    if rc == state.NEED:
        st[state.POS] = at
        st[state.WANT] += 1
    return rc
