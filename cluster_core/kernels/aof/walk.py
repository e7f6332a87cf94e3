"""The compiled walk over an append-only log: commands and their keys.

`walk` may stop at any byte of a window of the file; its state array (`walk_state`) has all it needs. A command is a
header (``*3``), then arguments; an argument is a header (``$5``), bytes and CRLF. Relevant arguments (name, keys, number
of keys, database of SELECT) must lie whole in the window; others are skipped, also beyond its end. A command's rows count
when it ends. The grammar is that of `cluster_core.wire.requests`.
"""

# numba compiles `int` as int64
# mypy: disable-error-code="no-any-return,assignment"
from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.aof.command_keys import BY_NUMBER, BY_RANGE, command_names, rules_of
from cluster_core.formats.aof import framing
from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.key_slots import slot_of, tag_bounds
from cluster_core.kernels.raw_bytes import copy_bytes
from cluster_core.rdb.grammar import DATABASES_MAX, KEY_BYTES_MAX
from cluster_core.wire import requests

NAMES_MAX = 4096
"""Maximum listed command names; all further commands count under the empty name."""
NAME_BYTES_MAX = 64
UNLISTED = 0
"""Code of a command outside the table of names."""
KEY_DATA_BYTES = 8 << 20
KEY_NAMES_BYTES_MAX = 1 << 30
_BUCKETS = 4 * NAMES_MAX


class KeyColumns(NamedTuple):
    """One row per key; *offsets* into *data* has one entry more, *share* is the key's part of the command's bytes."""

    offsets: NDArray[np.int32]
    slot: NDArray[np.uint16]
    tag_start: NDArray[np.int32]
    tag_length: NDArray[np.int32]
    share: NDArray[np.int64]
    data: NDArray[np.uint8]

    def with_more_rows(self) -> KeyColumns:
        """Return these keys with twice the room for rows."""
        return KeyColumns._make([*(np.resize(column, 2 * len(column)) for column in self[:-1]), self.data])

    def with_more_data(self, count: int) -> KeyColumns:
        """Return these keys with twice the room for names, and *count* bytes."""
        data: NDArray[np.uint8] = np.empty(2 * len(self.data) + count, np.uint8)
        data[: len(self.data)] = self.data
        return self._replace(data=data)


class Commands(NamedTuple):
    """One row per command; its keys are the rows ``first_key[i]`` to ``first_key[i + 1] - 1`` of `KeyColumns`."""

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    code: NDArray[np.uint16]
    argc: NDArray[np.int64]
    db: NDArray[np.int32]
    time_s: NDArray[np.int64]
    first_key: NDArray[np.int32]


class Names(NamedTuple):
    """Command codes by name: hash buckets, positions, all names; per code, use of `written_keys` and two rules; the codes
    of three commands.
    """

    buckets: NDArray[np.int32]
    starts: NDArray[np.int64]
    text: NDArray[np.uint8]
    rules: NDArray[np.int64]
    select: int
    multi: int
    exec: int

    def list(self, code: int, name: bytes) -> None:
        """Add a lower-case name, at most `NAME_BYTES_MAX` long, with the next *code*."""
        start = int(self.starts[code])
        self.text[start : start + len(name)] = np.frombuffer(name, np.uint8)
        self.starts[code + 1] = start + len(name)
        digest = 2166136261
        for byte in name:
            digest = ((digest ^ byte) * 16777619) & 0xFFFFFFFF
        bucket = (digest ^ (digest >> 15)) & (_BUCKETS - 1)
        while self.buckets[bucket] >= 0:
            bucket = (bucket + 1) & (_BUCKETS - 1)
        self.buckets[bucket] = code


def new_keys(rows: int) -> KeyColumns:
    """Return room for that many keys."""
    columns = [np.empty(rows, kind) for kind in (np.uint16, np.int32, np.int32, np.int64)]
    return KeyColumns._make([np.zeros(rows + 1, np.int32), *columns, np.empty(KEY_DATA_BYTES, np.uint8)])


def new_commands(rows: int) -> Commands:
    """Return room for that many commands."""
    kinds = (np.int64, np.int64, np.uint16, np.int64, np.int32, np.int64)
    return Commands._make([*(np.empty(rows, kind) for kind in kinds), np.zeros(rows + 1, np.int32)])


