"""The compiled walk over an append-only log: command by command, and in each of them only what is a key.

How this works.  `walk` goes through a window of the file and may stop at any byte: what it must remember is in the state
array, whose places are named below.  A command is its header (``*3``), then words; a word is its header (``$5``), its bytes
and CRLF.  Words that matter (the name, keys, the number of keys, the database of SELECT) must lie whole in the window;
others are passed over, beyond its end if need be.  The rows of a command count only when it has ended.

Plain twins: `cluster_core.formats.aof.framing` and `cluster_core.aof.command_keys`; a property test holds the two equal.
"""

from __future__ import annotations

from cluster_core.aof.command_keys import BY_NUMBER, BY_RANGE
from cluster_core.formats.aof.framing import (
    ANNOTATION,
    ANNOTATION_BYTES_MAX,
    BULK,
    COUNT,
    CRLF,
    DATABASE,
    KEY_BYTES,
    KEYS_BYTES,
    LENGTH,
    LENGTH_MAX,
    NUMBER_DIGITS_MAX,
    START,
    WORD_BYTES_MAX,
    WORDS_MAX,
)
from cluster_core.formats.rdb.limits import DATABASES_MAX, KEY_BYTES_MAX
from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_slots import slot_of, tag_bounds

# Answers.
NEED, BATCH, GROW, GROW_KEYS, NAME, PLAIN, FAULT = range(7)

# Phases.
P_START, P_WORD, P_SKIP = range(3)

# Places in the state array.
(
    PHASE,
    POS,  # where the next atom begins, in the window
    STOP,  # end of the filled part of the window
    BASE,  # offset in the file of the window's first byte
    WANT,  # bytes from POS on that are needed
    SKIP,  # bytes of the word that are not passed yet, with its CRLF
    ARGC,
    WORD,
    CODE,
    BEGIN,  # offset of the command
    ROWS,  # rows of whole commands
    ROW,  # rows with those of the command that is being read
    COMMANDS,
    KEY_POS,
    SHARE_AT,  # offset from which bytes belong to the key met last
    DB,
    SELECTED,
    TIME,
    MULTI_AT,
    VALID_END,
    FAULT_CODE,
    FAULT_AT,
    FAULT_VALUE,
    A_FIRST,
    A_LAST,
    A_STEP,
    A_NUMBER,
    A_SKIP,
    B_FIRST,
    B_LAST,
    B_STEP,
    B_NUMBER,
    B_SKIP,
    IS_FULL,  # no further names are listed
    LONG_KEY,  # length of the first key of the command that is too long to be one, 0 for none
    STATE_LENGTH,
) = range(36)

UNLISTED = 0
"""Code of a command that has no place in the table of names."""
NAME_BYTES_MAX = 64
NUMBER_WORD_BYTES_MAX = 64
NUMBER_TEXT_MAX = 7
KEY_NAMES_BYTES_MAX = 1 << 30

_NEVER = -1
_KEYS_MAX = 1 << 20


@njit(boundscheck=False, forceinline=True)
def _number(data, at, stop):  # type: ignore[no-untyped-def]
    """Return (value, position after CRLF); the value is -1 if the window ends before, -2 if it is no number."""
    value = 0
    digits = 0
    while at < stop:
        byte = data[at]
        if byte < 48 or byte > 57:
            break
        digits += 1
        if digits > NUMBER_DIGITS_MAX:
            return -2, at
        value = value * 10 + (byte - 48)
        at += 1
    if at >= stop:
        return -1, at
    if digits == 0 or data[at] != 13:
        return -2, at
    if at + 1 >= stop:
        return -1, at
    if data[at + 1] != 10:
        return -2, at
    return value, at + 2


@njit(boundscheck=False, forceinline=True)
def _lower(byte):  # type: ignore[no-untyped-def]
    return byte + 32 if 65 <= byte <= 90 else byte


