"""Every command of an append-only log as batches of columns, without IO: the caller feeds bytes, the walker returns batches.

    walker = AofWalker("appendonly.aof.1.incr.aof")
    while not walker.done:
        walker.filled(file.readinto(walker.room()))
        for batch in walker.batches():
            ...

The work is done by `cluster_core.kernels.aof.walk`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.aof.command_keys import command_names, written_keys
from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import UNKNOWN_DB, describe
from cluster_core.formats.aof.tail import Tail
from cluster_core.formats.rdb.facts import SplitError
from cluster_core.kernels.aof import walk as at
from cluster_core.kernels.aof.command_batch import CommandBatch
from cluster_core.kernels.aof.names import NAMES_MAX, known_names, list_name
from cluster_core.kernels.key_batch import NONE, KeyBatch
from cluster_core.kernels.key_list import UNKNOWN_CODE
from cluster_core.kernels.key_slots import slot_of, tag_bounds
from cluster_core.kernels.window import Window

KEY_DATA_BYTES = 8 << 20
_KEY_COLUMNS = (np.uint16, np.int32, np.int32, np.int64)
_COMMAND_COLUMNS = (np.int64, np.int64, np.uint16, np.int64, np.int32, np.int64)


class AofWalker:
    """Walks one file of a log, or the range [*start*, *end*) of one, which must begin and end between two commands.

    *source* names the file in errors; *db* is the database at *start* (by default 0 for a file's beginning, else not
    known).  *batch_rows* bounds the commands, and about the keys, of a batch.

    `done` turns true at the end of the input or range.  A file that ends inside a command, or inside a transaction, is not
    an error here: `tail` says so.  A range that does not end between two commands raises SplitError.
    """

    def __init__(
        self,
        source: str,
        *,
        start: int = 0,
        end: int | None = None,
        db: int | None = None,
        batch_rows: int = 65_536,
    ) -> None:
        if start < 0 or (end is not None and end < start) or batch_rows < 1:
            raise ValueError(f"not a range or batch: start {start}, end {end}, batch_rows {batch_rows}")
        self.done = start == end
        self.commands = 0
        self.names: list[bytes] = [b"", *(name.encode() for name in command_names())]
        self._source = source
        self._start = start
        self._end = end
        self._db = db if db is not None else UNKNOWN_DB if start else 0
        self._capacity = batch_rows
        self._error: DecodeError | None = None
        self._set_up()

    def _set_up(self) -> None:
        st: NDArray[np.int64] = np.zeros(at.STATE_LENGTH, np.int64)
        st[at.VALID_END] = self._start
        st[at.DB] = self._db
        st[at.TIME] = st[at.MULTI_AT] = -1
        self._state = st
        self._window = Window(st, self._start, self._end)
        self._rows: tuple[NDArray[Any], ...] = ()
        self._commands: tuple[NDArray[Any], ...] = ()
        self._key_data: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._set_up_names()
        self._new_batch()

    def _set_up_names(self) -> None:
        known = known_names()
        self._buckets = known.buckets.copy()
        self._name_starts = known.starts.copy()
        self._name_bytes = known.text.copy()
        self._rules = known.rules
        self._special = np.array([self.names.index(name) for name in (b"select", b"multi", b"exec")], np.int64)

    # Facts.

    @property
    def valid_end(self) -> int:
        """Offset up to which all is decoded."""
        return int(self._state[at.VALID_END])

    @property
    def db(self) -> int:
        """The database that is selected at `valid_end`, or -1."""
        return int(self._state[at.DB])

    @property
    def open_transaction(self) -> int:
        """Offset of the MULTI whose EXEC has not come, or -1."""
        return int(self._state[at.MULTI_AT])

    @property
    def fed_end(self) -> int:
        """Offset of the byte after the last that was fed."""
        return self._window.fed

    @property
    def tail(self) -> Tail:
        """How the file ends, once `done`."""
        return Tail(self.valid_end, self.fed_end, self.open_transaction)

    # Input.

    def room(self) -> memoryview:
        """Return writable space for the next bytes of the file, never past *end*."""
        return self._window.room()

    def filled(self, count: int) -> None:
        """Say that *count* bytes were written to `room`; 0 is the end of the input."""
        self._window.filled(count)

    def skippable(self) -> int:
        """Return how many bytes may be passed over instead of read: the rest of a long value, but never its end."""
        return self._window.skippable(3) if self._state[at.PHASE] == at.P_SKIP else 0

    def skipped(self, count: int) -> None:
        """Say that *count* bytes were passed over."""
        self._window.skipped(count, self.skippable())

    # Output.

    def batches(self) -> Iterator[CommandBatch]:
        """Decode what was fed; yield each batch that is full, and the last one.

        Raises DecodeError with the offset in the file, after the commands before it were yielded.
        """
        while not self.done and self._error is None:
            answer = self._walk()
            if answer == at.NEED:
                if not self._window.at_eof:
                    return
                self._finish()
            elif answer == at.BATCH:
                yield self._take_batch()
            elif answer == at.FAULT:
                reason = describe(int(self._state[at.FAULT_CODE]), int(self._state[at.FAULT_VALUE]))
                self._error = DecodeError(reason, offset=int(self._state[at.FAULT_AT]), source=self._source)
            else:
                self._serve(answer)
        if self._state[at.COMMANDS] > 0:
            yield self._take_batch()
        if self._error is not None:
            raise self._error

    def _walk(self) -> int:
        return int(
            at.walk(
                self._window.data, self._state, self._key_data, self._rows, self._commands, self._buckets,
                self._name_starts, self._name_bytes, self._rules, self._special, self._capacity,
            )
        )  # fmt: skip

    def _finish(self) -> None:
        self.done = True
        if self._end is not None and self.valid_end != self._end:
            self._error = SplitError(
                "the range does not end between two commands", offset=self._end, source=self._source
            )

    def _serve(self, answer: int) -> None:
        """Do what the compiled walk cannot: make room, list a name, find keys by the plain function."""
        st = self._state
        if answer == at.GROW:
            offsets, *columns = self._rows
            larger = [np.concatenate([column, np.empty_like(column)]) for column in columns]
            self._rows = (np.concatenate([offsets, np.zeros(len(columns[0]), np.int32)]), *larger)
        elif answer == at.GROW_KEYS:
            held: NDArray[np.uint8] = np.empty(2 * len(self._key_data) + int(st[at.WANT]), np.uint8)
            held[: len(self._key_data)] = self._key_data
            self._key_data = held
        elif answer == at.NAME:
            pos = int(st[at.POS])
            word = self._window.data[pos : pos + int(st[at.WANT])].tobytes()
            name = word[word.index(b"\n") + 1 : -2].lower()
            if len(self.names) <= NAMES_MAX:
                list_name(self._buckets, self._name_starts, self._name_bytes, len(self.names), name)
                self.names.append(name)
            else:
                st[at.IS_FULL] = 1
        else:
            self._plain_keys()

    def _plain_keys(self) -> None:
        """Find the keys of the command at hand with the plain function; all of it lies in the window."""
        st = self._state
        first, end = int(st[at.POS]), int(st[at.WANT])
        data = self._window.data[first:end].tobytes()
        words, places, starts = _split_words(data)
        keys = written_keys(words) or ()
        share_at = int(st[at.BEGIN])
        for position in keys:
            here = int(st[at.BASE]) + first + places[position]
            start = first + starts[position]
            while int(st[at.ROW]) + 1 >= len(self._rows[1]):
                self._serve(at.GROW)
            if int(st[at.KEY_POS]) + len(words[position]) > len(self._key_data):
                st[at.WANT] = len(words[position])
                self._serve(at.GROW_KEYS)
            row = int(st[at.ROW])
            if row > st[at.ROWS]:
                self._rows[4][row - 1] = here - share_at
                share_at = here
            self._add_key(row, start, len(words[position]))
        st[at.SHARE_AT] = share_at
        at.end_command(st, end, self._commands, self._rows, self._special)

    def _add_key(self, row: int, start: int, length: int) -> None:
        st, end = self._state, start + length
        key_offsets, slot, tag_start, tag_length, _ = self._rows
        slot[row] = slot_of(self._window.data, start, end)
        opened, closed = tag_bounds(self._window.data, start, end)
        is_tagged = closed - opened != length
        tag_start[row], tag_length[row] = (opened - start, closed - opened) if is_tagged else (0, 0)
        key_pos = int(st[at.KEY_POS])
        self._key_data[key_pos : key_pos + length] = self._window.data[start:end]
        key_offsets[row + 1] = st[at.KEY_POS] = key_pos + length
        st[at.ROW] = row + 1

    # Batches.

    def _new_batch(self) -> None:
        rows = self._capacity + 1024
        self._rows = (
            np.zeros(rows + 1, np.int32),
            *(np.empty(rows, kind) for kind in _KEY_COLUMNS),
        )
        self._commands = (
            *(np.empty(self._capacity, kind) for kind in _COMMAND_COLUMNS),
            np.zeros(self._capacity + 1, np.int32),
        )
        self._key_data = np.empty(KEY_DATA_BYTES, np.uint8)
        st = self._state
        st[at.ROW] = st[at.ROWS] = st[at.COMMANDS] = st[at.KEY_POS] = 0

    def _take_batch(self) -> CommandBatch:
        """Return the commands so far as a batch and begin a new one."""
        st = self._state
        count, rows = int(st[at.COMMANDS]), int(st[at.ROWS])
        offset, size, command, words, db, time_s, first_key = self._commands
        key_offsets, slot, tag_start, tag_length, share = self._rows
        per_command = np.diff(first_key[: count + 1])
        keys = KeyBatch(
            key_offsets=key_offsets[: rows + 1], key_data=self._key_data[: int(key_offsets[rows])],
            db=np.repeat(db[:count], per_command), slot=slot[:rows], tag_start=tag_start[:rows],
            tag_length=tag_length[:rows], serialized_bytes=share[:rows],
            offset=np.repeat(offset[:count], per_command), **_unknown(rows),
        )  # fmt: skip
        self.commands += count
        batch = CommandBatch(
            offset[:count], size[:count], command[:count], words[:count], db[:count], time_s[:count],
            first_key[: count + 1], keys,
        )  # fmt: skip
        self._carry_over()
        return batch

    def _carry_over(self) -> None:
        """Begin a new batch; the keys of a command that has not ended move to it."""
        st = self._state
        rows, row = int(st[at.ROWS]), int(st[at.ROW])
        if st[at.PHASE] == at.P_START or row == rows:
            self._new_batch()
            return
        old, old_data = self._rows, self._key_data
        first, last = int(old[0][rows]), int(old[0][row])
        self._new_batch()
        while row - rows + 1 >= len(self._rows[1]):
            self._serve(at.GROW)
        if last - first > len(self._key_data):
            st[at.WANT] = last - first
            self._serve(at.GROW_KEYS)
        held = row - rows
        self._rows[0][: held + 1] = old[0][rows : row + 1] - first
        for new, column in zip(self._rows[1:], old[1:], strict=True):
            new[:held] = column[rows:row]
        self._key_data[: last - first] = old_data[first:last]
        st[at.ROW] = held
        st[at.KEY_POS] = last - first


def _unknown(rows: int) -> dict[str, NDArray[Any]]:
    """Return the columns of keys that a log does not tell."""
    none: NDArray[np.int64] = np.full(rows, NONE, np.int64)
    code: NDArray[np.uint8] = np.full(rows, UNKNOWN_CODE, np.uint8)
    return {
        "type": code, "encoding": code, "elements": none, "expire_at_ms": none, "idle_s": none,
        "freq": np.full(rows, NONE, np.int16),
    }  # fmt: skip


def _split_words(data: bytes) -> tuple[list[bytes], list[int], list[int]]:
    """Return the words of a command without its header, where their headers begin, and where they themselves begin."""
    words, places, starts = [], [], []
    pos = 0
    while pos < len(data):
        line_end = data.index(b"\r\n", pos)
        start = line_end + 2
        length = int(data[pos + 1 : line_end])
        words.append(data[start : start + length])
        places.append(pos)
        starts.append(start)
        pos = start + length + 2
    return words, places, starts