@cache
def known_names() -> Names:
    """Return the table of the commands that servers have; further names take no rules."""
    commands = command_names()
    names = Names(
        np.full(_BUCKETS, -1, np.int32),
        np.zeros(NAMES_MAX + 3, np.int64),
        np.zeros((NAMES_MAX + 2) * NAME_BYTES_MAX, np.uint8),
        np.zeros((NAMES_MAX + 2, 11), np.int64),
        *(1 + commands.index(name) for name in ("select", "multi", "exec")),
    )
    for code, name in enumerate(commands, start=1):
        names.list(code, name.encode())
        rules = rules_of(name)
        if rules is None:
            names.rules[code, 0] = 1
        else:
            names.rules[code, 1:6], names.rules[code, 6:11] = rules
    return names


# Answers.
NEED, BATCH, GROW, GROW_KEYS, NAME, PLAIN, FAULT = range(7)

# Phases.
P_START, P_ARGUMENT, P_SKIP = range(3)

# Places in the state array.
(
    PHASE,
    POS,  # start of the next atom, in the window
    STOP,  # end of the filled part of the window
    BASE,  # offset in the file of the window's first byte
    WANT,  # bytes from POS on that are needed
    SKIP,  # bytes of the argument still to skip, with its CRLF
    ARGC,
    INDEX,  # of the current argument
    CODE,
    BEGIN,  # offset of the command
    ROWS,  # rows of whole commands
    ROW,  # rows including those of the current command
    COMMANDS,
    KEY_POS,
    SHARE_AT,  # offset of the first byte that belongs to the latest key
    DB,
    SELECTED,
    TIME,
    MULTI_AT,
    VALID_END,
    FAULT_CODE,
    FAULT_AT,
    FAULT_VALUE,
    IS_FULL,  # no further names are listed
    LONG_KEY,  # length of the command's first oversized key, 0 for none
    RANGES,  # start of the command's two key ranges, of `RANGE_CELLS` each
) = range(26)

FIRST, LAST, STEP, NUMBER, AFTER_NUMBER, RANGE_CELLS = range(6)
"""Keys: arguments *first* to *last* by *step* (`NONE`: no keys), or the argument with their number, and their start."""
RANGE_A, RANGE_B, STATE_LENGTH = range(RANGES, RANGES + 3 * RANGE_CELLS, RANGE_CELLS)
NONE = -1


_GRAMMAR = compiled(
    requests, "read_number", "read_count", "read_argument", "find_end", boundscheck=False, _nrt=False, forceinline=True
)
read_number, read_count = _GRAMMAR["read_number"], _GRAMMAR["read_count"]
read_argument, find_end = _GRAMMAR["read_argument"], _GRAMMAR["find_end"]

NUMBER_WORD_BYTES_MAX = 64
NUMBER_TEXT_MAX = 7
HEAD_BYTES = 24
"""Maximum bytes of the header of a command or argument."""


@borrowing(forceinline=True)
def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte


@borrowing(forceinline=True)
def _find_name(data: Any, at: int, length: int, names: Any) -> int:
    """Return the code of the command with its name at *at*, or -1."""
    digest = 2166136261
    for i in range(at, at + length):
        digest = ((digest ^ np.int64(_lower(data[i]))) * 16777619) & 0xFFFFFFFF
    mask = len(names.buckets) - 1
    bucket = (digest ^ (digest >> 15)) & mask
    while True:
        code = names.buckets[bucket]
        if code < 0:
            return -1
        start = names.starts[code]
        if names.starts[code + 1] - start == length:
            same = True
            for i in range(length):
                if names.text[start + i] != _lower(data[at + i]):
                    same = False
                    break
            if same:
                return code
        bucket = (bucket + 1) & mask


@borrowing()
def _read_digits(data: Any, at: int, end: int) -> int:
    """Parse the number in ``data[at:end]``; -1 if invalid or too long."""
    if not 0 < end - at <= requests.NUMBER_DIGITS_MAX:
        return -1
    value = 0
    for i in range(at, end):
        if data[i] < 48 or data[i] > 57:
            return -1
        value = value * 10 + (np.int64(data[i]) - 48)
    return value


@borrowing()
def _count_of(data: Any, at: int, length: int, exact: bool) -> int:
    """Parse a number of keys as `atoi` does; -1 if it is too large or, with *exact*, not in canonical form."""
    stop = at + length
    begin = at
    while begin < stop and (data[begin] == 32 or 9 <= data[begin] <= 13):
        begin += 1
    first = begin
    negative = False
    if begin < stop and (data[begin] == 43 or data[begin] == 45):
        negative = data[begin] == 45
        begin += 1
    value = 0
    after = begin
    while after < stop and 48 <= data[after] <= 57:
        if after - first >= NUMBER_TEXT_MAX:
            return -1
        value = value * 10 + (np.int64(data[after]) - 48)
        after += 1
    if exact and (first != at or negative or begin != first or after != stop or (data[at] == 48 and length > 1)):
        return -1
    return -value if negative else value