@njit(boundscheck=False, forceinline=True)
def _find_name(data, at, length, buckets, name_starts, name_bytes):  # type: ignore[no-untyped-def]
    """Return the code of the command whose name lies at *at*, or -1."""
    digest = 2166136261
    for i in range(at, at + length):
        digest = ((digest ^ _signed(_lower(data[i]))) * 16777619) & 0xFFFFFFFF
    mask = len(buckets) - 1
    bucket = (digest ^ (digest >> 15)) & mask
    while True:
        code = buckets[bucket]
        if code < 0:
            return -1
        start = name_starts[code]
        if name_starts[code + 1] - start == length:
            same = True
            for i in range(length):
                if name_bytes[start + i] != _lower(data[at + i]):
                    same = False
                    break
            if same:
                return code
        bucket = (bucket + 1) & mask


@njit(boundscheck=False, forceinline=True)
def _signed(value):  # type: ignore[no-untyped-def]
    """Return a byte as a signed number."""
    return value + 0


@njit(boundscheck=False)
def _count_of(data, at, length, exact):  # type: ignore[no-untyped-def]
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
        value = value * 10 + (_signed(data[after]) - 48)
        after += 1
    if after == begin:
        value = 0
    if exact and (first != at or negative or begin != first or after != stop or (data[at] == 48 and length > 1)):
        return -1
    return -value if negative else value


@njit(boundscheck=False)
def _begin_rules(st, rule, kind_at, at):  # type: ignore[no-untyped-def]
    """Set one of the two key ranges of the command from its rule; True if the words contradict the rule."""
    kind = rule[kind_at]
    st[at] = st[at + 3] = _NEVER
    st[at + 1] = st[at + 2] = st[at + 4] = 0
    if kind != BY_RANGE and kind != BY_NUMBER:
        return False
    words = st[ARGC]
    first = rule[kind_at + 1]
    if first < 0 or first >= words:
        return True
    if kind == BY_NUMBER:
        number = first + rule[kind_at + 2]
        if number >= words:
            return True
        st[at + 3] = number
        st[at + 4] = first + rule[kind_at + 3]
        st[at + 2] = rule[kind_at + 4]
        return False
    last = rule[kind_at + 2]
    step = rule[kind_at + 3]
    limit = rule[kind_at + 4]
    if last >= 0:
        end = first + last
    else:
        share = words if limit <= 1 else first + (words - first) // limit
        end = share + last
    if not (first <= end < words) or step <= 0:
        return True
    st[at] = first
    st[at + 1] = end
    st[at + 2] = step
    return False


@njit(boundscheck=False)
def _apply_number(st, data, start, length, at):  # type: ignore[no-untyped-def]
    """Set a key range from the word that says how many keys there are; True if it cannot be."""
    step = st[at + 2]
    count = -1 if length > NUMBER_WORD_BYTES_MAX else _count_of(data, start, length, step > 1)
    first = st[at + 4]
    if count < 1:
        return True
    end = first + (count - 1) * step
    if not (first <= end < st[ARGC]) or step <= 0:
        return True
    st[at] = first
    st[at + 1] = end
    return False


@njit(boundscheck=False, forceinline=True)
def _is_key(st, word):  # type: ignore[no-untyped-def]
    first = st[A_FIRST]
    if first >= 0 and first <= word <= st[A_LAST] and (word - first) % st[A_STEP] == 0:
        return True
    first = st[B_FIRST]
    return first >= 0 and first <= word <= st[B_LAST] and (word - first) % st[B_STEP] == 0


@njit(boundscheck=False)
def _fault(st, pos, code, value):  # type: ignore[no-untyped-def]
    st[POS] = pos
    st[FAULT_CODE] = code
    st[FAULT_AT] = st[BASE] + pos
    st[FAULT_VALUE] = value
    return FAULT


@njit(boundscheck=False)
def _stop(st, pos, answer, want):  # type: ignore[no-untyped-def]
    st[POS] = pos
    st[WANT] = want
    return answer


