"""The serialization protocol: every value there and back, in pieces of any size, and bad bytes refused in time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.wire.resp import (
    LINE_BYTES_MAX,
    NESTING_MAX,
    Attributed,
    BigNumber,
    Push,
    RespError,
    RespMap,
    RespParser,
    RespSet,
    Verbatim,
    decode_values,
    encode_value,
)
from tests.benches.servers import redis_binary, running, valkey_binary

LINES = st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=20)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    LINES,
    st.binary(max_size=30),
    LINES.map(RespError),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=20).map(lambda text: RespError(text, bulk=True)),
    st.integers().map(BigNumber),
    st.tuples(st.sampled_from(["txt", "mkd"]), st.binary(max_size=20)).map(lambda parts: Verbatim(*parts)),
)


def aggregates(values: st.SearchStrategy) -> st.SearchStrategy:
    items = st.lists(values, max_size=4)
    pairs = st.lists(st.tuples(values, values), max_size=3).map(tuple)
    return st.one_of(
        items,
        items.map(tuple).map(RespSet),
        items.map(tuple).map(Push),
        pairs.map(RespMap),
        st.tuples(pairs, values).map(lambda parts: Attributed(*parts)),
    )


VALUES = st.recursive(SCALARS, aggregates, max_leaves=12)


@given(st.lists(VALUES, max_size=3))
def test_a_value_comes_back_from_its_bytes(values: list) -> None:
    """All types of RESP3."""
    raw = b"".join(encode_value(value) for value in values)

    decoded = decode_values(raw)

    assert decoded == values
    assert b"".join(encode_value(value) for value in decoded) == raw


@given(VALUES, st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_bytes_may_come_in_pieces_of_any_size(value: object, sizes: list[int]) -> None:
    """A piece that completes nothing yields nothing."""
    raw = encode_value([value, 1])
    parser = RespParser()
    found, at, turn = [], 0, 0
    while at < len(raw):
        size = sizes[turn % len(sizes)]
        found += parser.feed(raw[at : at + size])
        at, turn = at + size, turn + 1
    parser.close()

    assert found == [[value, 1]]


@given(VALUES)
def test_every_prefix_waits_and_is_truncated_at_the_end(value: object) -> None:
    """No prefix of one value is a value."""
    raw = encode_value([value])
    for end in range(1, len(raw)):
        parser = RespParser(source="socket")

        assert list(parser.feed(raw[:end])) == []
        with pytest.raises(TruncatedError, match=f"^socket: offset {end}: "):
            parser.close()


@given(st.one_of(st.binary(max_size=60), st.text("*$%~>|+-:,#_(!=0123456789\r\n", max_size=40).map(str.encode)))
def test_any_bytes_are_values_or_a_decode_error(raw: bytes) -> None:
    """Bytes from outside never crash."""
    offset = 0
    try:
        decode_values(raw)
    except DecodeError as fault:
        offset = fault.offset

    assert 0 <= offset <= len(raw)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"$-1\r\n", None),
        (b"*-1\r\n", None),
        (b":+7\r\n", 7),
        (b",1e3\r\n", 1000.0),
        (b",-inf\r\n", -math.inf),
        (b"+caf\xe9\r\n", "caf\udce9"),
        (b"*2\r\n*0\r\n%0\r\n", [[], RespMap(())]),
        (b"-MOVED 3999 127.0.0.1:6381\r\n", RespError("MOVED 3999 127.0.0.1:6381")),
        (b"|1\r\n+ttl\r\n:3\r\n$1\r\nx\r\n", Attributed((("ttl", 3),), b"x")),
    ],
)
def test_forms_that_servers_send_are_read(raw: bytes, value: object) -> None:
    """RESP2 nulls, plus signs, bytes that are not UTF-8, attributes."""
    assert decode_values(raw) == [value]


@pytest.mark.parametrize(
    ("raw", "offset", "reason"),
    [
        (b"?\r\n", 0, "begins no value"),
        (b"hello", 0, "begins no value"),
        (b":1\r\n:1_0\r\n", 4, "no 64-bit number"),
        (b":9223372036854775808\r\n", 0, "no 64-bit number"),
        (b"$-2\r\n", 0, "no length"),
        (b"$99999999999\r\n", 0, "no length"),
        (b"*9999999999\r\n", 0, "no length"),
        (b"$3\r\nabcd\r\n", 7, "no line end"),
        (b"#x\r\n", 0, "no boolean"),
        (b"_x\r\n", 0, "null with content"),
        (b",0x1p3\r\n", 0, "no double"),
        (b"(12x\r\n", 0, "no number"),
        (b"(" + b"9" * 5000 + b"\r\n", 0, "no number"),
        (b"=2\r\nab\r\n", 4, "without its format"),
        (b"+a\nb\r\n", 0, "line break"),
        (b"*1\r\n" * (NESTING_MAX + 1), 4 * NESTING_MAX, "within one another"),
        (b"|0\r\n" * (NESTING_MAX + 1), 4 * NESTING_MAX, "within one another"),
        (b"+" + b"a" * (LINE_BYTES_MAX + 2), 0, "longer than"),
        (b"$?\r\n", 0, "no length"),
    ],
)
def test_bad_bytes_are_refused_where_they_stand(raw: bytes, offset: int, reason: str) -> None:
    """Offset and reason name the fault, before memory is taken for what was only announced."""
    with pytest.raises(DecodeError, match=reason) as caught:
        decode_values(raw)

    assert caught.value.offset == offset
    assert not isinstance(caught.value, TruncatedError)


def test_offsets_count_from_the_start_of_the_stream() -> None:
    """Bytes that were used up count too, and a stream that failed stays failed."""
    parser = RespParser()
    assert list(parser.feed(b"+OK\r\n:1\r\n$2\r\nhi")) == ["OK", 1]
    with pytest.raises(DecodeError) as caught:
        list(parser.feed(b"\r\n?\r\n"))

    assert caught.value.offset == 17
    with pytest.raises(DecodeError, match="earlier error"):
        list(parser.feed(b"+OK\r\n"))


def test_a_long_line_in_small_pieces_is_searched_once() -> None:
    """A byte at a time up to the limit: the parser does not begin again at each."""
    parser = RespParser()
    for _ in range(LINE_BYTES_MAX):
        assert list(parser.feed(b"+")) == []
    assert list(parser.feed(b"\r\n")) == ["+" * (LINE_BYTES_MAX - 1)]


def test_resp2_has_flat_maps_and_numbers_for_booleans() -> None:
    """What a server sends to a client that did not say HELLO 3."""
    value = [RespMap(((b"a", True),)), RespSet((1.5,)), None, BigNumber(7), Verbatim("txt", b"x"), Attributed((), 1)]

    raw = encode_value(value, protocol=2)

    assert decode_values(raw) == [[[b"a", 1], [b"1.5"], None, b"7", b"x", 1]]


@pytest.mark.parametrize("value", ["a\r\nb", RespError("a\nb"), 2**63, Verbatim("text", b"")])
def test_what_has_no_form_is_refused(value: object) -> None:
    """Nothing is sent that would be read as something else."""
    with pytest.raises(ValueError, match=r"line break|64 bits|three characters"):
        encode_value(value)
    with pytest.raises(TypeError, match="set"):
        encode_value({1})


def test_a_value_that_holds_itself_is_refused() -> None:
    """Nesting is bounded on the way out too."""
    endless: list = []
    endless.append(endless)

    with pytest.raises(ValueError, match="within one another"):
        encode_value(endless)


@pytest.mark.long
@pytest.mark.parametrize("server", ["valkey_cluster_node", "redis_cluster_node"])
@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_of_a_real_server_come_back_byte_for_byte(
    server: str, protocol: int, request: pytest.FixtureRequest
) -> None:
    """COMMAND DOCS is the largest and deepest reply there is."""
    node = request.getfixturevalue(server)
    for command in (
        ["CLUSTER", "SHARDS"],
        ["COMMAND"],
        ["COMMAND", "DOCS"],
        ["CONFIG", "GET", "*"],
        ["LOLWUT"],
        ["NO"],
    ):
        raw = node.raw_reply(*command, protocol=protocol)

        (value,) = decode_values(raw)

        assert encode_value(value, protocol=protocol) == raw


@pytest.mark.servers
@pytest.mark.parametrize("binary", [valkey_binary, redis_binary])
def test_every_type_that_a_real_server_can_send_comes_back_byte_for_byte(binary: Callable[[], str | None]) -> None:
    """DEBUG PROTOCOL shows one value of each type of RESP3."""
    program = binary()
    if program is None:
        pytest.skip("the server is not installed")
    kinds = ["string", "integer", "double", "null", "array", "set", "map", "attrib", "verbatim", "true", "false"]
    kinds += ["bignum", "push"]
    with running(program, enable_debug_command="yes") as server:
        replies = {kind: server.raw_reply("DEBUG", "PROTOCOL", kind, protocol=3) for kind in kinds}

    values = {kind: decode_values(raw) for kind, raw in replies.items()}

    assert {kind: b"".join(map(encode_value, found)) for kind, found in values.items()} == replies
    types = {type(value) for found in values.values() for value in found}
    assert types >= {bytes, int, float, bool, type(None), list}
    assert types >= {RespSet, RespMap, Attributed, Verbatim, BigNumber, Push}
