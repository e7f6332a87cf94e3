"""Packets of a capture window to columns.

The batch twins of `formats.capture.pcap` and `formats.capture.link_layers`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture import link_layers as links
from cluster_core.formats.capture.packet import PACKET_BYTES_MAX
from cluster_core.formats.capture.pcap import RECORD_HEADER_BYTES
from cluster_core.kernels.compiled import njit
from cluster_core.kernels.interning import Interned, intern
from cluster_core.kernels.rdb.memory import big16, big32, copy_bytes, little32

ADDRESS_BYTES = 16
IPV4_MARK = 0xFF
"""An IPv4 address is kept in 16 bytes behind twelve of these.

As IPv6 that would be multicast, so it is no other address.
"""

PACKETS_PER_CHUNK = 1 << 14

WANTS_BYTES = 0
CHUNK_FULL = 1
BAD_RECORD = 2

_MAX = PACKET_BYTES_MAX
_ADDRESS = ADDRESS_BYTES
_RECORD = RECORD_HEADER_BYTES
_VLANS = links.ETHERTYPES_VLAN
_VLAN_A, _VLAN_B, _VLAN_C, _VLAN_D = links.ETHERTYPES_VLAN
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
"""A packet as the container gives it: *at* is where the *captured* bytes begin in the buffer, *offset* in the file."""

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
"""The TCP segment of a packet; *reason* as in `link_layers.SKIP_REASONS`, the rest is only set where it is 0.

*source* and *target* are numbers of addresses, *start* is where the payload begins in the buffer.
"""

Rows = np.recarray[Any, Any]
"""Rows of one of the structures of the kernels: ``rows.field`` is a column, ``rows[i].field`` a value."""


def new_rows(kind: np.dtype[np.void], count: int) -> Rows:
    """Zeroed rows of a structure."""
    return np.zeros(count, dtype=kind).view(np.recarray)


def rows_to_fill(kind: np.dtype[np.void], count: int) -> Rows:
    """Rows of a structure with whatever is in the memory: for who writes every field of a row before reading it."""
    return np.empty(count, dtype=kind).view(np.recarray)


@njit()
def walk_pcap(
    data: NDArray[np.uint8],
    at: int,
    base: int,
    is_little: bool,
    fraction_ns: int,
    link_type: int,
    records: Rows,
) -> tuple[int, int, int]:
    """Read pcap records from *at* on: (records, where reading stopped, `WANTS_BYTES`, `CHUNK_FULL` or `BAD_RECORD`).

    *base* is added to positions in the buffer to get offsets in the file.  The twin of `PcapReader`.
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


@njit()
def _find_ip(link_type: int, data: NDArray[np.uint8], begin: int, size: int) -> tuple[int, int]:
    """The twin of `link_layers.find_ip`; positions are in the buffer."""
    if link_type == links.ETHERNET:
        at, kind_at = 14, 12
    elif link_type == links.LINUX_SLL:
        at, kind_at = 16, 14
    elif link_type == links.LINUX_SLL2:
        at, kind_at = 20, 0
    elif (
        link_type == links.RAW
        or link_type == links.RAW_BSD
        or link_type == links.RAW_OPENBSD
        or link_type == links.IPV4
        or link_type == links.IPV6
    ):
        if size > 0:
            return links.OK, begin
        return links.CUT_LINK, 0
    elif link_type == links.NULL or link_type == links.LOOP:
        if size <= 4:
            return links.CUT_LINK, 0
        version = data[begin + 4] >> 4
        if version == 4 or version == 6:
            return links.OK, begin + 4
        return links.NOT_IP, 0
    else:
        return links.UNKNOWN_LINK, 0
    if size < at:
        return links.CUT_LINK, 0
    kind = big16(data, begin + kind_at)
    for _ in range(links.VLAN_TAGS_MAX):
        if kind != _VLAN_A and kind != _VLAN_B and kind != _VLAN_C and kind != _VLAN_D:
            break
        if size < at + 4:
            return links.CUT_LINK, 0
        kind = big16(data, begin + at + 2)
        at += 4
    if kind != links.ETHERTYPE_IPV4 and kind != links.ETHERTYPE_IPV6:
        return links.NOT_IP, 0
    if size > at:
        return links.OK, begin + at
    return links.CUT_LINK, 0


@njit()
def _read_ipv4(data: NDArray[np.uint8], at: int, stop: int, wire_end: int) -> tuple[int, int, int, int]:
    """The twin of `link_layers._read_ipv4`: captured bytes end at *stop*, the frame on the wire at *wire_end*."""
    if stop - at < 20:
        return links.BAD_IP, 0, 0, 0
    header_bytes = 4 * int(data[at] & 15)
    total = big16(data, at + 2)
    if header_bytes < 20 or (total != 0 and total < header_bytes):
        return links.BAD_IP, 0, 0, 0
    if big16(data, at + 6) & 0x3FFF:
        return links.FRAGMENT, 0, 0, 0
    end = min(at + total, wire_end) if total else wire_end
    return links.OK, int(data[at + 9]), at + header_bytes, end


@njit()
def _read_ipv6(data: NDArray[np.uint8], at: int, stop: int, wire_end: int) -> tuple[int, int, int, int]:
    """The twin of `link_layers._read_ipv6`."""
    if stop - at < 40:
        return links.BAD_IP, 0, 0, 0
    payload = big16(data, at + 4)
    end = min(at + 40 + payload, wire_end) if payload else wire_end
    protocol = int(data[at + 6])
    start = at + 40
    for _ in range(links.EXTENSION_HEADERS_MAX):
        if protocol != 0 and protocol != 43 and protocol != 44 and protocol != 51 and protocol != 60:
            break
        if stop - start < 8:
            return links.BAD_IP, 0, 0, 0
        if protocol == 44 and big16(data, start + 2) & 0xFFF9:
            return links.FRAGMENT, 0, 0, 0
        extra = int(data[start + 1])
        size = 8 * (extra + 1)
        if protocol == 44:
            size = 8
        elif protocol == 51:
            size = 4 * (extra + 2)
        protocol = int(data[start])
        start += size
    return links.OK, protocol, start, end


@njit()
def view_segments(data: NDArray[np.uint8], records: Rows, count: int, addresses: Interned, segments: Rows) -> None:
    """Find the TCP segment of each of *count* records; *addresses* has room for two new ones a record.

    The twin of `link_layers.view_tcp`.
    """
    address = np.full(ADDRESS_BYTES, _MARK, dtype=np.uint8)
    for index in range(count):
        begin = records[index].at
        stop = begin + records[index].captured
        wire_end = begin + records[index].length
        reason, at = _find_ip(records[index].link_type, data, begin, stop - begin)
        version = 0
        protocol, start, end = 0, 0, 0
        if reason == links.OK:
            version = data[at] >> 4
            if version == 4:
                reason, protocol, start, end = _read_ipv4(data, at, stop, wire_end)
            elif version == 6:
                reason, protocol, start, end = _read_ipv6(data, at, stop, wire_end)
            else:
                reason = links.BAD_IP
        if reason == links.OK and protocol != links.PROTOCOL_TCP:
            reason = links.NOT_TCP
        if reason == links.OK and stop - start < 20:
            reason = links.CUT_TCP
        if reason == links.OK:
            words = np.int64(data[start + 12] >> 4)
            payload = start + 4 * words
            stop = min(end, stop)
            if words < 5 or payload > end:
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
