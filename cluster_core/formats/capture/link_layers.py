"""Locate the IP packet in a captured frame; `cluster_core.kernels.bus.packets` compiles these functions.

Ethernet with VLAN tags, Linux cooked v1 and v2, raw IP, BSD loopback; IPv4 and IPv6 (RFC 791, 8200) without reassembly.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address

NULL = 0
ETHERNET = 1
RAW_BSD = 12
RAW_OPENBSD = 14
RAW = 101
LOOP = 108
LINUX_SLL = 113
IPV4 = 228
IPV6 = 229
LINUX_SLL2 = 276

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPES_VLAN = (0x8100, 0x88A8, 0x9100, 0x9200)
VLAN_TAGS_MAX = 4
EXTENSION_HEADERS_MAX = 8
PROTOCOL_TCP = 6

OK = 0
UNKNOWN_LINK = 1
NOT_IP = 2
CUT_LINK = 3
BAD_IP = 4
FRAGMENT = 5
NOT_TCP = 6
CUT_TCP = 7
BAD_TCP = 8

SKIP_REASONS: tuple[str, ...] = (
    "",
    "link type is not known",
    "not an IP packet",
    "link header is cut",
    "IP header is damaged or cut",
    "IP fragment",
    "not a TCP packet",
    "TCP header is cut",
    "TCP header is damaged",
)
"""Reasons for packets without a TCP segment, by code."""

ADDRESSES_CACHED = 1 << 14


def _find_ip(link_type: int, data: bytes) -> tuple[int, int]:
    """Locate the IP header of a frame: (reason, offset); reason 0 if at least one byte of it was captured."""
    if link_type == ETHERNET:
        at, kind_at = 14, 12
    elif link_type == LINUX_SLL:
        at, kind_at = 16, 14
    elif link_type == LINUX_SLL2:
        at, kind_at = 20, 0
    elif link_type in (RAW, RAW_BSD, RAW_OPENBSD, IPV4, IPV6):
        return (OK, 0) if len(data) > 0 else (CUT_LINK, 0)
    elif link_type in (NULL, LOOP):
        return _find_ip_in_loopback(data)
    else:
        return UNKNOWN_LINK, 0
    if len(data) < at:
        return CUT_LINK, 0
    kind = data[kind_at] << 8 | data[kind_at + 1]
    for _ in range(VLAN_TAGS_MAX):
        if kind not in ETHERTYPES_VLAN:
            break
        if len(data) < at + 4:
            return CUT_LINK, 0
        kind = data[at + 2] << 8 | data[at + 3]
        at += 4
    if kind not in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        return NOT_IP, 0
    return (OK, at) if len(data) > at else (CUT_LINK, 0)


def _find_ip_in_loopback(data: bytes) -> tuple[int, int]:
    """Locate IP after a 4-byte address family in host byte order; the version nibble decides."""
    if len(data) <= 4:
        return CUT_LINK, 0
    return (OK, 4) if data[4] >> 4 in (4, 6) else (NOT_IP, 0)


def _read_ipv4(data: bytes, at: int, length: int) -> tuple[int, int, int, int]:
    """Return (reason, protocol, start of its header, end of the packet on the wire)."""
    if len(data) - at < 20:
        return BAD_IP, 0, 0, 0
    header_bytes = 4 * (data[at] & 15)
    total = data[at + 2] << 8 | data[at + 3]
    if header_bytes < 20 or (total and total < header_bytes):
        return BAD_IP, 0, 0, 0
    if (data[at + 6] << 8 | data[at + 7]) & 0x3FFF:
        return FRAGMENT, 0, 0, 0
    end = min(at + total, length) if total else length  # 0: segmentation offload
    return OK, data[at + 9], at + header_bytes, end


def _read_ipv6(data: bytes, at: int, length: int) -> tuple[int, int, int, int]:
    if len(data) - at < 40:
        return BAD_IP, 0, 0, 0
    payload = data[at + 4] << 8 | data[at + 5]
    end = min(at + 40 + payload, length) if payload else length
    protocol, start = data[at + 6], at + 40
    for _ in range(EXTENSION_HEADERS_MAX):
        if protocol not in (0, 43, 44, 51, 60):
            break
        if len(data) - start < 8:
            return BAD_IP, 0, 0, 0
        if protocol == 44 and (data[start + 2] << 8 | data[start + 3]) & 0xFFF9:
            return FRAGMENT, 0, 0, 0
        size = 8 if protocol == 44 else 4 * (data[start + 1] + 2) if protocol == 51 else 8 * (data[start + 1] + 1)
        protocol = data[start]
        start += size
    return OK, protocol, start, end


@lru_cache(maxsize=ADDRESSES_CACHED)
def address_text(packed: bytes) -> str:
    """Return the text of a packed IPv4 or IPv6 address."""
    return str(ip_address(packed))
