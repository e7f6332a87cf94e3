"""Values measured under other conditions: other servers, other limits of packed values.

A skim passes over strings; here every value is walked element by element, whole in memory, and all models measure it at once.  The walk
trusts what a skim has proven of a record, and checks each step against the record's end all the same.
"""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any, Final

import numpy as np

from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.memory import structures
from cluster_core.memory.model import LONG_ELEMENT_BYTES
from cluster_core.memory.structures import LIBC
from cluster_core.rdb import grammar
from cluster_core.rdb import memory_sizes as sizes
from cluster_core.rdb import skim_state as columns
from cluster_core.rdb.atoms import digits_of, expand, little_endian, read_length, read_string, signed_integer
from cluster_core.rdb.strings import INT_STRING, LZF_STRING, RAW_STRING
from cluster_core.rdb.walk_packed import entry_bytes, entry_value
from cluster_core.rdb.walk_records import embstr_bytes_max, find_value, is_integer

DONE, SCRATCH, UNKNOWN = 0, 1, -1
"""A value was walked; a packed one needs more room to be expanded; it is none that all models know."""
(
    COUNT,  # of strings, without scores
    LONGEST_STRING,
    LISTPACK_BYTES,
    ZIPLIST_BYTES,
    ENTRY_BEFORE,  # bytes of the last entry of a ziplist
    TEXTS,  # strings that are no numbers
    WIDTH,  # of an intset
    FIELD,  # length of a field whose value is to come, or -1
    NODES_MET,
    FROM_ZIPLIST,  # whether the file holds ziplists, which a later server converts
) = range(10)
ACCUMULATED: Final = 10
PART_BYTES, PART_UNITS, PART_NODES = range(3)
PARTS: Final = 3
"""Under each model: bytes and units of a table's elements, bytes of a list's nodes."""
_LONG_SCORE_BYTES = 18
_ZIPLIST_HEAD, _LISTPACK_HEAD = 11, 7
_CHUNK_MIN = 32
_INTEGER_DIGITS_MAX = 20

_PLAIN = compiled(
    structures, "listpack_integer_bytes", "listpack_string_bytes", "ziplist_entry_payload", "intset_width",
    forceinline=True,
)  # fmt: skip
_listpack_integer_bytes, _listpack_string_bytes = _PLAIN["listpack_integer_bytes"], _PLAIN["listpack_string_bytes"]
_ziplist_entry_payload, _intset_width = _PLAIN["ziplist_entry_payload"], _PLAIN["intset_width"]


@borrowing()
def take_string(acc: Any, parts: Any, models: Any, measure: int, length: int, number: int, is_number: bool) -> None:
    """Add one string of a value: its *length* in characters, and *number* where it is one."""
    acc[COUNT] += 1
    acc[LONGEST_STRING] = max(acc[LONGEST_STRING], length)
    if is_number:
        acc[LISTPACK_BYTES] += _listpack_integer_bytes(number)
        acc[WIDTH] = max(acc[WIDTH], _intset_width(number))
    else:
        acc[LISTPACK_BYTES] += _listpack_string_bytes(length)
        acc[TEXTS] += 1
    zipped = _ziplist_entry_payload(length, number, is_number) + (1 if acc[ENTRY_BEFORE] < 254 else 5)
    acc[ZIPLIST_BYTES] += zipped
    acc[ENTRY_BEFORE] = zipped
    if measure == grammar.M_HASH and acc[FIELD] < 0:
        acc[FIELD] = length
        return
    for k in range(len(models)):
        m = models[k]
        if measure == grammar.M_SET:
            parts[k, PART_BYTES] += sizes.set_member_size(m, length)
        elif measure == grammar.M_ZSET:
            parts[k, PART_UNITS] += sizes.scored_member_units(m, length)
        elif measure == grammar.M_HASH:
            parts[k, PART_BYTES] += sizes.field_size(m, acc[FIELD], length, False)
    acc[FIELD] = -1


