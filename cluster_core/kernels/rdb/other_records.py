"""Records of a walk that are no keys: databases, aux fields, slot info, templates, functions, what modules keep."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.formats.rdb import faults, grammar, limits
from cluster_core.formats.rdb.strings import LZF_STRING, RAW_STRING
from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.rdb import skim_state as state
from cluster_core.kernels.rdb import tables as columns
from cluster_core.kernels.rdb.atoms import ask, big_endian, is_wild, note_fault, pass_over, read_lengths, read_string
from cluster_core.kernels.rdb.strings import is_whole, pass_string
from cluster_core.kernels.rdb.tables import Declared
from cluster_core.slots.key_slot import SLOT_COUNT

unknown = compiled(faults, "unknown")["unknown"]


@borrowing()
def pass_template(data: Any, st: Any) -> int:
    """Pass over the names of a hash template's fields."""
    if st[state.LEFT] == 0:
        st[state.PHASE] = state.P_RECORD
        return state.GO
    rc = pass_string(data, st, st[state.POS], st[state.POS])
    if rc == state.GO:
        st[state.LEFT] -= 1
    return rc


@borrowing()
def pass_key_meta(data: Any, st: Any) -> int:
    """Pass over what modules keep beside a key: classes of four bytes, a module's opcodes each."""
    if st[state.STEP] == 0:
        rc, pos, classes, last = read_lengths(data, st, st[state.POS], 1)
        if rc == state.GO:
            if classes < 0 or classes > limits.KEY_META_CLASSES_MAX:
                return note_fault(st, faults.KEY_META, last, classes, 0)
            st[state.LEFT] = classes
            st[state.POS] = pos
            st[state.STEP] = 1
        return rc
    if st[state.LEFT] == 0:
        st[state.PHASE] = state.P_RECORD
        return state.GO
    st[state.LEFT] -= 1
    st[state.AUX_MODULE] = 2
    st[state.PHASE] = state.P_MODULE
    return pass_over(st, st[state.POS] + 4)


@borrowing()
def pass_module(data: Any, st: Any) -> int:
    """Pass over a module's value by its opcodes."""
    at = st[state.POS]
    if st[state.STEP] == 0:
        rc, pos, _, _ = read_lengths(data, st, at, 1)
        if rc == state.GO:
            st[state.POS] = pos
            st[state.STEP] = 1
        return rc
    rc, pos, opcode, _last = read_lengths(data, st, at, 1)
    if rc != state.GO:
        return rc
    if opcode == grammar.MODULE_EOF:
        st[state.POS] = pos
        if st[state.AUX_MODULE] == 2:
            st[state.PHASE] = state.P_KEY_META
        elif st[state.AUX_MODULE]:
            st[state.MODULE_AUXES] += 1
            st[state.PHASE] = state.P_RECORD
        else:
            st[state.PHASE] = state.P_EMIT
        return state.GO
    if opcode in (grammar.MODULE_SINT, grammar.MODULE_UINT):
        rc, pos, _, _ = read_lengths(data, st, at, 2)
        if rc == state.GO:
            st[state.POS] = pos
        return rc
    if opcode == grammar.MODULE_FLOAT:
        return pass_over(st, pos + 4)
    if opcode == grammar.MODULE_DOUBLE:
        return pass_over(st, pos + 8)
    if opcode == grammar.MODULE_STRING:
        return pass_string(data, st, at, pos)
    return note_fault(st, faults.MODULE_OPCODE, at, opcode, 0)


@borrowing()
def pass_function(data: Any, st: Any) -> int:
    """Pass over a function library of a Redis 7.0 release candidate: name, engine, perhaps a description, code."""
    at = st[state.POS]
    step = st[state.STEP]
    if step == 5:  # the code has been passed over to its last byte
        st[state.FUNCTIONS] += 1
        st[state.PHASE] = state.P_RECORD
        return state.GO
    if step == 2:
        rc, pos, described, _ = read_lengths(data, st, at, 1)
        if rc == state.GO:
            st[state.POS] = pos
            st[state.STEP] = 3 if described else 4
        return rc
    rc = pass_string(data, st, at, at)
    if rc == state.GO:
        st[state.STEP] += 1
    return rc


