"""HyperLogLogs grow as the servers' do (`hyperloglog.c`)."""

from __future__ import annotations

import pytest

from cluster_core.aof.strings import (
    DENSE_BYTES,
    EMPTY,
    add_to,
    is_hyperloglog,
    registers_of,
)


def test_an_empty_one_has_one_run_of_zeros():
    assert is_hyperloglog(EMPTY)
    assert len(EMPTY) == 18
    assert registers_of(EMPTY) == bytearray(16384)


@pytest.mark.long
def test_elements_make_it_longer_until_it_is_dense():
    """Sparse up to 3000 bytes, then 12304 for good."""
    value = EMPTY
    lengths = []
    for first in range(0, 4000, 250):
        value = add_to(value, [b"e%d" % number for number in range(first, first + 250)])
        lengths.append(len(value))

    sparse = [length for length in lengths if length != DENSE_BYTES]
    assert 0 < max(sparse) <= 3000
    assert lengths[len(sparse) :] == [DENSE_BYTES] * (len(lengths) - len(sparse))


def test_a_damaged_one_is_an_error():
    with pytest.raises(ValueError, match="16384"):
        registers_of(EMPTY[:-2] + b"\x7f\xfe")
