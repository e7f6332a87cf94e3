"""The backlog keeps the newest bytes of the stream (P1, P3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.replication.forecast import first_kept


def count_blocks(created: int, count: int, size_bytes: int, block_bytes: int) -> int:
    """The first byte that is left of *count*, which came one by one, where a full block goes once it is not needed."""
    first, blocks = created, [0]
    for _ in range(count):
        if blocks[-1] == (block_bytes or 1):
            blocks.append(0)
        blocks[-1] += 1
        needed = size_bytes + (
            1 if block_bytes else 0
        )  # the circle of old versions holds its size, blocks more than that
        while sum(blocks[1:]) >= needed:
            first += blocks.pop(0)
    return first


@given(st.integers(0, 300), st.integers(1, 60), st.integers(0, 12), st.integers(1, 1000))
def test_a_backlog_drops_its_first_block_once_the_others_hold_more_than_its_size(
    count, size_bytes, block_bytes, created
):
    """P1: the naive twin counts block by block."""
    assert first_kept(created, created + count - 1, size_bytes, block_bytes) == count_blocks(
        created, count, size_bytes, block_bytes
    )


@pytest.mark.parametrize(
    ("end", "block_bytes", "first"),
    [(319922, 20440, 245281), (319950, 16384, 245761), (6740, 20440, 1), (333494, 16384, 262145)],
)
def test_the_first_byte_is_the_one_that_real_servers_named(end: int, block_bytes: int, first: int) -> None:
    """repl_backlog_first_byte_offset of Redis 7.0 (jemalloc) and Valkey 9.1 (libc), backlog of 64 KiB."""
    assert first_kept(1, end, 65536, block_bytes) == first
