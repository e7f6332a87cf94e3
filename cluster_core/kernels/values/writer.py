"""Chosen keys of a dump as bytes of a format, without IO: the caller has the file's bytes as an array and takes the pieces.

The work is done by `cluster_core.kernels.values.walk`; what it leaves to the plain decoder (streams, what modules keep) by
`cluster_core.kernels.values.rare`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError, EncodeError
from cluster_core.formats.rdb.elements import DAMAGE, Record, decode_record
from cluster_core.formats.rdb.grammar import KEY_TYPES
from cluster_core.formats.rdb.head import RdbHead
from cluster_core.kernels.keys.batch import KeyBatch
from cluster_core.kernels.rdb.tables import grammar_array
from cluster_core.kernels.values import state as at
from cluster_core.kernels.values.rare import rare_bytes, stream_tail_bytes
from cluster_core.kernels.values.release import NEWEST, Release
from cluster_core.kernels.values.walk import write_values
from cluster_core.kernels.values.writing import Keys

BUFFER_BYTES = 1 << 20
"""Bytes of a piece; one element that takes more has a larger one."""
_SCRATCH_BYTES = 1 << 16
_NO_WORDS: NDArray[np.int64] = np.empty(0, np.int64)


class ValueWriter:
    """Writes keys of the file that *head* begins in *style* (`state.JSON`, ``RESP``, ``CSV``), commands for a server of *release*.

    *source* names the file in errors.  With *permissive* a value that cannot be read, or that the server cannot hold, is left out:
    `left_out` counts why; one that is larger than a piece is therefore walked once before any of it is given away.  Pieces have up to
    *buffer_bytes*, more only for one element that takes more.
    """

    def __init__(
        self,
        head: RdbHead,
        style: int,
        *,
        source: str,
        release: Release = NEWEST,
        permissive: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.keys = 0
        self.left_out: Counter[str] = Counter()
        self._head = head
        self._style = style
        self._source = source
        self._release = release
        self._permissive = permissive
        self._grammar = grammar_array(head.dialect, head.version, None)
        self._out: NDArray[np.uint8] = np.empty(buffer_bytes, np.uint8)
        self._scratch: NDArray[np.uint8] = np.empty(_SCRATCH_BYTES, np.uint8)
        self._state: NDArray[np.int64] = np.zeros(at.STATE_LENGTH, np.int64)
        self._state[at.FORMAT] = style
        self._state[at.DB] = -1
        self._state[at.FIELDS_STAY] = style == at.RESP and not release.has_field_expiry

    @property
    def not_text(self) -> int:
        """Strings that are no text and were written as Base64."""
        return int(self._state[at.NOT_TEXT])

    def pieces(self, data: NDArray[np.uint8], batch: KeyBatch, rows: NDArray[np.int64]) -> Iterator[memoryview]:
        """Yield the bytes of the keys *rows* of *batch*; *data* are the file's bytes, and a piece is good until the next is asked for.

        Raises DecodeError with the offset of a value that cannot be read, EncodeError for one that the server cannot hold.
        """
        st = self._state
        columns = Keys(*(getattr(batch, name) for name in Keys._fields))
        st[at.ROW] = st[at.OUT] = 0
        st[at.PHASE], st[at.BEGUN] = at.P_BEGIN, -1
        while True:
            answer = write_values(
                data, columns, rows, self._grammar, st, self._out, _NO_WORDS, _NO_WORDS, self._scratch
            )
            if answer == at.SCRATCH:
                self._scratch = np.empty(int(st[at.WANT]), np.uint8)
            elif answer in (at.DONE, at.FULL):
                is_begun = st[at.PHASE] != at.P_BEGIN and st[at.BEGUN] >= 0
                if answer == at.FULL and self._permissive and is_begun:
                    yield from self._set_apart(data, batch, int(rows[st[at.ROW]]))
                else:
                    yield from self._flush()
                if answer == at.DONE:
                    break
                if st[at.WANT] > len(self._out):
                    self._out = np.empty(int(st[at.WANT]), np.uint8)
            elif answer == at.RARE:
                yield from self._flush()
                yield from self._rare(data, batch, int(rows[st[at.ROW]]))
                st[at.ROW] += 1
            elif answer == at.TAIL:
                yield from self._tail(data, batch, int(rows[st[at.ROW]]))
                st[at.PHASE] = at.P_BEGIN
                st[at.ROW] += 1
            else:
                self._leave_out(batch, int(rows[st[at.ROW]]), answer)
        self.keys += len(rows)

    def _set_apart(self, data: NDArray[np.uint8], batch: KeyBatch, row: int) -> Iterator[memoryview]:
        """Let the key at hand begin a piece; one that fills a piece is walked to its end before any of it is given away."""
        begun = int(self._state[at.BEGUN])
        if begun:
            yield self._out.data[:begun]
            self._forget(kept=0)
            return
        trial = ValueWriter(self._head, self._style, source=self._source, release=self._release)
        try:
            for _ in trial.pieces(data, batch, np.array([row])):
                pass
        except (DecodeError, EncodeError) as error:
            self._refuse(batch, row, error.__cause__ if isinstance(error.__cause__, EncodeError) else None)
            self._forget(kept=0)
            self._state[at.ROW] += 1
        else:
            yield from self._flush()

    def _forget(self, kept: int) -> None:
        """Go back to the first *kept* bytes of the piece, before the key at hand."""
        st = self._state
        st[at.OUT], st[at.BEGUN], st[at.PHASE] = kept, -1, at.P_BEGIN
        st[at.NOT_TEXT] = st[at.BEGUN_NOT_TEXT]
        st[at.DB] = -1  # its SELECT may be among what is taken back

    def _flush(self) -> Iterator[memoryview]:
        st = self._state
        if st[at.OUT]:
            yield self._out.data[: int(st[at.OUT])]
        st[at.OUT], st[at.BEGUN] = 0, -1

    def _rare(self, data: NDArray[np.uint8], batch: KeyBatch, row: int) -> Iterator[memoryview]:
        begin, size = int(batch.offset[row]), int(batch.serialized_bytes[row])
        record = data[begin : begin + size].tobytes()
        try:
            key = decode_record(record, self._head.dialect, source=self._source, offset=begin)
            db = int(batch.db[row])
            piece, not_text = rare_bytes(key, db, self._style, self._release, selects=db != self._state[at.DB])
        except EncodeError as error:
            self._refuse(batch, row, error)
            return
        except DecodeError:
            self._refuse(batch, row, None)
            return
        self._state[at.DB] = db
        self._state[at.NOT_TEXT] += not_text
        yield memoryview(piece)

    def _tail(self, data: NDArray[np.uint8], batch: KeyBatch, row: int) -> Iterator[memoryview]:
        """Write what stands behind the entries of a stream."""
        st = self._state
        begin, end = int(st[at.POS]), int(batch.offset[row] + batch.serialized_bytes[row])
        generation = self._head.grammar.types[int(st[at.KIND])].generation
        try:
            piece, not_text = stream_tail_bytes(
                data[begin:end].tobytes(),
                generation,
                Record(batch.key(row), KEY_TYPES[batch.type[row]], None, int(batch.expire_at_ms[row])),
                int(batch.db[row]),
                self._style,
                self._release,
                is_empty=not st[at.DONE_ELEMENTS],
            )
        except EncodeError as error:
            self._take_back(batch, row, error)
            return
        except DAMAGE:
            self._take_back(batch, row, None)
            return
        st[at.NOT_TEXT] += not_text
        if st[at.OUT] + len(piece) > len(self._out):
            yield from self._flush()
            if len(piece) > len(self._out):
                yield memoryview(piece)
                return
        put = int(st[at.OUT])
        self._out[put : put + len(piece)] = np.frombuffer(piece, np.uint8)
        st[at.OUT] += len(piece)

    def _leave_out(self, batch: KeyBatch, row: int, answer: int) -> None:
        """Take back what was written of a key, and go on with the next, or raise the error that it is."""
        no_expiry = EncodeError(f"{self._release.name} has no fields that expire")
        self._take_back(batch, row, no_expiry if answer == at.REFUSED else None)
        self._state[at.ROW] += 1

    def _take_back(self, batch: KeyBatch, row: int, refusal: EncodeError | None) -> None:
        begun = int(self._state[at.BEGUN])
        self._refuse(batch, row, refusal, is_gone=begun < 0)
        self._forget(kept=begun)

    def _refuse(self, batch: KeyBatch, row: int, refusal: EncodeError | None, *, is_gone: bool = False) -> None:
        """Count the key, or raise: *refusal*, or that its value cannot be read; also where the beginning of the key *is_gone* out already."""
        offset = int(batch.offset[row])
        reason = str(refusal) if refusal else "its value is not what its header says (key-slots --deep lists such keys)"
        if self._permissive and not is_gone:
            self.left_out[f"{KEY_TYPES[batch.type[row]]}: {reason}"] += 1
            self.keys -= 1
        elif refusal:
            raise EncodeError(f"{self._source}: offset {offset}: {reason}") from refusal
        else:
            raise DecodeError(reason, offset=offset, source=self._source)