@borrowing()
def take_score(acc: Any, number: int, is_number: bool) -> None:
    """Add the score of a sorted set's member: part of a packed value, nothing of its own in a table."""
    length = digits_of(number) if is_number else _LONG_SCORE_BYTES
    acc[LISTPACK_BYTES] += _listpack_integer_bytes(number) if is_number else _listpack_string_bytes(length)
    zipped = _ziplist_entry_payload(length, number, is_number) + (1 if acc[ENTRY_BEFORE] < 254 else 5)
    acc[ZIPLIST_BYTES] += zipped
    acc[ENTRY_BEFORE] = zipped


@borrowing()
def _integer_of(data: Any, at: int, size: int) -> int:
    """Return the integer whose digits are at *at*."""
    value = np.int64(0)
    first = 1 if data[at] == 45 else 0
    for i in range(first, size):
        value = value * 10 + np.int64(data[at + i]) - 48
    return -value if first else value


@borrowing()
def take_text(data: Any, at: int, size: int, acc: Any, parts: Any, models: Any, measure: int) -> None:
    """Add the string at *at*, a number where a server would take it for one."""
    if 0 < size <= _INTEGER_DIGITS_MAX and is_integer(data, at, size):
        take_string(acc, parts, models, measure, size, _integer_of(data, at, size), True)
    else:
        take_string(acc, parts, models, measure, size, np.int64(0), False)


@borrowing()
def fill_entries(data: Any, starts: Any, ends: Any, found: Any) -> None:
    """Write what the string between each of *starts* and *ends* takes as an entry of a listpack."""
    for i in range(len(starts)):
        size = ends[i] - starts[i]
        if 0 < size <= _INTEGER_DIGITS_MAX and is_integer(data, starts[i], size):
            found[i] = _listpack_integer_bytes(_integer_of(data, starts[i], size))
        else:
            found[i] = _listpack_string_bytes(size)


@borrowing()
def _digits(value: int) -> int:
    count = np.int64(1)
    if value < 0:
        count = np.int64(2)
        if value == np.int64(-9223372036854775808):
            return np.int64(20)
        value = -value
    while value >= 10:
        value //= 10
        count += 1
    return count


@borrowing()
def _walk_packed(data: Any, at: int, end: int, form: int, sums: Any, models: Any, measure: int) -> int:
    """Add the entries of the packed value that is ``data[at:end]``; return `DONE` or `UNKNOWN`."""
    acc, parts = sums
    is_zset = measure == grammar.M_ZSET
    side = np.int64(0)
    if form == grammar.F_INTSET:
        width = little_endian(data, at, 4)
        if width != 2 and width != 4 and width != 8:
            return UNKNOWN
        at += 8
        while at + width <= end:
            value = signed_integer(data, at, width)
            take_string(acc, parts, models, measure, _digits(value), value, True)
            at += width
        return DONE
    if form == grammar.F_ZIPMAP:
        return UNKNOWN
    at += 6 if form == grammar.F_LISTPACK else 10
    while at < end and data[at] != 255:
        size = entry_bytes(data, at, end, form, side)
        if size < 1 or at + size >= end:
            return UNKNOWN
        is_number, number, _, length = entry_value(data, at, form, side)
        if is_number:
            length = _digits(number)
        if is_zset and side == 1:
            if not is_number:
                acc[LISTPACK_BYTES] += _listpack_string_bytes(length)
                zipped = _ziplist_entry_payload(length, number, False) + (1 if acc[ENTRY_BEFORE] < 254 else 5)
                acc[ZIPLIST_BYTES] += zipped
                acc[ENTRY_BEFORE] = zipped
            else:
                take_score(acc, number, True)
        else:
            take_string(acc, parts, models, measure, length, number, is_number)
        side = 1 - side if is_zset else side
        at += size
    return DONE


