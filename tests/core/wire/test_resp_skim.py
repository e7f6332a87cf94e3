"""Values cut without being kept; dumps skipped; a way back after gaps and strange beginnings."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.formats.capture.resp_capture import BULK_KEPT_MAX, WORD_BYTES_MAX, WORDS_MAX, RespSkimmer
from cluster_core.wire.resp import (
    DumpBegun,
    DumpEnded,
    Item,
    RespError,
    RespMap,
    RespSet,
    Skimmed,
    Unread,
    decode_values,
    encode_value,
)
from cluster_core.wire.tcp_stream import Mark

AT = Mark(1, 2, 3)
SET = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
REPLID = "a" * 40
DUMP = b"REDIS0010" + bytes(300) + b"\xff" + b"checksum"
END_MARK = b"0123456789" * 4

scalars = st.one_of(
    st.binary(max_size=300), st.none(), st.integers(-(2**63), 2**63 - 1), st.booleans(),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10).map(RespError),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(st.tuples(inner, inner), max_size=3).map(lambda pairs: RespMap(tuple(pairs))),
        st.lists(inner, max_size=3).map(lambda items: RespSet(tuple(items))),
    ),
    max_leaves=12,
)


def skimmed(data: bytes, step: int = 1 << 20, *, synced: bool = True) -> list[Item]:
    """Everything that *data* settles, fed in pieces of *step* bytes."""
    skimmer = RespSkimmer(synced=synced)
    found = [item for start in range(0, len(data), step) for item in skimmer.feed(data[start : start + step], AT)]
    return [*found, *skimmer.finish(AT)]


@given(st.lists(values, max_size=6), st.integers(1, 50), st.sampled_from([2, 3]))
def test_values_are_cut_where_the_parser_cuts_them_whatever_the_pieces(items, step: int, protocol: int) -> None:
    """The naive twin is `RespParser`, which keeps everything."""
    items = [item for item in items if not (isinstance(item, str) and item.startswith("FULLRESYNC "))]
    parts = [encode_value(item, protocol=protocol) for item in items]

    found = skimmed(b"".join(parts), step)

    assert [item.total for item in found if isinstance(item, Skimmed)] == [len(part) for part in parts]
    assert len(decode_values(b"".join(parts))) == len(found)


@given(st.lists(st.binary(max_size=400), min_size=1, max_size=30), st.integers(1, 60))
def test_of_a_command_the_first_words_are_kept_and_cut(words: list[bytes], step: int) -> None:
    """Memory is bounded by what is kept, not by what is sent."""
    (found,) = skimmed(encode_value(words), step)

    assert found.words == tuple(word[:WORD_BYTES_MAX] for word in words[:WORDS_MAX])
    assert found.elements == len(words)


def test_of_a_long_reply_the_beginning_is_kept() -> None:
    """INFO fits, a value of megabytes does not."""
    text = bytes(range(256)) * 4096

    (found,) = skimmed(encode_value(text), 1000)

    assert found.words == (text[:BULK_KEPT_MAX],)
    assert found.total == len(encode_value(text))


@pytest.mark.parametrize("step", [1, 3, 41, 10_000])
@pytest.mark.parametrize("by_mark", [True, False])
def test_a_dump_in_the_stream_is_skipped_and_what_follows_is_read(step: int, by_mark: bool) -> None:
    """+FULLRESYNC, newlines while the master saves, $LENGTH or $EOF:MARK (P3)."""
    head = b"$EOF:" + END_MARK if by_mark else b"$%d" % len(DUMP)
    tail = END_MARK if by_mark else b""
    data = b"+FULLRESYNC " + REPLID.encode() + b" 0\r\n\n\n" + head + b"\r\n" + DUMP + tail + SET

    found = skimmed(data, step)

    begun, ended, command = found[-3:]
    assert begun == DumpBegun(AT, None if by_mark else len(DUMP), len(head) + 2, len(data) - len(DUMP + tail + SET))
    assert ended == DumpEnded(AT, len(DUMP), DUMP[:256], True, len(data) - len(SET))
    assert command == Skimmed(AT, "array", (b"SET", b"k", b"v"), 3, len(SET), len(data))


def test_the_mark_inside_a_dump_does_not_end_it() -> None:
    """A replication id in the dump may look like the mark; the mark stands behind the opcode of the end."""
    dump = b"REDIS0010" + END_MARK + bytes(50) + b"\xff" + bytes(8)
    data = b"+FULLRESYNC x 0\r\n$EOF:" + END_MARK + b"\r\n" + dump + END_MARK + SET

    for step in (1, 7, 10_000):
        ended, command = skimmed(data, step)[-2:]

        assert isinstance(ended, DumpEnded)
        assert (ended.received, command.words[0]) == (len(dump), b"SET")


def test_the_answer_to_sync_is_a_dump_without_a_line_before_it() -> None:
    """SYNC, and Valkey's channel for the dump ($ENDOFF)."""
    skimmer = RespSkimmer()
    skimmer.expect_dump()

    old = skimmer.feed(b"$4\r\nDUMP" + SET, AT)
    channel = skimmed(b"+OK\r\n$ENDOFF:7 " + REPLID.encode() + b" 0 24\r\n$4\r\nDUMP")

    assert [type(item) for item in old] == [DumpBegun, DumpEnded, Skimmed]
    assert channel[1].words == (b"7 " + REPLID.encode() + b" 0 24",)
    assert [type(item) for item in channel[2:]] == [DumpBegun, DumpEnded]


