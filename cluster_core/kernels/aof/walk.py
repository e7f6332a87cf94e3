"""The compiled walk over an append-only log: command by command, and in each of them only what is a key.

How this works.  `walk` goes through a window of the file and may stop at any byte: what it must remember is in the state
array, whose places are in `walk_state`.  A command is its header (``*3``), then words; a word is its header (``$5``), its bytes
and CRLF.  Words that matter (the name, keys, the number of keys, the database of SELECT) must lie whole in the window;
others are passed over, beyond its end if need be.  The rows of a command count only when it has ended.

The grammar is that of `cluster_core.wire.requests`, compiled.
"""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,assignment"
from __future__ import annotations

from typing import Any

import numpy as np

from cluster_core.aof.command_keys import BY_NUMBER, BY_RANGE
from cluster_core.formats.aof import framing
from cluster_core.kernels.aof import walk_state as state
from cluster_core.kernels.aof.tables import KEY_NAMES_BYTES_MAX, NAME_BYTES_MAX, UNLISTED, Commands, Keys, Names
from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.key_slots import slot_of, tag_bounds
from cluster_core.kernels.raw_bytes import copy_bytes
from cluster_core.rdb.grammar import DATABASES_MAX, KEY_BYTES_MAX
from cluster_core.wire import requests

_GRAMMAR = compiled(
    requests, "read_number", "read_count", "read_word", "find_end", boundscheck=False, _nrt=False, forceinline=True
)
read_number, read_count = _GRAMMAR["read_number"], _GRAMMAR["read_count"]
read_word, find_end = _GRAMMAR["read_word"], _GRAMMAR["find_end"]

NUMBER_WORD_BYTES_MAX = 64
NUMBER_TEXT_MAX = 7
HEAD_BYTES = 24
"""The head of a command or word takes no more."""


@borrowing(forceinline=True)
def _lower(byte: int) -> int:
    return byte + 32 if 65 <= byte <= 90 else byte


@borrowing(forceinline=True)
def _find_name(data: Any, at: int, length: int, names: Any) -> int:
    """Return the code of the command whose name lies at *at*, or -1."""
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
    """Return the number that ``data[at:end]`` is, -1 if it is none or too long."""
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
    """Return a word as a number of keys, as `atoi` reads it, -1 if it is too large or, with *exact*, written otherwise."""
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
    st[state.RANGE_A + state.FIRST] = st[state.RANGE_B + state.FIRST] = state.NONE
    st[state.RANGE_A + state.NUMBER] = st[state.RANGE_B + state.NUMBER] = state.NONE


