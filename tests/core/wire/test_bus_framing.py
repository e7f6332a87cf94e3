"""Messages are cut from bytes in order.

After a gap or a strange beginning the reader gets back in step and says what it passed.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.wire.bus import encode_message
from cluster_core.wire.bus_framing import (
    MESSAGE_BYTES_MAX,
    BusFramer,
    Frame,
    PartialMessage,
    UnknownBytes,
    WholeMessage,
    looks_like,
)
from cluster_core.wire.tcp_stream import ByteOrigin
from tests.builders.bus_builder import every_kind, gossip_message, light, pieces_of, ping

RAWS = [encode_message(made) for made in every_kind()]
PING = encode_message(ping())
MARKS = [ByteOrigin(n, n, n) for n in range(100)]


def comparable(frames: list[Frame]) -> list[object]:
    """Frames without marks."""
    return [
        (frame.count, frame.looks_like) if isinstance(frame, UnknownBytes) else (type(frame).__name__[0], frame.raw)
        for frame in frames
    ]


@given(st.lists(st.integers(1, 4000), max_size=30))
def test_messages_come_out_whole_however_their_bytes_come_in(sizes: list[int]) -> None:
    """R1, R17: one message at a time."""
    framer = BusFramer(synced=True)
    frames = [frame for piece in pieces_of(b"".join(RAWS), sizes) for frame in framer.feed(piece, MARKS[0])]

    assert comparable(frames) == [("W", raw) for raw in RAWS]
    assert framer.finish(MARKS[0]) == []
    assert framer.plain


def test_a_message_belongs_to_the_bytes_that_complete_it() -> None:
    framer = BusFramer(synced=True)
    framer.feed(PING[:2000], MARKS[1])

    (frame,) = framer.feed(PING[2000:] + PING[:5], MARKS[2])

    assert frame == WholeMessage(PING, MARKS[2])


@pytest.mark.parametrize("lead", [b"x", PING[100:], b"RCmb" * 9, PING[:100], b"RCmb\0\0\0\x10\0\1\0\0\x80\x05\0\0"])
def test_a_capture_from_the_middle_is_in_step_at_the_next_message(lead: bytes) -> None:
    """Signature, length, version and type must all be believable."""
    framer = BusFramer(synced=False)
    frames = (
        framer.feed(lead + PING + RAWS[-1], MARKS[0]) if lead != PING[:100] else framer.feed(PING + RAWS[-1], MARKS[0])
    )

    assert comparable(frames)[-2:] == [("W", PING), ("W", RAWS[-1])]
    if lead != PING[:100]:
        assert isinstance(frames[0], UnknownBytes)
        assert frames[0].count == len(lead)


@pytest.mark.parametrize(
    ("beginning", "guess"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", "TLS: cannot be read"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"*1\r\n$4\r\nPING\r\n", "RESP"),
        (b"REDIS0011", "RDB"),
        (b"raft append 7\n", "text"),
        (b"\x00\x01\x02" * 9, "unknown bytes"),
    ],
)
def test_another_protocol_is_a_single_row_with_its_name(beginning: bytes, guess: str) -> None:
    """TLS says that it cannot be read."""
    beginning *= 5
    framer = BusFramer(synced=True)
    frames = [*framer.feed(beginning, MARKS[3]), *framer.feed(bytes(5000), MARKS[4]), *framer.finish(MARKS[5])]

    assert comparable(frames) == [(len(beginning) + 5000, guess)]
    assert frames[0].mark == MARKS[3]
    assert looks_like(beginning) == guess


@pytest.mark.parametrize(
    ("missing", "then", "expected"),
    [
        (1000, PING[1500:] + PING, [("W", PING)]),
        (len(PING) - 500, RAWS[11], [("W", RAWS[11])]),
        (9000, PING[30:] + PING, [(len(PING) - 30, "unknown bytes"), ("W", PING)]),
    ],
    ids=["inside a message", "up to its end", "beyond its end"],
)
def test_after_a_gap_the_reader_continues_at_the_next_message(
    missing: int, then: bytes, expected: list[object]
) -> None:
    """The length of the incomplete message gives the start of the next; a gap beyond it requires a search."""
    framer = BusFramer(synced=True)
    frames = [*framer.feed(PING[:500], MARKS[0]), *framer.skip(missing, MARKS[1]), *framer.feed(then, MARKS[2])]

    assert comparable(frames) == [("P", PING[:500]), *expected]
    assert isinstance(frames[0], PartialMessage)
    assert frames[0].totlen == len(PING)


def test_a_length_beyond_the_bound_is_damage() -> None:
    """The reader does not wait for 4 GB."""
    raw = bytearray(PING)
    raw[4:8] = (MESSAGE_BYTES_MAX + 1).to_bytes(4, "big")
    framer = BusFramer(synced=True)

    frames = framer.feed(bytes(raw) + PING, MARKS[0])

    assert comparable(frames) == [(len(PING), "damaged bus message"), ("W", PING)]


def test_bytes_left_at_the_end_are_reported() -> None:
    for raw, expected in ((PING[:17], ("P", PING[:17])), (PING[:9], (9, "damaged bus message"))):
        framer = BusFramer(synced=True)
        framer.feed(raw, MARKS[0])
        assert comparable(framer.finish(MARKS[1])) == [expected]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5000)), max_size=12), st.booleans())
def test_every_byte_is_in_a_row(steps: list[tuple[bool, int]], synced: bool) -> None:
    """Whatever is fed or missing.

    The rows' bytes are the bytes that were fed, but for those behind a partial message's head.
    """
    data = (b"".join(RAWS) + encode_message(gossip_message(1, entries=30)) + encode_message(light())) * 3
    framer, frames, fed, at = BusFramer(synced=synced), [], 0, 0
    for is_fed, size in steps:
        size = min(size, len(data) - at)
        if is_fed:
            frames += framer.feed(data[at : at + size], MARKS[0])
            fed += size
        else:
            frames += framer.skip(size, MARKS[0])
        at += size
    frames += framer.finish(MARKS[0])

    kept = sum(frame.count if isinstance(frame, UnknownBytes) else len(frame.raw) for frame in frames)
    behind_heads = sum(frame.totlen - len(frame.raw) for frame in frames if isinstance(frame, PartialMessage))
    assert kept <= fed <= kept + behind_heads
