"""Read an append-only log into batches of command columns, without IO (`cluster_core.kernels.aof.walk` does the work).

walker = AofWalker("appendonly.aof.1.incr.aof")
while not walker.done:
    walker.filled(file.readinto(walker.room()))
    for batch in walker.batches():
        ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.aof.command_keys import command_names, written_keys
from cluster_core.aof.keyspace import LiveKey
from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import Tail, describe
from cluster_core.kernels.aof import walk as at
from cluster_core.kernels.aof.walk import (
    NAMES_MAX,
    Commands,
    KeyColumns,
    add_key,
    end_command,
    known_names,
    new_commands,
    new_keys,
    walk,
)
from cluster_core.kernels.key_batch import NONE, KeyBatch, key_array, known
from cluster_core.kernels.keys.list_lines import UNKNOWN_CODE, batch_of_keys
from cluster_core.kernels.window import Window
from cluster_core.rdb.grammar import KEY_TYPES
from cluster_core.wire.requests import read_argument


@dataclass(slots=True)
class CommandBatch:
    """One row per command, *n* rows, and in *keys* one row for every key of a command.

    Command *i* has the rows ``first_key[i]`` to ``first_key[i + 1] - 1`` of *keys*; *command* indexes the walker's ``names``;
    *time_s* (epoch) is -1 without timestamps. In *keys*, ``serialized_bytes`` is the key's share of the command's bytes (up
    to the next key), ``offset`` is the command's; type, size and expiry are unknown.
    """

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    command: NDArray[np.uint16]
    argc: NDArray[np.int64]
    db: NDArray[np.int32]
    time_s: NDArray[np.int64]
    first_key: NDArray[np.int32]
    keys: KeyBatch

    def __len__(self) -> int:
        return len(self.offset)

    def per_key(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Repeat *column*, one row per command, to one row per key."""
        return np.repeat(column, np.diff(self.first_key))


def command_columns(batch: CommandBatch, names: Sequence[bytes]) -> list[pa.Array]:
    """Return the columns of ``schemas.aof.COMMAND_FIELDS``, in that order, one row per command.

    The time is a UTC timestamp, null if missing; bytes of names that are not UTF-8 become ``\\xhh``.
    """
    texts = pa.array([name.decode("utf-8", "backslashreplace") for name in names], pa.string())
    offsets = pa.array(batch.first_key)
    return [
        pa.array(batch.offset),
        known(batch.db, pa.int32()),
        texts.take(pa.array(batch.command)),
        pa.array(batch.argc),
        pa.array(batch.size),
        pa.ListArray.from_arrays(offsets, key_array(batch.keys)),
        pa.ListArray.from_arrays(offsets, pa.array(batch.keys.slot.astype("int32"))),
        known(batch.time_s, pa.int64()).cast(pa.timestamp("s", "UTC")),
    ]


_SPARE_ROWS = 1024