def test_a_gap_inside_a_string_or_a_dump_loses_nothing_else() -> None:
    """Lengths say where it goes on."""
    string, dump = RespSkimmer(), RespSkimmer()

    string.feed(b"*2\r\n$3\r\nSET\r\n$100\r\nabc", AT)
    string.skip(90, AT)
    (command,) = string.feed(b"1234567\r\n", AT)
    dump.feed(b"+FULLRESYNC x 0\r\n$100\r\nREDIS", AT)
    dump.skip(90, AT)
    ended, after = dump.feed(b"12345" + SET, AT)

    assert (command.total, command.words[0]) == (20 + 100 + 2 - 1, b"SET")
    assert (ended.received, ended.complete, after.words[0]) == (100, False, b"SET")


def test_after_a_gap_it_finds_the_next_command_and_counts_what_it_missed() -> None:
    """Positions go on, so offsets do."""
    skimmer = RespSkimmer()
    first = skimmer.feed(SET, AT)
    skimmer.skip(100, AT)

    lost, found = skimmer.feed(b"tail of a value\r\n" + SET, AT)

    assert lost == Unread(AT, 117, lost.sample, len(SET) + 117)
    assert found.end == first[0].end + 117 + len(SET)


def test_a_direction_that_is_seen_from_its_middle_begins_at_a_value() -> None:
    """At the beginning of a segment, or behind a line end within one."""
    plain = skimmed(SET, synced=False)
    inner = skimmed(b"of a value\r\n" + SET, synced=False)

    assert [type(item) for item in plain] == [Skimmed]
    assert [type(item) for item in inner] == [Unread, Skimmed]


@pytest.mark.parametrize(
    "data",
    [
        b"$99999999999999999999\r\n", b"*-7\r\n", b"*" + b"1" * 70_000, b"*1\r\n" * 1000, b"$5\r\nabcdefghij", b"\x00\x01\x02",
        b"*99999999999\r\n$1\r\n", b"$-2\r\n", b"@what\r\n", b"PING" + b"x" * 70_000,
    ],
)  # fmt: skip
def test_lengths_that_lie_and_values_within_values_are_counted_not_believed(data: bytes) -> None:
    """Nothing raises, nothing is allocated for what is only announced, and the next command is found."""
    found = skimmed(data + b"\r\n" + SET, 997)

    assert found[-1].end == len(data) + 2 + len(SET)
    assert any(isinstance(item, Unread) for item in found)


@pytest.mark.long
def test_mutated_bytes_never_raise_and_are_all_accounted_for() -> None:
    """Seeded: every byte belongs to a value, a dump, its head, or is unread."""
    clean = b"+OK\r\n" + SET * 3 + b"+FULLRESYNC x 0\r\n$20\r\n" + bytes(20) + SET * 3 + b"$5\r\nhello\r\n:1\r\n"
    chance = random.Random(5)
    for _ in range(3000):
        data = bytearray(clean)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)

        found = skimmed(bytes(data), chance.randrange(1, 60))

        told = sum(
            item.count if isinstance(item, Unread) else item.received if isinstance(item, DumpEnded) else item.total
            for item in found
        )
        assert told == len(data)


def test_every_prefix_is_read_without_an_error() -> None:
    """A capture may end anywhere."""
    whole = b"+FULLRESYNC x 0\r\n$EOF:" + END_MARK + b"\r\n" + DUMP + END_MARK + SET
    assert skimmed(whole, 50)
    for end in range(len(whole)):
        for item in skimmed(whole[:end], 50):
            assert item.end <= end
