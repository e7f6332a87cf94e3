"""CRC-64/Redis: the known value, both twins, and pieces joined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rdb.batch_crc64 import crc64 as batch_crc64
from cluster_core.rdb.crc64 import combine_crc64, crc64

SEEDS = st.integers(0, (1 << 64) - 1)


def test_the_check_value_is_that_of_the_servers_source():
    """`crc64.c`, crc64Test."""
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA


@settings(deadline=None)
@given(st.binary(max_size=300), SEEDS, st.integers(0, 9))
def test_the_batch_twin_agrees_at_any_alignment(data: bytes, seed: int, lead: int):
    padded = np.frombuffer(bytes(lead) + data, dtype=np.uint8)

    assert batch_crc64(padded[lead:], seed) == crc64(data, seed)


@given(st.binary(max_size=100), st.binary(max_size=300), SEEDS)
def test_two_pieces_combine(first: bytes, second: bytes, seed: int):
    assert combine_crc64(crc64(first, seed), crc64(second), len(second)) == crc64(first + second, seed)


def test_a_piece_of_negative_length_is_refused():
    with pytest.raises(ValueError, match="-1"):
        combine_crc64(1, 2, -1)
