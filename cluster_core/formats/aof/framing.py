"""Commands of an append-only log: boundaries, and truncated ends.

A log ending inside a command, or with a MULTI without EXEC, was cut by a crash; a server with ``aof-load-truncated yes``
loads the part before. Other invalid bytes are errors. `cluster_core.kernels.aof.walk` reads in bulk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.rdb.grammar import DATABASES_MAX
from cluster_core.wire import requests
from cluster_core.wire.requests import CRLF, read_argument, read_count, read_number

ANNOTATION_BYTES_MAX = 1024
NO_TIME = -1

ANNOTATION, KEY_BYTES, DATABASE, KEYS_BYTES = range(CRLF + 1, CRLF + 5)
"""Kinds of damage, in addition to those of `wire.requests`."""
_TIMESTAMP = re.compile(rb"#TS:(\d{1,13})\r?\n")
_DATABASE = re.compile(rb"\d{1,13}")


def describe(code: int, value: int) -> str:
    """Describe the damage; *value* is the invalid byte or number."""
    return {
        requests.START: f"a command begins with '*', not with byte {value:#04x}",
        requests.COUNT: "the number of words is not a number from 1 to 2147483647",
        requests.BULK: f"a word begins with '$', not with byte {value:#04x}",
        requests.LENGTH: "the length of a word is not a number",
        requests.LENGTH_MAX: f"a word of {value} bytes",
        requests.CRLF: "a word does not end where its length says",
        ANNOTATION: f"a line of annotation longer than {ANNOTATION_BYTES_MAX} bytes",
        KEY_BYTES: f"a key of {value} bytes",
        DATABASE: f"SELECT of database {value}" if value >= 0 else "SELECT without a database number",
        KEYS_BYTES: "the keys of one command are too many to hold",
    }[code]


class Command(NamedTuple):
    """One command: offset and length in the file, arguments, database, and last timestamp *time_s* (epoch; -1 for none)."""

    offset: int
    size: int
    arguments: tuple[bytes, ...]
    db: int
    time_s: int

    @property
    def name(self) -> str:
        """Return the command's name in lower case."""
        return self.arguments[0].decode("latin-1").lower()


class CommandReader:
    """Reads commands from pieces of a file: `feed` bytes, take `commands`.

    *start*: offset of the first byte. `valid_end`: end of the last complete part. `open_transaction`: see `Tail`.
    """

    def __init__(self, source: str, *, start: int = 0) -> None:
        self.valid_end = start
        self.open_transaction = -1
        self.time_s = NO_TIME
        self.db = 0
        self._source = source
        self._data = b""
        self._needed = 0

    def feed(self, piece: bytes) -> None:
        """Append the next *piece* of the file."""
        self._data += piece

    def commands(self) -> Iterator[Command]:
        """Yield the complete commands; raises DecodeError with the offset of the first invalid byte."""
        at = 0
        try:
            while at < len(self._data) and len(self._data) >= self._needed:
                if self._data[at] == 35:
                    after = self._annotation(at)
                else:
                    arguments, after = self._command(at)
                    if arguments:
                        yield self._settle(arguments, at, after)
                if after == at:
                    break
                self.valid_end += after - at
                at = after
        finally:
            self._data = self._data[at:]

    def _fail(self, code: int, at: int, begin: int) -> DecodeError:
        value = read_number(self._data, at, len(self._data))[0] if code == requests.LENGTH_MAX else self._data[at]
        return DecodeError(describe(code, value), offset=self.valid_end + at - begin, source=self._source)

    def _annotation(self, at: int) -> int:
        """Return the position after an annotation line, *at* if incomplete."""
        stop = self._data.find(b"\n", at, at + ANNOTATION_BYTES_MAX) + 1
        if not stop:
            if len(self._data) - at >= ANNOTATION_BYTES_MAX:
                raise self._fail(ANNOTATION, at, at)
            return at
        result = _TIMESTAMP.fullmatch(self._data, at, stop)
        if result:
            self.time_s = int(result[1])
        return stop

    def _command(self, begin: int) -> tuple[tuple[bytes, ...], int]:
        """Return the arguments of a command and the position after it, or none and *begin* if incomplete."""
        data, stop = self._data, len(self._data)
        arguments = []
        self._needed = 0
        count, at = read_count(data, begin, stop)
        for _ in range(count):
            length, first = read_argument(data, at, stop)
            if length < 0:
                count, at = length, first
                break
            at = first + length + 2
            if at > stop:
                self._needed = at - begin
                return (), begin
            arguments.append(data[first : first + length])
        if count == -requests.CUT:
            return (), begin
        if count < 0:
            raise self._fail(-count, at, begin)
        return tuple(arguments), at

    def _settle(self, arguments: tuple[bytes, ...], begin: int, after: int) -> Command:
        """Return the command and update the database and open transaction."""
        name = arguments[0].lower() if len(arguments[0]) <= 6 else b""
        if name == b"select" and len(arguments) == 2:
            if not _DATABASE.fullmatch(arguments[1]) or int(arguments[1]) >= DATABASES_MAX:
                value = int(arguments[1]) if _DATABASE.fullmatch(arguments[1]) else -1
                raise DecodeError(describe(DATABASE, value), offset=self.valid_end, source=self._source)
            self.db = int(arguments[1])
        elif name == b"multi" and self.open_transaction < 0:
            self.open_transaction = self.valid_end
        elif name == b"exec":
            self.open_transaction = -1
        return Command(self.valid_end, after - begin, arguments, self.db, self.time_s)


class Tail(NamedTuple):
    """End of a log: complete up to *valid_end* of *end* bytes; *open_transaction*: offset of a MULTI without EXEC, or -1."""

    valid_end: int
    end: int
    open_transaction: int

    @property
    def is_cut(self) -> bool:
        """Return whether a server considers this file truncated."""
        return self.valid_end != self.end or self.open_transaction >= 0

    @property
    def loaded_end(self) -> int:
        """Return where a server with ``aof-load-truncated yes`` cuts the file.

        Redis 7.0 keeps the complete commands of an open transaction if the cut is inside a command.
        """
        return self.open_transaction if self.open_transaction >= 0 else self.valid_end

    def reason(self) -> str:
        """Describe the fault at the end."""
        if self.valid_end != self.end:
            return f"the log ends inside a command: {self.end - self.loaded_end} bytes are not loaded"
        return f"the log ends inside a transaction: {self.end - self.loaded_end} bytes are not loaded"

    def error(self, source: str) -> TruncatedError:
        """Return the error for readers that do not accept a truncated log."""
        return TruncatedError(self.reason(), offset=self.loaded_end, source=source)