@borrowing()
def pass_slot_import(data: Any, st: Any) -> int:
    """Pass over a slot import of Valkey 9: the job's name, then ranges of slots (`clusterRDBLoadSlotImport`)."""
    at = st[state.POS]
    if st[state.PHASE] == state.P_IMPORT:
        if st[state.STEP] == 0:
            rc = pass_string(data, st, at, at)
            if rc == state.GO:
                st[state.STEP] = 1
            return rc
        rc, pos, count, last = read_lengths(data, st, at, 1)
        if rc != state.GO:
            return rc
        if is_wild(count):
            return note_fault(st, faults.COUNT, last, count, 0)
        st[state.LEFT] = count
        st[state.POS] = pos
        st[state.PHASE] = state.P_IMPORT_RANGES
        return state.GO
    while st[state.LEFT] > 0:
        rc, pos, _, _ = read_lengths(data, st, st[state.POS], 2)
        if rc != state.GO:
            return rc
        st[state.POS] = pos
        st[state.LEFT] -= 1
    st[state.PHASE] = state.P_RECORD
    return state.GO


@borrowing()
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


@borrowing()
def _note_slot(st: Any, slot: int, keys: int, expires: int, declared: Declared) -> bool:
    if slot < 0 or slot >= SLOT_COUNT or keys < 0 or expires < 0 or keys > limits.ELEMENTS_MAX or expires > keys:
        return False
    declared.keys[slot] = max(declared.keys[slot], np.int64(0)) + keys
    declared.expires[slot] = max(declared.expires[slot], np.int64(0)) + expires
    st[state.OTHER_SLOT] = slot
    st[state.OTHER_KEYS] = keys
    return True


@borrowing()
def _aux(data: Any, st: Any, begin: int, at: int, declared: Declared) -> int:
    """Read an aux field: slot info here, any other is an event for Python."""
    end = st[state.STOP]
    size, body, raw, kind = read_string(data, at, end)
    if size <= 0:
        return ask(st, begin, 40) if size == 0 else note_fault(st, -size, at, body, raw)
    name = at + size
    if body > limits.AUX_NAME_BYTES_MAX or raw > limits.AUX_NAME_BYTES_MAX:
        return note_fault(st, faults.AUX_NAME, at, max(body, raw), 0)
    value = name + body
    size, body, raw, kind2 = read_string(data, value, end)
    if size <= 0:
        return ask(st, begin, value - begin + 20) if size == 0 else note_fault(st, -size, value, body, raw)
    start = value + size
    is_large = body > limits.AUX_VALUE_BYTES_MAX or raw > limits.AUX_VALUE_BYTES_MAX
    if not is_large and start + body > end:
        return ask(st, begin, start + body - begin)
    st[state.EVENT_KIND] = state.EVENT_AUX
    st[state.EVENT_A] = at
    st[state.EVENT_B] = -1 if is_large else value
    if is_large:
        rc = pass_string(data, st, begin, value)
        return state.EVENT if rc == state.GO else rc
    if kind == RAW_STRING and kind2 == RAW_STRING and value - name == 9:  # noqa: SIM102 - nine bytes first
        # "slot-info", letter by letter in two words
        if big_endian(data, name, 8) == 0x736C6F742D696E66 and data[name + 8] == 0x6F:
            pos, slot = _decimal(data, start, start + body)
            keys = np.int64(-1)
            expires = np.int64(-1)
            if pos > 0 and pos < start + body and data[pos] == 44:
                pos, keys = _decimal(data, pos + 1, start + body)
                if pos > 0 and pos < start + body and data[pos] == 44:
                    pos, expires = _decimal(data, pos + 1, start + body)
            while pos > 0 and pos < start + body and data[pos] == 44:  # Valkey 9 adds the keys with expiring fields
                pos, _ = _decimal(data, pos + 1, start + body)
            if pos != start + body or not _note_slot(st, slot, keys, expires, declared):
                return note_fault(st, faults.SLOT_INFO, begin, 0, 0)
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
    """What a module keeps beside the keys: its id, when it is loaded, then opcodes up to the end mark."""
    rc, pos, when, _ = read_lengths(data, st, at + 1, 2)
    if rc != state.GO:
        return rc
    if when != grammar.MODULE_UINT:
        return note_fault(st, faults.MODULE_WHEN, at, when, 0)
    rc, pos, _, _ = read_lengths(data, st, at + 1, 3)
    if rc == state.GO:
        st[state.POS] = pos
        st[state.PHASE] = state.P_MODULE
        st[state.STEP] = 1
        st[state.AUX_MODULE] = 1
    return rc


