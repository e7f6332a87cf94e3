"""RESP2 and RESP3: an incremental parser and an encoder.

Python forms: simple string ``str``, bulk string ``bytes``, number ``int``, double ``float``, boolean ``bool``, null
``None``, array ``list``; the other types are the classes below. Streamed strings and aggregates, which no server sends,
are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from cluster_core.errors import DecodeError, TruncatedError


def read_info(text: bytes) -> dict[str, str]:
    """Return the fields of an INFO reply; other lines are skipped."""
    fields = {}
    for line in text.split(b"\n"):
        name, colon, value = line.strip().partition(b":")
        if colon and not name.startswith(b"#"):
            fields[name.decode("latin-1")] = value.decode("latin-1")
    return fields


NESTING_MAX: Final = 128
"""Maximum nesting of aggregates and attributes."""
LINE_BYTES_MAX: Final = 64 * 1024
"""Maximum bytes of a line: a simple string, an error, a number or a length (`PROTO_INLINE_MAX_SIZE`)."""
BULK_BYTES_MAX: Final = 512 * 1024 * 1024
"""Maximum bytes of a bulk string (`proto-max-bulk-len`)."""
ELEMENTS_MAX: Final = 2**31 - 1
"""Maximum announced elements of an aggregate; memory is only allocated for elements that arrive."""
BIG_NUMBER_DIGITS_MAX: Final = 4000

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NUMBER = re.compile(rb"[+-]?[0-9]+")
_LENGTH = re.compile(rb"[0-9]{1,19}")
_PLAIN = re.compile(rb":(-?[0-9]{1,18})\r\n|\$([0-9]{1,6})\r\n|\*([1-9][0-9]{0,5})\r\n")
"""A number, or the head of a short string or array."""
_NUMBERS = re.compile(rb"(?::-?[0-9]{1,18}\r\n){2,}")
"""Replies to a pipeline of commands that count."""
_DOUBLE = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf|nan)")

Value = Any
"""Any of the Python forms above."""


@dataclass(frozen=True, slots=True)
class RespError:
    """An error reply, such as ``MOVED 3999 127.0.0.1:6381``; *bulk*: RESP3's form with a length."""

    text: str
    bulk: bool = False


@dataclass(frozen=True, slots=True)
class RespMap:
    """A map as pairs in the order sent; keys may have any type."""

    pairs: tuple[tuple[Value, Value], ...]


