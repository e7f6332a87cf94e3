"""Bytes of a direction come once and in order for any segments; missing bytes are a gap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster_core.wire.tcp_stream import (
    FIN,
    HELD_BYTES_MAX,
    HELD_SEGMENTS_MAX,
    HOLE_NS_MAX,
    JUMP_BYTES_MAX,
    SYN,
    ByteOrigin,
    Bytes,
    Gap,
    Segment,
    TcpStream,
)

DATA = bytes(range(256)) * 8


def segment(start: int, end: int, *, isn: int = 0, at_ns: int = 0, missing: int = 0) -> Segment:
    """Bytes *start* to *end* of DATA; the SYN has *isn*."""
    return Segment((isn + 1 + start) % (1 << 32), 0, DATA[start:end], missing, ByteOrigin(at_ns, start, end))


def stream(isn: int = 0) -> TcpStream:
    """A direction with a captured SYN."""
    return TcpStream(Segment(isn, SYN, b"", 0, ByteOrigin(0, 0, 0)))


def delivered(settled: list[Bytes | Gap]) -> bytes:
    """All bytes; there must be no gap."""
    assert all(isinstance(item, Bytes) for item in settled)
    return b"".join(item.payload for item in settled if isinstance(item, Bytes))


@given(st.data(), st.sampled_from([0, 7, (1 << 32) - 700]))
def test_reordered_repeated_and_overlapping_segments_give_the_bytes_once(data: st.DataObject, isn: int) -> None:
    """RFC 9293: sequence numbers decide; they wrap around."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(DATA) - 1), max_size=8)))
    parts = list(zip([0, *cuts], [*cuts, len(DATA)], strict=True))
    extra = data.draw(st.lists(st.tuples(st.integers(0, 1000), st.integers(1001, len(DATA))), max_size=3))
    direction = stream(isn)

    settled = [
        item for part in data.draw(st.permutations(parts + extra)) for item in direction.handle(segment(*part, isn=isn))
    ]

    assert delivered(settled + direction.finish()) == DATA
    assert direction.plain
    assert direction.repeated_bytes == sum(end - start for start, end in extra)


def test_a_segment_that_fills_a_hole_marks_the_waiting_bytes() -> None:
    """Only then could the receiver read it."""
    direction = stream()
    direction.handle(segment(10, 20, at_ns=1))

    settled = direction.handle(segment(0, 10, at_ns=5))

    assert [item.mark.ts_ns for item in settled] == [5, 5]


def test_a_hole_that_stays_open_too_long_is_a_gap() -> None:
    direction = stream()
    direction.handle(segment(10, 20, at_ns=1))
    late = direction.handle(segment(30, 40, at_ns=HOLE_NS_MAX + 2))

    assert late[:2] == [
        Gap(1, 11, 10, "not in the capture", ByteOrigin(1, 10, 20)),
        Bytes(DATA[10:20], ByteOrigin(1, 10, 20)),
    ]

    for count, size in ((HELD_SEGMENTS_MAX + 1, 1), (HELD_BYTES_MAX // 1000 + 1, 1000)):
        direction = stream()
        settled = [
            item
            for number in range(count)
            for item in direction.handle(Segment(100 + number * size, 0, bytes(size), 0, ByteOrigin(0, 0, 0)))
        ]
        assert isinstance(settled[0], Gap)
        assert settled[0].count == 99


def test_bytes_cut_by_the_snap_length_are_a_gap_behind_the_segment() -> None:
    direction = stream()

    settled = direction.handle(segment(0, 100, missing=50)) + direction.handle(segment(150, 160))

    assert settled == [
        Bytes(DATA[:100], ByteOrigin(0, 0, 100)),
        Gap(101, 151, 50, "cut by the snap length", ByteOrigin(0, 0, 100)),
        Bytes(DATA[150:160], ByteOrigin(0, 150, 160)),
    ]


def test_a_sequence_number_out_of_any_window_is_a_jump() -> None:
    """Another stream on the same ports, or a damaged packet."""
    direction = stream()
    direction.handle(segment(0, 10))
    far = Segment(JUMP_BYTES_MAX + 12, 0, b"far", 0, ByteOrigin(0, 0, 0))

    assert direction.handle(far) == [
        Gap(11, JUMP_BYTES_MAX + 12, None, "sequence number jumps", ByteOrigin(0, 0, 0)),
        Bytes(b"far", ByteOrigin(0, 0, 0)),
    ]


def test_a_direction_without_its_syn_begins_with_the_first_segment() -> None:
    first = Segment(1000, 0, b"abc", 0, ByteOrigin(0, 0, 0))
    direction = TcpStream(first)

    assert delivered(direction.handle(first)) == b"abc"
    assert not direction.saw_syn


def test_a_hole_that_the_other_side_acknowledges_is_a_gap_at_once() -> None:
    """RFC 9293, 3.10.7.4: an acknowledgement covers all bytes before it; they are not sent again. Later bytes came in time."""
    direction = stream()
    direction.handle(segment(10, 20, at_ns=1))
    direction.handle(segment(20, 30, at_ns=2))

    assert direction.acknowledge(10, 3) == []
    assert direction.acknowledge(31, 3) == [
        Gap(1, 11, 10, "not in the capture", ByteOrigin(1, 10, 20)),
        Bytes(DATA[10:20], ByteOrigin(1, 10, 20)),
        Bytes(DATA[20:30], ByteOrigin(2, 20, 30)),
    ]
    assert direction.plain


def test_a_capture_that_begins_with_a_keep_alive_lacks_no_byte() -> None:
    """RFC 9293, 3.8.4: a keep-alive has a sequence number that was sent before, and no byte."""
    direction = TcpStream(segment(9, 9))

    assert direction.handle(segment(10, 20)) == [Bytes(DATA[10:20], ByteOrigin(0, 10, 20))]


def test_a_fin_shows_missing_bytes_before_it() -> None:
    """Its sequence number is the one behind the last byte."""
    direction = stream()
    direction.handle(segment(0, 10))

    last = Segment(31, FIN, b"", 0, ByteOrigin(4, 5, 6))

    assert direction.handle(last) == []
    assert direction.acknowledge(32, 5) == [Gap(11, 31, 20, "not in the capture", ByteOrigin(4, 5, 6))]
