"""The walker of an append-only log without compiled code: the plain reader, and its commands as batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.aof.command_keys import written_keys
from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import KEY_BYTES, Command, describe
from cluster_core.kernels.aof.command_batch import CommandBatch
from cluster_core.kernels.aof.tables import NAME_BYTES_MAX, NAMES_MAX
from cluster_core.kernels.aof.walker import AofWalker, _unknown
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import KEY_BYTES_MAX
from cluster_core.slots.key_slot import hash_tag, key_slot
from tests.reference.commands import PlainCommandReader
from tests.reference.pieces import Pieces


class PlainAofWalker(AofWalker):
    """See `AofWalker`."""

    def _set_up(self) -> None:
        self._reader = PlainCommandReader(self._source, start=self._start, db=self._db)
        self._pieces = Pieces(self._start, self._end)
        self._held: list[Command] = []
        self._codes = {name: code for code, name in enumerate(self.names)}

    @property
    def valid_end(self) -> int:
        """Offset up to which all is decoded."""
        return self._reader.valid_end

    @property
    def db(self) -> int:
        """The database that is selected at `valid_end`, or -1."""
        return self._reader.db

    @property
    def open_transaction(self) -> int:
        """Offset of the MULTI whose EXEC has not come, or -1."""
        return self._reader.open_transaction

    @property
    def fed_end(self) -> int:
        """Offset of the byte after the last that was fed."""
        return self._pieces.fed

    def room(self) -> memoryview:
        """Return writable space for the next bytes of the file, never past *end*."""
        return self._pieces.room()

    def filled(self, count: int) -> None:
        """Say that *count* bytes were written to `room`; 0 is the end of the input."""
        self._reader.feed(self._pieces.take(count))

    def skippable(self) -> int:
        """Return 0: the plain reader looks at every byte."""
        return 0

    def skipped(self, count: int) -> None:
        """Say that *count* bytes, of which there are none, were passed over."""
        if count:
            raise ValueError(f"{count} bytes may not be skipped")

    def batches(self) -> Iterator[CommandBatch]:
        """Decode what was fed; yield each batch that is full, and the last one.

        Raises DecodeError with the offset in the file, after the commands before it were yielded.
        """
        if self.done and self._error is None:
            return
        try:
            for command in self._reader.commands() if self._error is None else ():
                self._check(command)
                self._held.append(command)
                if len(self._held) == self._capacity:
                    yield self._take()
        except DecodeError as error:
            self._error = error
        if self._pieces.at_eof and self._error is None:
            self._finish()
        if self._held and (self._pieces.at_eof or self._error is not None):
            yield self._take()
        if self._error is not None:
            raise self._error

    def _check(self, command: Command) -> None:
        for position in written_keys(command.words) or ():
            if len(command.words[position]) > KEY_BYTES_MAX:
                reason = describe(KEY_BYTES, len(command.words[position]))
                raise DecodeError(reason, offset=command.offset, source=self._source)

    def _code(self, command: Command) -> int:
        name = command.words[0].lower()
        if len(name) > NAME_BYTES_MAX or not name:
            return 0
        if name not in self._codes and len(self.names) <= NAMES_MAX:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes.get(name, 0)

    def _take(self) -> CommandBatch:
        held, self._held = self._held, []
        self.commands += len(held)
        keys: list[tuple[bytes, int]] = []
        first_key = [0]
        for command in held:
            keys += _shares(command)
            first_key.append(len(keys))
        offset = np.array([command.offset for command in held], np.int64)
        db = np.array([command.db for command in held], np.int32)
        return CommandBatch(
            offset=offset,
            size=np.array([command.size for command in held], np.int64),
            command=np.array([self._code(command) for command in held], np.uint16),
            words=np.array([len(command.words) for command in held], np.int64),
            db=db,
            time_s=np.array([command.time_s for command in held], np.int64),
            first_key=np.array(first_key, np.int32),
            keys=_key_batch(keys, np.repeat(db, np.diff(first_key)), np.repeat(offset, np.diff(first_key))),
        )


def _key_batch(keys: list[tuple[bytes, int]], db: NDArray[Any], offset: NDArray[Any]) -> KeyBatch:
    tags = [hash_tag(key) for key, _ in keys]
    return KeyBatch(
        key_offsets=np.concatenate(([0], np.cumsum([len(key) for key, _ in keys]))).astype(np.int32),
        key_data=np.frombuffer(b"".join(key for key, _ in keys), np.uint8),
        db=db.astype(np.int32),
        slot=np.array([key_slot(key) for key, _ in keys], np.uint16),
        tag_start=np.array(
            [0 if tag is None else key.index(b"{") + 1 for (key, _), tag in zip(keys, tags, strict=True)], np.int32
        ),
        tag_length=np.array([0 if tag is None else len(tag) for tag in tags], np.int32),
        serialized_bytes=np.array([share for _, share in keys], np.int64),
        offset=offset.astype(np.int64),
        **_unknown(len(keys)),
    )


def _shares(command: Command) -> list[tuple[bytes, int]]:
    """The keys of a command, each with its share of the command's bytes."""
    positions = written_keys(command.words)
    if not positions:
        return []
    sizes = [len(b"$%d\r\n" % len(word)) + len(word) + 2 for word in command.words]
    begins = list(accumulate(sizes, initial=command.size - sum(sizes)))
    places = [begins[at] for at in positions]
    bounds = [0, *places[1:], command.size]
    return [(command.words[at], bounds[number + 1] - bounds[number]) for number, at in enumerate(positions)]
