"""Convert TCP segments to bus messages in order: the fast path of `formats.capture.bus_rows`.

Each direction is a row of `Streams`. A segment in order on a direction in step is cut here: messages in its payload are
recorded in place, one across segments is gathered in the *side* buffer. Other segments (holes, overlaps, lost step, cut
packets, huge messages), and all later ones of their direction, are listed for the plain code. Records carry segment
numbers, so both lists can be merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.bus.packets import Rows, new_rows
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.raw_bytes import big16, big32, copy_bytes
from cluster_core.wire.bus_framing import MESSAGE_BYTES_MAX
from cluster_core.wire.bus_message import HEADER_BYTES, LIGHT_HEADER_BYTES, TYPE_NAMES, VERSION, MessageType
from cluster_core.wire.tcp_stream import ACK, FIN, JUMP_BYTES_MAX, RST, SYN, UNKNOWN_SEQ

FAST = 0
SLOW = 1
RETIRED = 2

DONE = 0
SIDE_FULL = 1
STREAMS_FULL = 2
MESSAGES_FULL = 3
TOO_MANY = 4

SIDE_TOP = 0
MESSAGES = 1
LISTED = 2
RETIREMENTS = 3
EVENTS = 4

GATHERED_BYTES_MAX = 1 << 18
"""Maximum size of a message gathered here from several segments; the plain code handles larger ones."""

EVENTS_PER_SEGMENT = 3

ACKNOWLEDGED = 1
"""*mark* of a listed segment of the other direction, with an acknowledgement that may end a hole."""

UNREAD, READ = 0x40, 0x80
"""Marks of events without SYN, FIN and RST: the receiver lacks bytes, or received them after all."""
UNREAD_NS = 150_000_000
"""Minimum delay of retransmitted bytes (RFC 6298: 200 ms in practice); earlier ones were captured twice."""

NO_ROW = -1
_SIGNATURE = int.from_bytes(b"RCmb", "big")
_HEAD = LIGHT_HEADER_BYTES
_HEADER = HEADER_BYTES
_TYPES = len(TYPE_NAMES)
_PUBLISH = int(MessageType.PUBLISH)
_PUBLISHSHARD = int(MessageType.PUBLISHSHARD)
_MODULE = int(MessageType.MODULE)
_SEQUENCES = 1 << 32
_HALF = 1 << 31
_EVENTS = SYN | FIN | RST


STREAM = np.dtype(
    [
        ("flow_a", np.int64),
        ("flow_b", np.int64),
        ("next_seq", np.int64),
        ("isn", np.int64),
        ("syn_ack", np.int64),
        ("part_at", np.int64),
        ("part_have", np.int64),
        ("part_total", np.int64),
        ("number", np.int64),
        ("connection", np.int64),
        ("last_packet", np.int64),
        ("last_ts_ns", np.int64),
        ("last_offset", np.int64),
        ("repeated", np.int64),
        ("sent_seq", np.int64),
        ("acked_seq", np.int64),
        ("waits_ns", np.int64),
        ("peer", np.int32),
        ("node", np.int32),
        ("direction", np.int8),
        ("saw_syn", np.uint8),
        ("state", np.uint8),
        ("synced", np.uint8),
        ("unread", np.uint8),
    ],
    align=True,
)
"""One direction.

Bytes before *sent_seq* were sent, those before *acked_seq* acknowledged (`UNKNOWN_SEQ`: none sent). The rest waits since
*waits_ns*, and is *unread* after a retransmission or RST. *flow_a*, *flow_b*: address number and port of source and
target; *peer*: row of the other direction; *state*: `FAST`, `SLOW` (plain code) or `RETIRED`. A gathered message has
*part_have* of *part_total* bytes at *part_at* of the side buffer (-1: none).
"""

STREAM_EVENT = np.dtype(
    [
        ("segment", np.int64),
        ("row", np.int32),
        ("peer", np.int32),
        ("direction", np.int8),
        ("mark", np.uint8),
        ("since_ns", np.int64),
    ],
    align=True,
)
"""A listed segment or a connection event of a chunk: *segment*, *row*, *peer* and *direction* at that moment.

