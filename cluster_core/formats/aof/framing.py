"""Commands of an append-only log: where each begins and ends, where a cut one begins, and where a range may begin.

A log ends well where a command ends.  One that ends inside a command, or with a MULTI whose EXEC never came, was cut by
a crash: what stands before is whole, and a server with ``aof-load-truncated yes`` loads just that and cuts the rest off.
Any other byte that does not belong is damage, and an error with its offset.

In bulk: `cluster_core.kernels.aof.walk`.

Nothing marks the beginning of a command, and a value may hold what looks like commands.  So a cut is a guess, made well
(several whole commands with names of letters follow it) and then proven: a range that decodes from its own beginning must
end exactly where the next begins.  The first range begins where the file does, so if all ranges meet, every cut is a
true boundary; if one does not, the file is read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.rdb.grammar import DATABASES_MAX
from cluster_core.wire import requests
from cluster_core.wire.requests import CRLF, read_count, read_number, read_word

ANNOTATION_BYTES_MAX = 1024
UNKNOWN_DB = -1
"""The database of commands before the first SELECT of a range that does not begin its file."""
NO_TIME = -1

ANNOTATION, KEY_BYTES, DATABASE, KEYS_BYTES = range(CRLF + 1, CRLF + 5)
"""Kinds of damage, beside those of `wire.requests`."""
_TIMESTAMP = re.compile(rb"#TS:(\d{1,13})\r?\n")
_DATABASE = re.compile(rb"\d{1,13}")


def describe(code: int, value: int) -> str:
    """Say what kind of damage was met; *value* is the byte or number that is wrong."""
    return {
        requests.START: f"a command begins with '*', not with byte {value:#04x}",
        requests.COUNT: "the number of words is not a number from 1 to 2147483647",
        requests.BULK: f"a word begins with '$', not with byte {value:#04x}",
        requests.LENGTH: "the length of a word is not a number",
        requests.LENGTH_MAX: f"a word of {value} bytes",
        requests.CRLF: "a word does not end where its length says",
        ANNOTATION: f"a line of annotation longer than {ANNOTATION_BYTES_MAX} bytes",
        KEY_BYTES: f"a key of {value} bytes",
        DATABASE: f"SELECT of database {value}" if value >= 0 else "SELECT of what is no number",
        KEYS_BYTES: "the keys of one command are too many to hold",
    }[code]


class Command(NamedTuple):
    """One command: where it begins and how long it is in the file, its words, its database, and the time of the last annotation.

    *db* is -1 where a range of a file has not told it yet, *time_s* (epoch) is -1 where the log has no timestamps.
    """

    offset: int
    size: int
    words: tuple[bytes, ...]
    db: int
    time_s: int

    @property
    def name(self) -> str:
        """The command's name in lower case."""
        return self.words[0].decode("latin-1").lower()


