"""State of a replay as bytes and back, for the next files to go on from.

header    ``SLSR``, version (uint8), bytes of the body before compression (uint64, little-endian)
body      zlib: one value, a tag (one byte) and what `Writer` writes for it
raw       bytes that are long, one after the other as the body names them: packets that wait, which are compressed by themselves

Values are numbers, texts, containers, arrays whose dtype is of a list, messages as their bytes, and records of this
package's own value classes: their fields are set, and their constructors do not run.  The names of fields are written
once for all records that have the same, and so is each text.  A state can name nothing else.  Every length is checked
against the bytes that are there.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from typing import Any, Final

import cluster_core.kernels.bus.decoder
import cluster_core.replay.dispatch
import cluster_core.replay.observer  # noqa: F401 - a state names classes of modules that are loaded
from cluster_core.errors import DecodeError, EncodeError
from cluster_core.kernels.saved_arrays import SavedArray, restored_array, saved_array
from cluster_core.replay.evidence import readable_part
from cluster_core.wire.bus import Message, decode_message, decode_partial, encode_message

STATE_VERSION: Final = 13
"""Format version; other versions are not read, and the replay restarts."""
STATE_SOURCE: Final = "silver/replay_state"
"""Where states are stored; errors name it."""
BODY_BYTES_MAX: Final = 512 << 20
BODY_BYTES_FREE: Final = 16 << 20
INFLATION_MAX: Final = 200
"""Maximum compression ratio of a body above `BODY_BYTES_FREE`; recordings have 10 to 30."""
_HEADER: Final = struct.Struct("<4sBQ")
_MAGIC: Final = b"SLSR"
NESTING_MAX: Final = 100
RAW_BYTES_MIN: Final = 1 << 16
"""Longer bytes are stored after the body."""
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
"""Range of integers stored in eight bytes."""

COUNT: Final = struct.Struct("<I")
_TAGGED_INT: Final = struct.Struct("<cq")
_TAGGED_COUNT: Final = struct.Struct("<cI")
DOUBLE: Final = struct.Struct("<d")
_PACKAGES: Final = (
    "cluster_core.kinds",
    *(
        f"cluster_core.{name}."
        for name in ("formats", "gossip", "incidents", "kernels", "replay", "slots", "topology", "wire")
    ),
)
"""Modules with value classes allowed in a state."""
_SEQUENCES: Final[dict[type, bytes]] = {tuple: b"t", frozenset: b"Z", list: b"l", set: b"S", deque: b"q"}
_MAPS: Final[dict[type, bytes]] = {dict: b"m", OrderedDict: b"o"}


class Writer:
    """Writes values; shared or mutable ones are written once and then referenced by number."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.raw: list[bytes] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # ids are of living values only
        self._classes: dict[type, int] = {}
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._texts: dict[str, bytes] = {}
        self._depth = 0

    def write(self, value: Any) -> None:
        kind, put = type(value), self.pieces.append
        if kind is int:
            if INT_MIN <= value <= INT_MAX:
                put(_TAGGED_INT.pack(b"i", value))
            else:
                self._bytes(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
        elif kind is str:
            known = self._texts.get(value)
            if known is None:
                self._bytes(b"s", value.encode("utf-8", "surrogatepass"))
                self._texts[value] = _TAGGED_COUNT.pack(b"y", len(self._texts))
            else:
                put(known)
        elif value is None or kind is bool:
            put(b"N" if value is None else b"T" if value else b"F")
        elif kind is bytes and len(value) > RAW_BYTES_MIN:
            put(b"R" + COUNT.pack(len(value)))
            self.raw.append(value)
        elif kind is bytes:
            self._bytes(b"b", value)
        elif kind is float:
            put(b"d" + DOUBLE.pack(value))
        elif (number := self._numbers.get(id(value))) is not None:
            put(_TAGGED_COUNT.pack(b"x", number))
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
            put(_MAPS[kind] + COUNT.pack(len(value)))
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
            self._record(kind, value)

    def _record(self, kind: type, record: Any) -> None:
        """Write the fields of a record; common field names are written once."""
        name_of(kind)
        state = record.__getstate__()
        if hasattr(kind, "__setstate__"):
            self._class(b"r", kind)
            self.write(state)
            return
        both: tuple[dict[str, Any], ...] = tuple(
            one or {} for one in (state if type(state) is tuple else (state, None))
        )
        shape: tuple[Any, ...] = (kind, *map(tuple, both))
        known = self._shapes.get(shape)
        self.pieces.append(_TAGGED_COUNT.pack(b"f", len(self._shapes) if known is None else known))
        if known is None:
            self._shapes[shape] = len(self._shapes)
            self._class(b"", kind)
            for names in shape[1:]:
                self._values(b"", names)
        put, write = self.pieces.append, self.write
        for fields in both:
            for value in fields.values():
                if type(value) is int and INT_MIN <= value <= INT_MAX:  # the common case, without a call
                    put(_TAGGED_INT.pack(b"i", value))
                else:
                    write(value)

    def _number(self, value: Any) -> None:
        self._numbers[id(value)] = len(self._kept)
        self._kept.append(value)

    def _bytes(self, tag: bytes, raw: bytes) -> None:
        self.pieces += (tag, COUNT.pack(len(raw)), raw)

    def _values(self, tag: bytes, values: Iterable[Any]) -> None:
        entries = list(values)
        self.pieces.append(tag + COUNT.pack(len(entries)))
        for entry in entries:
            self.write(entry)

    def _class(self, tag: bytes, kind: type) -> None:
        """Write the number of a class, and its name on first use."""
        known = self._classes.get(kind)
        self.pieces.append(tag + COUNT.pack(len(self._classes) if known is None else known))
        if known is None:
            self._classes[kind] = len(self._classes)
            self._bytes(b"", name_of(kind).encode())


@cache
def name_of(kind: type) -> str:
    """Return the name of a value class (``module:class``); raises EncodeError for other classes."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    if class_of(name) is not kind:
        raise EncodeError(f"{name} has no place in a state")
    return name


def class_of(name: str) -> type | None:
    """Return the value class called *name* (``module:class``), None for other names."""
    module, _, own = name.partition(":")
    found = getattr(sys.modules.get(module), own, None) if module.startswith(_PACKAGES) else None
    return found if isinstance(found, type) and found.__module__ == module and found is not Message else None


INT_BYTES_MAX: Final = 4096
"""Maximum bytes of an integer; a slot bitmap has 2048."""
_INT64: Final = struct.Struct("<q")


class Reader:
    """Reads the output of `Writer`; checks every length."""

    def __init__(self, body: bytes, raw: bytes) -> None:
        self._body, self._raw = body, raw
        self._at = self._raw_at = 0
        self._kept: list[Any] = []
        self._classes: list[type] = []
        self._shapes: list[tuple[type, list[str], list[str]]] = []
        self._texts: list[str] = []
        self._depth = 0

    def whole(self) -> Any:
        """Return the single value of the body."""
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
        """Return a count of items with at least one byte each."""
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
        """Read an immutable container: numbered after its items."""
        return self._keep((tuple if tag == b"t" else frozenset)([self.read() for _ in range(self._count())]))

    def _growing(self, tag: bytes) -> Any:
        """Read a mutable container, which may contain itself: numbered before its items."""
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
        """Read a record with the field names of the first of its shape."""
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


def save(value: object) -> bytes:
    """Return *value* as compressed bytes; raises EncodeError for unsupported values."""
    writer = Writer()
    try:
        writer.write(value)
    except RecursionError as error:
        raise EncodeError("a state that is nested too deeply") from error
    body = b"".join(writer.pieces)
    return b"".join((_HEADER.pack(_MAGIC, STATE_VERSION, len(body)), zlib.compress(body, 3), *writer.raw))


def load(data: bytes, *, source: str = "<state>") -> Any:
    """Return the value passed to `save`; raises DecodeError for invalid bytes."""
    try:
        return Reader(*_inflate(data)).whole()
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
    """Return the body and the bytes after it."""
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
