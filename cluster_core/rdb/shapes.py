"""Measure values under other conditions: other servers, other limits of packed values.

Every value of a skimmed record is walked element by element for all models at once.
"""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.advice.changes import Condition
from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.memory import structures
from cluster_core.memory.model import LONG_ELEMENT_BYTES
from cluster_core.memory.structures import LIBC
from cluster_core.rdb import grammar
from cluster_core.rdb import memory_sizes as sizes
from cluster_core.rdb import skim_state as columns
from cluster_core.rdb import value_state as state
from cluster_core.rdb.atoms import digits_of, read_string, signed_integer
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.memory_sizes import model_array
from cluster_core.rdb.skim_state import grammar_array
from cluster_core.rdb.strings import INT_STRING
from cluster_core.rdb.value_state import DOUBLE, IN_SCRATCH, INTEGER
from cluster_core.rdb.value_walk import begin_value, find_element, pass_element
from cluster_core.rdb.walk_records import embstr_bytes_max, find_value, is_integer

DONE, SCRATCH, UNKNOWN = 0, 1, -1
"""Results: value measured; larger scratch needed for a packed value; unknown to some model."""
(
    COUNT,  # of strings, without scores
    LONGEST_STRING,
    LISTPACK_BYTES,
    ZIPLIST_BYTES,
    ENTRY_BEFORE,  # bytes of the last entry of a ziplist
    TEXTS,  # strings other than integers
    WIDTH,  # of an intset
    FIELD,  # length of a field before its value, or -1
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
COMPRESSED: Final = -1
"""Form of an unexpanded string, longer than any number."""

_PLAIN = compiled(
    structures, "listpack_integer_bytes", "listpack_string_bytes", "ziplist_entry_payload", "intset_width",
    forceinline=True,
)  # fmt: skip
_listpack_integer_bytes, _listpack_string_bytes = _PLAIN["listpack_integer_bytes"], _PLAIN["listpack_string_bytes"]
_ziplist_entry_payload, _intset_width = _PLAIN["ziplist_entry_payload"], _PLAIN["intset_width"]


@borrowing()
def take_string(acc: Any, parts: Any, models: Any, measure: int, length: int, number: int, is_number: bool) -> None:
    """Add one string of a value: its *length* in characters, and *number* if it is an integer."""
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
def _take_score(acc: Any, form: int, value: int, size: int) -> None:
    """Add the score of a sorted set's member: part of a packed value, nothing of its own in a table."""
    is_number, number = form == INTEGER, value
    if form == DOUBLE:
        is_number, number = _whole_number(value)
        size = np.int64(_LONG_SCORE_BYTES)
    if is_number:
        size = _digits(number)
    acc[LISTPACK_BYTES] += _listpack_integer_bytes(number) if is_number else _listpack_string_bytes(size)
    zipped = _ziplist_entry_payload(size, number, is_number) + (1 if acc[ENTRY_BEFORE] < 254 else 5)
    acc[ZIPLIST_BYTES] += zipped
    acc[ENTRY_BEFORE] = zipped


@borrowing()
def _integer_of(data: Any, at: int, size: int) -> int:
    """Parse the integer in digits at *at*."""
    value = np.int64(0)
    first = 1 if data[at] == 45 else 0
    for i in range(first, size):
        value = value * 10 + np.int64(data[at + i]) - 48
    return -value if first else value


@borrowing()
def _take_part(data: Any, form: int, at: int, size: int, acc: Any, parts: Any, models: Any, measure: int) -> None:
    """Add one part of an element; a string counts as a number if a server encodes it so."""
    if form == INTEGER:
        take_string(acc, parts, models, measure, _digits(at), at, True)
    elif form != COMPRESSED and 0 < size <= _INTEGER_DIGITS_MAX and is_integer(data, at, size):
        take_string(acc, parts, models, measure, size, _integer_of(data, at, size), True)
    else:
        take_string(acc, parts, models, measure, size, np.int64(0), False)


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
def packed_memory(m: Any, rule_ziplists: int, acc: Any, zip_bytes: int, pack_bytes: int) -> int:
    """Return the size of a packed value with that many bytes of entries, as a ziplist or a listpack.

    A loaded ziplist becomes a listpack in a shrunk allocation (`lpShrinkToFit`); glibc keeps remainders below ``MINSIZE``.
    """
    if rule_ziplists:
        return sizes.packed_size(m, zip_bytes + _ZIPLIST_HEAD)
    size = sizes.packed_size(m, pack_bytes + _LISTPACK_HEAD)
    if acc[FROM_ZIPLIST] and m[sizes.ALLOCATOR] == LIBC:
        first_bytes = sizes.packed_size(m, zip_bytes + _ZIPLIST_HEAD)
        if 0 < first_bytes - size < _CHUNK_MIN:
            return first_bytes
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
"""Limits of packed values, of lists in one listpack (0: never), use of ziplists, rule of embedded strings."""

(IS_KNOWN, ELEMENTS, LONGEST, PACKED, TABLE, SHAPES) = range(6)
"""Columns of a value: known to all models (2: a set of integers), elements, longest element, size packed, size as a
table by the first model."""


@borrowing()
def _whole_number(bits: int) -> tuple[bool, int]:
    """Return whether the double of *bits* is a whole number that a listpack stores as integer (`double2ll`), and the integer."""
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
def _end_node(acc: Any, parts: Any, conditions: Any, pack_bytes: int, zip_bytes: int) -> None:
    """Add the packed node of a list that ends here."""
    _, models, rules = conditions
    acc[NODES_MET] += 1
    for k in range(len(models)):
        node = packed_memory(
            models[k], rules[k, ZIPLISTS], acc, acc[ZIPLIST_BYTES] - zip_bytes, acc[LISTPACK_BYTES] - pack_bytes
        )
        parts[k, PART_NODES] += models[k, sizes.LIST_NODE] + node


@borrowing()
def _take_plain_node(acc: Any, parts: Any, conditions: Any, size: int) -> None:
    """Add a list node of one element of *size* bytes."""
    _, models, rules = conditions
    acc[COUNT] += 1
    acc[NODES_MET] += 2
    acc[LONGEST_STRING] = max(acc[LONGEST_STRING], size)
    acc[LISTPACK_BYTES] += size
    for k in range(len(models)):
        whole = size + 11 + 5 if rules[k, ZIPLISTS] else size
        parts[k, PART_NODES] += models[k, sizes.LIST_NODE] + sizes.packed_size(models[k], whole)


@borrowing()
def _take_elements(data: Any, st: Any, measure: int, sums: Any, conditions: Any, tables: Any, scratch: Any) -> int:
    """Add all elements of the value that `begin_value` went to; return `DONE`, `SCRATCH` or `UNKNOWN`."""
    acc, parts = sums
    g = conditions[0]
    is_list = measure == grammar.M_LIST
    is_packed = st[state.PHASE] == state.P_NODES
    node = np.int64(-1)  # nodes completed before the current one
    pack_bytes = zip_bytes = np.int64(0)
    while True:
        rc = find_element(data, st, g, scratch)
        if rc == state.SCRATCH:
            return SCRATCH
        if rc not in (state.GO, state.PLAIN, state.DONE):
            return UNKNOWN
        if is_list and node >= 0 and (rc != state.GO or st[state.NODES] != node):
            _end_node(acc, parts, conditions, pack_bytes, zip_bytes)
            node = np.int64(-1)
        if rc == state.DONE:
            return DONE
        form, at, size = st[state.FIRST_FORM], st[state.FIRST_AT], st[state.FIRST_BYTES]
        if rc == state.PLAIN:
            _take_plain_node(acc, parts, conditions, _digits(at) if form == INTEGER else size)
        else:
            if is_list and node < 0:
                node, pack_bytes, zip_bytes = st[state.NODES], acc[LISTPACK_BYTES], acc[ZIPLIST_BYTES]
                acc[ENTRY_BEFORE] = 0
            if form == IN_SCRATCH and not is_packed:
                form = np.int64(COMPRESSED)
            source = scratch if form == IN_SCRATCH else data
            _take_part(source, form, at, size, acc, parts, tables, measure)
            if st[state.ELEMENT_PARTS] > 1:
                form, at, size = st[state.SECOND_FORM], st[state.SECOND_AT], st[state.SECOND_BYTES]
                if measure == grammar.M_ZSET:
                    _take_score(acc, form, at, size)
                else:
                    if form == IN_SCRATCH and not is_packed:
                        form = np.int64(COMPRESSED)
                    source = scratch if form == IN_SCRATCH else data
                    _take_part(source, form, at, size, acc, parts, tables, measure)
        st[state.LEFT] -= 1
        pass_element(st)


@borrowing()
def _encoding(rule: Any, measure: int, acc: Any, elements: int, packed_now: bool) -> int:
    """Return the encoding of a collection under the limits *rule*: listpack (or ziplist), intset, or table.

    A *packed_now* value stays packed if the server can.
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
    """Write a collection's size under each model, and packed and as a table under the first."""
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
            whole = sizes.ValueParts(_packed_bytes(m, rule, acc, elements, encoding), np.int64(0), np.int64(0))
            memory[k] = sizes.whole_size(m, packed_measure, encoding, elements, key_length, expires, whole)
            continue
        table = sizes.ValueParts(parts[k, PART_BYTES], parts[k, PART_UNITS], marks)
        memory[k] = sizes.whole_size(m, measure, np.int64(grammar.HASHTABLE), elements, key_length, expires, table)
        if k == 0:
            shape[TABLE] = memory[0]
            packed_as = encoding
            if encoding == grammar.HASHTABLE:
                packed_as = grammar.INTSET if measure == grammar.M_SET and acc[TEXTS] == 0 else grammar.LISTPACK
            whole = sizes.ValueParts(_packed_bytes(m, rule, acc, elements, packed_as), np.int64(0), np.int64(0))
            shape[PACKED] = sizes.whole_size(m, packed_measure, packed_as, elements, key_length, expires, whole)
            if encoding != grammar.HASHTABLE:
                memory[0] = shape[PACKED]
    shape[ELEMENTS] = elements


@borrowing()
def _list(key_length: int, expires: bool, sums: Any, conditions: Any, memory: Any) -> None:
    """Write a list's size under each model."""
    acc, parts = sums
    _, models, rules = conditions
    for k in range(len(models)):
        m, limit = models[k], rules[k, LIST_BYTES]
        is_small = acc[NODES_MET] == 1 and acc[LISTPACK_BYTES] + 7 <= limit
        encoding = np.int64(grammar.LISTPACK) if is_small else np.int64(grammar.QUICKLIST)
        whole = sizes.ValueParts(parts[k, PART_NODES], np.int64(0), np.int64(0))
        memory[k] = sizes.whole_size(m, np.int64(grammar.M_LIST), encoding, acc[COUNT], key_length, expires, whole)


@borrowing()
def _string(data: Any, at: int, end: int, name: Any, conditions: Any, memory: Any) -> int:
    """Write a string's size under each model; return `DONE` or `UNKNOWN`."""
    key_length, expires, encoding = name
    _, models, rules = conditions
    size, body, length, kind = read_string(data, at, end)
    start = at + size
    if size <= 0 or start + body > end:
        return UNKNOWN
    if kind == INT_STRING:
        length = digits_of(signed_integer(data, start, body))
    for k in range(len(models)):
        form = encoding
        if encoding != grammar.INT:
            fits = length <= embstr_bytes_max(rules[k, EMBSTR_RULE], key_length, expires)
            form = np.int64(grammar.EMBSTR) if fits else np.int64(grammar.RAW)
        memory[k] = sizes.string_size(models[k], key_length, expires, form, length)
    return DONE


_MEASURES = np.zeros(len(grammar.KEY_TYPES), np.int64)
_MEASURES[[grammar.LIST, grammar.SET, grammar.ZSET, grammar.HASH]] = (
    grammar.M_LIST, grammar.M_SET, grammar.M_ZSET, grammar.M_HASH,
)  # fmt: skip


@borrowing()
def measure_values(
    first: int, data: Any, records: Any, keys: Any, conditions: Any, work: Any, results: Any
) -> tuple[int, int]:
    """Measure keys from *first* on; return the key that needs more scratch with the bytes, or the number of keys with 0.

    *records*: bounds in *data*; *keys*: length of the name, expiry, encoding, elements; *conditions*: grammar, models with
    limits; *work*: scratch, walk state, sums; *results*: bytes in memory per model, and `SHAPES`.
    """
    begins, ends = records
    lengths, expire_at_ms, encodings, elements = keys
    g, models, _ = conditions
    scratch, st, acc, parts = work
    memory, shapes = results
    st[state.FORMAT] = state.SIZES
    for i in range(first, len(begins)):
        expires = expire_at_ms[i] >= 0
        st[state.LEFT] = elements[i]
        if begin_value(data, st, g, begins[i], ends[i]) != state.GO:
            continue
        op, at = find_value(data, begins[i], ends[i], g)
        layout, form, element = g[op, columns.LAYOUT], g[op, columns.FORM], g[op, columns.ELEMENT]
        acc[:] = 0
        acc[FIELD] = -1
        acc[WIDTH] = 2
        acc[FROM_ZIPLIST] = form == grammar.F_ZIPLIST
        parts[:] = 0
        measure = _MEASURES[st[state.TYPE]]
        code = np.int64(UNKNOWN)
        if layout == grammar.L_STRING:
            name = lengths[i], expires, np.int64(encodings[i])
            code = _string(data, at, ends[i], name, conditions, memory[i])
        elif layout == grammar.L_QUICKLIST:
            code = _take_elements(data, st, measure, (acc, parts), conditions, models[:0], scratch)
            if code == DONE:
                _list(lengths[i], expires, (acc, parts), conditions, memory[i])
        elif (
            measure not in (grammar.M_UNKNOWN, grammar.M_LIST)
            and g[op, columns.LEAD_BYTES] == 0
            and g[op, columns.ENTRIES] < 3
            and form != grammar.F_ZIPMAP
            and element in (grammar.E_ONE, grammar.E_PAIR, grammar.E_SCORE)
        ):
            # packed values stay packed, except sets of strings
            is_packed = layout == grammar.L_PACKED
            stays = is_packed and (measure != grammar.M_SET or form == grammar.F_INTSET)
            tables = models[:0] if stays else models
            code = _take_elements(data, st, measure, (acc, parts), conditions, tables, scratch)
            if code == DONE:
                name = lengths[i], expires, is_packed
                _collection(measure, name, (acc, parts), conditions, memory[i], shapes[i])
        if code == SCRATCH:
            return i, st[state.WANT]
        if code == DONE:
            shapes[i, IS_KNOWN] = 2 if measure == grammar.M_SET and acc[TEXTS] == 0 else 1
            shapes[i, LONGEST] = acc[LONGEST_STRING]
    return len(begins), np.int64(0)


SCRATCH_BYTES_MAX = 256 << 20
"""Maximum expanded bytes of a measured packed value."""
_SCRATCH_BYTES = 1 << 16


class KeyMeasures(NamedTuple):
    """Per key: *memory* int64[keys, conditions], its *shapes* int64[keys, `SHAPES`]."""

    memory: NDArray[np.int64]
    shapes: NDArray[np.int64]


class ValueMeasure:
    """Measures values of the file with *head* under *conditions*, the dump's own first."""

    def __init__(self, head: RdbHead, conditions: Sequence[Condition]) -> None:
        models = np.array([model_array(item.model) for item in conditions])
        rules = np.array([item.rules() for item in conditions], np.int64)
        self._conditions = grammar_array(head.dialect, head.version, conditions[0].model), models, rules
        self._scratch = np.empty(_SCRATCH_BYTES, np.uint8)
        self._walk = np.zeros(state.STATE_LENGTH, np.int64)
        self._sums = np.zeros(ACCUMULATED, np.int64), np.zeros((len(conditions), PARTS), np.int64)

    def unmeasured(self, count: int) -> KeyMeasures:
        """Return the measures of *count* keys with unknown values."""
        models = self._conditions[1]
        return KeyMeasures(np.zeros((count, len(models)), np.int64), np.zeros((count, SHAPES), np.int64))

    def measure(self, batch: KeyBatch, data: NDArray[np.uint8], begin: int) -> KeyMeasures:
        """Measure the keys of *batch* by their records in *data*, which starts at offset *begin* of the file."""
        count = len(batch)
        result = self.unmeasured(count)
        starts = batch.offset - begin
        records = starts, starts + batch.serialized_bytes
        keys = np.diff(batch.key_offsets).astype(np.int64), batch.expire_at_ms, batch.encoding, batch.elements
        first = 0
        while first < count:
            work = self._scratch, self._walk, *self._sums
            first, need = measure_values(first, data, records, keys, self._conditions, work, tuple(result))
            if need > SCRATCH_BYTES_MAX:
                first += 1
            elif need > len(self._scratch):
                self._scratch = np.empty(2 * int(need), np.uint8)
        return result
