"""Messages of the cluster bus: decoded by the rules, written back byte for byte, and never an exception inside one."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.wire.bus import (
    Fail,
    Gossip,
    Header,
    LightHeader,
    Message,
    PartialHeader,
    Publish,
    Unknown,
    Update,
    decode_message,
    decode_partial,
    drop_reason,
    encode_message,
    sized,
)
from cluster_core.wire.bus_message import HOSTNAME, ForgottenNode, text_extension
from tests.builders.bus_builder import ONE, TWO, bitmap, every_kind, gossip_message, light, message, messages, ping


@pytest.mark.parametrize("made", every_kind(), ids=lambda made: made.name)
def test_every_kind_of_message_is_understood_and_written_back(made: Message) -> None:
    """R3 to R15."""
    raw = encode_message(made)

    assert decode_message(raw) == made
    assert drop_reason(made) is None


@given(messages())
def test_accepted_messages_are_written_back_byte_for_byte(raw: bytes) -> None:
    assert encode_message(decode_message(raw)) == raw


@given(messages(), st.data())
def test_damage_inside_a_message_is_a_typed_part_or_a_decode_error(raw: bytes, data: st.DataObject) -> None:
    """R18: a server would drop it; here it is kept and reported."""
    damaged = bytearray(raw)
    for _ in range(3):
        damaged[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    damaged += data.draw(st.binary(max_size=20))

    try:
        decoded = decode_message(bytes(damaged))
    except DecodeError:
        return
    assert encode_message(decoded) == bytes(damaged)


def test_the_header_is_laid_out_as_the_rules_say() -> None:
    """R3, R20: offsets of fields, and a bit for each flag."""
    header = Header(
        port=1,
        type=1,
        current_epoch=2,
        config_epoch=3,
        offset=4,
        sender=ONE,
        myslots=bitmap(0, 9),
        replicaof=TWO,
        myip="::1",
        pport=5,
        cport=6,
        flags=7,
        state=1,
        mflags=b"\4\0\0",
    )
    raw = encode_message(Message(header, Gossip()))

    assert len(raw) == 2256
    assert raw[:16] == struct.pack(">4sIHHHH", b"RCmb", 2256, 1, 1, 1, 0)
    assert struct.unpack_from(">QQQ", raw, 16) == (2, 3, 4)
    assert (raw[40:80], raw[80:82]) == (ONE.encode(), b"\x01\x02")
    assert (raw[2128:2168], raw[2168:2172]) == (TWO.encode(), b"::1\0")
    assert struct.unpack_from(">HHHB3s", raw, 2246) == (5, 6, 7, 1, b"\4\0\0")
    assert [flag.value for flag in NodeFlags] == [1 << bit for bit in range(14)]


def test_a_light_publish_takes_32_bytes_and_names_no_sender() -> None:
    """R7: seen on the wire."""
    raw = encode_message(light())

    assert (len(raw), raw[12:14]) == (32, b"\x80\x04")
    decoded = decode_message(raw)
    assert decoded == Message(LightHeader(totlen=32), Publish(b"ch", b"hello1"))
    assert decoded.sender is None


def test_an_unknown_type_keeps_its_bytes() -> None:
    """R5: newer servers have more types."""
    raw = encode_message(sized(Message(Header(type=11), Unknown(b"new body", ""))))

    decoded = decode_message(raw)

    assert decoded.body == Unknown(b"new body", "type 11 is not known")
    assert decoded.name == "type-11"
    assert drop_reason(decoded) is None


@pytest.mark.parametrize("count", [3, 65535])
def test_an_overrunning_gossip_count_is_reported_and_whole_entries_are_kept(count: int) -> None:
    """R18; servers of VK91 reject it."""
    made = gossip_message(0, entries=2)
    raw = bytearray(encode_message(made))
    raw[14:16] = count.to_bytes(2, "big")

    decoded = decode_message(bytes(raw))

    assert decoded.body == made.body
    assert decoded.rest == Unknown(b"", f"gossip count {count} overruns the message after 2")
    assert drop_reason(decoded) == decoded.rest.reason
    assert encode_message(decoded) == raw


@pytest.mark.parametrize("length", [0, 7, 12, 4096, 0xFFFFFFFF])
def test_an_extension_of_an_impossible_length_is_kept_as_bytes(length: int) -> None:
    """R18: not a multiple of 8, or beyond the message."""
    made = gossip_message(0, extensions=[text_extension(HOSTNAME, "a"), text_extension(HOSTNAME, "b")])
    raw = bytearray(encode_message(made))
    raw[-16:-12] = length.to_bytes(4, "big")

    decoded = decode_message(bytes(raw))

    assert isinstance(decoded.body, Gossip)
    assert [extension.value for extension in decoded.body.extensions] == ["a"]
    assert decoded.rest == Unknown(bytes(raw[-16:]), f"extension 1 of 2 claims {length} bytes")
    assert encode_message(decoded) == raw


def test_extensions_are_read_only_with_the_senders_flag() -> None:
    """R15: EXT_DATA."""
    made = gossip_message(0, extensions=[text_extension(HOSTNAME, "a")])
    assert isinstance(made.header, Header)
    raw = encode_message(replace(made, header=replace(made.header, mflags=bytes(3))))

    decoded = decode_message(raw)

    assert decoded.rest == Unknown(raw[-16:], "1 extensions without the EXT_DATA flag")


def test_extension_values_are_read_by_type() -> None:
    """R15: the table of types."""
    decoded = decode_message(encode_message(every_kind()[0]))

    assert isinstance(decoded.body, Gossip)
    assert [(extension.type, extension.value) for extension in decoded.body.extensions] == [
        (0, "node-1.example"),
        (1, "first"),
        (2, ForgottenNode(TWO, 60)),
        (3, "a" * 40),
        (4, "10.0.0.1"),
        (5, "fe80::1"),
        (6, None),
    ]


@pytest.mark.parametrize("body", [Fail(TWO), Update(1, TWO, bitmap()), Publish(b"a", b"b")])
def test_a_body_that_is_too_short_for_its_type_is_kept_as_bytes(body: Fail | Update | Publish) -> None:
    """R10 to R12."""
    kinds = {Fail: 3, Update: 7, Publish: 4}
    raw = bytearray(encode_message(message(kinds[type(body)], body))[:-1])
    raw[4:8] = len(raw).to_bytes(4, "big")

    decoded = decode_message(bytes(raw))

    assert isinstance(decoded.body, Unknown)
    assert encode_message(decoded) == raw


def test_impossible_lengths_are_decode_errors_with_an_offset() -> None:
    """R17: a server closes the link."""
    raw = encode_message(ping())
    short = raw[:4] + (2255).to_bytes(4, "big") + raw[8:]

    for wrong, kind in (
        (raw[:15], TruncatedError),
        (raw[:-1], TruncatedError),
        (b"X" + raw, DecodeError),
        (short, DecodeError),
    ):
        with pytest.raises(kind) as caught:
            decode_message(wrong, offset=70, source="a.pcap")
        assert (caught.value.offset, caught.value.source) == (70, "a.pcap")


def test_bytes_behind_totlen_are_kept() -> None:
    decoded = decode_message(encode_message(ping()) + b"more")

    assert decoded.rest == Unknown(b"more", "4 bytes behind the body")
    assert encode_message(decoded)[-4:] == b"more"


@pytest.mark.parametrize("size", [16, 60, 79, 80, 2255])
def test_a_cut_header_has_the_fields_within_its_bytes(size: int) -> None:
    """Snap-length-truncated captures: nothing is made up."""
    raw = encode_message(ping(flags=0x11, current_epoch=7))[:size]

    decoded = decode_partial(raw)

    assert isinstance(decoded.header, PartialHeader)
    assert (decoded.sender, decoded.header.current_epoch) == ((ONE, 7) if size >= 80 else (None, None))
    assert encode_message(decoded) == raw


def test_gossip_entries_that_were_captured_whole_are_read() -> None:
    raw = encode_message(gossip_message(0, entries=3))

    decoded = decode_partial(raw[: 2256 + 104 + 50])

    assert isinstance(decoded.body, Gossip)
    assert len(decoded.body.entries) == 1
    assert decoded.rest == Unknown(raw[2256 + 104 : 2256 + 154], "2410 of 2568 bytes were captured")


def test_a_text_that_is_too_long_for_its_field_is_refused() -> None:
    """A wrong argument, not bytes from outside."""
    with pytest.raises(ValueError, match="longer than 40"):
        encode_message(ping("x" * 41))
