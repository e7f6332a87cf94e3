"""Which slot a key belongs to (R112, R113)."""

from __future__ import annotations

import base64

import crcmod.predefined
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster_core.slots.key_slot import hash_tag, key_slot

XMODEM = crcmod.predefined.mkCrcFun("xmodem")
KEYS = st.one_of(
    st.binary(max_size=200),
    st.text(alphabet="{}ab\x00", max_size=80).map(str.encode),
)


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


@given(KEYS)
@example(b"{" + b"x" * 64 + b"}")
def test_a_slot_is_the_crc_of_what_is_hashed(key: bytes) -> None:
    """R112: an independent library gives the same CRC."""
    tag = hash_tag(key)

    assert key_slot(key) == XMODEM(key if tag is None else tag) % 16384


@pytest.mark.parametrize("server", ["valkey_cluster_node", "redis_cluster_node"])
def test_a_real_server_gives_the_same_slots(server: str, request: pytest.FixtureRequest) -> None:
    """R112, R113: CLUSTER KEYSLOT is the oracle."""
    keys = [bytes([byte]) * length for byte in (0, 10, 123, 125, 255) for length in (1, 7, 8, 9, 70)]
    keys += [base64.b85encode(b"%d" % number) + b"{%d}{}" % number for number in range(200)]
    keys += [b"{}%d" % number for number in range(50)] + [b"a{b", b"a}b{", b"{{a}}", b"{\x00}\r\n", b""]
    node = request.getfixturevalue(server)

    slots = node.ask([("CLUSTER", "KEYSLOT", key) for key in keys])

    assert [key_slot(key) for key in keys] == slots
