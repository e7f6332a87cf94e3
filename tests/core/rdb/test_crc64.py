"""CRC-64/Redis: the known value, any alignment, and pieces joined."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rdb.crc64 import POLYNOMIAL, combine_crc64, crc64

SEEDS = st.integers(0, (1 << 64) - 1)


def test_the_check_value_is_that_of_the_servers_source():
    """`crc64.c`, crc64Test."""
    assert crc64(b"123456789") == 0xE9C6D914C4B8D9CA


@settings(deadline=None)
@given(st.binary(max_size=300), SEEDS, st.integers(0, 9))
def test_bytes_at_any_alignment_are_divided_by_the_polynomial(data: bytes, seed: int, lead: int):
    padded = np.frombuffer(bytes(lead) + data, dtype=np.uint8)
    expected = seed
    for byte in data:
        expected ^= byte
        for _ in range(8):
            expected = expected >> 1 ^ (POLYNOMIAL if expected & 1 else 0)

    assert crc64(padded[lead:], seed) == crc64(data, seed) == expected


@given(st.binary(max_size=100), st.binary(max_size=300), SEEDS)
def test_two_pieces_combine(first: bytes, second: bytes, seed: int):
    assert combine_crc64(crc64(first, seed), crc64(second), len(second)) == crc64(first + second, seed)


def test_a_piece_of_negative_length_is_refused():
    with pytest.raises(ValueError, match="-1"):
        combine_crc64(1, 2, -1)
