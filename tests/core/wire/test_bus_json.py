"""A message and a row of a capture as JSON: nothing is lost, and nothing that is not one of them gets in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_capture import read_bus
from cluster_core.formats.capture.bus_lines import message_from_json, message_to_json, row_from_line, row_to_line
from cluster_core.wire.bus import decode_message, decode_partial, encode_message
from tests.builders.bus_builder import closing, conversation, every_kind, light, messages, pcap, ping


@pytest.mark.parametrize("message", every_kind(), ids=lambda message: message.name)
def test_every_kind_of_message_comes_back_without_its_raw_bytes(message: object) -> None:
    """What is understood needs no raw copy."""
    told = json.loads(json.dumps(message_to_json(message)))  # type: ignore[arg-type]

    assert "raw" not in told
    assert message_from_json(told) == message


@given(messages())
def test_any_message_comes_back(raw: bytes) -> None:
    """Also one that is not understood."""
    message = decode_message(raw)

    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message


@pytest.mark.parametrize("size", [16, 79, 80, 2255, 2256, 2300])
def test_the_beginning_of_a_message_comes_back(size: int) -> None:
    """Snap-length-truncated captures."""
    message = decode_partial(encode_message(ping())[:size])

    assert message_from_json(message_to_json(message)) == message


def test_every_kind_of_row_comes_back() -> None:
    """Messages, unknown bytes, gaps, connections, skipped packets, problems."""
    whole = encode_message(ping())
    sent = conversation([whole, b"lost" * 9, b"HTTP/1.1 200 OK\r\n", whole[:50]], [encode_message(light())])
    del sent[4]
    file = pcap([*sent, closing(sent[-1])]) + bytes(16) + b"cut"
    rows = [row for _, row in read_bus([("a", [file])])]

    assert [row_from_line(row_to_line(row)) for row in rows] == rows
    assert {json.loads(row_to_line(row))["row"] for row in rows} == {
        "message",
        "unknown",
        "gap",
        "connection",
        "skipped",
        "problem",
    }


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["ping", "message", "update"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["row", "type", "message", "raw", "slots", "gossip", "node"]), inner)
    ),
    max_leaves=8,
)


@given(_values)
def test_other_json_is_a_decode_error(value: object) -> None:
    """Lines come from outside."""
    with pytest.raises(DecodeError) as caught:
        row_from_line(json.dumps(value), line=7, source="a.jsonl")

    assert caught.value.offset == 7


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"row":"message"}', '{"row":"gap","count":"x"}', "\xff"])
def test_broken_lines_are_decode_errors(text: str) -> None:
    """Not JSON, too deep, or not all there."""
    with pytest.raises(DecodeError):
        row_from_line(text)


def test_a_message_of_numbers_out_of_range_is_a_decode_error() -> None:
    """A port has 16 bits, a bitmap 16384 slots."""
    for wrong in (
        {"port": 1 << 16},
        {"port": -1},
        {"slots": "0-16384"},
        {"sender": "x" * 41},
        {"totlen": 1},
        {"mflags": "00"},
    ):
        with pytest.raises(DecodeError):
            message_from_json({**message_to_json(ping()), **wrong})