@borrowing()
def take_packed(
    data: Any, at: int, end: int, form: int, sums: Any, models: Any, measure: int, scratch: Any
) -> tuple[int, int, int]:
    """Add the packed value whose string prefix is at *at*: return (`DONE`, position after), or what else, with the scratch needed."""
    size, body, raw, kind = read_string(data, at, end)
    start = at + size
    if size <= 0 or start + body > end or kind == INT_STRING:
        return UNKNOWN, at, raw
    if kind == RAW_STRING:
        return _walk_packed(data, start, start + body, form, sums, models, measure), start + body, raw
    if raw > scratch.size:
        return SCRATCH, at, raw
    if not expand(data, start, start + body, scratch, 0, raw):
        return UNKNOWN, at, raw
    return _walk_packed(scratch, np.int64(0), raw, form, sums, models, measure), start + body, raw


@borrowing()
def packed_memory(m: Any, rule_ziplists: int, acc: Any, zip_bytes: int, pack_bytes: int) -> int:
    """Return what a packed value of that many bytes of entries takes, as a ziplist or as a listpack.

    A ziplist of a file becomes a listpack in an allocation as large as the ziplist, which is shrunk (`lpShrinkToFit`); glibc keeps what is
    too little for a chunk of its own (``MINSIZE``).
    """
    if rule_ziplists:
        return sizes.packed_size(m, zip_bytes + _ZIPLIST_HEAD)
    size = sizes.packed_size(m, pack_bytes + _LISTPACK_HEAD)
    if acc[FROM_ZIPLIST] and m[sizes.ALLOCATOR] == LIBC:
        begun = sizes.packed_size(m, zip_bytes + _ZIPLIST_HEAD)
        if 0 < begun - size < _CHUNK_MIN:
            return begun
    return size


(
    HASH_ENTRIES,
    HASH_VALUE,
    ZSET_ENTRIES,
    ZSET_VALUE,
    SET_INTEGERS,
    SET_ENTRIES,
    SET_VALUE,
    LIST_BYTES,
    ZIPLISTS,
    EMBSTR_RULE,
    RULES,
) = range(11)
"""Limits up to which a server packs values, bytes of a list that is one listpack (0: never), whether packed values are ziplists, when strings are embedded."""

(IS_KNOWN, ELEMENTS, LONGEST, PAYLOAD, NODES, PACKED, TABLE, RAW_BYTES, LZF_BYTES, SHAPES) = range(10)
"""Of a value: whether all models know it (2: a set of integers); elements, the longest one, their bytes in a listpack (also of a string), nodes of a list; what the key takes packed (of a list: its nodes) and as a table
by the first model; bytes of a string, of its compressed form (0: it is not)."""


@borrowing()
def _walk_elements(data: Any, at: int, end: int, element: int, measure: int, sums: Any, models: Any) -> int:
    """Add the elements of a value that is a table in the file; return `DONE` or `UNKNOWN`."""
    acc, parts = sums
    size, count = read_length(data, at, end)
    if size <= 0 or element == grammar.E_EXPIRY_AFTER or element == grammar.E_EXPIRY_BEFORE:
        return UNKNOWN
    at += size
    for _ in range(2 * count if measure == grammar.M_HASH else count):
        size, body, raw, kind = read_string(data, at, end)
        start = at + size
        if size <= 0 or start + body > end:
            return UNKNOWN
        if kind == INT_STRING:
            number = signed_integer(data, start, body)
            take_string(acc, parts, models, measure, digits_of(number), number, True)
        elif kind == LZF_STRING:
            take_string(acc, parts, models, measure, raw, np.int64(0), False)
        else:
            take_text(data, start, body, acc, parts, models, measure)
        at = start + body
        if element == grammar.E_SCORE:
            if at + 8 > end:
                return UNKNOWN
            whole, number = _whole_number(data, at)
            take_score(acc, number, whole)
            at += 8
        elif element == grammar.E_SCORE_TEXT:
            return UNKNOWN
    return DONE


