"""LZF: what the builder compresses is expanded, followed and checked piece by piece."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.rdb.strings import expand
from tests.builders.rdb_builder import lzf
from tests.reference.rdb.lzf import Check, expand_head, is_whole

TEXTS = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 600)), min_size=1, max_size=5).map(
    lambda runs: b"".join(text + text[-1:] * count for text, count in runs)
)


@given(TEXTS)
def test_what_was_compressed_comes_back(raw: bytes):
    packed = lzf(raw)

    assert expand(packed, len(raw)) == raw
    assert is_whole(packed, 0, len(packed), len(raw))
    assert expand_head(packed, min(10, len(raw))) == raw[:10]


@given(TEXTS, st.integers(1, 9))
def test_the_check_may_stop_anywhere(raw: bytes, step: int):
    packed = lzf(raw)
    check = Check(len(packed), len(raw))
    at = 0

    for stop in [*range(0, len(packed), step), len(packed)]:
        at = check.go(packed[:stop], at)

    assert (check.left, at) == (0, len(packed))


def test_a_reference_may_reach_back_and_repeat_itself():
    assert expand(b"\x02abc\x40\x02", 7) == b"abcabca"


@pytest.mark.parametrize(
    ("packed", "size"),
    [(b"\x02ab", 3), (b"\x20\x00", 3), (b"\x00a\xe0", 9), (b"\x00a\x40\x05", 5), (b"\x02abc", 2), (b"\x02abc", 4)],
)
def test_a_lie_is_refused(packed: bytes, size: int):
    with pytest.raises(ValueError, match=r"\w"):
        expand(packed, size)
    assert not is_whole(packed, 0, len(packed), size)
