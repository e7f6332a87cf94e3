"""Reassemble one TCP direction from captured segments (RFC 9293, sections 3.4 and 3.10).

Segments may be duplicated, out of order, overlapping, cut or missing. `TcpStream` delivers every byte once, in order, and
reports missing bytes as a `Gap`. Time limits the wait for a hole (`HOLE_NS_MAX`); an acknowledgement beyond it ends it.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

FIN = 0x01
SYN = 0x02
RST = 0x04
ACK = 0x10

HELD_BYTES_MAX = 1 << 20
"""Maximum bytes held back behind a hole."""

HELD_SEGMENTS_MAX = 256
"""Maximum segments held back behind a hole."""

HOLE_NS_MAX = 3_000_000_000
"""Maximum ns that a hole stays open; covers TCP's first retransmissions (RFC 6298)."""

JUMP_BYTES_MAX = 1 << 26
"""A greater jump of the sequence number is another stream or damage, not loss or retransmission."""

CUT_BY_SNAP_LENGTH = "cut by the snap length"
"""Reason of the gap after each packet cut by the snap length."""

UNKNOWN_SEQ = -1
"""Next sequence number before any SYN or payload; keep-alives carry one less."""

_SEQUENCES = 1 << 32


class ByteOrigin(NamedTuple):
    """Origin of bytes: packet time, packet number in the series, offset in the source."""

    ts_ns: int
    packet: int
    offset: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A TCP segment: *missing* bytes followed *payload* but were not captured."""

    seq: int
    flags: int
    payload: bytes
    missing: int
    mark: ByteOrigin


@dataclass(frozen=True, slots=True)
class Bytes:
    """The next bytes of the direction."""

    payload: bytes
    mark: ByteOrigin


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes from sequence number *start* to *end* are missing; *count* is None after an implausible jump."""

    start: int
    end: int
    count: int | None
    reason: str
    mark: ByteOrigin


class TcpStream:
    """One direction of one connection; `handle` takes a segment and returns the bytes and gaps it settles."""

    def __init__(self, first: Segment) -> None:
        self.saw_syn = bool(first.flags & SYN)
        self.isn = first.seq
        self.next_seq = (first.seq + 1) % _SEQUENCES if self.saw_syn else UNKNOWN_SEQ
        self.repeated_bytes = 0
        self._held: list[tuple[int, int, Segment]] = []  # a heap: position, arrival number, segment
        self._held_bytes = 0
        self._arrivals = 0
        self._hole_since_ns = 0
        self._position = 0  # of next_seq, without wrap-around

    @classmethod
    def resumed(cls, isn: int, next_seq: int, *, saw_syn: bool) -> TcpStream:
        """Continue a direction that another reader followed, without a hole, up to *next_seq*."""
        stream = cls(Segment(isn, SYN if saw_syn else 0, b"", 0, ByteOrigin(0, 0, 0)))
        stream.next_seq = next_seq
        return stream

    @property
    def plain(self) -> bool:
        """Return whether no segment is held back: the next one in order can be delivered directly."""
        return not self._held

    def handle(self, segment: Segment) -> list[Bytes | Gap]:
        """Add a segment. A SYN takes one sequence number; a FIN marks the end of data."""
        settled: list[Bytes | Gap] = []
        if not segment.payload and not segment.missing:
            if segment.flags & FIN and self.next_seq != UNKNOWN_SEQ and 0 < self._ahead(segment) <= JUMP_BYTES_MAX:
                self._hold(segment, self._ahead(segment), settled)
            return settled
        if self.next_seq == UNKNOWN_SEQ:
            self.next_seq = self._start(segment)
        ahead = self._ahead(segment)
        if abs(ahead) > JUMP_BYTES_MAX:
            self._give_up_all(settled)
            start = self._start(segment)
            settled.append(Gap(self.next_seq, start, None, "sequence number jumps", segment.mark))
            self.next_seq = start
            ahead = 0
        if ahead > 0:
            self._hold(segment, ahead, settled)
            return settled
        self._deliver(segment, -ahead, segment.mark, settled)
        self._release(segment.mark, settled)
        return settled

    def acknowledge(self, ack: int, ts_ns: int) -> list[Bytes | Gap]:
        """Apply the other side's acknowledgement: holes before *ack* become gaps."""
        settled: list[Bytes | Gap] = []
        while self._held:
            acked = (ack - self.next_seq) % _SEQUENCES
            if not self._held[0][0] - self._position <= acked <= JUMP_BYTES_MAX:
                break
            self._give_up(settled)
            self._hole_since_ns = ts_ns
        return settled

    def finish(self) -> list[Bytes | Gap]:
        """End the stream: turn holes into gaps and return the held segments."""
        settled: list[Bytes | Gap] = []
        self._give_up_all(settled)
        return settled

    def _start(self, segment: Segment) -> int:
        return (segment.seq + bool(segment.flags & SYN)) % _SEQUENCES

    def _ahead(self, segment: Segment) -> int:
        return (self._start(segment) - self.next_seq + (_SEQUENCES >> 1)) % _SEQUENCES - (_SEQUENCES >> 1)

    def _advance(self, count: int) -> None:
        self._position += count
        self.next_seq = (self.next_seq + count) % _SEQUENCES

    def _deliver(self, segment: Segment, behind: int, mark: ByteOrigin, settled: list[Bytes | Gap]) -> None:
        """Deliver the new part of *segment*; its first *behind* bytes were delivered before."""
        known = min(behind, len(segment.payload) + segment.missing)
        self.repeated_bytes += known
        payload = segment.payload[known:]
        missing = segment.missing - max(0, known - len(segment.payload))
        if payload:
            settled.append(Bytes(payload, mark))
            self._advance(len(payload))
        if missing:
            end = (self.next_seq + missing) % _SEQUENCES
            settled.append(Gap(self.next_seq, end, missing, CUT_BY_SNAP_LENGTH, mark))
            self._advance(missing)

    def _hold(self, segment: Segment, ahead: int, settled: list[Bytes | Gap]) -> None:
        now_ns = segment.mark.ts_ns
        if not self._held:
            self._hole_since_ns = now_ns
        self._arrivals += 1
        heappush(self._held, (self._position + ahead, self._arrivals, segment))
        self._held_bytes += len(segment.payload)
        while self._held and (
            self._held_bytes > HELD_BYTES_MAX
            or len(self._held) > HELD_SEGMENTS_MAX
            or now_ns - self._hole_since_ns > HOLE_NS_MAX
        ):
            self._give_up(settled)
            self._hole_since_ns = now_ns

    def _release(self, mark: ByteOrigin | None, settled: list[Bytes | Gap]) -> None:
        """Deliver segments held behind a filled hole; *mark* is the filling packet, None if all were in time."""
        while self._held and self._held[0][0] <= self._position:
            position, _, segment = heappop(self._held)
            self._held_bytes -= len(segment.payload)
            if mark is not None:
                self._hole_since_ns = mark.ts_ns
            self._deliver(segment, self._position - position, mark or segment.mark, settled)

    def _give_up(self, settled: list[Bytes | Gap]) -> None:
        """Report the first hole as a gap and deliver the segments behind it, each with its own mark."""
        position, _, segment = self._held[0]
        count = position - self._position
        end = (self.next_seq + count) % _SEQUENCES
        settled.append(Gap(self.next_seq, end, count, "not in the capture", segment.mark))
        self._advance(count)
        self._release(None, settled)

    def _give_up_all(self, settled: list[Bytes | Gap]) -> None:
        while self._held:
            self._give_up(settled)
