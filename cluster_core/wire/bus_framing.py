"""Bytes of one TCP direction, in order, to cluster-bus messages; and back in step after a gap or a strange
beginning.

Messages follow each other without a separator (R1, R17), so a reader that lost its place looks for the
signature with a believable head behind it.  Whatever is passed over is counted and comes out as an
`UnknownBytes`; a message of which only the beginning was captured comes out as a `PartialMessage`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cluster_core.wire.bus import (
    HEADER_BYTES,
    LIGHT_BIT,
    LIGHT_HEADER_BYTES,
    LIGHT_TYPES,
    SIGNATURE,
    TYPE_NAMES,
    VERSION,
)
from cluster_core.wire.tcp_stream import Mark

MESSAGE_BYTES_MAX = 16 << 20
"""A ``totlen`` above this is taken for damage: the reader looks for the next signature instead of waiting for
it.
"""

SAMPLE_BYTES = 32
_HEAD = struct.Struct(">4sIHHHH")
_KEPT_WHILE_SEARCHING = LIGHT_HEADER_BYTES - 1


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """The bytes of one message, and the mark (packet time, say) of the bytes that completed it."""

    raw: bytes
    mark: Mark


@dataclass(frozen=True, slots=True)
class PartialMessage:
    """The beginning of a message of *totlen* bytes whose end is missing from the capture; *raw* is at least
    16 bytes.
    """

    raw: bytes
    totlen: int
    mark: Mark


@dataclass(frozen=True, slots=True)
class UnknownBytes:
    """*count* bytes that are no bus message; *sample* is their beginning and *looks_like* a guess at what
    they are.
    """

    count: int
    looks_like: str
    sample: bytes
    mark: Mark


Frame = WholeMessage | PartialMessage | UnknownBytes


class BusFramer:
    """Feed it the bytes of one direction in order; it returns frames.

    *pending* are bytes of a message that somebody else has gathered. *synced*: the first byte begins a message (the
    connection's SYN was seen); otherwise the first one is searched for.
    """

    def __init__(self, *, synced: bool, pending: bytes = b"") -> None:
        self.synced = synced
        self._buffer = bytearray(pending)
        self._missing = 0  # of a message of which the head is in _partial: bytes still to pass over
        self._partial: PartialMessage | None = None
        self._unknown_count = 0
        self._unknown_sample = b""
        self._unknown_mark: Mark | None = None

    @property
    def plain(self) -> bool:
        """In step, and nothing special pending: what comes next may be cut by length alone."""
        return self.synced and not self._missing and not self._unknown_count and self._partial is None

    @property
    def pending(self) -> bytes:
        """Bytes of a message that is not whole yet."""
        return bytes(self._buffer)

    def feed(self, data: bytes | memoryview, mark: Mark) -> list[Frame]:
        """Add the next bytes of the direction and return what they complete."""
        frames: list[Frame] = []
        if self._missing:
            passed = min(self._missing, len(data))
            self._missing -= passed
            data = data[passed:]
            if not self._missing:
                self._flush_partial(frames)
        self._buffer += data
        self._cut(frames, mark)
        return frames

    def skip(self, count: int, mark: Mark) -> list[Frame]:
        """Pass over *count* bytes that were on the wire but are not in the capture."""
        frames: list[Frame] = []
        if self._missing:
            passed = min(self._missing, count)
            self._missing -= passed
            count -= passed
            if not self._missing:
                self._flush_partial(frames)
        if count <= 0:
            return frames
        if self.synced and len(self._buffer) >= LIGHT_HEADER_BYTES:
            totlen = _HEAD.unpack_from(self._buffer)[1]
            self._partial = PartialMessage(bytes(self._buffer), totlen, mark)
            self._missing = totlen - len(self._buffer) - count
            self._buffer.clear()
            if self._missing > 0:
                return frames
            self.synced = self._missing == 0
            self._missing = 0
            self._flush_partial(frames)
            return frames
        return frames + self.lose(mark)

    def lose(self, mark: Mark) -> list[Frame]:
        """An unknown number of bytes is missing: return what was pending and look for a signature from here
        on.
        """
        frames = self.finish(mark)
        self.synced = False
        return frames

    def finish(self, mark: Mark) -> list[Frame]:
        """The direction has ended: return what is left over."""
        frames: list[Frame] = []
        self._flush_partial(frames)
        if self.synced and len(self._buffer) >= LIGHT_HEADER_BYTES:
            frames.append(PartialMessage(bytes(self._buffer), _HEAD.unpack_from(self._buffer)[1], mark))
            self._buffer.clear()
        self._pass_over(len(self._buffer), mark)
        self._buffer.clear()
        self._flush_unknown(frames)
        return frames

    def _cut(self, frames: list[Frame], mark: Mark) -> None:
        at, size = 0, len(self._buffer)
        while size - at >= LIGHT_HEADER_BYTES:
            if not self.synced:
                at += self._search(at, mark)
                if not self.synced:
                    break
                self._flush_unknown(frames)
            totlen = framed_bytes(self._buffer, at)
            if totlen == 0:
                self.synced = False
                continue
            if totlen > size - at:
                break
            frames.append(WholeMessage(bytes(memoryview(self._buffer)[at : at + totlen]), mark))
            at += totlen
        del self._buffer[:at]

    def _search(self, start: int, mark: Mark) -> int:
        """Find a believable head at or after *start*; return how many bytes were passed over."""
        at = start
        last = len(self._buffer) - LIGHT_HEADER_BYTES
        while (at := self._buffer.find(SIGNATURE, at)) >= 0 and at <= last:
            if is_believable(self._buffer, at):
                self.synced = True
                break
            at += 1
        if not self.synced:
            at = max(start, len(self._buffer) - _KEPT_WHILE_SEARCHING)
        self._pass_over(at - start, mark, start)
        return at - start

    def _pass_over(self, count: int, mark: Mark, start: int = 0) -> None:
        if not count:
            return
        if not self._unknown_count:
            self._unknown_mark = mark
        wanted = min(SAMPLE_BYTES - len(self._unknown_sample), count)
        self._unknown_sample += bytes(self._buffer[start : start + wanted])
        self._unknown_count += count

    def _flush_unknown(self, frames: list[Frame]) -> None:
        if self._unknown_mark is not None:
            guess = looks_like(self._unknown_sample)
            frames.append(UnknownBytes(self._unknown_count, guess, self._unknown_sample, self._unknown_mark))
        self._unknown_count, self._unknown_sample, self._unknown_mark = 0, b"", None

    def _flush_partial(self, frames: list[Frame]) -> None:
        if self._partial is not None:
            frames.append(self._partial)
            self._partial = None


def framed_bytes(data: bytes | bytearray, at: int) -> int:
    """The length of the message whose 16-byte head is at *at*, 0 if it is no head that a server would read on
    (R17).
    """
    signature, totlen, _, _, kind, _ = _HEAD.unpack_from(data, at)
    smallest = LIGHT_HEADER_BYTES if kind & LIGHT_BIT else HEADER_BYTES
    return totlen if signature == SIGNATURE and smallest <= totlen <= MESSAGE_BYTES_MAX else 0


def is_believable(data: bytes | bytearray, at: int) -> bool:
    """Whether the 16 bytes at *at* are surely a head: stricter than a server, for use without a known
    boundary.
    """
    _, _, ver, _, kind, _ = _HEAD.unpack_from(data, at)
    known = kind ^ LIGHT_BIT in LIGHT_TYPES if kind & LIGHT_BIT else kind < len(TYPE_NAMES)
    return framed_bytes(data, at) > 0 and ver == VERSION and known


def looks_like(sample: bytes) -> str:
    """Say what the first bytes of a stream that is not the bus remind of.

    >>> looks_like(bytes.fromhex("160301020001")), looks_like(b"*1\\r\\n$4\\r\\nPING\\r\\n")
    ('TLS: cannot be read', 'RESP')
    """
    if len(sample) >= 3 and sample[0] in (0x14, 0x15, 0x16, 0x17) and sample[1] == 3 and sample[2] <= 4:
        return "TLS: cannot be read"
    if sample.startswith((b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"OPTIONS ", b"HTTP/", b"PRI * ")):
        return "HTTP"
    if sample.startswith((b"*", b"$", b"+", b"-", b":")) and (b"\r\n" in sample):
        return "RESP"
    if sample.startswith((b"REDIS0", b"VALKEY0")):
        return "RDB"
    if SIGNATURE in sample:
        return "damaged bus message"
    if sample and all(32 <= byte < 127 or byte in b"\r\n\t" for byte in sample):
        return "text"
    return "unknown bytes"