@borrowing()
def _begin_range(st: Any, rules: Any, code: int, cell: int, at: int) -> bool:
    """Set the key range at *at* from the rule of command *code* that begins at *cell*; True if the words contradict the rule."""
    st[at + state.FIRST] = st[at + state.NUMBER] = state.NONE
    st[at + state.LAST] = st[at + state.STEP] = st[at + state.AFTER_NUMBER] = 0
    kind, first = rules[code, cell], rules[code, cell + 1]
    a, b, c = rules[code, cell + 2], rules[code, cell + 3], rules[code, cell + 4]
    if kind != BY_RANGE and kind != BY_NUMBER:
        return False
    words = st[state.ARGC]
    if first < 0 or first >= words:
        return True
    if kind == BY_NUMBER:
        if first + a >= words:
            return True
        st[at + state.NUMBER] = first + a
        st[at + state.AFTER_NUMBER] = first + b
        st[at + state.STEP] = c
        return False
    end = first + a if a >= 0 else a + (words if c <= 1 else first + (words - first) // c)
    return _set_range(st, at, first, end, b)


@borrowing()
def _set_range(st: Any, at: int, first: int, end: int, step: int) -> bool:
    if not (first <= end < st[state.ARGC]) or step <= 0:
        return True
    st[at + state.FIRST] = first
    st[at + state.LAST] = end
    st[at + state.STEP] = step
    return False


@borrowing()
def _apply_number(st: Any, data: Any, start: int, length: int, at: int) -> bool:
    """Set a key range from the word that says how many keys there are; True if it cannot be."""
    step = st[at + state.STEP]
    count = -1 if length > NUMBER_WORD_BYTES_MAX else _count_of(data, start, length, step > 1)
    first = st[at + state.AFTER_NUMBER]
    return count < 1 or _set_range(st, at, first, first + (count - 1) * step, step)


@borrowing(forceinline=True)
def _is_in(st: Any, at: int, word: int) -> bool:
    first = st[at + state.FIRST]
    return first >= 0 and first <= word <= st[at + state.LAST] and (word - first) % st[at + state.STEP] == 0


@borrowing()
def _note_fault(st: Any, offset: int, code: int, value: int) -> int:
    st[state.FAULT_CODE] = code
    st[state.FAULT_AT] = offset
    st[state.FAULT_VALUE] = value
    return state.FAULT


@borrowing()
def _refuse(st: Any, data: Any, pos: int, code: int) -> int:
    """Note damage at *pos* of the window."""
    st[state.POS] = pos
    value = np.int64(data[pos])
    if code == requests.LENGTH_MAX:
        value, _ = read_number(data, pos, st[state.STOP])
    return _note_fault(st, st[state.BASE] + pos, code, value)


@borrowing()
def _stop(st: Any, pos: int, answer: int, want: int) -> int:
    st[state.POS] = pos
    st[state.WANT] = want
    return answer


@borrowing(forceinline=True)
def _add_key(st: Any, data: Any, start: int, length: int, here: int, keys: Any) -> None:
    """Append a row for the key ``data[start:start + length]`` whose word begins at offset *here*."""
    row = st[state.ROW]
    key_pos = st[state.KEY_POS]
    end = start + length
    copy_bytes(keys.data, key_pos, data, start, length)
    keys.slot[row] = slot_of(data, start, end)
    first, last = tag_bounds(data, start, end)
    tagged = last - first != length
    keys.tag_start[row] = first - start if tagged else 0
    keys.tag_length[row] = last - first if tagged else 0
    if row > st[state.ROWS]:
        keys.share[row - 1] = here - st[state.SHARE_AT]
        st[state.SHARE_AT] = here
    st[state.KEY_POS] = key_pos + length
    st[state.ROW] = row + 1
    keys.offsets[row + 1] = st[state.KEY_POS]


@borrowing()
def _drop_keys(st: Any, keys: Any) -> None:
    """Forget the rows of the command that is being read, and look for no more keys in it."""
    st[state.ROW] = st[state.ROWS]
    st[state.KEY_POS] = keys.offsets[st[state.ROWS]]
    st[state.LONG_KEY] = 0
    _forget_ranges(st)


@borrowing(forceinline=True)
def _end_command(st: Any, pos: int, keys: Any, commands: Any, names: Any) -> None:
    """End the command whose keys are found; *pos* is the position after it."""
    number = st[state.COMMANDS]
    code = st[state.CODE]
    end = st[state.BASE] + pos
    if st[state.ROW] > st[state.ROWS]:
        keys.share[st[state.ROW] - 1] = end - st[state.SHARE_AT]
    commands.offset[number] = st[state.BEGIN]
    commands.size[number] = end - st[state.BEGIN]
    commands.code[number] = code
    commands.words[number] = st[state.ARGC]
    if code == names.select and st[state.SELECTED] >= 0:
        st[state.DB] = st[state.SELECTED]
    elif code == names.multi:
        if st[state.MULTI_AT] < 0:
            st[state.MULTI_AT] = st[state.BEGIN]
    elif code == names.exec:
        st[state.MULTI_AT] = -1
    commands.db[number] = st[state.DB]
    commands.time_s[number] = st[state.TIME]
    st[state.ROWS] = st[state.ROW]
    commands.first_key[number + 1] = st[state.ROW]
    st[state.COMMANDS] = number + 1
    st[state.VALID_END] = end
    st[state.PHASE] = state.P_START
    st[state.POS] = pos


@borrowing()
def _pass_annotation(st: Any, data: Any, pos: int) -> int:
    """Pass over the line of annotation at *pos*; return -1, or an answer of `walk`."""
    at = pos
    stop = min(st[state.STOP], pos + framing.ANNOTATION_BYTES_MAX)
    while at < stop and data[at] != 10:
        at += 1
    if at - pos >= framing.ANNOTATION_BYTES_MAX:
        return _refuse(st, data, pos, framing.ANNOTATION)
    if at >= stop:
        return _stop(st, pos, state.NEED, framing.ANNOTATION_BYTES_MAX)
    end = at - 1 if data[at - 1] == 13 else at
    if end - pos >= 5 and data[pos + 1] == 84 and data[pos + 2] == 83 and data[pos + 3] == 58:
        value = _read_digits(data, pos + 4, end)
        if value >= 0:
            st[state.TIME] = value
    st[state.POS] = at + 1
    st[state.VALID_END] = st[state.BASE] + at + 1
    return -1


@borrowing()
def walk(data: Any, st: Any, key_columns: Any, command_columns: Any, known: Any) -> int:
    """Walk the window ``data[POS:STOP]``; return one of the answers of `walk_state`.

    *key_columns*, *command_columns* and *known* are the fields of `Keys`, `Commands` and `Names`.
    """
    keys, commands, names = Keys(*key_columns), Commands(*command_columns), Names(*known)
    capacity = len(commands.offset)
    while True:
        pos = st[state.POS]
        stop = st[state.STOP]
        if st[state.PHASE] == state.P_START:
            if st[state.COMMANDS] >= capacity or st[state.ROWS] >= capacity:
                return state.BATCH
            if pos < stop and data[pos] == 35:
                answer = _pass_annotation(st, data, pos)
                if answer >= 0:
                    return answer
                continue
            argc, after = read_count(data, pos, stop)
            if argc == -requests.CUT:
                return _stop(st, pos, state.NEED, HEAD_BYTES if pos < stop else 1)
            if argc < 0:
                return _refuse(st, data, after, -argc)
            st[state.BEGIN] = st[state.SHARE_AT] = st[state.BASE] + pos
            st[state.ARGC] = argc
            st[state.WORD] = 0
            st[state.CODE] = UNLISTED
            st[state.SELECTED] = -1
            st[state.LONG_KEY] = 0
            _forget_ranges(st)
            st[state.ROW] = st[state.ROWS]
            st[state.POS] = after
            st[state.PHASE] = state.P_WORD
        answer = _read_words(data, st, keys, names)
        if answer >= 0:
            return answer
        if st[state.LONG_KEY] > 0:  # said of whole commands only: a log that ends within one was cut
            return _note_fault(st, st[state.BEGIN], framing.KEY_BYTES, st[state.LONG_KEY])
        _end_command(st, st[state.POS], keys, commands, names)


@borrowing()
def _read_words(data: Any, st: Any, keys: Any, names: Any) -> int:
    """Go on through the words of a command; return -1 at its end, or an answer of `walk`."""
    argc = st[state.ARGC]
    stop = st[state.STOP]
    if st[state.PHASE] == state.P_SKIP:
        answer = _resume_word(data, st)
        if answer >= 0:
            return answer
    pos = st[state.POS]
    word = st[state.WORD]
    while word < argc:
        length, after = read_word(data, pos, stop)
        if length < 0:
            st[state.WORD] = word
            if length == -requests.CUT:
                return _stop(st, pos, state.NEED, HEAD_BYTES)
            return _refuse(st, data, after, -length)
        end = after + length
        is_count_a = word == st[state.RANGE_A + state.NUMBER]
        is_count_b = word == st[state.RANGE_B + state.NUMBER]
        is_database = word == 1 and argc == 2 and st[state.CODE] == names.select
        is_key = word > 0 and (_is_in(st, state.RANGE_A, word) or _is_in(st, state.RANGE_B, word))
        is_long = is_key and length > KEY_BYTES_MAX
        if is_long and st[state.LONG_KEY] == 0:
            st[state.LONG_KEY] = length
        if is_long or not (word == 0 or is_key or is_count_a or is_count_b or is_database):
            if end + 2 > stop:
                st[state.WORD] = word
                return _skip_word(st, after, length)
            pos = end + 2
            word += 1
            continue
        if end + 2 > stop:
            st[state.WORD] = word
            if (word == 0 and length > NAME_BYTES_MAX) or length > KEY_BYTES_MAX:  # no name, number or database
                if word > 0:
                    _drop_keys(st, keys)
                return _skip_word(st, after, length)
            return _stop(st, pos, state.NEED, end + 2 - pos)
        answer = -1
        if word == 0:
            answer = _read_name(data, st, pos, keys, names)
        elif is_database:
            selected = _read_digits(data, after, end)
            if selected < 0 or selected >= DATABASES_MAX:
                return _note_fault(st, st[state.BEGIN], framing.DATABASE, selected)
            st[state.SELECTED] = selected
        else:
            if is_key:
                if st[state.ROW] + 1 >= len(keys.slot):
                    answer = _stop(st, pos, state.GROW, 0)
                elif st[state.KEY_POS] + length > max(len(keys.data), KEY_NAMES_BYTES_MAX):
                    answer = _refuse(st, data, pos, framing.KEYS_BYTES)
                elif st[state.KEY_POS] + length > len(keys.data):
                    answer = _stop(st, pos, state.GROW_KEYS, length)
                else:
                    _add_key(st, data, after, length, st[state.BASE] + pos, keys)
            if answer < 0 and (
                (is_count_a and _apply_number(st, data, after, length, state.RANGE_A))
                or (is_count_b and _apply_number(st, data, after, length, state.RANGE_B))
            ):
                _drop_keys(st, keys)
        if answer >= 0:
            st[state.WORD] = word
            return answer
        pos = end + 2
        word += 1
    st[state.WORD] = word
    st[state.POS] = pos
    return -1


@borrowing()
def _read_name(data: Any, st: Any, pos: int, keys: Any, names: Any) -> int:
    """Look up the command's name, whose word at *pos* is whole, and what its keys are; return -1, or an answer of `walk`."""
    stop = st[state.STOP]
    length, after = read_word(data, pos, stop)
    code = -1
    if 0 < length <= NAME_BYTES_MAX:
        code = _find_name(data, after, length, names)
        if code < 0 and st[state.IS_FULL] == 0:
            return _stop(st, pos, state.NAME, after + length + 2 - pos)
    code = max(code, UNLISTED)
    st[state.CODE] = code
    rules = names.rules
    if rules[code, 0] == 1:
        last = find_end(data, pos, stop, st[state.ARGC])
        if last == -requests.CUT:
            return _stop(st, pos, state.NEED, 2 * (stop - pos))
        if last >= 0:
            return _stop(st, pos, state.PLAIN, last)
    if _begin_range(st, rules, code, 1, state.RANGE_A) or _begin_range(st, rules, code, 6, state.RANGE_B):
        _drop_keys(st, keys)
    return -1


@borrowing()
def _skip_word(st: Any, pos: int, length: int) -> int:
    """A word of *length* bytes that reaches beyond the window: pass over what is there of it."""
    take = max(min(length, st[state.STOP] - pos), 0)
    st[state.SKIP] = length + 2 - take
    st[state.PHASE] = state.P_SKIP
    return _stop(st, pos + take, state.NEED, 2)


@borrowing()
def _resume_word(data: Any, st: Any) -> int:
    """Go on with a word that reached beyond the window; return -1 at its end, or an answer of `walk`."""
    answer = _skip_word(st, st[state.POS], st[state.SKIP] - 2)
    pos = st[state.POS]
    if st[state.SKIP] > 2 or st[state.STOP] - pos < 2:
        return answer
    if data[pos] != 13 or data[pos + 1] != 10:
        return _refuse(st, data, pos, requests.CRLF)
    st[state.SKIP] = 0
    st[state.WORD] += 1
    st[state.POS] = pos + 2
    st[state.PHASE] = state.P_WORD
    return -1


@borrowing()
def add_key(st: Any, data: Any, start: int, length: int, here: int, key_columns: Any) -> None:
    """`_add_key` for Python: *key_columns* are the fields of `Keys`."""
    _add_key(st, data, start, length, here, Keys(*key_columns))


@borrowing()
def end_command(st: Any, pos: int, key_columns: Any, command_columns: Any, known: Any) -> None:
    """`_end_command` for Python, with the fields of `Keys`, `Commands` and `Names`."""
    _end_command(st, pos, Keys(*key_columns), Commands(*command_columns), Names(*known))
