"""Replies in RESP: every type, incomplete values, and bad bytes refused where they stand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.wire.resp import NESTING_MAX, RespError, decode_values

EVERY = b"*9\r\n$2\r\nhi\r\n+OK\r\n:-7\r\n%1\r\n+a\r\n#t\r\n~1\r\n,1.5\r\n>1\r\n_\r\n=5\r\ntxt:x\r\n!3\r\nERR\r\n|1\r\n+ttl\r\n:3\r\n(99\r\n"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (EVERY, [b"hi", "OK", -7, {"a": True}, [1.5], [None], b"x", RespError("ERR"), 99]),
        (b"$-1\r\n", None),
        (b"*-1\r\n", None),
        (b":+7\r\n", 7),
        (b",-inf\r\n", -math.inf),
        (b"+caf\xe9\r\n", "caf\udce9"),
        (b"*2\r\n*0\r\n%0\r\n", [[], {}]),
        (b"-MOVED 3999 127.0.0.1:6381\r\n", RespError("MOVED 3999 127.0.0.1:6381")),
    ],
)
def test_forms_that_servers_send_are_read(raw: bytes, value: object) -> None:
    assert decode_values(2 * raw) == [value, value]


def test_every_beginning_of_a_value_is_truncated() -> None:
    for end in range(1, len(EVERY)):
        with pytest.raises(TruncatedError, match=r"^socket: offset"):
            decode_values(EVERY[:end], source="socket")


@given(st.one_of(st.binary(max_size=60), st.text("*$%~>|+-:,#_(!=0123456789\r\n", max_size=40).map(str.encode)))
def test_any_bytes_are_values_or_a_decode_error(raw: bytes) -> None:
    offset = 0
    try:
        decode_values(raw)
    except DecodeError as fault:
        offset = fault.offset

    assert 0 <= offset <= len(raw)


@pytest.mark.parametrize(
    ("raw", "offset", "reason"),
    [
        (b"?\r\n", 0, "is not the type of a RESP value"),
        (b"hello", 0, "is not the type of a RESP value"),
        (b":1\r\n:1_0\r\n", 4, "not a value of type"),
        (b"$-2\r\n", 0, "not a length"),
        (b"$99999999999\r\n", 0, "not a length"),
        (b"$3\r\nabcd\r\n", 7, "no line end"),
        (b"#x\r\n", 0, "not a value of type"),
        (b"_x\r\n", 0, "not a value of type"),
        (b",0x1p3\r\n", 0, "not a value of type"),
        (b"(" + b"9" * 5000 + b"\r\n", 0, "not a value of type"),
        (b"*1\r\n" * (NESTING_MAX + 1), 4 * (NESTING_MAX + 1), "nested more than"),
        (b"$?\r\n", 0, "not a length"),
        (b"%1\r\n*0\r\n:1\r\n", 4, "a name that is not text"),
    ],
)
def test_bad_bytes_are_refused_where_they_stand(raw: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        decode_values(raw)

    assert caught.value.offset == offset
    assert not isinstance(caught.value, TruncatedError)