@dataclass(frozen=True, slots=True)
class RespSet:
    """A set in the order sent."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Push:
    """Out-of-band data (push)."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class BigNumber:
    """A number of any size."""

    number: int


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A string with its format of three characters, such as ``txt``."""

    form: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Attributed:
    """A value with the attributes that came before it."""

    attributes: tuple[tuple[Value, Value], ...]
    value: Value


@dataclass(slots=True)
class _Frame:
    """An aggregate with *missing* more values to come."""

    kind: int
    missing: int
    items: list[Value]


class RespParser:
    """Parses bytes, in pieces of any size, into values.

    Raises DecodeError with the offset in the stream; afterwards the parser refuses further input.
    """

    __slots__ = ("_base", "_buffer", "_failed", "_frames", "_need", "_position", "_scanned", "_source")

    def __init__(self, *, source: str = "<bytes>") -> None:
        self._source = source
        self._buffer = bytearray()
        self._base = 0  # offset of the buffer in the stream
        self._position = 0  # in the buffer: the first unused byte
        self._need = 0  # bytes from the position before the next step can succeed
        self._scanned = 0  # bytes from the position without a line end
        self._frames: list[_Frame] = []
        self._failed = False

    def feed(self, data: bytes) -> Iterator[Value]:
        """Take *data* and yield each value that is now complete; the iterator must be used up before the
        next call.
        """
        if self._position:
            del self._buffer[: self._position]
            self._base += self._position
            self._position = 0
        self._buffer += data
        while True:
            if not self._frames and not self._failed and (run := _NUMBERS.match(self._buffer, self._position)):
                self._move(run.end())
                yield from map(int, run[0][1:-2].split(b"\r\n:"))
            waiting, value = self._advance()
            if waiting:
                return
            yield value

    def close(self) -> None:
        """End the stream; raises TruncatedError if a value is incomplete."""
        if self._frames or self._position < len(self._buffer):
            offset = self._base + len(self._buffer)
            raise TruncatedError("the bytes end within a value", offset=offset, source=self._source)

    def _advance(self) -> tuple[bool, Value]:
        """Return (False, the next value), or (True, None) while bytes are missing."""
        if self._failed:
            raise self._error("an earlier error ended this stream", self._position)
        try:
            while len(self._buffer) - self._position >= max(self._need, 1):
                before = self._position
                complete, value = self._take_plain() if self._frames else (False, None)
                if self._position == before:
                    complete, value = self._step()
                if complete:
                    return False, value
        except DecodeError:
            self._failed = True
            raise
        return True, None

    def _take_plain(self) -> tuple[bool, Value]:
        """Parse a run of numbers, strings and arrays within an aggregate; (True, value) when a top-level value is
        complete. This fast path covers most replies.
        """
        buffer, position, frames = self._buffer, self._position, self._frames
        frame, done = frames[-1], (False, None)
        while not done[0] and (found := _PLAIN.match(buffer, position)):
            number, length, count = found.groups()
            after = found.end()
            if number is not None:
                frame.items.append(int(number))
            elif length is not None:
                body, after = after, after + int(length) + 2
                if buffer[after - 2 : after] != b"\r\n":
                    break
                frame.items.append(bytes(buffer[body : after - 2]))
            elif len(frames) >= NESTING_MAX:
                break
            else:
                frame = _Frame(_ARRAY, int(count), [])
                frames.append(frame)
                position = after
                continue
            position = after
            frame.missing -= 1
            if not frame.missing:
                done = self._close_frames()
                frame = frames[-1] if frames else frame
        if position != self._position:
            self._move(position)
        return done

    def _step(self) -> tuple[bool, Value]:
        """Parse one scalar or the head of one aggregate; (True, value) when a top-level value is complete."""
        start = self._position
        limit = start + 1 + LINE_BYTES_MAX + 2
        end = self._buffer.find(b"\r\n", start + max(self._scanned, 1), limit)
        if end < 0:
            if len(self._buffer) >= limit:
                raise self._error(f"a line longer than {LINE_BYTES_MAX} bytes", start)
            self._scanned = len(self._buffer) - start - 1  # the last byte may start a line end
            self._need = self._scanned + 2
            self._check_start(start)
            return False, None
        line = bytes(self._buffer[start + 1 : end])
        if b"\n" in line or b"\r" in line:
            raise self._error("a line break within a line", start)
        kind = self._buffer[start]
        if kind in _STRINGS:
            return self._string(kind, line, end + 2)
        if kind in _AGGREGATES:
            self._move(end + 2)
            return self._open(kind, line, start)
        reader = _SCALARS.get(kind)
        if reader is None:
            raise self._error(f"{bytes([kind])!r} begins no value", start)
        try:
            value = reader(line)
        except ValueError as problem:
            raise self._error(str(problem), start) from None
        self._move(end + 2)
        return self._complete(value)

    def _move(self, position: int) -> None:
        self._position, self._need, self._scanned = position, 0, 0

    def _check_start(self, start: int) -> None:
        kind = self._buffer[start]
        if kind not in _STRINGS and kind not in _AGGREGATES and kind not in _SCALARS:
            raise self._error(f"{bytes([kind])!r} begins no value", start)

    def _string(self, kind: int, line: bytes, body: int) -> tuple[bool, Value]:
        start = self._position
        if kind == _BULK and line == b"-1":
            self._move(body)
            return self._complete(None)
        length = self._length(line, BULK_BYTES_MAX, start)
        self._need = body - start + length + 2
        if len(self._buffer) - start < self._need:
            return False, None
        if self._buffer[body + length : body + length + 2] != b"\r\n":
            raise self._error(f"no line end after a string of {length} bytes", body + length)
        data = bytes(self._buffer[body : body + length])
        if kind == _VERBATIM and (length < 4 or data[3:4] != b":"):
            raise self._error("a verbatim string without its format", body)
        self._move(body + length + 2)
        if kind == _VERBATIM:
            return self._complete(Verbatim(data[:3].decode("latin-1"), data[4:]))
        return self._complete(RespError(_text(data), bulk=True) if kind == _BULK_ERROR else data)

    def _open(self, kind: int, line: bytes, start: int) -> tuple[bool, Value]:
        if kind == _ARRAY and line == b"-1":
            return self._complete(None)
        count = self._length(line, ELEMENTS_MAX, start)
        if len(self._frames) >= NESTING_MAX:
            raise self._error(f"more than {NESTING_MAX} values within one another", start)
        self._frames.append(_Frame(kind, count * 2 if kind in _PAIRED else count, []))
        return self._close_frames()

    def _complete(self, value: Value) -> tuple[bool, Value]:
        """Add a complete value to the innermost open aggregate."""
        if not self._frames:
            return True, value
        self._frames[-1].items.append(value)
        self._frames[-1].missing -= 1
        return self._close_frames()

    def _close_frames(self) -> tuple[bool, Value]:
        """Close complete aggregates, innermost first."""
        while not self._frames[-1].missing:
            frame = self._frames.pop()
            if frame.kind == _ATTRIBUTE:  # it waits for its value
                self._frames.append(_Frame(_ATTRIBUTED, 1, [_pairs(frame.items)]))
                break
            value = _BUILDERS[frame.kind](frame.items)
            if not self._frames:
                return True, value
            self._frames[-1].items.append(value)
            self._frames[-1].missing -= 1
        return False, None

    def _length(self, line: bytes, limit: int, start: int) -> int:
        if not _LENGTH.fullmatch(line) or int(line) > limit:
            raise self._error(f"{line[:24]!r} is no length from 0 to {limit}", start)
        return int(line)

    def _error(self, reason: str, position: int) -> DecodeError:
        return DecodeError(reason, offset=self._base + position, source=self._source)


def decode_values(data: bytes, *, source: str = "<bytes>") -> list[Value]:
    """Return all values of *data*; raises TruncatedError when the last is incomplete and DecodeError for
    other faults.
    """
    parser = RespParser(source=source)
    values = list(parser.feed(data))
    parser.close()
    return values


def encode_value(value: Value, *, protocol: int = 3) -> bytes:
    """Encode *value* as RESP2 (``protocol=2``) or RESP3.

    RESP2 sends maps (flat), sets and pushes as arrays, booleans as 1 and 0, doubles, big numbers and verbatim strings
    as bulk strings, and omits attributes, like servers. Raises ValueError for a line break in a simple string or error,
    a number beyond 64 bits or too deep nesting, TypeError for other types.
    """
    if protocol not in (2, 3):
        raise ValueError(f"protocol {protocol} is neither 2 nor 3")
    pieces: list[bytes] = []
    stack: list[tuple[Value, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        parts = _parts(item, protocol)
        if isinstance(parts, bytes):
            pieces.append(parts)
            continue
        if depth >= NESTING_MAX:
            raise ValueError(f"more than {NESTING_MAX} values within one another")
        head, children = parts
        pieces.append(head)
        stack.extend((child, depth + 1) for child in reversed(children))
    return b"".join(pieces)


def _parts(value: Value, protocol: int) -> bytes | tuple[bytes, list[Value]]:
    """Return a scalar's bytes, or an aggregate's head and its values."""
    if isinstance(value, list):
        return b"*%d\r\n" % len(value), value
    if isinstance(value, RespMap):
        return _flat(b"%", value.pairs, protocol)
    if isinstance(value, RespSet | Push):
        mark = b"*" if protocol == 2 else b"~" if isinstance(value, RespSet) else b">"
        return mark + b"%d\r\n" % len(value.items), list(value.items)
    if isinstance(value, Attributed):
        if protocol == 2:
            return b"", [value.value]
        head, children = _flat(b"|", value.attributes, protocol)
        return head, [*children, value.value]
    return _scalar(value, protocol)


def _flat(mark: bytes, pairs: tuple[tuple[Value, Value], ...], protocol: int) -> tuple[bytes, list[Value]]:
    head = b"*%d\r\n" % (2 * len(pairs)) if protocol == 2 else mark + b"%d\r\n" % len(pairs)
    return head, [item for pair in pairs for item in pair]


def _scalar(value: Value, protocol: int) -> bytes:
    match value:
        case None:
            return b"$-1\r\n" if protocol == 2 else b"_\r\n"
        case bool():
            return (b":%d\r\n" if protocol == 2 else b"#%c\r\n") % (int(value) if protocol == 2 else b"ft"[value])
        case int():
            if not _INT64_MIN <= value <= _INT64_MAX:
                raise ValueError("a number beyond 64 bits is a BigNumber")
            return b":%d\r\n" % value
        case float():
            digits = repr(value).encode()
            return _bulk(b"$", digits) if protocol == 2 else b"," + digits + b"\r\n"
        case bytes():
            return _bulk(b"$", value)
        case str():
            return _line(b"+", value)
        case RespError():
            return _bulk(b"!", _raw(value.text)) if value.bulk and protocol == 3 else _line(b"-", value.text)
        case BigNumber():
            digits = b"%d" % value.number
            return _bulk(b"$", digits) if protocol == 2 else b"(" + digits + b"\r\n"
        case Verbatim():
            if len(value.form) != 3:
                raise ValueError(f"the format {value.form!r} has not three characters")
            form = value.form.encode("latin-1") + b":"
            return _bulk(b"$", value.data) if protocol == 2 else _bulk(b"=", form + value.data)
        case _:
            raise TypeError(f"no RESP form for {type(value).__name__}")


def _bulk(mark: bytes, data: bytes) -> bytes:
    return mark + b"%d\r\n%b\r\n" % (len(data), data)


def _line(mark: bytes, text: str) -> bytes:
    if "\r" in text or "\n" in text:
        raise ValueError("a simple string or error holds no line break")
    return mark + _raw(text) + b"\r\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _read_number(line: bytes) -> int:
    if not _NUMBER.fullmatch(line) or len(line) > 20 or not _INT64_MIN <= int(line) <= _INT64_MAX:
        raise ValueError(f"{line[:24]!r} is no 64-bit number")
    return int(line)


def _read_big_number(line: bytes) -> BigNumber:
    if not _NUMBER.fullmatch(line) or len(line) > BIG_NUMBER_DIGITS_MAX:
        raise ValueError(f"{line[:24]!r} is no number of at most {BIG_NUMBER_DIGITS_MAX} digits")
    return BigNumber(int(line))


def _read_double(line: bytes) -> float:
    if not _DOUBLE.fullmatch(line):
        raise ValueError(f"{line[:24]!r} is no double")
    return float(line)


def _read_bool(line: bytes) -> bool:
    if line not in (b"t", b"f"):
        raise ValueError(f"{line[:24]!r} is no boolean")
    return line == b"t"


def _read_null(line: bytes) -> None:
    if line:
        raise ValueError("a null with content")


def _pairs(items: list[Value]) -> tuple[tuple[Value, Value], ...]:
    return tuple(zip(items[::2], items[1::2], strict=True))


_ARRAY, _MAP, _SET, _PUSH, _ATTRIBUTE = b"*%~>|"
_BULK, _BULK_ERROR, _VERBATIM = b"$!="
_ATTRIBUTED = 0  # no byte of the protocol: an attribute waiting for its value
_STRINGS = frozenset((_BULK, _BULK_ERROR, _VERBATIM))
_AGGREGATES = frozenset((_ARRAY, _MAP, _SET, _PUSH, _ATTRIBUTE))
_PAIRED = frozenset((_MAP, _ATTRIBUTE))
_SCALARS: dict[int, Callable[[bytes], Value]] = {
    ord("+"): _text,
    ord("-"): lambda line: RespError(_text(line)),
    ord(":"): _read_number,
    ord("("): _read_big_number,
    ord(","): _read_double,
    ord("#"): _read_bool,
    ord("_"): _read_null,
}
_BUILDERS: dict[int, Callable[[list[Value]], Value]] = {
    _ARRAY: lambda items: items,
    _MAP: lambda items: RespMap(_pairs(items)),
    _SET: lambda items: RespSet(tuple(items)),
    _PUSH: lambda items: Push(tuple(items)),
    _ATTRIBUTED: lambda items: Attributed(items[0], items[1]),
}