class CommandReader:
    """Reads commands from pieces of a file: `feed` bytes, take `commands`.

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
                if self._data[at] == 35:
                    after = self._annotation(at)
                else:
                    words, after = self._command(at)
                    if words:
                        yield self._settle(words, at, after)
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
        """Return the position after a line of annotation, *at* if it is not whole yet."""
        stop = self._data.find(b"\n", at, at + ANNOTATION_BYTES_MAX) + 1
        if not stop:
            if len(self._data) - at >= ANNOTATION_BYTES_MAX:
                raise self._fail(ANNOTATION, at, at)
            return at
        found = _TIMESTAMP.fullmatch(self._data, at, stop)
        if found:
            self.time_s = int(found[1])
        return stop

    def _command(self, begin: int) -> tuple[tuple[bytes, ...], int]:
        """Return the words of a command and the position after it, none and *begin* if it is not whole yet."""
        data, stop = self._data, len(self._data)
        words = []
        self._needed = 0
        count, at = read_count(data, begin, stop)
        for _ in range(count):
            length, first = read_word(data, at, stop)
            if length < 0:
                count, at = length, first
                break
            at = first + length + 2
            if at > stop:
                self._needed = at - begin
                return (), begin
            words.append(data[first : first + length])
        if count == -requests.CUT:
            return (), begin
        if count < 0:
            raise self._fail(-count, at, begin)
        return tuple(words), at

    def _settle(self, words: tuple[bytes, ...], begin: int, after: int) -> Command:
        """Return the command, after what it changes here: the database, the open transaction."""
        name = words[0].lower() if len(words[0]) <= 6 else b""
        if name == b"select" and len(words) == 2:
            if not _DATABASE.fullmatch(words[1]) or int(words[1]) >= DATABASES_MAX:
                value = int(words[1]) if _DATABASE.fullmatch(words[1]) else -1
                raise DecodeError(describe(DATABASE, value), offset=self.valid_end, source=self._source)
            self.db = int(words[1])
        elif name == b"multi" and self.open_transaction < 0:
            self.open_transaction = self.valid_end
        elif name == b"exec":
            self.open_transaction = -1
        return Command(self.valid_end, after - begin, words, self.db, self.time_s)


class Tail(NamedTuple):
    """All up to *valid_end* is whole commands, the file has *end* bytes; *open_transaction* is the offset of a MULTI whose
    EXEC did not come, or -1.
    """

    valid_end: int
    end: int
    open_transaction: int

    @property
    def is_cut(self) -> bool:
        """Whether a server finds this file truncated."""
        return self.valid_end != self.end or self.open_transaction >= 0

    @property
    def loaded_end(self) -> int:
        """Up to where a server with ``aof-load-truncated yes`` loads the file; it cuts off the rest.

        Redis 7.0, which does not run an open transaction either, leaves its whole commands in the file if the cut is inside
        a command; what it appends then stands inside that transaction.
        """
        return self.open_transaction if self.open_transaction >= 0 else self.valid_end

    def reason(self) -> str:
        """What is wrong with the end, in words."""
        if self.valid_end != self.end:
            return f"the log ends inside a command: {self.end - self.loaded_end} bytes are not loaded"
        return f"the log ends inside a transaction: {self.end - self.loaded_end} bytes are not loaded"

    def error(self, source: str) -> TruncatedError:
        """The error that a reader raises who does not accept a truncated log."""
        return TruncatedError(self.reason(), offset=self.loaded_end, source=source)


PROOF_COMMANDS = 8
"""Whole commands that must follow a candidate (fewer at the end of what is looked at)."""
LOOK_BYTES = 1 << 20
_CANDIDATE = re.compile(rb"\r\n(?=\*[1-9]\d{0,9}\r\n\$[1-9]\d?\r\n[A-Za-z])")
_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9._|-]{0,63}")


def find_boundary(data: bytes, *, first: int = 0, at_end: bool = True) -> int | None:
    """Return the first place from *first* on at which commands seem to begin in *data*, a piece of a log; None if none does.

    *data* begins anywhere; *at_end* says that the file ends with it, so that a command that reaches its last byte is
    enough.
    """
    for found in _CANDIDATE.finditer(data, max(first - 2, 0)):
        if _holds(data[found.end() :], at_end):
            return found.end()
    return None


def _holds(data: bytes, at_end: bool) -> bool:
    reader = CommandReader("<candidate>")
    reader.feed(data)
    seen = 0
    try:
        for command in reader.commands():
            if not _NAME.fullmatch(command.words[0]):
                return False
            seen += 1
            if seen == PROOF_COMMANDS:
                return True
    except DecodeError:
        return False
    return seen > 0 and (at_end or not reader.left or len(data) >= LOOK_BYTES // 2)


def find_cuts(read_at: Callable[[int, int], bytes], start: int, size: int, parts: int) -> list[int]:
    """Return at most *parts* - 1 rising offsets between *start* and *size* at which ranges of a log may begin.

    ``read_at(offset, count)`` returns up to *count* bytes of the file.
    """
    cuts: list[int] = []
    for part in range(1, parts):
        aim = start + (size - start) * part // parts
        begin = max(aim - 2, start)
        data = read_at(begin, LOOK_BYTES)
        place = find_boundary(data, first=2, at_end=begin + len(data) >= size)
        if place is not None and begin + place > (cuts[-1] if cuts else start) and begin + place < size:
            cuts.append(begin + place)
    return cuts
