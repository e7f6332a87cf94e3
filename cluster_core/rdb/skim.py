"""Skim an RDB file into batches of key columns, without IO (`cluster_core.rdb.walk` does the work).

skimmer = RdbSkimmer("dump.rdb")
while not skimmer.done:
    skimmer.filled(file.readinto(skimmer.room()))
    for batch in skimmer.batches():
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.window import Window
from cluster_core.memory.model import MemorySettings, model_of
from cluster_core.rdb import faults
from cluster_core.rdb import skim_state as at
from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.grammar import DIALECT_VALKEY, OP_EOF
from cluster_core.rdb.head import MAGIC_BYTES, DeclaredCounts, FileFacts, RdbHead, SplitError, read_magic
from cluster_core.rdb.memory_sizes import model_array
from cluster_core.rdb.skim_state import ROW_COLUMNS, Batch, Tables, grammar_array, new_batch
from cluster_core.rdb.strings import string_at
from cluster_core.rdb.walk import skim

KEY_DATA_BYTES = 8 << 20
"""Bytes of key names per batch; a full buffer ends the batch."""


class RdbSkimmer:
    """Skims one RDB file, or the range [*start*, *end*) between two records of it.

    *source* names the file in errors. A range that does not start at 0 needs the file's *head* with the current database.
    *batch_keys* is the number of rows of a full batch. *check_crc* computes the CRC64 of all bytes, and checks that of a
    whole file. *memory* estimates every key's size in the server's memory (`cluster_core.memory`).

    `done`: the last record (or the range's last byte) is decoded; later bytes only count as `trailing_bytes`.
    """

    def __init__(
        self,
        source: str,
        *,
        start: int = 0,
        end: int | None = None,
        head: RdbHead | None = None,
        check_crc: bool = True,
        batch_keys: int = 65_536,
        memory: MemorySettings | None = None,
    ) -> None:
        if start < 0 or (end is not None and end < start) or batch_keys < 1:
            raise ValueError(f"not a range or batch: start {start}, end {end}, batch_keys {batch_keys}")
        if start and head is None:
            raise ValueError("a range that does not start at 0 needs the file's head")
        self.done = False
        self.keys = 0
        self.stored_crc: int | None = None
        self.crc = 0
        self.trailing_bytes = 0
        self._source = source
        self._start = start
        self._end = end
        self._check_crc = check_crc
        self._capacity = batch_keys
        self._memory = memory
        self._error: DecodeError | None = None
        self._set_up(head)

    def _set_up(self, head: RdbHead | None) -> None:
        self._facts = FileFacts(head, source=self._source, start=self._start, end=self._end)
        self._state: NDArray[np.int64] = np.zeros(at.STATE_LENGTH, dtype=np.int64)
        self._window = Window(self._state, self._start, self._end)
        self._scratch: NDArray[np.uint8] = np.empty(64, dtype=np.uint8)
        self._crc_at = 0
        self._is_past_end = False
        self._needs_magic = self._start == 0
        self._templates: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._tables: Tables | None = None
        self._batch: Batch | None = None  # created on demand
        self._name: NDArray[np.uint8] = np.empty(0, np.uint8)
        if head is not None:
            self._apply_head(head)

    # Metadata of the file.

    @property
    def head(self) -> RdbHead:
        """Dialect, version and writer; ValueError before the first nine bytes were decoded."""
        if self._facts.head is None:
            raise ValueError("the file's first bytes are not decoded yet")
        return self._facts.head

    @property
    def aux(self) -> dict[str, str]:
        """All aux fields but slot info; other than UTF-8 bytes are ``\\xhh``."""
        return self._facts.aux

    @property
    def databases(self) -> dict[int, DeclaredCounts]:
        """Announced keys and expiring keys by database (RESIZEDB)."""
        return self._facts.databases

    @property
    def function_count(self) -> int:
        """Function libraries."""
        return int(self._state[at.FUNCTIONS])

    @property
    def position(self) -> int:
        """Return the file offset up to which bytes are decoded and in the CRC."""
        return int(self._state[at.BASE] + self._state[at.POS]) - (0 if self.stored_crc is None else 8)

    @property
    def fed(self) -> int:
        """Return the file offset of the next wanted byte."""
        return self._window.fed

    @property
    def crc_ok(self) -> bool | None:
        """Return whether the stored CRC64 is right; None if absent or not checked yet."""
        if not self.done or not self._check_crc or self._start or not self.stored_crc:
            return None
        return self.stored_crc == self.crc

    # Input.

    def room(self) -> memoryview:
        """Return writable space for the next bytes of the file, never past *end*."""
        self._fold_crc()
        self._crc_at = 0
        return self._window.room()

    def filled(self, count: int) -> None:
        """Report *count* bytes written to `room`; 0 is the end of the input."""
        self._window.filled(count)
        if self.done:
            self._count_trailing()

    def skippable(self) -> int:
        """Return how many bytes may be skipped instead of read, never a string's last byte; 0 if the CRC is computed."""
        return 0 if self._check_crc or self._state[at.LZF_RAW] > 0 else self._window.skippable(1)

    def skipped(self, count: int) -> None:
        """Report *count* skipped bytes."""
        self._window.skipped(count, self.skippable())

    def feed(self, read_at: Callable[[int, int], bytes | memoryview], most: int | None = None) -> int:
        """Skip unneeded bytes, read the next piece of at most *most* bytes, and return its size.

        *read_at* returns the given number of bytes from an offset of the file, fewer at its end.
        """
        self.skipped(self.skippable())
        room = self.room()
        piece = read_at(self.fed, len(room) if most is None else min(len(room), most))
        room[: len(piece)] = piece
        self.filled(len(piece))
        return len(piece)

    # Output.

    def batches(self, *, at_once: bool = False) -> Iterator[KeyBatch]:
        """Decode the fed bytes; yield full batches and the last one, or (*at_once*) all keys with complete records.

        Raises DecodeError (TruncatedError, SplitError) with the file offset, after yielding the keys before it.
        """
        while not self.done and self._error is None:
            try:
                answer = self._step()
            except DecodeError as error:
                self._error = error
                break
            if answer == at.NEED:
                if not at_once:
                    return
                break
            if answer == at.BATCH:
                yield self._take_batch()
        if self._state[at.ROW] > 0:
            yield self._take_batch()
        if self._error is not None:
            raise self._error

    def _step(self) -> int:
        """Decode up to the next answer that matters outside; raises DecodeError."""
        st = self._state
        if self._needs_magic and not self._read_magic():
            return at.NEED
        if self._is_past_end:
            return self._read_stored_crc()
        answer = self._run()
        if answer == at.NEED and self._window.at_eof:
            return self._end_of_input()
        if answer == at.KEYS:
            self._batch = new_batch(self._capacity, int(st[at.WANT]))
        elif answer == at.SCRATCH:
            self._scratch = np.empty(int(st[at.WANT]), dtype=np.uint8)
        elif answer == at.EVENT:
            self._note_event()
        elif answer == at.END:
            self._is_past_end = True
            if self._end is not None:
                reason = "the file's end lies within a range that is not the last"
                raise SplitError(reason, offset=self.position - 1, source=self._source)
        elif answer == at.FAULT:
            if st[at.FAULT_CODE] == faults.TEMPLATE and self._start:
                reason = "a hash by template lies in a range: templates are at the file's beginning"
                raise SplitError(reason, offset=int(st[at.FAULT_AT]), source=self._source)
            reason = faults.describe(int(st[at.FAULT_CODE]), int(st[at.FAULT_A]), int(st[at.FAULT_B]))
            raise DecodeError(reason, offset=int(st[at.FAULT_AT]), source=self._source)
        return answer

    def _run(self) -> int:
        if self._batch is None:
            self._batch = new_batch(self._capacity, max(KEY_DATA_BYTES, len(self._name)))
            self._batch.key_data[: len(self._name)] = self._name
            self._state[at.ROW] = self._state[at.KEY_POS] = 0
        if self._tables is None:
            self._tables = self._new_tables()
        return int(
            skim(
                self._window.data,
                self._state,
                tuple(self._tables),
                tuple(self._batch),
                self._scratch,
            )
        )

    def _new_tables(self) -> Tables:
        head = self.head
        model = None if self._memory is None else model_of(head, self._memory)
        return Tables(grammar_array(head.dialect, head.version, model), model_array(model), self._templates)

    def _end_of_input(self) -> int:
        """Handle the end of the input: the correct end of a range, or an error."""
        st = self._state
        fed = self._window.fed
        if self._end is None or fed < self._end:
            raise TruncatedError("the file is cut short: it ends before its end mark", offset=fed, source=self._source)
        if st[at.PHASE] != at.P_RECORD or st[at.POS] != st[at.STOP] or st[at.SKIP] > 0 or st[at.META_AT] > 0:
            raise SplitError("split point is inside a record", offset=self._end, source=self._source)
        self._finish()
        return at.END

    def _finish(self) -> None:
        self._fold_crc()
        self.done = True
        self._count_trailing()

    def _count_trailing(self) -> None:
        """Count the bytes after the end and forget them."""
        st = self._state
        self.trailing_bytes += int(st[at.STOP] - st[at.POS])
        st[at.STOP] = st[at.POS]

    def _read_magic(self) -> bool:
        """Decode the first nine bytes; False if they are not there yet."""
        st = self._state
        first = self._window.data[: min(MAGIC_BYTES, int(st[at.STOP]))].tobytes()
        if len(first) < MAGIC_BYTES and not self._window.at_eof:
            return False
        head = read_magic(first, self._source)
        self._facts.head = head
        self._apply_head(head)
        st[at.POS] = MAGIC_BYTES
        self._needs_magic = False
        return True

    def _apply_head(self, head: RdbHead) -> None:
        st = self._state
        st[at.VALKEY] = head.dialect == DIALECT_VALKEY
        st[at.LISTPACK_LISTS] = head.small_lists_are_listpacks
        st[at.EMBSTR_RULE] = head.embstr_rule
        st[at.DB] = self._facts.db
        self._tables = None

    def _note_event(self) -> None:
        st = self._state
        kind = st[at.EVENT_KIND]
        if kind == at.EVENT_SELECTDB:
            self._facts.select(int(st[at.EVENT_A]), self.position)
        elif kind == at.EVENT_RESIZEDB:
            self._facts.resize(int(st[at.EVENT_A]), int(st[at.EVENT_B]))
        elif kind == at.EVENT_TEMPLATE:
            missing = int(st[at.EVENT_A]) + 1 - len(self._templates)
            if missing > 0:
                more = np.full(max(missing, len(self._templates)), -1, np.int64)
                self._templates = np.concatenate([self._templates, more])
            self._templates[st[at.EVENT_A]] = st[at.EVENT_B]
            self._tables = None
        elif st[at.EVENT_B] >= 0:
            first, second = int(st[at.EVENT_A]), int(st[at.EVENT_B])
            field = self._window.data[first : int(st[at.POS])].tobytes()
            if self._facts.add_aux(string_at(field, 0)[0], string_at(field, second - first)[0]):
                self._apply_head(self.head)

    def _read_stored_crc(self) -> int:
        """Read the eight bytes after the end mark, and compare; versions before 5 have none."""
        st = self._state
        self._fold_crc()
        if self.head.version < 5:
            self._finish()
            return at.END
        pos = int(st[at.POS])
        if int(st[at.STOP]) - pos < 8:
            if self._window.at_eof:
                offset = self.position + int(st[at.STOP]) - pos
                raise TruncatedError("the file ends within its CRC", offset=offset, source=self._source)
            st[at.WANT] = 8
            return at.NEED
        self.stored_crc = int.from_bytes(self._window.data[pos : pos + 8].tobytes(), "little")
        st[at.POS] = self._crc_at = pos + 8
        self._finish()
        if self.crc_ok is False:
            reason = f"CRC64 is {self.crc:016x}, but the file says {self.stored_crc:016x}"
            raise DecodeError(reason, offset=self.position, source=self._source)
        return at.END

    def _fold_crc(self) -> None:
        pos = int(self._state[at.POS])
        if self._check_crc and pos > self._crc_at and not self.done:
            self.crc = crc64(self._window.data[self._crc_at : pos], self.crc)
        self._crc_at = pos

    def _take_batch(self) -> KeyBatch:
        """Return the rows as a batch and start a new one with the name of the current key."""
        assert self._batch is not None
        rows = int(self._state[at.ROW])
        columns: dict[str, Any] = {name: getattr(self._batch, name)[:rows] for name in ROW_COLUMNS}
        offsets = self._batch.key_offsets[: rows + 1]
        open_bytes = 0 if self._state[at.PHASE] == at.P_RECORD else int(self._state[at.KEY_LENGTH])
        self._name = self._batch.key_data[int(offsets[-1]) :][:open_bytes].copy()
        if self._memory is None:
            columns["memory_bytes"] = columns["estimate"] = None
        batch = KeyBatch(key_offsets=offsets, key_data=self._batch.key_data[: int(offsets[-1])].copy(), **columns)
        self.keys += rows
        self._batch = None
        self._state[at.ROW] = 0
        return batch


class RecordBounds(NamedTuple):
    """A record that is not a key: opcode, offset of its first byte, offset after its last byte."""

    op: int
    begin: int
    end: int


class RecordSkimmer(RdbSkimmer):
    """A skim that also yields the bounds of records other than keys."""

    def _set_up(self, head: RdbHead | None) -> None:
        super()._set_up(head)
        self._state[at.BY_RECORD] = 1

    def parts(self) -> Iterator[KeyBatch | RecordBounds]:
        """Decode the fed bytes; yield batches of keys and bounds of other records, in file order; errors as in `batches`."""
        error: DecodeError | None = None
        while not self.done and error is None:
            try:
                answer = self._step()
            except DecodeError as problem:
                answer, error = at.FAULT, problem
            if self._state[at.ROW] > 0 and answer in (at.NEED, at.BATCH, at.RECORD, at.END, at.FAULT):
                yield self._take_batch()
            if answer == at.RECORD:
                yield self._bounds()
            elif answer == at.END and not self.done:
                yield RecordBounds(OP_EOF, self.position - 1, self.position)
            elif answer == at.NEED:
                return
        if error is not None:
            raise error

    def _bounds(self) -> RecordBounds:
        st = self._state
        result = RecordBounds(int(st[at.OTHER_OP]), int(st[at.OTHER_BEGIN]), self.position)
        st[at.OTHER_OP] = 0
        return result
