"""Convert segments to batches of messages: merge the kernels' fast path with the plain code in packet order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import CapturedGap, CapturedUnknown, Endpoint, Origin
from cluster_core.formats.capture.link_layers import address_text
from cluster_core.kernels.bus import streams as bs
from cluster_core.kernels.bus.batch import EVENT, BusBatch, packed_address
from cluster_core.kernels.bus.messages import Tables
from cluster_core.kernels.bus.packets import ADDRESS_BYTES, PACKETS_PER_CHUNK, Rows, new_rows, rows_to_fill
from cluster_core.kernels.bus.spans import MessageCollector, new_tables
from cluster_core.kernels.interning import grown, new_interned
from cluster_core.wire.bus import IP_BYTES, NODE_ID_BYTES, SLOT_BITMAP_BYTES
from cluster_core.wire.bus_framing import BusFramer, Frame, UnknownBytes
from cluster_core.wire.tcp_stream import ByteOrigin, Bytes, Gap, Segment, TcpStream

SIDE_BYTES = 4 << 20
MESSAGES_PER_CHUNK = 320_000
MESSAGES_PER_BATCH = 3 << 12
CHUNKS_PER_BATCH = 18
"""Maximum chunks per batch: each batch has the same base cost."""
STREAMS_AT_FIRST = 4096
NODES_MAX = 1 << 17
TEXTS_MAX = 1 << 17
ADDRESSES_MAX = 1 << 18
BITMAPS_MAX = 1 << 13

_NO_BYTES = np.zeros(0, dtype=np.uint8)
_Spans = NDArray[np.void]
_PLAIN = 2
_NO_SPANS = np.zeros(0, dtype=bs.SPAN)
_SCRATCH = ("_messages", "_listed", "_retired", "_events", "_gathered")


class _PlainDirection(NamedTuple):
    """A direction processed by the plain code."""

    tcp: TcpStream
    framer: BusFramer


class _PlainMessage(NamedTuple):
    """A message of the plain code; *key* is its place among the kernel's."""

    key: int
    row: int
    peer: int
    direction: int
    mark: ByteOrigin
    raw: bytes


class _PlainState(NamedTuple):
    """State of the plain code's direction at its segment."""

    key: int
    row: int
    peer: int
    direction: int