*mark*: `ACKNOWLEDGED` or 0 for listed segments; TCP flags, `UNREAD` (bytes sent since *since_ns*) or `READ` for
connection events.
"""


SPAN = np.dtype(
    [
        *((name, STREAM_EVENT[name]) for name in ("segment", "row", "peer", "direction")),
        ("buffer", np.uint8),
        ("at", np.int64),
        ("length", np.int64),
        ("ts_ns", np.int64),
        ("packet", np.int64),
        ("offset", np.int64),
    ],
    align=True,
)
"""A message in a chunk: fields of `STREAM_EVENT`, and *length* captured bytes at *at* of *buffer* (0 the window, 1 the side
buffer, 2 the plain code's)."""


class Streams(NamedTuple):
    """Directions.

    *flows*: hash index (row or -1); *counts*: rows used, directions and connections in total, directions followed now.
    """

    rows: Rows
    flows: NDArray[np.int32]
    counts: NDArray[np.int64]


def new_streams(capacity: int) -> Streams:
    """Return tables for *capacity* directions."""
    size = 1 << (2 * capacity - 1).bit_length()
    index = np.full(size, NO_ROW, dtype=np.int32)
    return Streams(new_rows(STREAM, capacity), index, np.zeros(4, dtype=np.int64))


def compacted(streams: Streams, keep: NDArray[np.int64], capacity: int) -> Streams:
    """Return the rows *keep*, renumbered in that order, with room for *capacity*; missing peers become `NO_ROW`."""
    result = new_streams(capacity)
    used = int(streams.counts[0])
    result.rows[: len(keep)] = streams.rows[keep]
    renumbered = np.full(used + 1, NO_ROW, dtype=np.int32)
    renumbered[keep] = np.arange(len(keep), dtype=np.int32)
    result.rows.peer[: len(keep)] = renumbered[result.rows.peer[: len(keep)]]
    result.counts[:] = streams.counts
    result.counts[0] = len(keep)
    index_streams(result)
    return result


@borrowing()
def index_streams(streams: Streams) -> None:
    """Fill an empty hash index with all rows that are not retired."""
    for row in range(streams.counts[0]):
        if streams.rows[row].state != RETIRED:
            streams.flows[_slot_of(streams, streams.rows[row].flow_a, streams.rows[row].flow_b)] = row


@borrowing()
def _slot_of(streams: Streams, flow_a: int, flow_b: int) -> int:
    """Return the index slot of the flow, or its free slot."""
    mask = streams.flows.shape[0] - 1
    mixed = (flow_a * 0x5851F42D4C957F2D) ^ (flow_b * 0x2545F4914F6CDD1D)
    slot = (mixed ^ (mixed >> 31)) & mask
    while True:
        row = streams.flows[slot]
        if row < 0 or (streams.rows[row].flow_a == flow_a and streams.rows[row].flow_b == flow_b):
            return int(slot)
        slot = (slot + 1) & mask


@borrowing(inline="always")
def _row_of(streams: Streams, flow_a: int, flow_b: int) -> int:
    row = np.int64(streams.flows[_slot_of(streams, flow_a, flow_b)])
    if row >= 0 and streams.rows[row].state == RETIRED:
        return NO_ROW
    return row  # type: ignore[return-value]


@borrowing(inline="always")
def _add(records: Rows, count: int, segment: int, row: int, streams: Streams) -> None:
    records[count].segment = segment
    records[count].row = row
    records[count].peer = streams.rows[row].peer
    records[count].direction = streams.rows[row].direction


@borrowing()
def _retire(streams: Streams, row: int, segment: int, retired: Rows, tops: NDArray[np.int64]) -> None:
    """End a direction and leave its content to the plain code; a new direction with the same flow replaces its index entry."""
    _add(retired, tops[RETIREMENTS], segment, row, streams)
    retired[tops[RETIREMENTS]].mark = 0
    tops[RETIREMENTS] += 1
    streams.rows[row].state = RETIRED
    streams.counts[3] -= 1
    peer = streams.rows[row].peer
    if peer >= 0:
        streams.rows[peer].peer = NO_ROW
    streams.rows[row].peer = NO_ROW


@borrowing()
def _open(
    streams: Streams,
    segments: Rows,
    segment: int,
    flow_a: int,
    flow_b: int,
    retired: Rows,
    tops: NDArray[np.int64],
) -> int:
    """Add a direction, linked to the other one of its connection."""
    flags = np.int64(segments[segment].tcp_flags)
    seq = segments[segment].seq
    has_syn = flags & SYN != 0
    opens = flags & (SYN | ACK) == SYN
    peer = _row_of(streams, flow_b, flow_a)
    if peer >= 0 and (streams.rows[peer].peer >= 0 or (opens and streams.rows[peer].syn_ack != (seq + 1) % _SEQUENCES)):
        if opens:
            _retire(streams, peer, segment, retired, tops)
            peer = NO_ROW
        elif streams.rows[peer].peer >= 0:
            streams.rows[streams.rows[peer].peer].peer = NO_ROW
    row = streams.counts[0]
    streams.counts[0] += 1
    streams.counts[3] += 1
    streams.rows[row].number = streams.counts[1]
    streams.counts[1] += 1
    streams.rows[row].flow_a = flow_a
    streams.rows[row].flow_b = flow_b
    streams.rows[row].peer = peer
    streams.rows[row].direction = -1
    if peer >= 0:
        streams.rows[peer].peer = row
        streams.rows[row].connection = streams.rows[peer].connection
        if streams.rows[peer].direction >= 0:
            streams.rows[row].direction = 1 - streams.rows[peer].direction
    else:
        streams.rows[row].connection = streams.counts[2]
        streams.counts[2] += 1
    streams.rows[row].syn_ack = -1
    if has_syn:
        streams.rows[row].direction = 0 if opens else 1
        if not opens:
            streams.rows[row].syn_ack = segments[segment].ack
        if peer >= 0:
            streams.rows[peer].direction = 1 - streams.rows[row].direction
    streams.rows[row].next_seq = (seq + 1) % _SEQUENCES if has_syn else UNKNOWN_SEQ
    streams.rows[row].isn = seq
    streams.rows[row].saw_syn = has_syn
    streams.rows[row].synced = has_syn
    streams.rows[row].state = FAST
    streams.rows[row].part_at = -1
    streams.rows[row].node = -1
    streams.rows[row].repeated = 0
    streams.rows[row].sent_seq = streams.rows[row].acked_seq = UNKNOWN_SEQ
    streams.rows[row].waits_ns = 0
    streams.rows[row].unread = 0
    streams.flows[_slot_of(streams, flow_a, flow_b)] = row
    return row  # type: ignore[no-any-return]


@borrowing(inline="always")
def _framed_bytes(data: NDArray[np.uint8], at: int, strict: bool) -> int:
    """Return the bytes of the next message as `bus_framing.framed_bytes`, *strict* as `is_believable`; 0 without head."""
    if big32(data, at) != _SIGNATURE:
        return 0
    totlen = big32(data, at + 4)
    kind = big16(data, at + 12)
    light = kind & 0x8000 != 0
    smallest = _HEAD if light else _HEADER
    if totlen < smallest or totlen > MESSAGE_BYTES_MAX:
        return 0
    if strict:
        if big16(data, at + 8) != VERSION:
            return 0
        kind &= 0x7FFF
        if light and kind != _PUBLISH and kind != _PUBLISHSHARD and kind != _MODULE:
            return 0
        if kind >= _TYPES:
            return 0
    return int(totlen)


@borrowing(inline="always")
def _add_message(
    messages: Rows, count: int, segment: int, row: int, streams: Streams, records: Rows, packet_base: int
) -> None:
    _add(messages, count, segment, row, streams)
    messages[count].ts_ns = records[segment].ts_ns
    messages[count].packet = packet_base + segment
    messages[count].offset = records[segment].offset


@borrowing()
def _cut(
    data: NDArray[np.uint8],
    side: NDArray[np.uint8],
    at: int,
    length: int,
    segment: int,
    row: int,
    streams: Streams,
    messages: Rows,
    records: Rows,
    packet_base: int,
    tops: NDArray[np.int64],
) -> int:
    """Cut *length* bytes in order: `DONE`, `SIDE_FULL`, or -1 without effect for the plain code."""
    end = at + length
    cut_count, top = tops[MESSAGES], tops[SIDE_TOP]
    part_at, part_have, part_total = (
        streams.rows[row].part_at,
        streams.rows[row].part_have,
        streams.rows[row].part_total,
    )
    if part_at >= 0:
        taken = min(length, part_total - part_have)
        copy_bytes(side, part_at + part_have, data, at, taken)
        part_have += taken
        at += taken
        if part_have == part_total:
            _add_message(messages, cut_count, segment, row, streams, records, packet_base)
            messages[cut_count].buffer = 1
            messages[cut_count].at = part_at
            messages[cut_count].length = part_total
            cut_count += 1
            part_at = -1
    strict = streams.rows[row].synced == 0
    while at < end:
        if end - at < _HEAD:
            return -1
        totlen = _framed_bytes(data, at, strict)
        strict = False
        if totlen == 0:
            return -1
        if totlen > end - at:
            if totlen > GATHERED_BYTES_MAX:
                return -1
            if top + totlen > side.shape[0]:
                return SIDE_FULL
            part_at, part_have, part_total = top, end - at, totlen
            copy_bytes(side, part_at, data, at, part_have)
            top += totlen
            break
        _add_message(messages, cut_count, segment, row, streams, records, packet_base)
        messages[cut_count].buffer = 0
        messages[cut_count].at = at
        messages[cut_count].length = totlen
        cut_count += 1
        at += totlen
    tops[MESSAGES], tops[SIDE_TOP] = cut_count, top
    streams.rows[row].part_at, streams.rows[row].part_have, streams.rows[row].part_total = (
        part_at,
        part_have,
        part_total,
    )
    streams.rows[row].synced = 1
    streams.rows[row].next_seq = (streams.rows[row].next_seq + length) % _SEQUENCES
    return DONE


@borrowing(inline="always")
def _add_event(
    streams: Streams, row: int, segment: int, mark: int, since_ns: int, events: Rows, tops: NDArray[np.int64]
) -> None:
    _add(events, tops[EVENTS], segment, row, streams)
    events[tops[EVENTS]].mark = mark
    events[tops[EVENTS]].since_ns = since_ns
    tops[EVENTS] += 1


@borrowing(inline="always")
def _ahead(seq: int, of: int) -> int:
    """Return the lead of *seq* over another sequence number."""
    return (seq - of + _HALF) % _SEQUENCES - _HALF


@borrowing()
def _note_sent(
    streams: Streams, row: int, segment: int, begins: int, end: int, ts_ns: int, events: Rows, tops: NDArray[np.int64]
) -> None:
    """Record sent bytes: new ones wait for their acknowledgement, retransmitted ones have not arrived."""
    at = streams.rows[row]
    if at.sent_seq == UNKNOWN_SEQ:
        at.sent_seq = at.acked_seq = begins
    if _ahead(end, at.sent_seq) > 0:
        if at.sent_seq == at.acked_seq:
            at.waits_ns = ts_ns
        at.sent_seq = end
    elif not at.unread and at.peer >= 0 and _ahead(end, at.acked_seq) > 0 and ts_ns - at.waits_ns >= UNREAD_NS:
        at.unread = 1
        _add_event(streams, row, segment, UNREAD, at.waits_ns, events, tops)


@borrowing()
def _note_acknowledged(
    streams: Streams, row: int, segment: int, ack: int, ts_ns: int, events: Rows, tops: NDArray[np.int64]
) -> None:
    """Record that the other side received everything *row* sent before *ack*."""
    at = streams.rows[row]
    if at.sent_seq == UNKNOWN_SEQ or not 0 < _ahead(ack, at.acked_seq) <= _ahead(at.sent_seq, at.acked_seq):
        return
    at.acked_seq, at.waits_ns = ack, ts_ns
    if at.unread:
        at.unread = 0
        _add_event(streams, row, segment, READ, 0, events, tops)


@borrowing()
def _note_refused(streams: Streams, row: int, segment: int, events: Rows, tops: NDArray[np.int64]) -> None:
    """Record a RST of a host without this connection: *row*'s last bytes did not arrive (RFC 9293, 3.10.7.1)."""
    at = streams.rows[row]
    if at.sent_seq != at.acked_seq and not at.unread:
        at.unread = 1
        _add_event(streams, row, segment, UNREAD, at.waits_ns, events, tops)


@borrowing()
def follow_segments(
    data: NDArray[np.uint8],
    side: NDArray[np.uint8],
    segments: Rows,
    records: Rows,
    packet_base: int,
    streams_max: int,
    start: int,
    count: int,
    streams: Streams,
    messages: Rows,
    listed: Rows,
    retired: Rows,
    events: Rows,
    tops: NDArray[np.int64],
) -> tuple[int, int]:
    """Follow segments *start* to *count*; return the end and `DONE`, `SIDE_FULL`, `STREAMS_FULL`, `MESSAGES_FULL` or
    `TOO_MANY`; *tops* counts the used entries of the side buffer and the four lists.
    """
    for segment in range(start, count):
        if segments[segment].reason != 0:
            continue
        length = segments[segment].length
        if tops[MESSAGES] + length // _HEAD + 2 > messages.shape[0]:
            return segment, MESSAGES_FULL
        flow_a = segments[segment].source << 16 | np.int64(segments[segment].source_port)
        flow_b = segments[segment].target << 16 | np.int64(segments[segment].target_port)
        flags = np.int64(segments[segment].tcp_flags)
        seq = segments[segment].seq
        row = _row_of(streams, flow_a, flow_b)
        if row < 0 or (flags & SYN and not (streams.rows[row].saw_syn and seq == streams.rows[row].isn)):
            if streams.counts[0] == streams.rows.shape[0]:
                return segment, STREAMS_FULL
            if row >= 0:
                _retire(streams, row, segment, retired, tops)
            if streams.counts[3] >= streams_max:
                return segment, TOO_MANY
            row = _open(streams, segments, segment, flow_a, flow_b, retired, tops)
        missing = segments[segment].missing
        peer = streams.rows[row].peer
        if flags & ACK and peer >= 0 and streams.rows[peer].state == SLOW:
            _add(listed, tops[LISTED], segment, peer, streams)
            listed[tops[LISTED]].mark = ACKNOWLEDGED
            tops[LISTED] += 1
        if flags & FIN and not length and not missing:
            next_seq = streams.rows[row].next_seq
            ahead = (seq - next_seq + _HALF) % _SEQUENCES - _HALF
            if streams.rows[row].state == SLOW or (next_seq != UNKNOWN_SEQ and 0 < ahead <= JUMP_BYTES_MAX):
                streams.rows[row].state = SLOW
                _add(listed, tops[LISTED], segment, row, streams)
                listed[tops[LISTED]].mark = 0
                tops[LISTED] += 1
        elif length or missing:
            slow = streams.rows[row].state == SLOW or missing > 0
            if not slow:
                begins = (seq + (flags & SYN != 0)) % _SEQUENCES
                if streams.rows[row].next_seq == UNKNOWN_SEQ:
                    streams.rows[row].next_seq = begins
                ahead = (begins - streams.rows[row].next_seq + _HALF) % _SEQUENCES - _HALF
                if ahead == 0:
                    at = segments[segment].start
                    status = _cut(data, side, at, length, segment, row, streams, messages, records, packet_base, tops)
                    if status == SIDE_FULL:
                        return segment, SIDE_FULL
                    slow = status != DONE
                elif ahead < 0 and -ahead >= length and -ahead <= JUMP_BYTES_MAX:
                    streams.rows[row].repeated += length
                else:
                    slow = True
            if slow:
                streams.rows[row].state = SLOW
                _add(listed, tops[LISTED], segment, row, streams)
                listed[tops[LISTED]].mark = 0
                tops[LISTED] += 1
        if flags & ACK and peer >= 0:
            _note_acknowledged(streams, peer, segment, segments[segment].ack, records[segment].ts_ns, events, tops)
        if length or missing:
            first = (seq + (flags & SYN != 0)) % _SEQUENCES
            stop = (first + length + missing) % _SEQUENCES
            _note_sent(streams, row, segment, first, stop, records[segment].ts_ns, events, tops)
        if flags & RST and not flags & ACK and peer >= 0:
            _note_refused(streams, peer, segment, events, tops)
        if flags & _EVENTS:
            _add_event(streams, row, segment, flags, 0, events, tops)
        streams.rows[row].last_packet = packet_base + segment
        streams.rows[row].last_ts_ns = records[segment].ts_ns
        streams.rows[row].last_offset = records[segment].offset
    return count, DONE
