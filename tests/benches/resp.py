"""RESP of simulated servers: what clients send, in pieces, and replies as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cluster_core.errors import TruncatedError
from cluster_core.wire.resp import RespError, read_value


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A string with its format of three characters, such as ``txt``."""

    form: str
    data: bytes


class RespParser:
    """Takes bytes in pieces and returns the values that they complete; raises DecodeError for bad bytes."""

    def __init__(self, *, source: str = "<bytes>") -> None:
        self._source, self._data = source, b""

    def feed(self, data: bytes) -> list[Any]:
        self._data, values, at = self._data + data, [], 0
        while at < len(self._data):
            try:
                value, at = read_value(self._data, at, source=self._source)
            except TruncatedError:
                break
            values.append(value)
        self._data = self._data[at:]
        return values


def encode_value(value: Any, *, protocol: int = 2) -> bytes:
    """The bytes of a reply; raises TypeError for other values."""
    match value:
        case None:
            return b"$-1\r\n" if protocol == 2 else b"_\r\n"
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(value), value)
        case str():
            return b"+%b\r\n" % _line(value)
        case RespError():
            return b"-%b\r\n" % _line(value.text)
        case Verbatim() if protocol == 2:
            return encode_value(value.data)
        case Verbatim():
            return b"=%d\r\n%b:%b\r\n" % (len(value.data) + 4, value.form.encode(), value.data)
        case list():
            return b"*%d\r\n" % len(value) + b"".join(encode_value(item, protocol=protocol) for item in value)
    raise TypeError(f"no RESP form for {type(value).__name__}")


def _line(text: str) -> bytes:
    assert "\r" not in text
    assert "\n" not in text
    return text.encode("utf-8", "surrogateescape")