@borrowing()
def _slot_info(data: Any, st: Any, at: int, declared: Declared) -> int:
    """A slot, its keys and its expiring keys."""
    rc, pos, slot, _ = read_lengths(data, st, at + 1, 1)
    if rc != state.GO:
        return rc
    rc, pos, keys, _ = read_lengths(data, st, at + 1, 2)
    if rc != state.GO:
        return rc
    rc, pos, expires, _ = read_lengths(data, st, at + 1, 3)
    if rc != state.GO:
        return rc
    if not _note_slot(st, slot, keys, expires, declared):
        return note_fault(st, faults.SLOT_INFO, at, 0, 0)
    st[state.POS] = pos
    return state.GO


@borrowing()
def _announcement(data: Any, st: Any, op: int, at: int) -> int:
    """A database, its size, or a hash template: an event for Python."""
    rc, pos, first, _ = read_lengths(data, st, at + 1, 1)
    if rc != state.GO:
        return rc
    st[state.EVENT_A] = first
    if op == grammar.OP_SELECTDB:
        if first < 0 or first >= limits.DATABASES_MAX:
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
        if first < 0 or first >= limits.TEMPLATES_MAX:
            return note_fault(st, faults.TEMPLATE_NUMBER, at, first, 0)
        if is_wild(second):
            return note_fault(st, faults.COUNT, at, second, 0)
        st[state.EVENT_KIND] = state.EVENT_TEMPLATE
        st[state.LEFT] = second
        st[state.PHASE] = state.P_TEMPLATE
    st[state.POS] = pos
    return state.EVENT


@borrowing()
def read_record(data: Any, st: Any, g: Any, op: int, at: int, declared: Declared) -> int:
    """Handle a record that is no key; *at* is the place of its opcode."""
    if op == grammar.OP_AUX:
        return _aux(data, st, at, at + 1, declared)
    if op == grammar.OP_EOF:
        st[state.POS] = at + 1
        return state.END
    begins = g[op, columns.BEGINS]
    if begins == grammar.B_UNKNOWN:
        return note_fault(st, unknown(op), at, op, st[state.VALKEY])
    if op in (grammar.OP_FUNCTION2, grammar.OP_FUNCTION_PRE_GA, grammar.OP_SLOT_IMPORT):
        st[state.POS] = at + 1
        st[state.STEP] = 4 if op == grammar.OP_FUNCTION2 else 0
        st[state.PHASE] = state.P_IMPORT if op == grammar.OP_SLOT_IMPORT else state.P_FUNCTION_PRE_GA
        return state.GO
    if op == grammar.OP_MODULE_AUX:
        rc = _module_aux(data, st, at)
    elif op == grammar.OP_SLOT_INFO:
        rc = _slot_info(data, st, at, declared)
    elif begins == grammar.B_INNER_ATTRIBUTE:
        rc, pos, _, _ = read_lengths(data, st, at + 1, 1)
        if rc == state.GO:
            st[state.POS] = pos
    else:
        rc = _announcement(data, st, op, at)
    if rc == state.NEED:
        st[state.POS] = at
        st[state.WANT] += 1
    return rc
