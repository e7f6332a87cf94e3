"""Values of a state, from the bytes that `state_writer` made of them; every length is checked against what is there."""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.kernels.saved_arrays import SavedArray, restored_array
from cluster_core.replay.evidence import readable_part
from cluster_core.replay.state_writer import COUNT, DOUBLE, NESTING_MAX, class_of
from cluster_core.wire.bus import Message, decode_message, decode_partial

INT_BYTES_MAX: Final = 4096
"""A slot bitmap has 2048."""
_INT64: Final = struct.Struct("<q")


class Reader:
    """Reads what `Writer` wrote; every length is checked against what is there."""

    def __init__(self, body: bytes, raw: bytes) -> None:
        self._body, self._raw = body, raw
        self._at = self._raw_at = 0
        self._kept: list[Any] = []
        self._classes: list[type] = []
        self._shapes: list[tuple[type, list[str], list[str]]] = []
        self._texts: list[str] = []
        self._depth = 0

    def whole(self) -> Any:
        """Return the one value of the body."""
        value = self.read()
        if self._at != len(self._body) or self._raw_at != len(self._raw):
            raise self._error("bytes after the end of a state")
        return value

    def read(self) -> Any:
        """Return the next value."""
        at = self._at
        tag = self._body[at : at + 1]
        if tag == b"i":
            self._at = at + 9
            return _INT64.unpack_from(self._body, at + 1)[0]
        if not tag:
            raise self._error("a state that ends within a value")
        self._at = at + 1
        reader = _READERS.get(tag)
        if reader is None:
            raise self._error(f"{tag!r} begins no value")
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self._error("a state that is nested too deeply")
        value = reader(self, tag)
        self._depth -= 1
        return value

    def _error(self, reason: str) -> DecodeError:
        return DecodeError(reason, offset=self._at)

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._body):
            raise self._error("a state that ends within a value")
        raw, self._at = self._body[self._at : end], end
        return raw

    def _count(self) -> int:
        """A number of things that take a byte each at least."""
        count: int = COUNT.unpack(self._take(COUNT.size))[0]
        if count > len(self._body) - self._at:
            raise self._error("a state that ends within a value")
        return count

    def _bytes(self) -> bytes:
        return self._take(self._count())

    def _raw_bytes(self, tag: bytes) -> bytes:
        at, self._raw_at = self._raw_at, self._raw_at + self._number()
        if self._raw_at > len(self._raw):
            raise self._error("a state that ends within a value")
        return self._raw[at : self._raw_at]

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _number(self) -> int:
        return int(COUNT.unpack(self._take(COUNT.size))[0])

    def _text(self, tag: bytes) -> str:
        text = self._bytes().decode("utf-8", "surrogatepass")
        self._texts.append(text)
        return text

    def _int(self, tag: bytes) -> int:
        raw = self._bytes()
        if len(raw) > INT_BYTES_MAX:
            raise self._error(f"a number of {len(raw)} bytes")
        return int.from_bytes(raw, "little", signed=True)

    def _message(self, tag: bytes) -> Message:
        raw = self._bytes()
        message = decode_message(raw) if tag == b"M" else decode_partial(raw)
        return self._keep(readable_part(message) if tag == b"Q" else message)  # type: ignore[no-any-return]

    def _fixed(self, tag: bytes) -> Any:
        """What is whole only when all its values are: numbered after them."""
        return self._keep((tuple if tag == b"t" else frozenset)([self.read() for _ in range(self._count())]))

    def _growing(self, tag: bytes) -> Any:
        """What may hold itself: numbered before its values."""
        made: Any = {b"l": list, b"S": set, b"q": deque}[tag]()
        at = len(self._kept)
        self._keep(made)
        add = made.add if tag == b"S" else made.append
        for _ in range(self._count()):
            add(self.read())
        if tag == b"q" and (longest := self.read()) is not None:
            made = self._kept[at] = deque(made, longest)
        return made

    def _map(self, tag: bytes) -> Any:
        made: Any = self._keep({} if tag == b"m" else OrderedDict())
        for _ in range(self._count()):
            key = self.read()
            made[key] = self.read()
        return made

    def _class(self, wanted: type) -> Any:
        number = self._number()
        if number == len(self._classes):
            name = self._bytes().decode()
            found = class_of(name)
            if found is None:
                raise self._error(f"{name[:80]} has no place in a state")
            self._classes.append(found)
        kind = self._classes[number]
        if not issubclass(kind, wanted):
            raise self._error(f"{kind.__name__} is another kind of value")
        return kind

    def _enum(self, tag: bytes) -> Any:
        kind = self._class(Enum)
        return self._keep(kind(self.read()))

    def _named(self, tag: bytes) -> Any:
        kind = self._class(tuple)
        return self._keep(kind._make([self.read() for _ in range(self._count())]))

    def _record_class(self) -> type:
        kind = self._class(object)
        if issubclass(kind, tuple | Enum | BaseException):
            raise self._error(f"{kind.__name__} is another kind of value")
        return kind  # type: ignore[no-any-return]

    def _record(self, tag: bytes) -> Any:
        made = self._keep(object.__new__(self._record_class()))
        made.__setstate__(self.read())
        return made

    def _shaped(self, tag: bytes) -> Any:
        """A record whose fields are named with the first of its shape."""
        number = self._number()
        if number == len(self._shapes):
            self._shapes.append(self._shape())
        kind, names, slots = self._shapes[number]
        made = self._keep(object.__new__(kind))
        if names:
            made.__dict__.update([(name, self.read()) for name in names])
        for name in slots:
            object.__setattr__(made, name, self.read())
        return made

    def _shape(self) -> tuple[type, list[str], list[str]]:
        kind = self._record_class()
        names, slots = ([self.read() for _ in range(self._count())] for _ in range(2))
        allowed = {name for base in kind.__mro__ for name in getattr(base, "__slots__", ())}
        if not allowed.issuperset(slots) or not all(isinstance(name, str) for name in names):
            raise self._error(f"{kind.__name__} has no such field")
        return kind, names, slots

    def _array(self, tag: bytes) -> Any:
        at = len(self._kept)
        self._keep(None)
        spec, shape = self.read(), self.read()
        made = self._kept[at] = restored_array(SavedArray(spec, shape, tag == b"A", self._bytes()))
        return made


_READERS: Final[dict[bytes, Callable[[Reader, bytes], Any]]] = {
    b"N": lambda reader, tag: None,
    b"T": lambda reader, tag: True,
    b"F": lambda reader, tag: False,
    b"I": Reader._int,
    b"d": lambda reader, tag: DOUBLE.unpack(reader._take(DOUBLE.size))[0],
    b"s": Reader._text,
    b"y": lambda reader, tag: reader._texts[reader._number()],
    b"b": lambda reader, tag: reader._bytes(),
    b"R": Reader._raw_bytes,
    b"B": lambda reader, tag: reader._keep(bytearray(reader._bytes())),
    b"x": lambda reader, tag: reader._kept[reader._number()],
    b"M": Reader._message,
    b"P": Reader._message,
    b"Q": Reader._message,
    b"t": Reader._fixed,
    b"Z": Reader._fixed,
    b"l": Reader._growing,
    b"S": Reader._growing,
    b"q": Reader._growing,
    b"m": Reader._map,
    b"o": Reader._map,
    b"e": Reader._enum,
    b"c": Reader._named,
    b"r": Reader._record,
    b"f": Reader._shaped,
    b"a": Reader._array,
    b"A": Reader._array,
}
