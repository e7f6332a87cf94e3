"""The backlog keeps the newest bytes of the stream (P1, P3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import ClusterCoreError
from cluster_core.replication.backlog import Backlog, first_kept

pieces = st.lists(st.binary(max_size=40), max_size=30)


@given(pieces, st.integers(1, 60), st.integers(0, 12), st.integers(1, 1000))
def test_a_backlog_holds_the_end_of_the_stream_whatever_the_pieces(parts, size_bytes, block_bytes, created) -> None:
    """P1: the naive twin keeps everything."""
    backlog, whole = Backlog(size_bytes, created, block_bytes=block_bytes), b"".join(parts)

    for part in parts:
        backlog.feed(part)

    first = first_kept(created, created + len(whole) - 1, size_bytes, block_bytes)
    assert backlog.first_offset == first
    assert backlog.next_offset == created + len(whole)
    assert backlog.read_from(first) == whole[first - created :]
    assert backlog.length >= min(len(whole), size_bytes)


@given(pieces, st.integers(1, 60), st.integers(1, 12), st.integers(-5, 1300))
def test_what_it_holds_can_be_read_and_nothing_else(parts, size_bytes, block_bytes, offset) -> None:
    """P3: first ≤ offset ≤ first + length; the byte that comes next is asked for by who has everything."""
    backlog, whole = Backlog(size_bytes, 1, block_bytes=block_bytes), b"".join(parts)
    for part in parts:
        backlog.feed(part)

    if backlog.first_offset <= offset <= backlog.next_offset:
        assert backlog.holds(offset)
        assert backlog.read_from(offset) == whole[offset - 1 :]
    else:
        assert not backlog.holds(offset)
        with pytest.raises(ClusterCoreError):
            backlog.read_from(offset)


def test_a_smaller_size_lets_the_oldest_blocks_go() -> None:
    """CONFIG SET repl-backlog-size."""
    backlog = Backlog(100, 1, block_bytes=10)
    backlog.feed(bytes(100))

    backlog.resize(25)

    assert (backlog.first_offset, backlog.length) == (71, 30)


@pytest.mark.parametrize(
    ("end", "block_bytes", "first"),
    [(319922, 20440, 245281), (319950, 16384, 245761), (6740, 20440, 1), (333494, 16384, 262145)],
)
def test_the_first_byte_is_the_one_that_real_servers_named(end: int, block_bytes: int, first: int) -> None:
    """repl_backlog_first_byte_offset of Redis 7.0 (jemalloc) and Valkey 9.1 (libc), backlog of 64 KiB."""
    assert first_kept(1, end, 65536, block_bytes) == first


def test_a_backlog_without_room_is_refused() -> None:
    """A size of nothing is no backlog."""
    with pytest.raises(ClusterCoreError):
        Backlog(0, 1)
    with pytest.raises(ClusterCoreError):
        Backlog(10, 1).resize(0)
