"""Conversations of clients and servers in a capture: commands and replies, without building values that nobody asks for.

A value is told by its kind, its first words, how many elements and how many bytes it has; of a long string only the
beginning is kept.  The dump that a master sends inside a replication stream is skipped by its announced length or up
to its end mark (``$EOF:``), and only its first bytes are kept.  A direction that is seen from its middle, or that has
lost bytes, finds its way back at the next command or reply that is plain to see.

Nothing here raises: what cannot be read is counted.

Connections and reassembly are those of `bus_capture`; each direction is cut by a `RespSkimmer`, which keeps no long
string and no dump.  Both directions of a connection help each other: SYNC on one announces a dump on the other, and an
acknowledged offset ends a dump whose end mark was lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

from cluster_core.formats.capture.bus_capture import (
    INITIATOR,
    STREAMS_MAX,
    BusCapture,
    CapturedGap,
    ConnectionEvent,
    Framer,
    Origin,
    SkippedPackets,
    Stream,
)
from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.wire.dump_receiver import DumpSkimmer
from cluster_core.wire.requests import read_count, read_word
from cluster_core.wire.resp import (
    BULK_BYTES_MAX,
    ELEMENTS_MAX,
    LINE_BYTES_MAX,
    NESTING_MAX,
    DumpBegun,
    DumpEnded,
    Item,
    Skimmed,
    Unread,
)
from cluster_core.wire.tcp_stream import Gap, Mark

WORDS_MAX: Final = 16
"""Words of an array that are kept."""
WORD_BYTES_MAX: Final = 256
"""Bytes of each word that are kept."""
BULK_KEPT_MAX: Final = 16 * 1024
"""Bytes of a string that is a reply of its own: INFO is below it."""
SAMPLE_BYTES: Final = 32

_LENGTH = re.compile(rb"[0-9]{1,19}")
_EOF = re.compile(rb"EOF:([0-9a-zA-Z]{40})")
_START = re.compile(rb"\*[1-9][0-9]{0,6}\r\n\$[0-9]{1,9}\r\n|[+-][A-Z][\x20-\x7e]{0,511}\r\n|:-?[0-9]{1,19}\r\n")
_INNER = re.compile(rb"(?<=\r\n)\*[1-9][0-9]{0,6}\r\n\$[0-9]{1,9}\r\n")
_INNER_BYTES: Final = 2 + 1 + 7 + 2 + 1 + 9 + 2
_INLINE = re.compile(rb"[A-Za-z][\x20-\x7e]*")

_SCALARS: Final = {
    ord("+"): "simple", ord("-"): "error", ord(":"): "number", ord(","): "double", ord("#"): "boolean",
    ord("_"): "null", ord("("): "big-number",
}  # fmt: skip
_STRINGS: Final = {ord("$"): "bulk", ord("!"): "error", ord("="): "verbatim"}
_AGGREGATES: Final = {ord("*"): "array", ord("%"): "map", ord("~"): "set", ord(">"): "push", ord("|"): "attribute"}
_DOUBLED: Final = (ord("%"), ord("|"))


class _Mode(Enum):
    VALUES = "values"
    PREAMBLE = "preamble"
    """`+FULLRESYNC` was read: newlines while the master saves, then ``$LENGTH`` or ``$EOF:MARK``."""
    DUMP = "dump"
    LOST = "lost"


class RespSkimmer:
    """Feed it what one side sends, in order; it returns what that settles.  Memory: one line and what is kept."""

    __slots__ = (
        "_base", "_buffer", "_dump", "_elements", "_expects_dump", "_kept", "_kind", "_left", "_mode", "_pending",
        "_sample", "_scanned", "_start", "_unread", "_word", "_words",
    )  # fmt: skip

    def __init__(self, *, synced: bool = True) -> None:
        self._mode = _Mode.VALUES if synced else _Mode.LOST
        self._buffer = bytearray()
        self._base = 0  # position of the buffer in the direction
        self._scanned = 0
        self._expects_dump = False
        self._unread, self._sample = 0, b""
        self._dump = DumpSkimmer(0)
        self._forget_value()

    def _forget_value(self) -> None:
        self._pending: list[int] = []  # elements that each open aggregate still waits for
        self._kind, self._elements = "", 1
        self._words: list[bytes] = []
        self._start = -1  # where the value under way begins
        self._left, self._word, self._kept = 0, bytearray(), 0

    @property
    def is_dump_damaged(self) -> bool:
        """Whether bytes of the dump under way are missing, so that its end mark may have been missed."""
        return self._mode is _Mode.DUMP and self._dump.is_damaged

    def expect_dump(self) -> None:
        """The other side has sent SYNC: the next string is a dump, without a reply before it."""
        self._expects_dump = True

    def feed(self, data: bytes, mark: Mark) -> list[Item]:
        """Take the next bytes and return what they complete."""
        found: list[Item] = []
        if self._mode is _Mode.LOST and _START.match(data):  # a segment mostly begins with a value
            self._unread += len(self._buffer)
            self._consume(len(self._buffer))
            self._find_way(mark, found)
        self._buffer += data
        while self._buffer and self._advance(mark, found):
            pass
        return found

    def skip(self, count: int, mark: Mark) -> list[Item]:
        """*count* bytes are missing here."""
        found: list[Item] = []
        if self._mode is _Mode.DUMP and self._dump.skip(count):
            self._base += count
            if self._dump.is_ended:
                self._end_dump(mark, found)
            return found
        if self._mode is _Mode.VALUES and not self._buffer and self._left > 2 and count <= self._left - 2:
            self._left -= count  # all of it lies inside one string
            self._base += count
            return found
        self._abandon(mark, found)
        self._unread += count
        self._base += count
        return found

    def lose(self, mark: Mark) -> list[Item]:
        """An unknown number of bytes is missing here."""
        found: list[Item] = []
        self._abandon(mark, found)
        return found

    def finish(self, mark: Mark) -> list[Item]:
        """The direction ends: return what is under way."""
        found: list[Item] = []
        if self._mode is _Mode.DUMP or self._buffer or self._start >= 0:
            self._abandon(mark, found)
        self._tell_unread(mark, found)
        return found

    def _abandon(self, mark: Mark, found: list[Item]) -> None:
        """Give up what is under way and wait for a plain beginning."""
        if self._mode is _Mode.DUMP:
            self._end_dump(mark, found)
        position = self._base + len(self._buffer)
        if self._mode is not _Mode.LOST:
            self._unread = position - (self._start if self._start >= 0 else self._base)
            self._sample = bytes(self._buffer[:SAMPLE_BYTES])
        else:
            self._unread += len(self._buffer)
        self._base = position
        self._buffer.clear()
        self._scanned = 0
        self._forget_value()
        self._mode = _Mode.LOST

    def _tell_unread(self, mark: Mark, found: list[Item]) -> None:
        if self._unread:
            found.append(Unread(mark, self._unread, self._sample, self._base))
        self._unread, self._sample = 0, b""

    def _find_way(self, mark: Mark, found: list[Item]) -> None:
        self._tell_unread(mark, found)
        self._mode = _Mode.VALUES

    def _advance(self, mark: Mark, found: list[Item]) -> bool:
        """Make one step; False when it needs more bytes."""
        match self._mode:
            case _Mode.DUMP:
                return self._read_dump(mark, found)
            case _Mode.LOST:
                return self._search(mark, found)
            case _:
                if self._left:
                    return self._read_string(mark, found)
                return self._read_command(mark, found) or self._read_line(mark, found)

    def _consume(self, count: int) -> None:
        del self._buffer[:count]
        self._base += count
        self._scanned = 0

    def _search(self, mark: Mark, found: list[Item]) -> bool:
        """Look for a command behind a line end."""
        if not self._sample:
            self._sample = bytes(self._buffer[:SAMPLE_BYTES])
        match = _INNER.search(self._buffer)
        skipped = match.start() if match else max(0, len(self._buffer) - _INNER_BYTES)
        self._consume(skipped)
        self._unread += skipped
        if match is None:
            return False
        self._find_way(mark, found)
        return True

    # -- values ------------------------------------------------------------------------------------------------------

    def _read_command(self, mark: Mark, found: list[Item]) -> bool:
        """Read an array of strings that is here as a whole: the same as line by line, several times as fast."""
        buffer, stop = self._buffer, len(self._buffer)
        if buffer[0] != 0x2A or self._start >= 0 or self._mode is not _Mode.VALUES:
            return False
        count, at = read_count(buffer, 0, stop)
        words = []
        for number in range(count):
            length, first = read_word(buffer, at, stop)
            at = first + length + 2
            if length < 0 or length > BULK_BYTES_MAX or at > stop:
                return False
            if number < WORDS_MAX:
                words.append(bytes(buffer[first : first + min(length, WORD_BYTES_MAX)]))
        if count < 0:
            return False
        self._consume(at)
        found.append(Skimmed(mark, "array", tuple(words), count, at, self._base))
        return True

    def _read_line(self, mark: Mark, found: list[Item]) -> bool:
        buffer = self._buffer
        if buffer[0] == 0x0A and not self._pending:  # keeps a connection alive while a master saves or a replica loads
            self._consume(1)
            found.append(Skimmed(mark, "newline", (), 1, 1, self._base))
            return True
        end = buffer.find(b"\n", max(self._scanned, 1), LINE_BYTES_MAX)
        if end < 0:
            self._scanned = len(buffer)
            if len(buffer) >= LINE_BYTES_MAX:
                self._abandon(mark, found)
            return False
        line = bytes(buffer[1 : end - 1 if buffer[end - 1] == 0x0D else end])
        if self._start < 0:
            self._start = self._base
        first = buffer[0]
        if self._take_line(first, line, end + 1, mark, found):
            return True
        self._abandon(mark, found)
        return True

    def _take_line(self, first: int, line: bytes, size: int, mark: Mark, found: list[Item]) -> bool:
        """Act upon a line of *size* bytes; False when it begins no value."""
        if first in _STRINGS:
            return self._open_string(first, line, size, mark, found)
        if first in _AGGREGATES:
            return self._open_aggregate(first, line, size, mark, found)
        if first in _SCALARS:
            self._consume(size)
            self._add_word(_SCALARS[first], line, mark, found)
            return True
        if self._pending or self._mode is _Mode.PREAMBLE or not _INLINE.fullmatch(bytes([first]) + line):
            return False
        self._consume(size)
        self._kind, self._words = "inline", [w[:WORD_BYTES_MAX] for w in (bytes([first]) + line).split()[:WORDS_MAX]]
        self._elements = len(self._words)
        self._complete(mark, found)
        return True

    def _open_string(self, first: int, line: bytes, size: int, mark: Mark, found: list[Item]) -> bool:
        if first == 0x24 and not self._pending:
            eof = _EOF.fullmatch(line)
            if eof is not None or (_LENGTH.fullmatch(line) and self._awaits_dump()):
                self._begin_dump(None if eof else int(line), eof[1] if eof else b"", size, mark, found)
                return True
            if line.startswith(b"ENDOFF:"):  # Valkey's answer to SYNC on a channel for the dump
                self._consume(size)
                self._expects_dump = True
                self._add_word("endoff", line[7:], mark, found)
                return True
        if line == b"-1":
            self._consume(size)
            self._add_word("null", b"", mark, found)
            return True
        if not _LENGTH.fullmatch(line) or int(line) > BULK_BYTES_MAX:
            return False
        self._consume(size)
        self._left, self._word = int(line) + 2, bytearray()
        if not self._pending:
            self._kept, self._kind = BULK_KEPT_MAX, _STRINGS[first]
        else:
            self._kept = WORD_BYTES_MAX if len(self._words) < WORDS_MAX else 0
        return True

    def _awaits_dump(self) -> bool:
        return self._mode is _Mode.PREAMBLE or self._expects_dump

    def _read_string(self, mark: Mark, found: list[Item]) -> bool:
        count = min(self._left, len(self._buffer))
        room = min(self._kept - len(self._word), count, self._left - 2)
        if room > 0:
            self._word += self._buffer[:room]
        if count == self._left and not self._buffer[:count].endswith(b"\n"):
            self._left = 0
            self._abandon(mark, found)
            return True
        self._left -= count
        self._consume(count)
        if self._left:
            return False
        self._add_word(self._kind, bytes(self._word), mark, found)
        return True

    def _open_aggregate(self, first: int, line: bytes, size: int, mark: Mark, found: list[Item]) -> bool:
        if line == b"-1":
            self._consume(size)
            self._add_word("null", b"", mark, found)
            return True
        if not _LENGTH.fullmatch(line) or int(line) > ELEMENTS_MAX or len(self._pending) >= NESTING_MAX:
            return False
        self._consume(size)
        count = int(line) * (2 if first in _DOUBLED else 1)
        if not self._pending and first != 0x7C:
            self._kind, self._elements = _AGGREGATES[first], int(line)
        self._pending.append(count + (first == 0x7C))  # attributes belong to the value behind them
        if not count:
            self._close(mark, found)
        return True

    def _add_word(self, kind: str, word: bytes, mark: Mark, found: list[Item]) -> None:
        if len(self._words) < WORDS_MAX:
            self._words.append(word[: BULK_KEPT_MAX if not self._pending else WORD_BYTES_MAX])
        if not self._pending:
            self._kind = kind
            self._complete(mark, found)
            return
        self._pending[-1] -= 1
        self._close(mark, found)

    def _close(self, mark: Mark, found: list[Item]) -> None:
        """Finish every aggregate that waits for nothing, from the innermost on."""
        while self._pending and not self._pending[-1]:
            self._pending.pop()
            if self._pending:
                self._pending[-1] -= 1
        if not self._pending:
            self._complete(mark, found)

    def _complete(self, mark: Mark, found: list[Item]) -> None:
        total = self._base - self._start
        value = Skimmed(mark, self._kind or "attribute", tuple(self._words), self._elements, total, self._base)
        found.append(value)
        self._forget_value()
        if value.kind == "simple" and value.words[0].startswith(b"FULLRESYNC "):
            self._mode = _Mode.PREAMBLE
        elif value.kind == "error":
            self._mode, self._expects_dump = _Mode.VALUES, False

    # -- dumps -------------------------------------------------------------------------------------------------------

    def _begin_dump(self, announced: int | None, terminator: bytes, size: int, mark: Mark, found: list[Item]) -> None:
        self._consume(size)
        self._forget_value()
        self._mode, self._expects_dump = _Mode.DUMP, False
        self._dump = DumpSkimmer(announced, terminator)
        found.append(DumpBegun(mark, announced, size, self._base))
        if self._dump.is_ended:
            self._end_dump(mark, found)

    def _read_dump(self, mark: Mark, found: list[Item]) -> bool:
        self._consume(self._dump.feed(bytes(self._buffer)))
        if not self._dump.is_ended:
            return False
        self._end_dump(mark, found)
        return True

    def _end_dump(self, mark: Mark, found: list[Item]) -> None:
        dump = self._dump
        complete = dump.is_ended and not dump.is_damaged
        found.append(DumpEnded(mark, dump.received, dump.head, complete, self._base))
        self._mode = _Mode.VALUES


ACK_PREFIX: Final = (b"REPLCONF", b"ACK")


@dataclass(frozen=True, slots=True)
class CapturedResp:
    """What one side said: *origin* tells packet, connection and sides, *item* what it was."""

    origin: Origin
    item: Item


RespRow = CapturedResp | CapturedGap | ConnectionEvent | SkippedPackets | CaptureProblem


class _Connections(BusCapture):
    """The connections of a capture of client ports."""

    def _framer(self, *, synced: bool) -> Framer:
        return RespSkimmer(synced=synced)

    def _add_rows(self, stream: Stream, found: Iterator[tuple[Mark, Any]], rows: list[Any]) -> None:
        for mark, item in found:
            origin = self._origin(stream, mark)
            if isinstance(item, Gap):
                rows.append(CapturedGap(origin, item.start, item.end, item.count, item.reason))
                continue
            rows.append(CapturedResp(origin, item))
            if isinstance(item, Skimmed) and stream.peer is not None and stream.direction in (INITIATOR, -1):
                self._tell_peer(stream.peer, item, mark, rows)

    def _tell_peer(self, peer: Stream, item: Skimmed, mark: Mark, rows: list[Any]) -> None:
        framer = cast(RespSkimmer, peer.framer)
        name = item.words[0].upper() if item.words else b""
        if name == b"SYNC" and item.elements == 1 and item.kind in ("array", "inline"):
            framer.expect_dump()
        elif framer.is_dump_damaged and tuple(word.upper() for word in item.words[:2]) == ACK_PREFIX:
            rows.extend(CapturedResp(self._origin(peer, mark), lost) for lost in framer.lose(mark))


class RespCapture:
    """Feed it the packets of a series in order; it returns rows.

    `handle` takes one packet, `end_source` ends a file (its skipped packets are reported), `finish` ends the series.
    """

    def __init__(self, *, streams_max: int = STREAMS_MAX) -> None:
        self._connections = _Connections(streams_max=streams_max)

    def handle(self, packet: Packet) -> list[RespRow]:
        """Add a packet and return the rows that it completes."""
        return cast(list[RespRow], self._connections.handle(packet))

    def end_source(self) -> list[RespRow]:
        """A file of the series ends: return what was skipped in it."""
        return cast(list[RespRow], self._connections.end_source())

    def finish(self) -> list[RespRow]:
        """The series ends: return what is pending in every direction, in order of their numbers."""
        return cast(list[RespRow], self._connections.finish())


def read_resp(packets: Iterable[Packet | CaptureProblem]) -> Iterator[RespRow]:
    """Decode a whole series: packets and problems in, rows out."""
    capture = RespCapture()
    for packet in packets:
        if isinstance(packet, Packet):
            yield from capture.handle(packet)
        else:
            yield packet
    yield from capture.finish()
