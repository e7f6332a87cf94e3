"""Sequences of lengths, strings and raw bytes as a table of steps: stream tails, arrays, module values, other records.

`take_steps` runs step `STEP` until the sequence or the window ends; `_step` and `_each` write sequences.
"""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cluster_core.kernels.compiled import borrowing
from cluster_core.memory.model import PENDING_BYTES
from cluster_core.rdb import faults, grammar
from cluster_core.rdb import memory_sizes as sizes
from cluster_core.rdb import skim_state as state
from cluster_core.rdb.atoms import ask, is_wild, note_fault, pass_over, pass_string, read_lengths
from cluster_core.rdb.walk_packed import add_to_tree, end_tree

# Actions.
(
    LENGTHS,  # pass *argument* lengths; the last is kept in *place*, if any, and must be a possible count
    CLASSES,  # a count of metadata classes
    STRING,
    BYTES,  # pass *argument* bytes
    FLAG,  # a length: the body follows unless it is 0; at most *argument*
    EACH,  # the body, repeated as counted at *place*
    IDS,  # as above, each after *argument* bytes that begin with the id of an entry
    MODULE_FIELDS,  # fields of a module, up to the end mark
    ARRAY_ELEMENT,  # index, kind and value
    STREAM_LENGTH,
    END_GROUP,  # measure a group's pending entries
    END_CONSUMER,
    ADD,  # add 1 to *place*
) = range(13)

_ACTION, _ARGUMENT, _PLACE, _NEXT, _OTHER = range(5)
END_OF_VALUE, END_OF_RECORD = -1, -2

_Rows = list[tuple[int, int, int, int, int]]
_Step = Callable[[_Rows, int], int]
"""Adds its rows before the given row; returns its first row."""


def _lay(rows: _Rows, steps: Sequence[_Step], following: int) -> int:
    for step in reversed(steps):
        following = step(rows, following)
    return following


def _step(action: int, argument: int = 0, place: int = 0) -> _Step:
    def lay(rows: _Rows, following: int) -> int:
        rows.append((action, argument, place, following, following))
        return len(rows) - 1

    return lay


def _each(place: int, *body: _Step, action: int = EACH, argument: int = 0) -> _Step:
    def lay(rows: _Rows, following: int) -> int:
        row = len(rows)
        rows.append((action, argument, place, row, following))
        rows[row] = (action, argument, place, _lay(rows, body, row), following)
        return row

    return lay


def _flag(argument: int, *body: _Step) -> _Step:
    def lay(rows: _Rows, following: int) -> int:
        first = _lay(rows, body, following)
        rows.append((FLAG, argument, 0, first, following))
        return len(rows) - 1

    return lay


def _count(place: int, lengths: int = 1) -> _Step:
    return _step(LENGTHS, lengths, place)


def _stream(generation: int) -> list[_Step]:
    """Return the steps of a stream's length, ids, groups and, from generation 4 on, producers (`rdbSaveObject`)."""
    consumer = [
        _step(STRING), _step(BYTES, 16 if generation >= 3 else 8), _count(state.PEL),
        _each(state.PEL, action=IDS, argument=16), _step(END_CONSUMER),
    ]  # fmt: skip
    handed_back = [_count(state.PEL), _each(state.PEL, action=IDS, argument=16)]
    group = [
        _step(STRING), _count(state.PEL, 3 if generation == 1 else 4),
        _each(state.PEL, _step(LENGTHS, 1), action=IDS, argument=24), _step(END_GROUP),
        _count(state.CONSUMERS), _each(state.CONSUMERS, *consumer), *(handed_back if generation >= 5 else []),
    ]  # fmt: skip
    producer = [_step(STRING), _count(state.PEL), _each(state.PEL, _step(STRING), _step(LENGTHS, 2))]
    producers = [_count(state.GROUPS, 3), _each(state.GROUPS, *producer), _step(LENGTHS, 2)]
    return [
        _step(STREAM_LENGTH), _count(state.GROUPS, 3 if generation == 1 else 8), _each(state.GROUPS, *group),
        *(producers if generation >= 4 else []),
    ]  # fmt: skip


_FIELDS = _each(0, action=MODULE_FIELDS)
_CODE = [_step(STRING), _step(ADD, place=state.FUNCTIONS)]
_rows: _Rows = []
STREAMS = np.array([0, *(_lay(_rows, _stream(generation), END_OF_VALUE) for generation in range(1, 6))], np.int64)
"""First step after the nodes of a stream, by generation."""
MODULE = _lay(_rows, [_step(LENGTHS, 1), _FIELDS], END_OF_VALUE)
ARRAY = _lay(_rows, [_flag(1, _step(LENGTHS, 1)), _each(state.LEFT, _step(ARRAY_ELEMENT))], END_OF_VALUE)
MODULE_AUX = _lay(_rows, [_FIELDS], END_OF_RECORD)
KEY_META = _lay(_rows, [_step(CLASSES, place=state.LEFT), _each(state.LEFT, _step(BYTES, 4), _FIELDS)], END_OF_RECORD)
FUNCTION2 = _lay(_rows, _CODE, END_OF_RECORD)
FUNCTION_PRE_GA = _lay(
    _rows, [_step(STRING), _step(STRING), _flag(-1, _step(STRING)), *_CODE], END_OF_RECORD
)  # name, engine, description
SLOT_IMPORT = _lay(
    _rows, [_step(STRING), _count(state.LEFT), _each(state.LEFT, _step(LENGTHS, 2))], END_OF_RECORD
)  # the job's name, ranges of slots (`clusterRDBLoadSlotImport`)
TEMPLATE = _lay(_rows, [_each(state.LEFT, _step(STRING))], END_OF_RECORD)
_STEPS = np.array(_rows, np.int64)


