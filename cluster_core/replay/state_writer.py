"""Values of a state as bytes (`state_reader` has the way back): a value is a tag (one byte) and what `Writer` writes for it.

Numbers, texts, containers, arrays whose dtype is of a list, messages as their bytes, and records of this package's own value classes,
whose fields are set and whose constructors do not run.  The names of a record's fields are written once for all that have the same, and so is each
text.  A state can name nothing else, and no value in it is believed to be longer than the bytes that are there.
"""

from __future__ import annotations

import struct
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import Any, Final

import cluster_core.kernels.bus.decoder
import cluster_core.replay.dispatch
import cluster_core.replay.observer  # noqa: F401 - a state names classes of modules that are loaded
from cluster_core.errors import EncodeError
from cluster_core.kernels.saved_arrays import saved_array
from cluster_core.wire.bus import Message, encode_message

NESTING_MAX: Final = 100
RAW_BYTES_MIN: Final = 1 << 16
"""Bytes that are longer stand behind the body."""
INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
"""What is written in eight bytes."""

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
"""Whose value classes a state may hold."""
_SEQUENCES: Final[dict[type, bytes]] = {tuple: b"t", frozenset: b"Z", list: b"l", set: b"S", deque: b"q"}
_MAPS: Final[dict[type, bytes]] = {dict: b"m", OrderedDict: b"o"}


class Writer:
    """Writes values; what may be shared or changed is written once and referred to by number afterwards."""

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
        """Write the fields of a record: the names of those that many have are written once."""
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
                if (
                    type(value) is int and INT_MIN <= value <= INT_MAX
                ):  # most are, and a call costs more than to write one
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
        """Write the number of a class, and its name where it is a new one."""
        known = self._classes.get(kind)
        self.pieces.append(tag + COUNT.pack(len(self._classes) if known is None else known))
        if known is None:
            self._classes[kind] = len(self._classes)
            self._bytes(b"", name_of(kind).encode())


@cache
def name_of(kind: type) -> str:
    """What a state calls a value class (``module:class``); raises EncodeError for another one."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    if class_of(name) is not kind:
        raise EncodeError(f"{name} has no place in a state")
    return name


def class_of(name: str) -> type | None:
    """Return the value class that a state calls *name* (``module:class``), None for anything else."""
    module, _, own = name.partition(":")
    found = getattr(sys.modules.get(module), own, None) if module.startswith(_PACKAGES) else None
    return found if isinstance(found, type) and found.__module__ == module and found is not Message else None