@borrowing()
def _whole_number(data: Any, at: int) -> tuple[bool, int]:
    """Return whether the double at *at* is a whole number that a listpack holds as one (`double2ll`), and that number."""
    bits = little_endian(data, at, 8)
    exponent = ((bits >> 52) & 0x7FF) - 1023
    if bits == 0:
        return True, np.int64(0)
    if exponent < 0 or exponent > 30:
        return False, np.int64(0)
    mantissa = (bits & 0xFFFFFFFFFFFFF) | (np.int64(1) << 52)
    if mantissa & ((np.int64(1) << (52 - exponent)) - 1):
        return False, np.int64(0)
    number = mantissa >> (52 - exponent)
    return True, -number if bits < 0 else number


@borrowing()
def _walk_list(data: Any, at: int, end: int, form: int, sums: Any, conditions: Any, scratch: Any) -> tuple[int, int]:
    """Add the nodes of a list; return (`DONE` or what else, scratch needed)."""
    acc, parts = sums
    _, models, rules = conditions
    size, nodes = read_length(data, at, end)
    if size <= 0:
        return UNKNOWN, np.int64(0)
    at += size
    for _ in range(nodes):
        container = np.int64(grammar.PACKED_NODE)
        if form == grammar.F_LISTPACK:
            size, container = read_length(data, at, end)
            if size <= 0:
                return UNKNOWN, np.int64(0)
            at += size
        pack, zip_ = acc[LISTPACK_BYTES], acc[ZIPLIST_BYTES]
        acc[ENTRY_BEFORE] = 0
        if container == grammar.PLAIN_NODE:
            size, body, raw, _ = read_string(data, at, end)
            if size <= 0 or at + size + body > end:
                return UNKNOWN, np.int64(0)
            at += size + body
            acc[COUNT] += 1
            acc[NODES_MET] += 2
            acc[LONGEST_STRING] = max(acc[LONGEST_STRING], raw)
            acc[LISTPACK_BYTES] += raw
            for k in range(len(models)):
                whole = raw + 11 + 5 if rules[k, ZIPLISTS] else raw
                parts[k, PART_NODES] += models[k, sizes.LIST_NODE] + sizes.packed_size(models[k], whole)
            continue
        code, at, need = take_packed(data, at, end, form, sums, models[:0], np.int64(grammar.M_LIST), scratch)
        if code != DONE:
            return code, need
        acc[NODES_MET] += 1
        for k in range(len(models)):
            node = packed_memory(
                models[k], rules[k, ZIPLISTS], acc, acc[ZIPLIST_BYTES] - zip_, acc[LISTPACK_BYTES] - pack
            )
            parts[k, PART_NODES] += models[k, sizes.LIST_NODE] + node
    return DONE, np.int64(0)


@borrowing()
def _encoding(rule: Any, measure: int, acc: Any, elements: int, packed_now: bool) -> int:
    """Return the encoding of a collection under the limits *rule*: listpack (or ziplist), intset, or that of a table.

    What is *packed_now*, the limits being wider than *rule*, stays so where the server can.
    """
    if measure == grammar.M_SET:
        if acc[TEXTS] == 0 and (elements <= rule[SET_INTEGERS] or packed_now):
            return grammar.INTSET
        if rule[SET_ENTRIES] > 0 and (
            packed_now or (elements <= rule[SET_ENTRIES] and acc[LONGEST_STRING] <= rule[SET_VALUE])
        ):
            return grammar.LISTPACK
        return grammar.HASHTABLE
    if packed_now:
        return grammar.LISTPACK
    if measure == grammar.M_HASH:
        packed = elements <= rule[HASH_ENTRIES] and acc[LONGEST_STRING] <= rule[HASH_VALUE]
    else:
        packed = elements <= rule[ZSET_ENTRIES] and acc[LONGEST_STRING] <= rule[ZSET_VALUE]
    return grammar.LISTPACK if packed else grammar.HASHTABLE


