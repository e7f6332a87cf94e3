"""The TCP segment of a frame, on every link type, is the one that dpkt finds."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.formats.capture.link_layers import SKIP_REASONS
from cluster_core.formats.capture.pcap import Packet
from tests.builders.bus_builder import Sent, frame
from tests.builders.edited_captures import segment_of

V4 = Sent(("10.0.0.1", 40000), ("10.0.0.2", 16379), 7, payload=b"payload", ack=9)
V6 = replace(V4, source=("fe80::1", 40000), target=("fe80::2", 16379))


def view_of(link_type: int, data: bytes, length: int) -> Any:
    return segment_of(Packet(0, link_type, data, length, 0))


def payload_of(view: Any, data: bytes) -> bytes:
    return data[view.start : view.start + view.length]


LINKS = [0, 1, 12, 14, 101, 108, 113, 228, 229, 276]


@pytest.mark.parametrize("link_type", LINKS)
@pytest.mark.parametrize("sent", [V4, V6], ids=["IPv4", "IPv6"])
def test_segments_are_read_on_every_link_type(link_type: int, sent: Sent) -> None:
    data = frame(sent, link_type)
    view = view_of(link_type, data, len(data))

    assert view.reason == 0
    assert (view.source_port, view.target_port) == (sent.source[1], sent.target[1])
    assert (view.seq, view.ack, view.tcp_flags, view.missing) == (7, 9, 0x18, 0)
    assert payload_of(view, data) == b"payload"


@pytest.mark.parametrize("vlans", [1, 2])
def test_vlan_tags_are_passed(vlans: int) -> None:
    """802.1Q and QinQ."""
    data = frame(V4, vlans=vlans)
    view = view_of(1, data, len(data))

    assert payload_of(view, data) == b"payload"


@given(st.binary(max_size=60), st.integers(0, 0xFFFFFFFF), st.integers(0, 10), st.booleans())
def test_ethernet_frames_are_read_as_dpkt_reads_them(payload: bytes, seq: int, padding: int, is_v6: bool) -> None:
    """Padding behind the IP packet is no payload."""
    dpkt = pytest.importorskip("dpkt")
    data = frame(replace(V6 if is_v6 else V4, payload=payload, seq=seq)) + bytes(padding)
    view = view_of(1, data, len(data))

    theirs = dpkt.ethernet.Ethernet(data).data.data
    assert (view.seq, view.source_port, payload_of(view, data)) == (theirs.seq, theirs.sport, bytes(theirs.data))


def test_ipv4_options_and_ipv6_extension_headers_are_passed() -> None:
    """RFC 791, RFC 8200: hop-by-hop, destination options, an atomic fragment."""
    ip = frame(V4, 101)
    longer = bytes([0x46]) + ip[1:2] + struct.pack(">H", len(ip) + 4) + ip[4:20] + b"\1\1\1\0" + ip[20:]
    view = view_of(101, longer, len(longer))
    assert payload_of(view, longer) == b"payload"

    ip6 = frame(V6, 101)
    headers = bytes([60, 0]) + bytes(6) + bytes([44, 1]) + bytes(14) + bytes([6, 0]) + bytes(6)
    longer = ip6[:4] + struct.pack(">HB", len(ip6) - 40 + len(headers), 0) + ip6[7:40] + headers + ip6[40:]
    view = view_of(101, longer, len(longer))
    assert payload_of(view, longer) == b"payload"


def test_a_frame_cut_by_the_snap_length_reports_missing_bytes() -> None:
    data = frame(V4)

    assert view_of(1, data[:-3], len(data)).missing == 3
    assert SKIP_REASONS[view_of(1, data[:40], len(data)).reason] == "TCP header is cut"


def test_frames_without_a_segment_have_a_reason() -> None:
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    udp = bytearray(frame(V4))
    udp[14 + 9] = 17
    fragment = bytearray(frame(V4))
    fragment[14 + 6 : 14 + 8] = b"\x20\x00"
    short = bytearray(frame(V4))
    short[14 + 20 + 12] = 0x40
    bad = bytearray(frame(V4))
    bad[14] = 0x41

    reasons = [
        SKIP_REASONS[view_of(link, bytes(data), len(data)).reason]
        for link, data in ((1, arp), (1, udp), (1, fragment), (1, short), (1, bad), (1, b"x"), (999, b"x" * 99))
    ]
    assert reasons == [
        "not an IP packet",
        "not a TCP packet",
        "IP fragment",
        "TCP header is damaged",
        "IP header is damaged or cut",
        "link header is cut",
        "link type is not known",
    ]


@given(st.sampled_from([*LINKS, 77]), st.binary(max_size=120), st.integers(0, 50))
def test_no_bytes_raise(link_type: int, data: bytes, more: int) -> None:
    view = view_of(link_type, data, len(data) + more)

    assert 0 <= view.start <= view.start + view.length <= len(data)
    assert view.missing >= 0
