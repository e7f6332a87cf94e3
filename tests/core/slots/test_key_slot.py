"""Which slot a key belongs to (R112, R113)."""

from __future__ import annotations

import pytest

from cluster_core.slots.key_slot import hash_tag, key_slot


@pytest.mark.parametrize(
    ("key", "tag"),
    [
        (b"", None),
        (b"plain", None),
        (b"{user}:1", b"user"),
        (b"a{b}c{d}", b"b"),
        (b"{}a{b}", None),
        (b"a{b", None),
        (b"a}b{c}", b"c"),
        (b"{{a}}", b"{a"),
        (b"a{b}}", b"b"),
        (b"\x00{\x00}\x00", b"\x00"),
        (b"}{", None),
    ],
)
def test_only_the_first_braces_with_something_between_make_a_hash_tag(key: bytes, tag: bytes | None) -> None:
    """R113: the first ``{`` and the first ``}`` after it, or the whole key."""
    assert hash_tag(key) == tag


def test_the_check_value_of_the_crc_is_the_published_one() -> None:
    """R112: CRC16/XMODEM of ``123456789`` is 0x31C3."""
    assert key_slot(b"123456789") == 0x31C3 & 16383