class AofWalker:
    """Walks the commands of one log file from offset *start*.

    *source* names the file in errors. *batch_rows* limits the commands, and roughly the keys, of a batch. `done` is true at
    the end of the input; `tail` tells whether it lies inside a command or transaction.
    """

    _keys: KeyColumns
    _commands: Commands

    def __init__(self, source: str, *, start: int = 0, batch_rows: int = 65_536) -> None:
        if start < 0 or batch_rows < 1:
            raise ValueError(f"not a place or batch: start {start}, batch_rows {batch_rows}")
        self.done = False
        self.commands = 0
        self.names: list[bytes] = [b"", *(name.encode() for name in command_names())]
        self._source = source
        self._start = start
        self._capacity = batch_rows
        self._error: DecodeError | None = None
        self._set_up()

    def _set_up(self) -> None:
        st: NDArray[np.int64] = np.zeros(at.STATE_LENGTH, np.int64)
        st[at.VALID_END] = self._start
        st[at.TIME] = st[at.MULTI_AT] = -1
        self._state = st
        self._window = Window(st, self._start, None)
        known = known_names()
        self._names = known._replace(buckets=known.buckets.copy(), starts=known.starts.copy(), text=known.text.copy())
        self._new_batch()

    # Facts.

    @property
    def valid_end(self) -> int:
        """Return the offset up to which all is decoded."""
        return int(self._state[at.VALID_END])

    @property
    def open_transaction(self) -> int:
        """Return the offset of a MULTI without EXEC, or -1."""
        return int(self._state[at.MULTI_AT])

    @property
    def fed_end(self) -> int:
        """Return the offset after the last fed byte."""
        return self._window.fed

    @property
    def tail(self) -> Tail:
        """Return the end of the file, once `done`."""
        return Tail(self.valid_end, self.fed_end, self.open_transaction)

    # Input.

    def room(self) -> memoryview:
        """Return writable space for the next bytes of the file."""
        return self._window.room()

    def filled(self, count: int) -> None:
        """Report *count* bytes written to `room`; 0 is the end of the input."""
        self._window.filled(count)

    def skippable(self) -> int:
        """Return how many bytes may be skipped instead of read: the rest of a long value without its end."""
        return self._window.skippable(3) if self._state[at.PHASE] == at.P_SKIP else 0

    def skipped(self, count: int) -> None:
        """Report *count* skipped bytes."""
        self._window.skipped(count, self.skippable())

    # Output.

    def batches(self) -> Iterator[CommandBatch]:
        """Decode the fed bytes; yield full batches and the last one.

        Raises DecodeError with the file offset, after yielding the commands before it.
        """
        while not self.done and self._error is None:
            answer = walk(self._window.data, self._state, *self._tables())
            if answer == at.NEED:
                if not self._window.at_eof:
                    return
                self.done = True
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

    def _serve(self, answer: int) -> None:
        """Make room, add a name, or find keys with the plain function, as *answer* requests."""
        st = self._state
        if answer == at.GROW:
            self._keys = self._keys.with_more_rows()
        elif answer == at.GROW_KEYS:
            self._keys = self._keys.with_more_data(int(st[at.WANT]))
        elif answer == at.NAME:
            pos = int(st[at.POS])
            argument = self._window.data[pos : pos + int(st[at.WANT])].tobytes()
            name = argument[argument.index(b"\n") + 1 : -2].lower()
            if len(self.names) <= NAMES_MAX:
                self._names.list(len(self.names), name)
                self.names.append(name)
            else:
                st[at.IS_FULL] = 1
        else:
            self._plain_keys()

    def _plain_keys(self) -> None:
        """Find the keys of the current command, which is whole in the window, with the plain function."""
        st = self._state
        first, end = int(st[at.POS]), int(st[at.WANT])
        data = self._window.data[first:end].tobytes()
        places, spans, pos = [], [], 0
        while pos < len(data):
            length, start = read_argument(data, pos, len(data))
            places.append(pos)
            spans.append((start, length))
            pos = start + length + 2
        for number in written_keys([data[start : start + length] for start, length in spans]) or ():
            start, length = spans[number]
            self._make_room(1, length)
            here = int(st[at.BASE]) + first + places[number]
            add_key(st, self._window.data, first + start, length, here, tuple(self._keys))
        end_command(st, end, *self._tables())

    def _make_room(self, rows: int, key_bytes: int) -> None:
        """Make room for that many further keys and bytes of their names."""
        st = self._state
        while int(st[at.ROW]) + rows >= len(self._keys.slot):
            self._keys = self._keys.with_more_rows()
        if int(st[at.KEY_POS]) + key_bytes > len(self._keys.data):
            self._keys = self._keys.with_more_data(key_bytes)

    # Batches.

    def _tables(self) -> tuple[tuple[Any, ...], ...]:
        """Return the fields of the walk's tables as plain tuples, which numba unpacks faster."""
        return tuple(self._keys), tuple(self._commands), tuple(self._names)

    def _new_batch(self) -> None:
        self._keys = new_keys(self._capacity + _SPARE_ROWS)
        self._commands = new_commands(self._capacity)
        st = self._state
        st[at.ROW] = st[at.ROWS] = st[at.COMMANDS] = st[at.KEY_POS] = 0

    def _take_batch(self) -> CommandBatch:
        """Return the commands as a batch and begin a new one."""
        st = self._state
        count, rows = int(st[at.COMMANDS]), int(st[at.ROWS])
        held, keys = self._commands, self._keys
        first_key = held.first_key[: count + 1]
        per_command = np.diff(first_key)
        named = KeyBatch(
            key_offsets=keys.offsets[: rows + 1], key_data=keys.data[: int(keys.offsets[rows])],
            db=np.repeat(held.db[:count], per_command), slot=keys.slot[:rows], tag_start=keys.tag_start[:rows],
            tag_length=keys.tag_length[:rows], serialized_bytes=keys.share[:rows],
            offset=np.repeat(held.offset[:count], per_command), **_unknown(rows),
        )  # fmt: skip
        self.commands += count
        batch = CommandBatch(
            held.offset[:count], held.size[:count], held.code[:count], held.argc[:count], held.db[:count], held.time_s[:count],
            first_key, named,
        )  # fmt: skip
        self._carry_over()
        return batch

    def _carry_over(self) -> None:
        """Begin a new batch with the keys of an incomplete command."""
        st = self._state
        rows, row = int(st[at.ROWS]), int(st[at.ROW])
        old = self._keys
        self._new_batch()
        if st[at.PHASE] == at.P_START or row == rows:
            return
        held = row - rows
        first, last = int(old.offsets[rows]), int(old.offsets[row])
        self._make_room(held, last - first)
        self._keys.offsets[: held + 1] = old.offsets[rows : row + 1] - first
        for name in KeyColumns._fields[1:-1]:
            getattr(self._keys, name)[:held] = getattr(old, name)[rows:row]
        self._keys.data[: last - first] = old.data[first:last]
        st[at.ROW] = held
        st[at.KEY_POS] = last - first


def _unknown(rows: int) -> dict[str, NDArray[Any]]:
    """Return key columns that are unknown in a log."""
    none: NDArray[np.int64] = np.full(rows, NONE, np.int64)
    code: NDArray[np.uint8] = np.full(rows, UNKNOWN_CODE, np.uint8)
    return {
        "type": code, "encoding": code, "elements": none, "expire_at_ms": none, "idle_s": none,
        "freq": np.full(rows, NONE, np.int16),
    }  # fmt: skip


_CODES = {name: code for code, name in enumerate(KEY_TYPES)}


def batch_of_live(rows: Sequence[LiveKey], first_row: int) -> KeyBatch:
    """Return live keys as a `KeyBatch` with sizes from `LiveKey.live_bytes` and *offset* counted from *first_row*."""
    keys = pa.array([row.key for row in rows], pa.binary())
    batch = batch_of_keys(keys, np.array([row.live_bytes for row in rows], np.int64), first_row)
    batch.db = np.array([row.db for row in rows], np.int32)
    batch.type = np.array([_CODES[row.type or ""] for row in rows], np.uint8)
    batch.elements = np.array([row.elements for row in rows], np.int64)
    batch.expire_at_ms = np.array([row.expire_at_ms for row in rows], np.int64)
    return batch
