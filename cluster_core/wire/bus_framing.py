"""Split one TCP direction of the cluster bus into messages, and resynchronize after gaps (R1, R17).

Skipped bytes are reported as `UnknownBytes`, a message captured in part as `PartialMessage`.
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
from cluster_core.wire.tcp_stream import ByteOrigin

MESSAGE_BYTES_MAX = 16 << 20
"""A greater ``totlen`` is treated as damage: the reader searches for the next signature."""

SAMPLE_BYTES = 32
_HEAD = struct.Struct(">4sIHHHH")
_KEPT_WHILE_SEARCHING = LIGHT_HEADER_BYTES - 1


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """The bytes of one message, and the mark (such as the packet time) of its last bytes."""

    raw: bytes
    mark: ByteOrigin


@dataclass(frozen=True, slots=True)
class PartialMessage:
    """The first bytes (at least 16) of a message of *totlen* bytes with a missing end."""

    raw: bytes
    totlen: int
    mark: ByteOrigin


@dataclass(frozen=True, slots=True)
class UnknownBytes:
    """*count* bytes outside bus messages; *sample* is their beginning, *looks_like* a guess at the protocol."""

    count: int
    looks_like: str
    sample: bytes
    mark: ByteOrigin


Frame = WholeMessage | PartialMessage | UnknownBytes


class BusFramer:
    """Splits the bytes of one direction, fed in order, into frames.

    *pending*: bytes of a partial message of another reader. *synced*: the first byte begins a message (after the SYN).
    """

    def __init__(self, *, synced: bool, pending: bytes = b"") -> None:
        self.synced = synced
        self._buffer = bytearray(pending)
        self._missing = 0  # bytes still to skip of the message with its head in _partial
        self._partial: PartialMessage | None = None
        self._unknown_count = 0
        self._unknown_sample = b""
        self._unknown_mark: ByteOrigin | None = None

    @property
    def plain(self) -> bool:
        """Return whether the reader is in sync with nothing pending: messages can be split by length alone."""
        return self.synced and not self._missing and not self._unknown_count and self._partial is None

    @property
    def pending(self) -> bytes:
        """Return the bytes of the incomplete message."""
        return bytes(self._buffer)

    def feed(self, data: bytes | memoryview, mark: ByteOrigin) -> list[Frame]:
        """Add the next bytes and return the frames that they complete."""
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

    def skip(self, count: int, mark: ByteOrigin) -> list[Frame]:
        """Skip *count* bytes that were sent but not captured."""
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

    def lose(self, mark: ByteOrigin) -> list[Frame]:
        """Handle a gap of unknown length: return pending bytes and search for a signature."""
        frames = self.finish(mark)
        self.synced = False
        return frames

    def finish(self, mark: ByteOrigin) -> list[Frame]:
        """End the direction and return the remaining bytes."""
        frames: list[Frame] = []
        self._flush_partial(frames)
        if self.synced and len(self._buffer) >= LIGHT_HEADER_BYTES:
            frames.append(PartialMessage(bytes(self._buffer), _HEAD.unpack_from(self._buffer)[1], mark))
            self._buffer.clear()
        self._pass_over(len(self._buffer), mark)
        self._buffer.clear()
        self._flush_unknown(frames)
        return frames

    def _cut(self, frames: list[Frame], mark: ByteOrigin) -> None:
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

    def _search(self, start: int, mark: ByteOrigin) -> int:
        """Search for a plausible head at or after *start*; return the number of skipped bytes."""
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

    def _pass_over(self, count: int, mark: ByteOrigin, start: int = 0) -> None:
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
    """Return the length of the message with its 16-byte head at *at*, 0 if a server would reject it (R17)."""
    signature, totlen, _, _, kind, _ = _HEAD.unpack_from(data, at)
    smallest = LIGHT_HEADER_BYTES if kind & LIGHT_BIT else HEADER_BYTES
    return totlen if signature == SIGNATURE and smallest <= totlen <= MESSAGE_BYTES_MAX else 0


def is_believable(data: bytes | bytearray, at: int) -> bool:
    """Return whether the 16 bytes at *at* are certainly a head; stricter than a server, for resynchronization."""
    _, _, ver, _, kind, _ = _HEAD.unpack_from(data, at)
    known = kind ^ LIGHT_BIT in LIGHT_TYPES if kind & LIGHT_BIT else kind < len(TYPE_NAMES)
    return framed_bytes(data, at) > 0 and ver == VERSION and known


def looks_like(sample: bytes) -> str:
    """Guess the protocol of a stream from its first bytes.

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
