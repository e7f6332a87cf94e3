"""The plain reader of an append-only log: its own grammar of requests, by regular expressions, to compare the product's with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import ANNOTATION, ANNOTATION_BYTES_MAX, DATABASE, NO_TIME, Command, describe
from cluster_core.rdb.grammar import DATABASES_MAX
from cluster_core.wire.requests import BULK, COUNT, CRLF, LENGTH, LENGTH_MAX, START, WORD_BYTES_MAX, WORDS_MAX

_TIMESTAMP = re.compile(rb"#TS:(\d{1,13})\r?\n")
_DIGITS = re.compile(rb"\d{1,13}")


class PlainCommandReader:
    """See `CommandReader`: `feed` bytes, take `commands`.

    *start* is the offset of the first byte, *db* the database there.  `valid_end` is the offset up to which all is whole,
    `open_transaction` that of the MULTI whose EXEC has not come, or -1.
    """

    def __init__(self, source: str, *, start: int = 0, db: int = 0) -> None:
        self.valid_end = start
        self.open_transaction = -1
        self.time_s = NO_TIME
        self.db = db
        self._source = source
        self._data = b""
        self._needed = 0

    def feed(self, piece: bytes) -> None:
        """Append the next *piece* of the file."""
        self._data += piece

    @property
    def left(self) -> int:
        """Bytes fed that are not a whole command yet."""
        return len(self._data)

    def commands(self) -> Iterator[Command]:
        """Yield the commands that are whole by now; raises DecodeError with the offset of the first byte that is wrong."""
        at = 0
        try:
            while at < len(self._data) and len(self._data) >= self._needed:
                after = self._annotation(at) if self._data[at] == 35 else -1
                if after < 0:
                    words, after = self._command(at)
                    yield self._settle(words, at, after)
                self.valid_end += after - at
                at = after
        except IndexError as short:
            self._needed = max(short.args[0] - at, 0) if short.args and isinstance(short.args[0], int) else 0
        finally:
            self._data = self._data[at:]

    def _fail(self, code: int, at: int, begin: int, value: int = 0) -> DecodeError:
        return DecodeError(describe(code, value), offset=self.valid_end + at - begin, source=self._source)

    def _annotation(self, at: int) -> int:
        stop = self._data.find(b"\n", at, at + ANNOTATION_BYTES_MAX) + 1
        if not stop:
            if len(self._data) - at >= ANNOTATION_BYTES_MAX:
                raise self._fail(ANNOTATION, at, at)
            raise IndexError
        found = _TIMESTAMP.fullmatch(self._data, at, stop)
        if found:
            self.time_s = int(found[1])
        return stop

    def _command(self, begin: int) -> tuple[tuple[bytes, ...], int]:
        data = self._data
        if data[begin] != 42:
            raise self._fail(START, begin, begin, data[begin])
        count, at = self._number(begin + 1, begin, COUNT)
        if not 1 <= count <= WORDS_MAX:
            raise self._fail(COUNT, begin + 1, begin)
        words = []
        for _ in range(count):
            if data[at] != 36:
                raise self._fail(BULK, at, begin, data[at])
            length, first = self._number(at + 1, begin, LENGTH)
            if length > WORD_BYTES_MAX:
                raise self._fail(LENGTH_MAX, at + 1, begin, length)
            stop = first + length
            if stop + 2 > len(data):
                raise IndexError(stop + 2)
            if data[stop : stop + 2] != b"\r\n":
                raise self._fail(CRLF, stop, begin)
            words.append(data[first:stop])
            at = stop + 2
        return tuple(words), at

    def _number(self, at: int, begin: int, code: int) -> tuple[int, int]:
        """Return the number at *at*, which ends with CRLF, and the position after it."""
        data = self._data
        found = _DIGITS.match(data, at)
        stop = found.end() if found else at
        if stop >= len(data):
            raise IndexError
        if not found or data[stop] != 13:
            raise self._fail(code, at, begin)
        if stop + 1 >= len(data):
            raise IndexError
        if data[stop + 1] != 10:
            raise self._fail(code, at, begin)
        return int(found[0]), stop + 2

    def _settle(self, words: tuple[bytes, ...], begin: int, after: int) -> Command:
        """Return the command, after what it changes here: the database, the open transaction."""
        name = words[0].lower() if len(words[0]) <= 6 else b""
        if name == b"select" and len(words) == 2:
            if not _DIGITS.fullmatch(words[1]) or int(words[1]) >= DATABASES_MAX:
                value = int(words[1]) if _DIGITS.fullmatch(words[1]) else -1
                raise DecodeError(describe(DATABASE, value), offset=self.valid_end, source=self._source)
            self.db = int(words[1])
        elif name == b"multi" and self.open_transaction < 0:
            self.open_transaction = self.valid_end
        elif name == b"exec":
            self.open_transaction = -1
        return Command(self.valid_end, after - begin, words, self.db, self.time_s)