@borrowing()
def _packed_bytes(m: Any, rule: Any, acc: Any, elements: int, encoding: int) -> int:
    if encoding == grammar.INTSET:
        return sizes.packed_size(m, 8 + elements * acc[WIDTH])
    return packed_memory(m, rule[ZIPLISTS], acc, acc[ZIPLIST_BYTES], acc[LISTPACK_BYTES])


@borrowing()
def _collection(measure: int, name: Any, sums: Any, conditions: Any, memory: Any, shape: Any) -> None:
    """Write what a collection takes under each model, and packed and as a table under the first."""
    key_length, expires, packed_now = name
    acc, parts = sums
    _, models, rules = conditions
    elements = acc[COUNT] // 2 if measure == grammar.M_HASH else acc[COUNT]
    marks = np.int64(0)
    if acc[LONGEST_STRING] >= LONG_ELEMENT_BYTES:
        marks |= sizes.HAS_LONG
    if acc[TEXTS] > 0:
        marks |= sizes.HAS_TEXT
    packed_measure = np.int64(grammar.M_PACKED)
    for k in range(len(models)):
        m, rule = models[k], rules[k]
        encoding = _encoding(rule, measure, acc, elements, packed_now)
        if encoding != grammar.HASHTABLE and k > 0:
            whole = sizes.Parts(_packed_bytes(m, rule, acc, elements, encoding), np.int64(0), np.int64(0))
            memory[k] = sizes.whole_size(m, packed_measure, encoding, elements, key_length, expires, whole)
            continue
        table = sizes.Parts(parts[k, PART_BYTES], parts[k, PART_UNITS], marks)
        memory[k] = sizes.whole_size(m, measure, np.int64(grammar.HASHTABLE), elements, key_length, expires, table)
        if k == 0:
            shape[TABLE] = memory[0]
            packed_as = encoding
            if encoding == grammar.HASHTABLE:
                packed_as = grammar.INTSET if measure == grammar.M_SET and acc[TEXTS] == 0 else grammar.LISTPACK
            whole = sizes.Parts(_packed_bytes(m, rule, acc, elements, packed_as), np.int64(0), np.int64(0))
            shape[PACKED] = sizes.whole_size(m, packed_measure, packed_as, elements, key_length, expires, whole)
            if encoding != grammar.HASHTABLE:
                memory[0] = shape[PACKED]
    shape[ELEMENTS] = elements


@borrowing()
def _list(key_length: int, expires: bool, sums: Any, conditions: Any, memory: Any, shape: Any) -> None:
    acc, parts = sums
    _, models, rules = conditions
    for k in range(len(models)):
        m, limit = models[k], rules[k, LIST_BYTES]
        one = acc[NODES_MET] == 1 and acc[LISTPACK_BYTES] + 7 <= limit
        encoding = np.int64(grammar.LISTPACK) if one else np.int64(grammar.QUICKLIST)
        whole = sizes.Parts(parts[k, PART_NODES], np.int64(0), np.int64(0))
        memory[k] = sizes.whole_size(m, np.int64(grammar.M_LIST), encoding, acc[COUNT], key_length, expires, whole)
    shape[ELEMENTS] = acc[COUNT]
    shape[NODES] = acc[NODES_MET]
    shape[TABLE] = memory[0]
    shape[PACKED] = parts[0, PART_NODES]


