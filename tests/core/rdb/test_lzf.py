"""LZF: compressed data of the builder is expanded and followed; false lengths are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.rdb.atoms import expand_head, is_whole
from cluster_core.rdb.strings import expand
from tests.builders.rdb_builder import lzf

TEXTS = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 600)), min_size=1, max_size=5).map(
    lambda runs: b"".join(text + text[-1:] * count for text, count in runs)
)


def followed(packed: bytes, size: int) -> bool:
    """Whether the control bytes of *packed* give *size* bytes."""
    return bool(is_whole(np.frombuffer(packed, np.uint8), 0, len(packed), size))


@given(TEXTS)
def test_compressed_data_comes_back(raw: bytes):
    packed = lzf(raw)
    head = np.zeros(16, np.uint8)
    size = min(10, len(raw))

    assert expand(packed, len(raw)) == raw
    assert followed(packed, len(raw))
    assert expand_head(np.frombuffer(packed, np.uint8), 0, len(packed), head, size)
    assert head[:size].tobytes() == raw[:size]


def test_a_reference_may_reach_back_and_repeat_itself():
    assert expand(b"\x02abc\x40\x02", 7) == b"abcabca"


@pytest.mark.parametrize(
    ("packed", "size"),
    [(b"\x02ab", 3), (b"\x20\x00", 3), (b"\x00a\xe0", 9), (b"\x00a\x40\x05", 5), (b"\x02abc", 2), (b"\x02abc", 4)],
)
def test_false_lengths_are_refused(packed: bytes, size: int):
    with pytest.raises(ValueError, match=r"\w"):
        expand(packed, size)
    assert not followed(packed, size)
