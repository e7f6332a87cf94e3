"""Packets of a capture window as columns, with the functions of `formats.capture.link_layers` compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture import link_layers as links
from cluster_core.formats.capture.pcap import PACKET_BYTES_MAX, RECORD_HEADER_BYTES
from cluster_core.kernels.compiled import borrowing, compiled
from cluster_core.kernels.interning import Interned, intern
from cluster_core.kernels.raw_bytes import big16, big32, copy_bytes, little32

ADDRESS_BYTES = 16
IPV4_MARK = 0xFF
"""Prefix byte of an IPv4 address in 16 bytes, repeated twelve times; as IPv6 it would be multicast."""

PACKETS_PER_CHUNK = 1 << 12
"""Packets per pass: their bytes stay in the cache for the decoding kernels."""

WANTS_BYTES = 0
CHUNK_FULL = 1
BAD_RECORD = 2

_MAX = PACKET_BYTES_MAX
_ADDRESS = ADDRESS_BYTES
_RECORD = RECORD_HEADER_BYTES
_MARK = np.uint8(IPV4_MARK)


RECORD = np.dtype(
    [
        ("ts_ns", np.int64),
        ("at", np.int64),
        ("length", np.int64),
        ("offset", np.int64),
        ("captured", np.int32),
        ("link_type", np.int32),
    ]
)
"""A packet of the container: *at* is the start of the *captured* bytes in the buffer, *offset* in the file."""

SEGMENT = np.dtype(
    [
        ("source", np.int64),
        ("target", np.int64),
        ("source_port", np.int32),
        ("target_port", np.int32),
        ("seq", np.int64),
        ("ack", np.int64),
        ("start", np.int64),
        ("length", np.int64),
        ("missing", np.int64),
        ("tcp_flags", np.uint8),
        ("reason", np.uint8),
    ],
    align=True,
)
"""The TCP segment of a packet; *reason* as in `link_layers.SKIP_REASONS`, other fields are set if it is 0.

*source* and *target* are numbers of addresses, *start* is the payload's position in the buffer.
"""

Rows = np.recarray[Any, Any]
"""Rows of a kernel structure: ``rows.field`` is a column, ``rows[i].field`` a value."""


def new_rows(kind: np.dtype[np.void], count: int) -> Rows:
    """Return zeroed rows of a structure."""
    return np.zeros(count, dtype=kind).view(np.recarray)


def rows_to_fill(kind: np.dtype[np.void], count: int) -> Rows:
    """Return uninitialised rows of a structure."""
    return np.empty(count, dtype=kind).view(np.recarray)


@borrowing()
def walk_pcap(
    data: NDArray[np.uint8],
    at: int,
    base: int,
    is_little: bool,
    fraction_ns: int,
    link_type: int,
    records: Rows,
) -> tuple[int, int, int]:
    """Read pcap records from *at* on, as `PcapReader`: (records, end, `WANTS_BYTES`, `CHUNK_FULL` or `BAD_RECORD`).

    *base* is added to positions in the buffer to get offsets in the file.
    """
    size = data.shape[0]
    room = records.shape[0]
    count = 0
    while size - at >= _RECORD:
        if count == room:
            return count, at, CHUNK_FULL
        if is_little:
            seconds, fraction = little32(data, at), little32(data, at + 4)
            captured, length = little32(data, at + 8), little32(data, at + 12)
        else:
            seconds, fraction = big32(data, at), big32(data, at + 4)
            captured, length = big32(data, at + 8), big32(data, at + 12)
        if captured > _MAX:
            return count, at, BAD_RECORD
        end = at + _RECORD + captured
        if end > size:
            break
        records[count].ts_ns = seconds * 1_000_000_000 + fraction * fraction_ns
        records[count].link_type = link_type
        records[count].at = at + _RECORD
        records[count].captured = captured
        records[count].length = max(length, captured)
        records[count].offset = base + at
        count += 1
        at = end
    return count, at, WANTS_BYTES


_LINKS = compiled(links, "_find_ip_in_loopback", "_find_ip", "_read_ipv4", "_read_ipv6", forceinline=True)
_find_ip, _read_ipv4, _read_ipv6 = _LINKS["_find_ip"], _LINKS["_read_ipv4"], _LINKS["_read_ipv6"]


@borrowing()
def _view_segments(
    data: NDArray[np.uint8],
    records: Rows,
    count: int,
    addresses: Interned,
    segments: Rows,
    address: NDArray[np.uint8],
) -> None:
    for index in range(count):
        begin = records[index].at
        stop = begin + records[index].captured
        length = records[index].length
        frame = data[begin:stop]
        reason, at = _find_ip(records[index].link_type, frame)
        version = 0
        protocol, start, end = 0, 0, 0
        if reason == links.OK:
            version = frame[at] >> 4
            if version == 4:
                reason, protocol, start, end = _read_ipv4(frame, at, length)
            elif version == 6:
                reason, protocol, start, end = _read_ipv6(frame, at, length)
            else:
                reason = links.BAD_IP
        at, start, end = begin + at, begin + start, begin + end
        if reason == links.OK and protocol != links.PROTOCOL_TCP:
            reason = links.NOT_TCP
        if reason == links.OK and stop - start < 20:
            reason = links.CUT_TCP
        if reason == links.OK:
            header_words = np.int64(data[start + 12] >> 4)
            payload = start + 4 * header_words
            stop = min(end, stop)
            if header_words < 5 or payload > end:
                reason = links.BAD_TCP
            elif payload > stop:
                reason = links.CUT_TCP
            else:
                segments[index].source_port = big16(data, start)
                segments[index].target_port = big16(data, start + 2)
                segments[index].seq = big32(data, start + 4)
                segments[index].ack = big32(data, start + 8)
                segments[index].tcp_flags = data[start + 13]
                segments[index].start = payload
                segments[index].length = stop - payload
                segments[index].missing = end - stop
                if version == 4:
                    copy_bytes(address, 12, data, at + 12, 4)
                    segments[index].source = intern(addresses, address, 0, _ADDRESS)
                    copy_bytes(address, 12, data, at + 16, 4)
                    segments[index].target = intern(addresses, address, 0, _ADDRESS)
                else:
                    segments[index].source = intern(addresses, data, at + 8, _ADDRESS)
                    segments[index].target = intern(addresses, data, at + 24, _ADDRESS)
        segments[index].reason = reason


def view_segments(data: NDArray[np.uint8], records: Rows, count: int, addresses: Interned, segments: Rows) -> None:
    """Find the TCP segment of each of *count* records; *addresses* has room for two new ones per record."""
    _view_segments(data, records, count, addresses, segments, np.full(_ADDRESS, _MARK, dtype=np.uint8))