@borrowing()
def begin_steps(st: Any, row: int) -> int:
    """Continue with the sequence that starts at *row*."""
    st[state.PHASE] = state.P_STEPS
    st[state.STEP] = row
    return state.GO


@borrowing()
def take_steps(data: Any, st: Any, m: Any) -> int:
    """Run steps until their sequence or the window ends."""
    while True:
        row = st[state.STEP]
        if row < 0:
            st[state.PHASE] = state.P_EMIT if row == END_OF_VALUE else state.P_RECORD
            return state.GO
        action, argument, place = _STEPS[row, _ACTION], _STEPS[row, _ARGUMENT], _STEPS[row, _PLACE]
        following = _STEPS[row, _NEXT]
        at = st[state.POS]
        rc = np.int64(state.GO)
        if action == STRING:
            rc = pass_string(data, st, at, at)
        elif action == EACH:
            if st[place] > 0:
                st[place] -= 1
            else:
                following = _STEPS[row, _OTHER]
        elif action == IDS:
            if st[place] <= 0:
                following = _STEPS[row, _OTHER]
            elif st[state.SIZE_KNOWN]:
                if at + 16 > st[state.STOP]:
                    return ask(st, at, 16)
                add_to_tree(data, at, st, m)
                st[place] -= 1
                pass_over(st, at + argument)
            else:
                count = st[place] if following == row else np.int64(1)
                st[place] -= count
                pass_over(st, at + argument * count)
        elif action == BYTES:
            pass_over(st, at + argument)
        elif action == ADD:
            st[place] += 1
        elif action == END_GROUP:
            if st[state.SIZE_KNOWN]:
                st[state.SIZE_BYTES] += m[sizes.GROUP] + PENDING_BYTES * st[state.TREE_IDS]
                st[state.SIZE_BYTES] += end_tree(st, m)
        elif action == END_CONSUMER:
            if st[state.SIZE_KNOWN]:
                st[state.SIZE_BYTES] += m[sizes.CONSUMER] + st[state.TEXT] + end_tree(st, m)
        elif action == MODULE_FIELDS:
            rc, is_end = _pass_field(data, st, at)
            if is_end:
                following = _STEPS[row, _OTHER]
        elif action == ARRAY_ELEMENT:
            rc = _pass_array_element(data, st, at)
        else:
            rc, pos, value, last = read_lengths(data, st, at, argument if action == LENGTHS else np.int64(1))
            if rc == state.GO:
                rc = _take_length(st, action, argument, place, value, last)
                if action == FLAG and value == 0:
                    following = _STEPS[row, _OTHER]
            if rc == state.GO:
                st[state.POS] = pos
        if rc != state.GO:
            return rc
        st[state.STEP] = following
        if st[state.SKIP] > 0 or st[state.LZF_RAW] > 0:
            return state.GO


@borrowing()
def _take_length(st: Any, action: int, argument: int, place: int, value: int, at: int) -> int:
    """Check and store the length *value* read at *at*."""
    if action == CLASSES:
        if value < 0 or value > grammar.KEY_META_CLASSES_MAX:
            return note_fault(st, faults.KEY_META, at, value, 0)
    elif action == FLAG:
        if argument > 0 and (value < 0 or value > argument):
            return note_fault(st, faults.ARRAY, at, value, 0)
        return state.GO
    elif (place > 0 or action == STREAM_LENGTH) and is_wild(value):
        return note_fault(st, faults.COUNT, at, value, 0)
    if action == STREAM_LENGTH:
        if value > 0 and st[state.NODES] == 0:
            return note_fault(st, faults.STREAM_EMPTY, at, value, 0)
        st[state.ELEMENTS] = value
    elif place > 0:
        st[place] = value
    return state.GO


@borrowing()
def _pass_field(data: Any, st: Any, at: int) -> tuple[int, bool]:
    """Skip one field of a module; return whether it was the end mark."""
    rc, pos, opcode, _ = read_lengths(data, st, at, 1)
    if rc != state.GO:
        return rc, False
    if opcode == grammar.MODULE_STRING:
        return np.int64(pass_string(data, st, at, pos)), False
    if opcode == grammar.MODULE_FLOAT:
        pos += 4
    elif opcode == grammar.MODULE_DOUBLE:
        pos += 8
    elif opcode in (grammar.MODULE_SINT, grammar.MODULE_UINT):
        rc, pos, _, _ = read_lengths(data, st, at, 2)
    elif opcode != grammar.MODULE_EOF:
        return np.int64(note_fault(st, faults.MODULE_OPCODE, at, opcode, 0)), False
    if rc == state.GO:
        pass_over(st, pos)
    return rc, opcode == grammar.MODULE_EOF


@borrowing()
def _pass_array_element(data: Any, st: Any, at: int) -> int:
    rc, pos, kind, last = read_lengths(data, st, at, 2)
    if rc != state.GO:
        return rc
    if kind in (grammar.ARRAY_INTEGER, grammar.ARRAY_FLOAT):
        return pass_over(st, pos + 8)
    if kind in (grammar.ARRAY_STRING, grammar.ARRAY_SHORT_STRING):
        return pass_string(data, st, at, pos)
    return note_fault(st, faults.ARRAY, last, kind, 0)