@njit(boundscheck=False, forceinline=True)
def _add_key(st, data, start, length, here, key_data, rows):  # type: ignore[no-untyped-def]
    """Append a row for the key ``data[start:start + length]`` whose word begins at offset *here*."""
    key_offsets, slot, tag_start, tag_length, share = rows
    row = st[ROW]
    key_pos = st[KEY_POS]
    for i in range(length):
        key_data[key_pos + i] = data[start + i]
    end = start + length
    slot[row] = slot_of(data, start, end)
    first, last = tag_bounds(data, start, end)
    tagged = last - first != length
    tag_start[row] = first - start if tagged else 0
    tag_length[row] = last - first if tagged else 0
    if row > st[ROWS]:
        share[row - 1] = here - st[SHARE_AT]
        st[SHARE_AT] = here
    st[KEY_POS] = key_pos + length
    st[ROW] = row + 1
    key_offsets[row + 1] = st[KEY_POS]


@njit(boundscheck=False)
def _drop_keys(st, rows):  # type: ignore[no-untyped-def]
    """Forget the rows of the command that is being read, and look for no more keys in it."""
    st[ROW] = st[ROWS]
    st[KEY_POS] = rows[0][st[ROWS]]
    st[LONG_KEY] = 0
    st[A_FIRST] = st[B_FIRST] = st[A_NUMBER] = st[B_NUMBER] = _NEVER


@njit(boundscheck=False, forceinline=True)
def _end_command(st, pos, commands, rows, special):  # type: ignore[no-untyped-def]
    offset, size, code, words, db, time_s, first_row = commands
    number = st[COMMANDS]
    end = st[BASE] + pos
    if st[ROW] > st[ROWS]:
        rows[4][st[ROW] - 1] = end - st[SHARE_AT]
    offset[number] = st[BEGIN]
    size[number] = end - st[BEGIN]
    code[number] = st[CODE]
    words[number] = st[ARGC]
    if st[CODE] == special[0] and st[SELECTED] >= 0:
        st[DB] = st[SELECTED]
    elif st[CODE] == special[1]:
        if st[MULTI_AT] < 0:
            st[MULTI_AT] = st[BEGIN]
    elif st[CODE] == special[2]:
        st[MULTI_AT] = -1
    db[number] = st[DB]
    time_s[number] = st[TIME]
    st[ROWS] = st[ROW]
    first_row[number + 1] = st[ROW]
    st[COMMANDS] = number + 1
    st[VALID_END] = end
    st[PHASE] = P_START


@njit(boundscheck=False)
def _annotation(st, data, pos, stop):  # type: ignore[no-untyped-def]
    """Return the position after the line of annotation at *pos*: -1 if it is cut, -2 if it is too long."""
    at = pos
    while at < stop and at - pos < ANNOTATION_BYTES_MAX and data[at] != 10:
        at += 1
    if at - pos >= ANNOTATION_BYTES_MAX:
        return -2
    if at >= stop:
        return -1
    end = at - 1 if data[at - 1] == 13 else at
    if end - pos >= 5 and data[pos + 1] == 84 and data[pos + 2] == 83 and data[pos + 3] == 58:
        value = 0
        digits = end - (pos + 4)
        for i in range(pos + 4, end):
            if data[i] < 48 or data[i] > 57:
                digits = 99
                break
            if i - pos < 24:
                value = value * 10 + (_signed(data[i]) - 48)
        if digits <= NUMBER_DIGITS_MAX:
            st[TIME] = value
    return at + 1


@njit(boundscheck=False)
def _find_end(data, pos, stop, words):  # type: ignore[no-untyped-def]
    """Return the position after *words* words; -1 if the window ends before, -2 if they are damaged."""
    for _ in range(words):
        if pos >= stop:
            return -1
        if data[pos] != 36:
            return -2
        length, after = _number(data, pos + 1, stop)
        if length < 0:
            return length
        pos = after + length + 2
        if pos > stop:
            return -1 if length <= WORD_BYTES_MAX else -2
        if data[pos - 2] != 13 or data[pos - 1] != 10:
            return -2
    return pos