@borrowing()
def _string(data: Any, at: int, end: int, name: Any, sums: Any, conditions: Any, memory: Any, shape: Any) -> int:
    """Write what a string takes under each model, and add it as an entry of a packed value; return `DONE` or `UNKNOWN`."""
    acc, parts = sums
    key_length, expires, encoding = name
    _, models, rules = conditions
    size, body, raw, kind = read_string(data, at, end)
    start = at + size
    if size <= 0 or start + body > end:
        return UNKNOWN
    length = raw
    list_measure = np.int64(grammar.M_LIST)
    if kind == INT_STRING:
        number = signed_integer(data, start, body)
        length = digits_of(number)
        take_string(acc, parts, models[:0], list_measure, length, number, True)
    elif kind == LZF_STRING:
        take_string(acc, parts, models[:0], list_measure, raw, np.int64(0), False)
    else:
        take_text(data, start, body, acc, parts, models[:0], list_measure)
    for k in range(len(models)):
        form = encoding
        if encoding != grammar.INT:
            fits = length <= embstr_bytes_max(rules[k, EMBSTR_RULE], key_length, expires)
            form = np.int64(grammar.EMBSTR) if fits else np.int64(grammar.RAW)
        memory[k] = sizes.string_size(models[k], key_length, expires, form, length)
    shape[RAW_BYTES] = length
    shape[LZF_BYTES] = body if kind == LZF_STRING else 0
    return DONE


@borrowing()
def measure_values(
    first: int, data: Any, records: Any, keys: Any, conditions: Any, work: Any, results: Any
) -> tuple[int, int]:
    """Measure keys from *first* on; return (the key that needs more scratch, or their number; the bytes it needs).

    *records*: where each begins and ends in *data*; *keys*: length of the name, expiry, encoding; *conditions*: the grammar, a model
    and its limits a row each; *work*: scratch and sums; *results*: bytes in memory a model, and `SHAPES`.
    """
    begins, ends = records
    lengths, expire_at_ms, encodings = keys
    g, models, _ = conditions
    scratch, acc, parts = work
    memory, shapes = results
    for i in range(first, len(begins)):
        end = ends[i]
        expires = expire_at_ms[i] >= 0
        op, at = find_value(data, begins[i], end, g)
        if op < 0:
            continue
        layout, form = g[op, columns.LAYOUT], g[op, columns.FORM]
        acc[:] = 0
        acc[FIELD] = -1
        acc[WIDTH] = 2
        acc[FROM_ZIPLIST] = form == grammar.F_ZIPLIST
        parts[:] = 0
        measure = np.int64(grammar.M_UNKNOWN)
        kind = g[op, columns.KEY_TYPE]
        if kind == grammar.SET:
            measure = np.int64(grammar.M_SET)
        elif kind == grammar.ZSET:
            measure = np.int64(grammar.M_ZSET)
        elif kind == grammar.HASH:
            measure = np.int64(grammar.M_HASH)
        code, need = np.int64(UNKNOWN), np.int64(0)
        if layout == grammar.L_STRING:
            name = lengths[i], expires, np.int64(encodings[i])
            code = _string(data, at, end, name, (acc, parts), conditions, memory[i], shapes[i])
        elif layout == grammar.L_QUICKLIST:
            code, need = _walk_list(data, at, end, form, (acc, parts), conditions, scratch)
            if code == DONE:
                _list(lengths[i], expires, (acc, parts), conditions, memory[i], shapes[i])
        elif measure != grammar.M_UNKNOWN and g[op, columns.LEAD_BYTES] == 0:
            if layout == grammar.L_PACKED and g[op, columns.ENTRIES] < 3:
                # what is packed stays so, but for sets of texts: no server needs the elements of a table
                tables = models if measure == grammar.M_SET and form != grammar.F_INTSET else models[:0]
                code, _, need = take_packed(data, at, end, form, (acc, parts), tables, measure, scratch)
            elif layout == grammar.L_ELEMENTS:
                code = _walk_elements(data, at, end, g[op, columns.ELEMENT], measure, (acc, parts), models)
            if code == DONE:
                name = lengths[i], expires, layout == grammar.L_PACKED
                _collection(measure, name, (acc, parts), conditions, memory[i], shapes[i])
        if code == SCRATCH:
            return i, need
        if code == DONE:
            shapes[i, IS_KNOWN] = 2 if measure == grammar.M_SET and acc[TEXTS] == 0 else 1
            shapes[i, LONGEST] = acc[LONGEST_STRING]
            shapes[i, PAYLOAD] = acc[LISTPACK_BYTES]
    return len(begins), np.int64(0)
