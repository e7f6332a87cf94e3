"""RESP2 and RESP3: reader of replies, and the types of simulated replies.

Python forms: simple string ``str``, bulk and verbatim string ``bytes``, number ``int``, double ``float``, boolean ``bool``,
null ``None``, array, set and push ``list``, map ``dict``, error `RespError`; attributes are dropped. Streamed types are
errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cluster_core.errors import DecodeError, TruncatedError

NESTING_MAX: Final = 128
"""Maximum nesting of aggregates and attributes."""
_NUMBER: Final = re.compile(rb"[+-]?[0-9]{1,4000}")
_LENGTH: Final = re.compile(rb"-1|[0-9]{1,10}")

Value = Any
"""Any of the Python forms above."""


@dataclass(frozen=True, slots=True)
class RespError:
    """An error reply, such as ``MOVED 3999 127.0.0.1:6381``."""

    text: str


def read_info(text: bytes) -> dict[str, str]:
    """Return the fields of an INFO reply; other lines are skipped."""
    fields = {}
    for line in text.split(b"\n"):
        name, colon, value = line.strip().partition(b":")
        if colon and not name.startswith(b"#"):
            fields[name.decode("latin-1")] = value.decode("latin-1")
    return fields


def decode_values(data: bytes, *, source: str = "<bytes>") -> list[Value]:
    """Return all values of *data*; raises as `read_value`."""
    values, at = [], 0
    while at < len(data):
        value, at = read_value(data, at, source=source)
        values.append(value)
    return values


def read_value(data: bytes, at: int, *, source: str = "<bytes>", depth: int = 0) -> tuple[Value, int]:
    """Return the value at *at* and the position after it; DecodeError with an offset, TruncatedError if incomplete."""
    kind, end = data[at : at + 1], data.find(b"\r\n", at)
    if kind and kind not in b"$!=*~>%|+-:(,#_":
        raise DecodeError(f"{kind!r} is not the type of a RESP value", offset=at, source=source)
    if end < 0:
        raise TruncatedError("the input ends inside a value", offset=len(data), source=source)
    line, after = data[at + 1 : end], end + 2
    if kind in b"$!=*~>%|":
        if not _LENGTH.fullmatch(line):
            raise DecodeError(f"{line[:24]!r} is not a length", offset=at, source=source)
        count = int(line)
        if count < 0:
            return None, after
        if kind in b"$!=":
            return _read_string(data, kind, after, after + count, source)
        return _read_items(data, kind, after, count, source, depth)
    try:
        return _SCALARS[kind](line), after
    except (ValueError, KeyError):
        raise DecodeError(f"{line[:24]!r} is not a value of type {kind!r}", offset=at, source=source) from None


def _read_string(data: bytes, kind: bytes, begin: int, end: int, source: str) -> tuple[Value, int]:
    if len(data) < end + 2:
        raise TruncatedError("the input ends inside a value", offset=len(data), source=source)
    if data[end : end + 2] != b"\r\n":
        raise DecodeError(f"no line end after a string of {end - begin} bytes", offset=end, source=source)
    content = data[begin + 4 * (kind == b"=") : end]
    return RespError(_text(content)) if kind == b"!" else content, end + 2


def _read_items(data: bytes, kind: bytes, at: int, count: int, source: str, depth: int) -> tuple[Value, int]:
    if depth >= NESTING_MAX:
        raise DecodeError(f"values nested more than {NESTING_MAX} deep", offset=at, source=source)
    items, begin = [], at
    for _ in range(2 * count if kind in b"%|" else count):
        item, at = read_value(data, at, source=source, depth=depth + 1)
        items.append(item)
    if kind == b"|":
        return read_value(data, at, source=source, depth=depth + 1)
    if kind != b"%":
        return items, at
    if not all(isinstance(name, str | bytes) for name in items[::2]):
        raise DecodeError("a map with a name that is not text", offset=begin, source=source)
    return dict(zip(items[::2], items[1::2], strict=True)), at


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _read_number(line: bytes) -> int:
    if not _NUMBER.fullmatch(line):
        raise ValueError
    return int(line)


_SCALARS: dict[bytes, Callable[[bytes], Value]] = {
    b"+": _text,
    b"-": lambda line: RespError(_text(line)),
    b":": _read_number,
    b"(": _read_number,
    b",": lambda line: float(line.decode("ascii")),
    b"#": {b"t": True, b"f": False}.__getitem__,
    b"_": {b"": None}.__getitem__,
}
