"""The window of the plain RDB skim: bytes that were fed, and how to go on past their end."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

from cluster_core.errors import TruncatedError
from cluster_core.rdb import faults
from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.head import FileFacts, RdbHead, SplitError
from cluster_core.rdb.strings import INT_STRING, LZF_STRING, Fault, integer_length, string_prefix
from tests.reference.rdb.lzf import Check, is_whole
from tests.reference.rdb.meter import KeyMeter

_T = TypeVar("_T")
Work: TypeAlias = Generator[None, bytes, _T]
"""A decoder that is sent the next piece of the file whenever it yields."""


class Buffer:
    """Bytes of the file from offset `_base` on; positions count from there, and may lie beyond the last byte."""

    def __init__(self, source: str, start: int, end: int | None, facts: FileFacts, check_crc: bool) -> None:
        self.crc = 0
        self.stored_crc: int | None = None
        self._buffer = b""
        self._base = start
        self._pos = 0
        self._gap = 0
        self._crc_at = 0
        self._source = source
        self._start = start
        self._end = end
        self._facts = facts
        self._check_crc = check_crc
        self._meter: KeyMeter | None = None
        self._templates: dict[int, int] = {}

    @property
    def head(self) -> RdbHead:
        """Dialect, version and writer; ValueError before the first nine bytes were decoded."""
        if self._facts.head is None:
            raise ValueError("the file's first bytes are not decoded yet")
        return self._facts.head

    @property
    def facts(self) -> FileFacts:
        """What the file says about itself."""
        return self._facts

    @property
    def position(self) -> int:
        """Offset in the file up to which all is decoded, and the CRC computed; the stored CRC is not counted."""
        return self._base + self._pos - (0 if self.stored_crc is None else 8)

    @property
    def skippable(self) -> int:
        """Bytes that the caller may pass over instead of feeding them; 0 when the CRC is computed.

        The last byte of a string is never among them: it must be seen to be there.
        """
        return 0 if self._check_crc else max(self._gap - 1, 0)

    def skip(self, count: int) -> None:
        """Say that *count* of the `skippable` bytes were passed over."""
        self._gap -= count
        self._base += count

    @property
    def _embstr_rule(self) -> int:
        return self.head.embstr_rule

    def _more(self, pos: int, count: int) -> Work[int]:
        """Return *pos* in a buffer that holds at least *count* bytes from it on.

        Raises TruncatedError where the file ends before, SplitError where the range does.
        """
        while pos + count > len(self._buffer):
            self._fold_crc(min(pos, len(self._buffer)))
            cut = self._crc_at
            self._buffer = self._buffer[cut:]
            self._base += cut
            self._crc_at = 0
            pos -= cut
            fed = self._base + len(self._buffer)
            if fed == self._end:
                raise SplitError("split point is inside a record", offset=self._end, source=self._source)
            self._pos = min(pos, len(self._buffer))
            self._gap = max(pos - len(self._buffer), 0)
            owed = self._gap
            piece = yield
            pos -= owed - self._gap
            self._gap = 0
            if not piece:
                fed = self._base + len(self._buffer)
                raise TruncatedError("the file ends before its end mark", offset=fed, source=self._source)
            self._buffer += piece
        return pos

    def _fold_crc(self, to: int) -> None:
        if self._check_crc and to > self._crc_at:
            self.crc = crc64(self._buffer[self._crc_at : to], self.crc)
        self._crc_at = to

    def _string(self, pos: int) -> Work[int]:
        """Pass over the string whose prefix is at *pos*."""
        _, pos = yield from self._text(pos)
        return pos

    def _text(self, pos: int) -> Work[tuple[int, int]]:
        """Return (length, position after it) of the string whose prefix is at *pos*."""
        while True:
            try:
                start, body, raw, form = string_prefix(self._buffer, pos)
                if form == INT_STRING:
                    raw = integer_length(self._buffer, start, body)
            except IndexError:
                pos = yield from self._more(pos, len(self._buffer) - pos + 1)
            else:
                return raw, (yield from self._pass_string(pos, start, body, raw, form))

    def _pass_string(self, prefix: int, start: int, body: int, raw: int, form: int) -> Work[int]:
        """Pass over a string whose prefix was read; return the position after it."""
        stop = start + body
        if form != LZF_STRING:
            return stop if stop <= len(self._buffer) else (yield from self._more(stop, 0))
        if stop <= len(self._buffer):
            if not is_whole(self._buffer, start, stop, raw):
                raise Fault(faults.LZF, prefix, body, raw)
            return stop
        check = Check(body, raw)
        offset = self._base + prefix
        pos = start
        while True:
            try:
                pos = check.go(self._buffer, pos)
            except ValueError:
                raise Fault(faults.LZF, offset - self._base, body, raw) from None
            if not check.left:
                return pos
            pos = yield from self._more(pos, len(self._buffer) - pos + 1)