@borrowing(forceinline=True)
def _forget_ranges(st: Any) -> None:
    st[RANGE_A + FIRST] = st[RANGE_B + FIRST] = NONE
    st[RANGE_A + NUMBER] = st[RANGE_B + NUMBER] = NONE


@borrowing()
def _begin_range(st: Any, rules: Any, code: int, cell: int, at: int) -> bool:
    """Set the key range at *at* from the rule of command *code* in *cell*; return True if the arguments contradict the rule."""
    st[at + FIRST] = st[at + NUMBER] = NONE
    st[at + LAST] = st[at + STEP] = st[at + AFTER_NUMBER] = 0
    kind, first = rules[code, cell], rules[code, cell + 1]
    a, b, c = rules[code, cell + 2], rules[code, cell + 3], rules[code, cell + 4]
    if kind != BY_RANGE and kind != BY_NUMBER:
        return False
    argc = st[ARGC]
    if first < 0 or first >= argc:
        return True
    if kind == BY_NUMBER:
        if first + a >= argc:
            return True
        st[at + NUMBER] = first + a
        st[at + AFTER_NUMBER] = first + b
        st[at + STEP] = c
        return False
    end = first + a if a >= 0 else a + (argc if c <= 1 else first + (argc - first) // c)
    return _set_range(st, at, first, end, b)


@borrowing()
def _set_range(st: Any, at: int, first: int, end: int, step: int) -> bool:
    if not (first <= end < st[ARGC]) or step <= 0:
        return True
    st[at + FIRST] = first
    st[at + LAST] = end
    st[at + STEP] = step
    return False


@borrowing()
def _apply_number(st: Any, data: Any, start: int, length: int, at: int) -> bool:
    """Set a key range from the argument with the number of keys; return True if invalid."""
    step = st[at + STEP]
    count = -1 if length > NUMBER_WORD_BYTES_MAX else _count_of(data, start, length, step > 1)
    first = st[at + AFTER_NUMBER]
    return count < 1 or _set_range(st, at, first, first + (count - 1) * step, step)


@borrowing(forceinline=True)
def _is_in(st: Any, at: int, index: int) -> bool:
    first = st[at + FIRST]
    return first >= 0 and first <= index <= st[at + LAST] and (index - first) % st[at + STEP] == 0


@borrowing()
def _note_fault(st: Any, offset: int, code: int, value: int) -> int:
    st[FAULT_CODE] = code
    st[FAULT_AT] = offset
    st[FAULT_VALUE] = value
    return FAULT


@borrowing()
def _refuse(st: Any, data: Any, pos: int, code: int) -> int:
    """Record damage at *pos* of the window."""
    st[POS] = pos
    value = np.int64(data[pos])
    if code == requests.LENGTH_MAX:
        value, _ = read_number(data, pos, st[STOP])
    return _note_fault(st, st[BASE] + pos, code, value)


@borrowing()
def _stop(st: Any, pos: int, answer: int, want: int) -> int:
    st[POS] = pos
    st[WANT] = want
    return answer


@borrowing(forceinline=True)
def _add_key(st: Any, data: Any, start: int, length: int, here: int, keys: Any) -> None:
    """Append a row for the key ``data[start:start + length]`` with its argument at offset *here*."""
    row = st[ROW]
    key_pos = st[KEY_POS]
    end = start + length
    copy_bytes(keys.data, key_pos, data, start, length)
    keys.slot[row] = slot_of(data, start, end)
    first, last = tag_bounds(data, start, end)
    tagged = last - first != length
    keys.tag_start[row] = first - start if tagged else 0
    keys.tag_length[row] = last - first if tagged else 0
    if row > st[ROWS]:
        keys.share[row - 1] = here - st[SHARE_AT]
        st[SHARE_AT] = here
    st[KEY_POS] = key_pos + length
    st[ROW] = row + 1
    keys.offsets[row + 1] = st[KEY_POS]


@borrowing()
def _drop_keys(st: Any, keys: Any) -> None:
    """Drop the rows of the current command and ignore its further keys."""
    st[ROW] = st[ROWS]
    st[KEY_POS] = keys.offsets[st[ROWS]]
    st[LONG_KEY] = 0
    _forget_ranges(st)


@borrowing(forceinline=True)
def _end_command(st: Any, pos: int, keys: Any, commands: Any, names: Any) -> None:
    """End the command, with all keys found; *pos* is the position after it."""
    number = st[COMMANDS]
    code = st[CODE]
    end = st[BASE] + pos
    if st[ROW] > st[ROWS]:
        keys.share[st[ROW] - 1] = end - st[SHARE_AT]
    commands.offset[number] = st[BEGIN]
    commands.size[number] = end - st[BEGIN]
    commands.code[number] = code
    commands.argc[number] = st[ARGC]
    if code == names.select and st[SELECTED] >= 0:
        st[DB] = st[SELECTED]
    elif code == names.multi:
        if st[MULTI_AT] < 0:
            st[MULTI_AT] = st[BEGIN]
    elif code == names.exec:
        st[MULTI_AT] = -1
    commands.db[number] = st[DB]
    commands.time_s[number] = st[TIME]
    st[ROWS] = st[ROW]
    commands.first_key[number + 1] = st[ROW]
    st[COMMANDS] = number + 1
    st[VALID_END] = end
    st[PHASE] = P_START
    st[POS] = pos


@borrowing()
def _pass_annotation(st: Any, data: Any, pos: int) -> int:
    """Skip the annotation line at *pos*; return -1, or an answer of `walk`."""
    at = pos
    stop = min(st[STOP], pos + framing.ANNOTATION_BYTES_MAX)
    while at < stop and data[at] != 10:
        at += 1
    if at - pos >= framing.ANNOTATION_BYTES_MAX:
        return _refuse(st, data, pos, framing.ANNOTATION)
    if at >= stop:
        return _stop(st, pos, NEED, framing.ANNOTATION_BYTES_MAX)
    end = at - 1 if data[at - 1] == 13 else at
    if end - pos >= 5 and data[pos + 1] == 84 and data[pos + 2] == 83 and data[pos + 3] == 58:
        value = _read_digits(data, pos + 4, end)
        if value >= 0:
            st[TIME] = value
    st[POS] = at + 1
    st[VALID_END] = st[BASE] + at + 1
    return -1


@borrowing()
def walk(data: Any, st: Any, key_columns: Any, command_columns: Any, known: Any) -> int:
    """Walk the window ``data[POS:STOP]``; return one of the answers of `walk_state`.

    *key_columns*, *command_columns* and *known* are the fields of `KeyColumns`, `Commands` and `Names`.
    """
    keys, commands, names = KeyColumns(*key_columns), Commands(*command_columns), Names(*known)
    capacity = len(commands.offset)
    while True:
        pos = st[POS]
        stop = st[STOP]
        if st[PHASE] == P_START:
            if st[COMMANDS] >= capacity or st[ROWS] >= capacity:
                return BATCH
            if pos < stop and data[pos] == 35:
                answer = _pass_annotation(st, data, pos)
                if answer >= 0:
                    return answer
                continue
            argc, after = read_count(data, pos, stop)
            if argc == -requests.CUT:
                return _stop(st, pos, NEED, HEAD_BYTES if pos < stop else 1)
            if argc < 0:
                return _refuse(st, data, after, -argc)
            st[BEGIN] = st[SHARE_AT] = st[BASE] + pos
            st[ARGC] = argc
            st[INDEX] = 0
            st[CODE] = UNLISTED
            st[SELECTED] = -1
            st[LONG_KEY] = 0
            _forget_ranges(st)
            st[ROW] = st[ROWS]
            st[POS] = after
            st[PHASE] = P_ARGUMENT
        answer = _read_arguments(data, st, keys, names)
        if answer >= 0:
            return answer
        if st[LONG_KEY] > 0:  # only for complete commands: a log may end within one
            return _note_fault(st, st[BEGIN], framing.KEY_BYTES, st[LONG_KEY])
        _end_command(st, st[POS], keys, commands, names)


@borrowing()
def _read_arguments(data: Any, st: Any, keys: Any, names: Any) -> int:
    """Continue with the arguments of a command; return -1 at its end, or an answer of `walk`."""
    argc = st[ARGC]
    stop = st[STOP]
    if st[PHASE] == P_SKIP:
        answer = _resume_argument(data, st)
        if answer >= 0:
            return answer
    pos = st[POS]
    index = st[INDEX]
    while index < argc:
        length, after = read_argument(data, pos, stop)
        if length < 0:
            st[INDEX] = index
            if length == -requests.CUT:
                return _stop(st, pos, NEED, HEAD_BYTES)
            return _refuse(st, data, after, -length)
        end = after + length
        is_count_a = index == st[RANGE_A + NUMBER]
        is_count_b = index == st[RANGE_B + NUMBER]
        is_database = index == 1 and argc == 2 and st[CODE] == names.select
        is_key = index > 0 and (_is_in(st, RANGE_A, index) or _is_in(st, RANGE_B, index))
        is_long = is_key and length > KEY_BYTES_MAX
        if is_long and st[LONG_KEY] == 0:
            st[LONG_KEY] = length
        if is_long or not (index == 0 or is_key or is_count_a or is_count_b or is_database):
            if end + 2 > stop:
                st[INDEX] = index
                return _skip_argument(st, after, length)
            pos = end + 2
            index += 1
            continue
        if end + 2 > stop:
            st[INDEX] = index
            if (index == 0 and length > NAME_BYTES_MAX) or length > KEY_BYTES_MAX:  # no name, number or database
                if index > 0:
                    _drop_keys(st, keys)
                return _skip_argument(st, after, length)
            return _stop(st, pos, NEED, end + 2 - pos)
        answer = -1
        if index == 0:
            answer = _read_name(data, st, pos, keys, names)
        elif is_database:
            selected = _read_digits(data, after, end)
            if selected < 0 or selected >= DATABASES_MAX:
                return _note_fault(st, st[BEGIN], framing.DATABASE, selected)
            st[SELECTED] = selected
        else:
            if is_key:
                if st[ROW] + 1 >= len(keys.slot):
                    answer = _stop(st, pos, GROW, 0)
                elif st[KEY_POS] + length > max(len(keys.data), KEY_NAMES_BYTES_MAX):
                    answer = _refuse(st, data, pos, framing.KEYS_BYTES)
                elif st[KEY_POS] + length > len(keys.data):
                    answer = _stop(st, pos, GROW_KEYS, length)
                else:
                    _add_key(st, data, after, length, st[BASE] + pos, keys)
            if answer < 0 and (
                (is_count_a and _apply_number(st, data, after, length, RANGE_A))
                or (is_count_b and _apply_number(st, data, after, length, RANGE_B))
            ):
                _drop_keys(st, keys)
        if answer >= 0:
            st[INDEX] = index
            return answer
        pos = end + 2
        index += 1
    st[INDEX] = index
    st[POS] = pos
    return -1


@borrowing()
def _read_name(data: Any, st: Any, pos: int, keys: Any, names: Any) -> int:
    """Look up the command by its name at *pos*, whole in the window, and its keys; return -1, or an answer of `walk`."""
    stop = st[STOP]
    length, after = read_argument(data, pos, stop)
    code = -1
    if 0 < length <= NAME_BYTES_MAX:
        code = _find_name(data, after, length, names)
        if code < 0 and st[IS_FULL] == 0:
            return _stop(st, pos, NAME, after + length + 2 - pos)
    code = max(code, UNLISTED)
    st[CODE] = code
    rules = names.rules
    if rules[code, 0] == 1:
        last = find_end(data, pos, stop, st[ARGC])
        if last == -requests.CUT:
            return _stop(st, pos, NEED, 2 * (stop - pos))
        if last >= 0:
            return _stop(st, pos, PLAIN, last)
    if _begin_range(st, rules, code, 1, RANGE_A) or _begin_range(st, rules, code, 6, RANGE_B):
        _drop_keys(st, keys)
    return -1


@borrowing()
def _skip_argument(st: Any, pos: int, length: int) -> int:
    """Skip the part in the window of an argument of *length* bytes."""
    take = max(min(length, st[STOP] - pos), 0)
    st[SKIP] = length + 2 - take
    st[PHASE] = P_SKIP
    return _stop(st, pos + take, NEED, 2)


@borrowing()
def _resume_argument(data: Any, st: Any) -> int:
    """Continue an argument that reached beyond the window; return -1 at its end, or an answer of `walk`."""
    answer = _skip_argument(st, st[POS], st[SKIP] - 2)
    pos = st[POS]
    if st[SKIP] > 2 or st[STOP] - pos < 2:
        return answer
    if data[pos] != 13 or data[pos + 1] != 10:
        return _refuse(st, data, pos, requests.CRLF)
    st[SKIP] = 0
    st[INDEX] += 1
    st[POS] = pos + 2
    st[PHASE] = P_ARGUMENT
    return -1


@borrowing()
def add_key(st: Any, data: Any, start: int, length: int, here: int, key_columns: Any) -> None:
    """Call `_add_key` from Python; *key_columns* are the fields of `KeyColumns`."""
    _add_key(st, data, start, length, here, KeyColumns(*key_columns))


@borrowing()
def end_command(st: Any, pos: int, key_columns: Any, command_columns: Any, known: Any) -> None:
    """Call `_end_command` from Python, with the fields of `KeyColumns`, `Commands` and `Names`."""
    _end_command(st, pos, KeyColumns(*key_columns), Commands(*command_columns), Names(*known))