class BusFollower:
    """Follows the directions of a series; `follow` takes a chunk of segments, and yields batches of many chunks."""

    def __init__(self, streams_max: int, *, keep_packed: bool = False) -> None:
        self._keep_packed = keep_packed
        self._last_packet = 0
        self.addresses = new_interned(ADDRESS_BYTES, 3 * PACKETS_PER_CHUNK)
        self.repeated_bytes = 0
        self._streams_max = streams_max
        self._streams = bs.new_streams(min(STREAMS_AT_FIRST, 2 * streams_max))
        self._side = np.empty(SIDE_BYTES, dtype=np.uint8)
        self._tables = new_tables(4096)
        self._slow: dict[int, _PlainDirection] = {}
        self._gaps: list[tuple[int, CapturedGap]] = []
        self._extras: list[_PlainMessage] = []
        self._tops = np.zeros(5, dtype=np.int64)
        self._lay_out()

    def _lay_out(self) -> None:
        """Make the lists that a chunk fills and empties."""
        self._gathered = MessageCollector(keep_packed=self._keep_packed)
        self._messages = np.empty(MESSAGES_PER_CHUNK, dtype=bs.SPAN)
        self._listed, self._retired, self._events = (
            rows_to_fill(bs.STREAM_EVENT, 2 * PACKETS_PER_CHUNK),
            rows_to_fill(bs.STREAM_EVENT, 2 * PACKETS_PER_CHUNK + 2),
            rows_to_fill(bs.STREAM_EVENT, bs.EVENTS_PER_SEGMENT * PACKETS_PER_CHUNK),
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without lists that are empty between two calls, and only the used part of the side buffer."""
        self._compact_side(0)
        state = {name: value for name, value in self.__dict__.items() if name not in _SCRATCH}
        state["_side"] = self._side[: self._tops[bs.SIDE_TOP]].copy()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        side = np.empty(max(SIDE_BYTES, 2 * len(self._side)), dtype=np.uint8)
        side[: len(self._side)] = self._side
        self._side = side
        self._lay_out()

    def follow(
        self, data: NDArray[np.uint8], records: Rows, segments: Rows, count: int, packet_base: int
    ) -> Iterator[BusBatch]:
        """Follow *count* segments with bytes in *data*; yield a batch when it is full."""
        yield from self._bound_tables()
        self._last_packet = packet_base + count - 1
        start = 0
        while start < count:
            start, status = bs.follow_segments(
                *(data, self._side, segments, records, packet_base, self._streams_max, start, count),
                *(self._streams, self._messages, self._listed, self._retired, self._events, self._tops),
            )
            self._gather(data, records, segments, packet_base)
            if status == bs.STREAMS_FULL:
                self._make_room_for_streams()
            elif status == bs.TOO_MANY:
                yield from self.rest()
                yield self._evict()
            elif status == bs.SIDE_FULL:
                self._compact_side(bs.GATHERED_BYTES_MAX)
        if self._tops[bs.SIDE_TOP] > len(self._side) // 2:
            self._compact_side(0)
        if len(self._gathered) >= MESSAGES_PER_BATCH or self._gathered.stretches >= CHUNKS_PER_BATCH:
            yield self.batch()

    def rest(self) -> Iterator[BusBatch]:
        """Return the messages of an incomplete batch."""
        if self._gathered.stretches:
            yield self.batch()

    def batch(self) -> BusBatch:
        """Return the messages since the last batch, possibly none."""
        return self._gathered.batch(self._tables, self.addresses.rows())

    def reserve_addresses(self, count: int) -> Iterator[BusBatch]:
        """Make room for the addresses of *count* packets; beyond the bound all directions end."""
        if self.addresses.used[0] > ADDRESSES_MAX:
            yield self._give_up(self._active(), unlink=True)
            self._make_room_for_streams()
            self.addresses = new_interned(ADDRESS_BYTES, 3 * PACKETS_PER_CHUNK)
        self.addresses = grown(self.addresses, 2 * count)

    def finish(self) -> BusBatch:
        """End the series: return the remaining content of directions, in order of their numbers."""
        active = self._active()
        return self._give_up(active[np.argsort(self._streams.rows.number[active])], unlink=False)

    def _active(self) -> NDArray[np.int64]:
        used = int(self._streams.counts[0])
        return np.flatnonzero(self._streams.rows.state[:used] != bs.RETIRED)

    def _gather(self, data: NDArray[np.uint8], records: Rows, segments: Rows, packet_base: int) -> None:
        """Decode the kernel's messages, and those of listed segments by the plain code."""
        tops = self._tops
        if tops[bs.LISTED] or tops[bs.RETIREMENTS]:
            self._do_listed(data, records, segments, packet_base)
        spans = _merged(self._messages[: tops[bs.MESSAGES]], self._extras)
        self._decode(data, spans, packet_base + spans["segment"])
        self._gathered.gaps += [(packet_base + at, gap) for at, gap in self._gaps]
        self._gaps = []
        if tops[bs.EVENTS]:
            self._gathered.events.append(self._events_of(records, packet_base))
        tops[bs.MESSAGES :] = 0

    def _do_listed(self, data: NDArray[np.uint8], records: Rows, segments: Rows, packet_base: int) -> None:
        """Process listed segments with the plain code and end retired directions, in order of segments."""
        listed, retired = self._listed, self._retired
        count, ends = int(self._tops[bs.LISTED]), int(self._tops[bs.RETIREMENTS])
        is_data = (listed.mark[:count] != bs.ACKNOWLEDGED).tolist()
        work = [(2 * segment + is_data[i], 1, i) for i, segment in enumerate(listed.segment[:count].tolist())]
        touched = dict.fromkeys(listed.row[:count].tolist())
        ended = retired.row[:ends]
        gathering = self._streams.rows.part_at[ended] >= 0
        for i, row in enumerate(ended.tolist()):
            if gathering[i] or row in touched or row in self._slow:
                work.append((2 * int(retired.segment[i]), 0, i))
        self.repeated_bytes += int(self._streams.rows.repeated[ended].sum())
        work.sort()
        for key, is_listed, i in work:
            source = listed if is_listed else retired
            where = _PlainState(key, int(source.row[i]), int(source.peer[i]), int(source.direction[i]))
            at = key >> 1
            if not is_listed:
                self._end(where)
            elif is_data[i]:
                segment, slow = _segment_of(data, records, segments, at, packet_base), self._take(where.row)
                self._settle(where, slow, slow.tcp.handle(segment))
            elif where.row in self._slow:
                slow = self._slow[where.row]
                self._settle(where, slow, slow.tcp.acknowledge(int(segments.ack[at]), int(records.ts_ns[at])))
        for row in touched:
            self._hand_back(row)

    def _take(self, row: int) -> _PlainDirection:
        """Return the plain code's objects of a direction, converted from its row if the kernel had it."""
        slow = self._slow.get(row)
        if slow is None:
            streams = self._streams
            at, have = int(streams.rows.part_at[row]), int(streams.rows.part_have[row])
            pending = self._side[at : at + have].tobytes() if at >= 0 else b""
            tcp = TcpStream.resumed(
                int(streams.rows.isn[row]),
                int(streams.rows.next_seq[row]),
                saw_syn=bool(streams.rows.saw_syn[row]),
            )
            slow = self._slow[row] = _PlainDirection(
                tcp, BusFramer(synced=bool(streams.rows.synced[row]), pending=pending)
            )
            streams.rows.part_at[row] = -1
        return slow

    def _hand_back(self, row: int) -> None:
        """Return a direction without pending irregularities to the kernel."""
        slow = self._slow.get(row)
        streams = self._streams
        if slow is None or streams.rows.state[row] != bs.SLOW:
            return
        if slow.tcp.plain and slow.framer.plain and not slow.framer.pending:
            streams.rows.state[row] = bs.FAST
            streams.rows.synced[row] = 1
            streams.rows.next_seq[row] = slow.tcp.next_seq
            self.repeated_bytes += slow.tcp.repeated_bytes
            del self._slow[row]

    def _end(self, where: _PlainState) -> None:
        slow = self._take(where.row)
        self._settle(where, slow, slow.tcp.finish())
        streams = self._streams
        last = ByteOrigin(
            int(streams.rows.last_ts_ns[where.row]),
            int(streams.rows.last_packet[where.row]),
            int(streams.rows.last_offset[where.row]),
        )
        for frame in slow.framer.finish(last):
            self._add(where, frame)
        self.repeated_bytes += slow.tcp.repeated_bytes
        del self._slow[where.row]

    def _settle(self, where: _PlainState, slow: _PlainDirection, settled: list[Bytes | Gap]) -> None:
        """Cut ordered bytes into messages."""
        for item in settled:
            if isinstance(item, Bytes):
                frames = slow.framer.feed(item.payload, item.mark)
            else:
                origin = self._origin(where, item.mark)
                gap = CapturedGap(origin, item.start, item.end, item.count, item.reason)
                self._gathered.rows.append(gap)
                self._gaps.append((where.key >> 1, gap))
                frames = slow.framer.lose(item.mark) if item.count is None else slow.framer.skip(item.count, item.mark)
            for frame in frames:
                self._add(where, frame)

    def _add(self, where: _PlainState, frame: Frame) -> None:
        if not isinstance(frame, UnknownBytes):
            self._extras.append(_PlainMessage(*where, frame.mark, frame.raw))
        else:
            origin = self._origin(where, frame.mark)
            self._gathered.rows.append(CapturedUnknown(origin, frame.count, frame.looks_like, frame.sample))

    def _origin(self, where: _PlainState, mark: ByteOrigin) -> Origin:
        streams, row = self._streams, where.row
        source, target = int(streams.rows.flow_a[row]), int(streams.rows.flow_b[row])
        return Origin(
            *mark,
            int(streams.rows.number[row]),
            int(streams.rows.connection[row]),
            where.direction,
            Endpoint(self._address(source >> 16), source & 0xFFFF),
            Endpoint(self._address(target >> 16), target & 0xFFFF),
        )

    def _address(self, number: int) -> str:
        return address_text(packed_address(self.addresses.rows()[number]))

    def _decode(self, data: NDArray[np.uint8], spans: _Spans, released: NDArray[np.int64]) -> None:
        """Decode messages of both kinds, which share one order."""
        extras, self._extras = self._extras, []
        plain = np.frombuffer(bytearray().join(extra.raw for extra in extras), dtype=np.uint8) if extras else _NO_BYTES
        buffers = (data, self._side, plain)
        self._tables = self._gathered.add(buffers, spans, self._streams, self._tables, released)

    def _events_of(self, records: Rows, packet_base: int) -> Rows:
        count = int(self._tops[bs.EVENTS])
        at, row = self._events.segment[:count], self._events.row[:count]
        streams = self._streams
        made = new_rows(EVENT, count)
        made.ts_ns, made.packet, made.offset = records.ts_ns[at], packet_base + at, records.offset[at]
        made.stream, made.connection = streams.rows.number[row], streams.rows.connection[row]
        made.direction, made.tcp_flags = self._events.direction[:count], self._events.mark[:count]
        made.since_ns = self._events.since_ns[:count]
        made.source, made.source_port = streams.rows.flow_a[row] >> 16, streams.rows.flow_a[row] & 0xFFFF
        made.target, made.target_port = streams.rows.flow_b[row] >> 16, streams.rows.flow_b[row] & 0xFFFF
        return made

    def _bound_tables(self) -> Iterator[BusBatch]:
        """Restart a table above its bound."""
        nodes, texts, bitmaps, _ = self._tables
        if nodes.used[0] <= NODES_MAX and texts.used[0] <= TEXTS_MAX and bitmaps.used[0] <= BITMAPS_MAX:
            return
        yield from self.rest()
        if nodes.used[0] > NODES_MAX:
            nodes = new_interned(NODE_ID_BYTES, 4096)
            self._streams.rows.node[:] = -1
        if texts.used[0] > TEXTS_MAX:
            texts = new_interned(IP_BYTES, 4096)
        if bitmaps.used[0] > BITMAPS_MAX:
            bitmaps = new_interned(SLOT_BITMAP_BYTES, 512)
        self._tables = Tables(nodes, texts, bitmaps, np.full(nodes.capacity, -1, dtype=np.int32))

    def _make_room_for_streams(self) -> None:
        """Drop retired rows; double the table if most rows are used."""
        active = self._active()
        capacity = len(self._streams.rows)
        if 4 * len(active) > 3 * capacity:
            capacity = min(2 * capacity, 2 * self._streams_max)
        renumbered = {int(row): index for index, row in enumerate(active)}
        self._slow = {renumbered[row]: slow for row, slow in self._slow.items() if row in renumbered}
        self._streams = bs.compacted(self._streams, active, capacity)

    def _evict(self) -> BusBatch:
        """End the directions with the longest silence."""
        active = self._active()
        order = np.lexsort((self._streams.rows.number[active], self._streams.rows.last_packet[active]))
        return self._give_up(active[order[: max(1, self._streams_max // 4)]], unlink=True)

    def _give_up(self, chosen: NDArray[np.int64], *, unlink: bool) -> BusBatch:
        """End the directions *chosen*, in order; *unlink* detaches their remaining peers."""
        table = self._streams.rows
        turn = np.full(len(table) + 1, len(table), dtype=np.int64)  # the last entry is for no peer
        turn[chosen] = np.arange(len(chosen))
        pending = table.part_at >= 0
        pending[list(self._slow)] = True
        for row in chosen[pending[chosen]].tolist():
            peer = int(table.peer[row])
            if unlink and turn[peer] < turn[row]:
                peer = bs.NO_ROW
            self._end(_PlainState(int(turn[row]), row, peer, int(table.direction[row])))
        self.repeated_bytes += int(table.repeated[chosen].sum())
        table.state[chosen] = bs.RETIRED
        self._streams.counts[3] -= len(chosen)
        if unlink:
            peers = table.peer[chosen]
            table.peer[peers[peers >= 0]] = bs.NO_ROW
            table.peer[chosen] = bs.NO_ROW
        self._decode(_NO_BYTES, _merged(_NO_SPANS, self._extras), np.full(len(self._extras), self._last_packet))
        self._gathered.gaps += [(self._last_packet, gap) for _, gap in self._gaps]
        self._gaps = []
        return self.batch()

    def _compact_side(self, room: int) -> None:
        """Move gathered messages to the front of the side buffer and make *room* behind them."""
        streams = self._streams
        used = int(streams.counts[0])
        rows = np.flatnonzero((streams.rows.part_at[:used] >= 0) & (streams.rows.state[:used] == bs.FAST))
        wanted = int(streams.rows.part_total[rows].sum()) + room
        size = SIDE_BYTES
        while size < 2 * wanted:
            size *= 2
        side = np.empty(size, dtype=np.uint8)
        top = 0
        for row in rows.tolist():
            at, have = int(streams.rows.part_at[row]), int(streams.rows.part_have[row])
            side[top : top + have] = self._side[at : at + have]
            streams.rows.part_at[row] = top
            top += int(streams.rows.part_total[row])
        self._side = side
        self._tops[bs.SIDE_TOP] = top


def _segment_of(data: NDArray[np.uint8], records: Rows, segments: Rows, index: int, packet_base: int) -> Segment:
    start = int(segments.start[index])
    payload = data[start : start + int(segments.length[index])].tobytes()
    mark = ByteOrigin(int(records.ts_ns[index]), packet_base + index, int(records.offset[index]))
    return Segment(
        int(segments.seq[index]), int(segments.tcp_flags[index]), payload, int(segments.missing[index]), mark
    )


def _merged(spans: _Spans, extras: list[_PlainMessage]) -> _Spans:
    """Merge the plain code's messages, consecutive in their buffer, by key."""
    if not extras:
        return spans
    added = new_rows(bs.SPAN, len(extras))
    keys = np.array([extra.key for extra in extras], dtype=np.int64)
    added.buffer = _PLAIN
    added.segment = keys >> 1
    added.length = [len(extra.raw) for extra in extras]
    added.at = np.cumsum(added.length) - added.length
    added.row = [extra.row for extra in extras]
    added.peer = [extra.peer for extra in extras]
    added.direction = [extra.direction for extra in extras]
    added.ts_ns = [extra.mark.ts_ns for extra in extras]
    added.packet = [extra.mark.packet for extra in extras]
    added.offset = [extra.mark.offset for extra in extras]
    order = np.argsort(np.concatenate((2 * spans["segment"] + 1, keys)), kind="stable")
    return np.concatenate((spans, added.view(np.ndarray))).take(order)
