"""State of a replay as bytes and back, for the next files to go on from.

A state is a tree of typed values: numbers, texts, containers, arrays whose dtype is of a list, messages as their bytes, and records of this
package's own value classes, whose fields are set and whose constructors do not run.  It can name nothing else, and no value in it is
believed to be longer than the bytes that are there.

    header    ``SLSR``, version (uint8), bytes of the body before compression (uint64, little-endian)
    body      zlib: one value; a value is a tag (one byte) and what `_Writer` writes for it
    raw       bytes that are long, one after the other as the body names them: packets that wait, which are compressed by themselves
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final

import cluster_core.kernels.bus.decoder
import cluster_core.replay.dispatch
import cluster_core.replay.observer  # noqa: F401 - a state names classes of modules that are loaded
from cluster_core.errors import DecodeError, EncodeError
from cluster_core.kernels.saved_arrays import SavedArray, restored_array, saved_array
from cluster_core.replay.evidence import readable_part
from cluster_core.wire.bus import Message, decode_message, decode_partial, encode_message

STATE_VERSION: Final = 7
"""Of the form; a state of another version is not read, and the replay begins anew."""
STATE_SOURCE: Final = "silver/replay_state"
"""Where states are kept, and what an error names that comes from one."""
BODY_BYTES_MAX: Final = 512 << 20
BODY_BYTES_FREE: Final = 16 << 20
INFLATION_MAX: Final = 200
"""A body may be so many times as long as its compressed form, beyond `BODY_BYTES_FREE`; states of recordings have 10 to 30."""
NESTING_MAX: Final = 100
RAW_BYTES_MIN: Final = 1 << 16
"""Bytes that are longer stand behind the body."""
INT_BYTES_MAX: Final = 4096
"""A slot bitmap has 2048."""

_HEADER: Final = struct.Struct("<4sBQ")
_MAGIC: Final = b"SLSR"
_COUNT: Final = struct.Struct("<I")
_INT64: Final = struct.Struct("<q")
_DOUBLE: Final = struct.Struct("<d")
_PACKAGES: Final = (
    "cluster_core.kinds",
    *(
        f"cluster_core.{name}."
        for name in ("formats", "gossip", "incidents", "kernels", "replay", "slots", "topology", "wire")
    ),
)
"""Whose value classes a state may hold."""
_SEQUENCES: Final[dict[type, bytes]] = {tuple: b"t", frozenset: b"Z", list: b"l", set: b"S", deque: b"q"}
_MAPS: Final[dict[type, bytes]] = {dict: b"m", OrderedDict: b"o"}


def save(value: object) -> bytes:
    """Return *value* as compressed bytes; raises EncodeError for what has no place in a state."""
    writer = _Writer()
    try:
        writer.write(value)
    except RecursionError as error:
        raise EncodeError("a state that is nested too deeply") from error
    body = b"".join(writer.pieces)
    return b"".join((_HEADER.pack(_MAGIC, STATE_VERSION, len(body)), zlib.compress(body, 3), *writer.raw))


def load(data: bytes, *, source: str = "<state>") -> Any:
    """Return what `save` was given; raises DecodeError for bytes that are no such state."""
    try:
        return _Reader(*_inflate(data)).whole()
    except DecodeError as error:
        raise DecodeError(error.reason, offset=error.offset, source=source) from error
    except (
        zlib.error,
        struct.error,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise DecodeError(f"not a state of a replay: {error}", offset=0, source=source) from error


def _inflate(data: bytes) -> tuple[bytes, bytes]:
    """The body, and what stands behind it."""
    if len(data) < _HEADER.size or data[:4] != _MAGIC or data[4] != STATE_VERSION:
        raise DecodeError("not a state of this version of the program", offset=0)
    size = _HEADER.unpack_from(data)[2]
    if size > min(BODY_BYTES_MAX, BODY_BYTES_FREE + INFLATION_MAX * len(data)):
        raise DecodeError(f"a state that says to hold {size} bytes", offset=5)
    unpacked = zlib.decompressobj()
    body = unpacked.decompress(data[_HEADER.size :], size + 1)
    if len(body) != size or not unpacked.eof:
        raise DecodeError("a state of another length than it says", offset=len(data))
    return body, unpacked.unused_data


class _Writer:
    """Writes values; what may be shared or changed is written once and referred to by number afterwards."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.raw: list[bytes] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # ids are of living values only
        self._classes: dict[type, int] = {}
        self._depth = 0

    def write(self, value: Any) -> None:
        kind, put = type(value), self.pieces.append
        if kind is int:
            self._int(value)
        elif kind is str:
            self._bytes(b"s", value.encode("utf-8", "surrogatepass"))
        elif value is None or kind is bool:
            put(b"N" if value is None else b"T" if value else b"F")
        elif kind is bytes and len(value) > RAW_BYTES_MIN:
            put(b"R" + _COUNT.pack(len(value)))
            self.raw.append(value)
        elif kind is bytes:
            self._bytes(b"b", value)
        elif kind is float:
            put(b"d" + _DOUBLE.pack(value))
        elif (number := self._numbers.get(id(value))) is not None:
            put(b"x" + _COUNT.pack(number))
        else:
            self._depth += 1
            if self._depth > NESTING_MAX:
                raise EncodeError("a state that is nested too deeply")
            self._shared(kind, value)
            self._depth -= 1

    def _shared(self, kind: type, value: Any) -> None:
        put = self.pieces.append
        if kind is tuple or kind is frozenset:
            self._values(_SEQUENCES[kind], value)
            self._number(value)
            return
        if kind is Message:
            raw = encode_message(value)
            whole = int.from_bytes(raw[4:8], "big") == len(raw)
            self._bytes(b"M" if whole else b"Q" if value.rest is None else b"P", raw)
            self._number(value)
            return
        if issubclass(kind, Enum):
            self._class(b"e", kind)
            self.write(value.value)
            self._number(value)
            return
        if issubclass(kind, tuple):
            self._class(b"c", kind)
            self._values(b"", value)
            self._number(value)
            return
        self._number(value)
        if kind in _SEQUENCES:
            self._values(_SEQUENCES[kind], value)
            if kind is deque:
                self.write(value.maxlen)
        elif kind in _MAPS:
            put(_MAPS[kind] + _COUNT.pack(len(value)))
            for key, entry in value.items():
                self.write(key)
                self.write(entry)
        elif kind is bytearray:
            self._bytes(b"B", bytes(value))
        elif (array := saved_array(value)) is not None:
            put(b"A" if array.has_attributes else b"a")
            self.write(array.spec)
            self.write(array.shape)
            self._bytes(b"", array.raw)
        else:
            self._class(b"r", kind)
            self.write(value.__getstate__())

    def _number(self, value: Any) -> None:
        self._numbers[id(value)] = len(self._kept)
        self._kept.append(value)

    def _int(self, value: int) -> None:
        if -(1 << 63) <= value < 1 << 63:
            self.pieces.append(b"i" + _INT64.pack(value))
        else:
            self._bytes(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def _bytes(self, tag: bytes, raw: bytes) -> None:
        self.pieces += (tag, _COUNT.pack(len(raw)), raw)

    def _values(self, tag: bytes, values: Iterable[Any]) -> None:
        entries = list(values)
        self.pieces.append(tag + _COUNT.pack(len(entries)))
        for entry in entries:
            self.write(entry)

    def _class(self, tag: bytes, kind: type) -> None:
        """Write the number of a class, and its name where it is a new one."""
        known = self._classes.get(kind)
        self.pieces.append(tag + _COUNT.pack(len(self._classes) if known is None else known))
        if known is None:
            name = f"{kind.__module__}:{kind.__qualname__}"
            if _class_of(name) is not kind:
                raise EncodeError(f"{name} has no place in a state")
            self._classes[kind] = len(self._classes)
            self._bytes(b"", name.encode())


class _Reader:
    """Reads what `_Writer` wrote; every length is checked against what is there."""

    def __init__(self, body: bytes, raw: bytes) -> None:
        self._body, self._raw = body, raw
        self._at = self._raw_at = 0
        self._kept: list[Any] = []
        self._classes: list[type] = []
        self._depth = 0

    def whole(self) -> Any:
        """Return the one value of the body."""
        value = self.read()
        if self._at != len(self._body) or self._raw_at != len(self._raw):
            raise self._error("bytes after the end of a state")
        return value

    def read(self) -> Any:
        """Return the next value."""
        tag = self._take(1)
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
        count: int = _COUNT.unpack(self._take(_COUNT.size))[0]
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
        return int(_COUNT.unpack(self._take(_COUNT.size))[0])

    def _int(self, tag: bytes) -> int:
        if tag == b"i":
            return int(_INT64.unpack(self._take(_INT64.size))[0])
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
            found = _class_of(name)
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

    def _record(self, tag: bytes) -> Any:
        kind = self._class(object)
        if issubclass(kind, tuple | Enum | BaseException):
            raise self._error(f"{kind.__name__} is another kind of value")
        made = self._keep(object.__new__(kind))
        state = self.read()
        if hasattr(kind, "__setstate__"):
            made.__setstate__(state)
            return made
        fields, slots = state if isinstance(state, tuple) else (state, None)
        if fields:
            made.__dict__.update(fields)
        allowed = {name for base in kind.__mro__ for name in getattr(base, "__slots__", ())}
        for name, value in (slots or {}).items():
            if name not in allowed:
                raise self._error(f"{kind.__name__} has no such field")
            object.__setattr__(made, name, value)
        return made

    def _array(self, tag: bytes) -> Any:
        at = len(self._kept)
        self._keep(None)
        spec, shape = self.read(), self.read()
        made = self._kept[at] = restored_array(SavedArray(spec, shape, tag == b"A", self._bytes()))
        return made


def _class_of(name: str) -> type | None:
    """Return the value class that a state calls *name* (``module:class``), None for anything else."""
    module, _, own = name.partition(":")
    found = getattr(sys.modules.get(module), own, None) if module.startswith(_PACKAGES) else None
    return found if isinstance(found, type) and found.__module__ == module and found is not Message else None


_READERS: Final[dict[bytes, Callable[[_Reader, bytes], Any]]] = {
    b"N": lambda reader, tag: None,
    b"T": lambda reader, tag: True,
    b"F": lambda reader, tag: False,
    b"i": _Reader._int,
    b"I": _Reader._int,
    b"d": lambda reader, tag: _DOUBLE.unpack(reader._take(_DOUBLE.size))[0],
    b"s": lambda reader, tag: reader._bytes().decode("utf-8", "surrogatepass"),
    b"b": lambda reader, tag: reader._bytes(),
    b"R": _Reader._raw_bytes,
    b"B": lambda reader, tag: reader._keep(bytearray(reader._bytes())),
    b"x": lambda reader, tag: reader._kept[reader._number()],
    b"M": _Reader._message,
    b"P": _Reader._message,
    b"Q": _Reader._message,
    b"t": _Reader._fixed,
    b"Z": _Reader._fixed,
    b"l": _Reader._growing,
    b"S": _Reader._growing,
    b"q": _Reader._growing,
    b"m": _Reader._map,
    b"o": _Reader._map,
    b"e": _Reader._enum,
    b"c": _Reader._named,
    b"r": _Reader._record,
    b"a": _Reader._array,
    b"A": _Reader._array,
}
