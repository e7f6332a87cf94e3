"""Capture files of either container give the packets that dpkt finds; damage is a problem with its place."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.formats.capture.pcap import CaptureProblem, CaptureReader, Packet
from tests.builders.bus_builder import SECOND_NS, START_NS, block, conversation, frame, pcap, pcapng

SENT = conversation([b"one", b"two" * 100], [b"three"])
FILES = {
    "pcap": pcap(SENT),
    "pcap ns big-endian": pcap(SENT, order=">", nanoseconds=True),
    "pcapng": pcapng(SENT),
    "pcapng ns big-endian": pcapng(SENT, order=">", tsresol=9),
    "pcapng 2^-20 s": pcapng(SENT, tsresol=0x94),
}


def read(file: bytes, piece: int = 1 << 20) -> list[Packet | CaptureProblem]:
    reader = CaptureReader()
    packets = [item for at in range(0, len(file), piece) for item in reader.feed(file[at : at + piece])]
    return [*packets, *reader.finish()]


@pytest.mark.parametrize("name", FILES)
def test_packets_equal_those_of_dpkt(name: str) -> None:
    dpkt = pytest.importorskip("dpkt")
    kind = dpkt.pcapng.Reader if "pcapng" in name else dpkt.pcap.Reader

    packets = read(FILES[name])

    theirs = list(kind(io.BytesIO(FILES[name])))
    assert [packet.data for packet in packets if isinstance(packet, Packet)] == [data for _, data in theirs]
    assert [packet.ts_ns for packet in packets if isinstance(packet, Packet)] == pytest.approx(
        [int(stamp * SECOND_NS) for stamp, _ in theirs], abs=1000
    )


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_file_may_come_in_pieces_of_any_size(name: str, piece: int) -> None:
    assert read(FILES[name], piece) == read(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_a_cut_file_keeps_the_packets_before_the_cut(name: str) -> None:
    file = FILES[name]
    whole = [packet for packet in read(file) if isinstance(packet, Packet)]
    assert whole
    for end in range(len(file)):
        items = read(file[:end])
        packets = [item for item in items if isinstance(item, Packet)]
        problems = [item for item in items if isinstance(item, CaptureProblem)]
        assert packets == whole[: len(packets)]
        assert len(problems) <= 1
        if problems and problems[0].skipped_bytes:
            assert problems[0].offset + problems[0].skipped_bytes == end


def test_nanoseconds_are_exact() -> None:
    sent = [SENT[0].__class__(**{**SENT[0].__dict__, "ts_ns": START_NS + 123_456_789})]

    for file in (pcap(sent, nanoseconds=True), pcapng(sent, tsresol=9)):
        (packet,) = read(file)
        assert isinstance(packet, Packet)
        assert packet.ts_ns == START_NS + 123_456_789


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (b"", "the file is empty"),
        (b"\x1f\x8b\x08\x00", "a gzip file: decompress it first"),
        (b"\x28\xb5\x2f\xfd", "a zstd file: decompress it first"),
        (b"GET / HTTP", "not a capture file (begins with 47455420)"),
    ],
)
def test_a_file_of_another_kind_is_named(start: bytes, reason: str) -> None:
    file = start + bytes(100) if start else b""

    assert read(file, 3) == [CaptureProblem(0, reason, len(file))]


def test_a_packet_of_an_impossible_size_stops_the_reading() -> None:
    """Lengths after it cannot be trusted; earlier packets are kept."""
    good = pcap(SENT[:1])
    file = good + struct.pack("<IIII", 0, 0, 1 << 30, 1 << 30) + bytes(50)

    assert read(file)[1:] == [CaptureProblem(len(good), f"packet claims {1 << 30} captured bytes", 66)]


def test_sections_and_interfaces_are_followed_and_old_packet_blocks_are_problems() -> None:
    """Two sections of different byte order, two interfaces with their own clocks and link types, OPB and SPB."""
    raw = frame(SENT[0], 101)
    second = block(1, struct.pack("<HHI", 101, 0, 20) + struct.pack("<HHB3x", 9, 1, 3))
    packet = block(6, struct.pack("<IIIII", 1, 0, 5000, len(raw), len(raw)) + raw)
    simple, old = (block(kind, struct.pack("<I", len(raw)) + raw) for kind in (3, 2))
    file = pcapng([]) + second + packet + block(0xBAD, b"whatever") + simple + old + pcapng(SENT[:1], order=">")

    packets = read(file)

    assert [(packet.ts_ns, packet.link_type, packet.data) for packet in packets if isinstance(packet, Packet)] == [
        (5 * SECOND_NS, 101, raw),
        (START_NS, 1, frame(SENT[0])),
    ]
    assert [packet.reason for packet in packets if isinstance(packet, CaptureProblem)] == [
        f"packet block of the unsupported type {kind}" for kind in (3, 2)
    ]


def test_a_packet_block_that_contradicts_itself_is_passed_over() -> None:
    """The block says where it ends."""
    bad = block(6, struct.pack("<IIIII", 9, 0, 0, 4, 4) + b"data")

    packets = read(pcapng(SENT[:1]) + bad)

    assert isinstance(packets[0], Packet)
    assert isinstance(packets[1], CaptureProblem)


@given(st.sampled_from(sorted(FILES)), st.data())
def test_damage_never_raises(name: str, data: st.DataObject) -> None:
    file = bytearray(FILES[name])
    for _ in range(4):
        file[data.draw(st.integers(0, len(file) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    assert read(bytes(file), 100) == read(bytes(file))