@njit(boundscheck=False)
def walk(data, st, key_data, rows, commands, buckets, name_starts, name_bytes, rules, special, capacity):  # type: ignore[no-untyped-def]
    """Walk the window ``data[POS:STOP]``; return one of the answers above.

    *rows* are (key offsets int32, slot uint16, tag start int32, tag length int32, bytes int64), *commands* (offset, size int64,
    code uint16, words int64, db int32, time int64, first row int32); *rules* int64[codes, 11]: 1 where the plain function must
    find the keys, then two rules; *special* the codes of SELECT, MULTI and EXEC.
    """
    while True:
        pos = st[POS]
        stop = st[STOP]
        if st[PHASE] == P_START:
            if st[COMMANDS] >= capacity or st[ROWS] >= capacity:
                return BATCH
            if pos >= stop:
                return _stop(st, pos, NEED, 1)
            if data[pos] == 35:
                after = _annotation(st, data, pos, stop)
                if after == -2:
                    return _fault(st, pos, ANNOTATION, 0)
                if after == -1:
                    return _stop(st, pos, NEED, ANNOTATION_BYTES_MAX)
                st[POS] = after
                st[VALID_END] = st[BASE] + after
                continue
            if data[pos] != 42:
                return _fault(st, pos, START, _signed(data[pos]))
            argc, after = _number(data, pos + 1, stop)
            if argc == -1:
                return _stop(st, pos, NEED, 24)
            if argc < 1 or argc > WORDS_MAX:
                return _fault(st, pos + 1, COUNT, 0)
            st[BEGIN] = st[SHARE_AT] = st[BASE] + pos
            st[ARGC] = argc
            st[WORD] = 0
            st[CODE] = UNLISTED
            st[SELECTED] = -1
            st[LONG_KEY] = 0
            st[A_FIRST] = st[B_FIRST] = st[A_NUMBER] = st[B_NUMBER] = _NEVER
            st[ROW] = st[ROWS]
            st[POS] = pos = after
            st[PHASE] = P_WORD
        answer = _words(data, st, key_data, rows, buckets, name_starts, name_bytes, rules, special)
        if answer >= 0:
            return answer
        if st[LONG_KEY] > 0:  # said of whole commands only: a log that ends within one was cut
            st[FAULT_AT] = st[BEGIN]
            st[FAULT_CODE] = KEY_BYTES
            st[FAULT_VALUE] = st[LONG_KEY]
            return FAULT
        _end_command(st, st[POS], commands, rows, special)


@njit(boundscheck=False)
def _words(data, st, key_data, rows, buckets, name_starts, name_bytes, rules, special):  # type: ignore[no-untyped-def]
    """Go on through the words of a command; return -1 at its end, or an answer of `walk`."""
    argc = st[ARGC]
    stop = st[STOP]
    pos = st[POS]
    word = st[WORD]
    if st[PHASE] == P_SKIP:
        take = min(st[SKIP] - 2, stop - pos)
        if take > 0:
            pos += take
            st[SKIP] -= take
        if st[SKIP] > 2 or stop - pos < 2:
            return _stop(st, pos, NEED, 2)
        if data[pos] != 13 or data[pos + 1] != 10:
            return _fault(st, pos, CRLF, 0)
        pos += 2
        word += 1
        st[SKIP] = 0
        st[WORD] = word
        st[POS] = pos
        st[PHASE] = P_WORD
    while word < argc:
        if pos >= stop:
            st[WORD] = word
            return _stop(st, pos, NEED, 24)
        if data[pos] != 36:
            return _fault(st, pos, BULK, _signed(data[pos]))
        length, after = _number(data, pos + 1, stop)
        if length == -1:
            st[WORD] = word
            return _stop(st, pos, NEED, 24)
        if length == -2:
            return _fault(st, pos + 1, LENGTH, 0)
        if length > WORD_BYTES_MAX:
            return _fault(st, pos + 1, LENGTH_MAX, length)
        end = after + length
        if end + 2 <= stop and (data[end] != 13 or data[end + 1] != 10):
            return _fault(st, end, CRLF, 0)
        is_number = word == st[A_NUMBER] or word == st[B_NUMBER] or (word == 1 and st[CODE] == special[0] and argc == 2)
        is_key = word > 0 and _is_key(st, word)
        is_long = is_key and length > KEY_BYTES_MAX
        if is_long and st[LONG_KEY] == 0:
            st[LONG_KEY] = length
        if is_long or (word > 0 and not is_number and not is_key):
            if end + 2 > stop:
                st[WORD] = word
                st[SKIP] = length + 2
                st[PHASE] = P_SKIP
                return _words_cut(st, data, after, stop)
            pos = end + 2
            word += 1
            continue
        if end + 2 > stop:
            if (word == 0 and length > NAME_BYTES_MAX) or length > KEY_BYTES_MAX:  # no name, number or database
                if word > 0:
                    _drop_keys(st, rows)
                st[WORD] = word
                st[SKIP] = length + 2
                st[PHASE] = P_SKIP
                return _words_cut(st, data, after, stop)
            st[WORD] = word
            return _stop(st, pos, NEED, end + 2 - pos)
        if word == 0:
            code = -1
            if 0 < length <= NAME_BYTES_MAX:
                code = _find_name(data, after, length, buckets, name_starts, name_bytes)
                if code < 0 and st[IS_FULL] == 0:
                    st[WORD] = word
                    return _stop(st, pos, NAME, end + 2 - pos)
            code = max(code, UNLISTED)
            st[CODE] = code
            rule = rules[code]
            if rule[0] == 1:
                last = _find_end(data, pos, stop, argc)
                if last == -1:
                    st[WORD] = word
                    return _stop(st, pos, NEED, 2 * (stop - pos))
                if last >= 0:
                    return _stop(st, pos, PLAIN, last)
            if _begin_rules(st, rule, 1, A_FIRST) or _begin_rules(st, rule, 6, B_FIRST):
                _drop_keys(st, rows)
        elif st[CODE] == special[0]:
            selected = -1
            if 0 < length <= NUMBER_DIGITS_MAX:
                selected = 0
                for i in range(after, end):
                    if data[i] < 48 or data[i] > 57:
                        selected = -1
                        break
                    selected = selected * 10 + (_signed(data[i]) - 48)
            if selected < 0 or selected >= DATABASES_MAX:
                st[FAULT_AT] = st[BEGIN]
                st[FAULT_CODE] = DATABASE
                st[FAULT_VALUE] = selected
                return FAULT
            st[SELECTED] = selected
        else:
            if is_key:
                if st[ROW] + 1 >= len(rows[1]):
                    st[WORD] = word
                    return _stop(st, pos, GROW, 0)
                if st[KEY_POS] + length > len(key_data):
                    st[WORD] = word
                    if st[KEY_POS] + length > KEY_NAMES_BYTES_MAX:
                        return _fault(st, pos, KEYS_BYTES, 0)
                    return _stop(st, pos, GROW_KEYS, length)
                _add_key(st, data, after, length, st[BASE] + pos, key_data, rows)
            if (word == st[A_NUMBER] and _apply_number(st, data, after, length, A_FIRST)) or (
                word == st[B_NUMBER] and _apply_number(st, data, after, length, B_FIRST)
            ):
                _drop_keys(st, rows)
        pos = end + 2
        word += 1
    st[WORD] = word
    st[POS] = pos
    return -1


@njit(boundscheck=False)
def end_command(st, pos, commands, rows, special):  # type: ignore[no-untyped-def]
    """End the command whose keys the plain function has found; *pos* is the position after it."""
    _end_command(st, pos, commands, rows, special)
    st[POS] = pos


@njit(boundscheck=False)
def _words_cut(st, data, pos, stop):  # type: ignore[no-untyped-def]
    """A word that reaches beyond the window: pass over what is there of it."""
    take = min(st[SKIP] - 2, stop - pos)
    if take > 0:
        pos += take
        st[SKIP] -= take
    return _stop(st, pos, NEED, 2)
