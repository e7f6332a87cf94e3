"""A decoded value as bytes of a file: the way back from `elements` (`rdbSaveObjectType`, `rdbSaveObject`).

Small values are packed as a server packs them; larger ones, and all with `PLAIN`, are written element by element.  A server
chooses its own encoding when it loads either.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cluster_core.errors import EncodeError
from cluster_core.formats.rdb import grammar
from cluster_core.formats.rdb.elements import Field, ModuleValue
from cluster_core.formats.rdb.encoding import (
    canonical_integer,
    intset_bytes,
    length_bytes,
    listpack_bytes,
    raw_string_bytes,
    string_bytes,
    ziplist_bytes,
)
from cluster_core.formats.rdb.stream_elements import StreamValue
from cluster_core.formats.rdb.stream_encoding import stream_bytes
from cluster_core.formats.rdb.target import Target

Encoded = tuple[int, bytes]
"""Value type and bytes."""


class Packing(NamedTuple):
    """Up to which size values are packed: elements, bytes of one, integers of a set, bytes of a node of a list."""

    elements: int = 128
    element_bytes: int = 64
    intset_elements: int = 512
    node_bytes: int = 8192


PACKED = Packing()
PLAIN = Packing(0, 0, 0, 0)
"""Nothing is packed."""


def value_bytes(kind: str, value: Any, target: Target, packing: Packing = PACKED) -> Encoded:
    """Return (value type, bytes) of the value of a `Record` of type *kind*.

    Raises EncodeError for a value that no server loads (an empty list, a member twice, a score that is no number) and for
    one that *target* cannot hold.
    """
    if kind == "string":
        return target.type_of(grammar.STRING, grammar.L_STRING)[0], string_bytes(value)
    if kind == "module":
        if not isinstance(value, ModuleValue) or not value.data:
            raise EncodeError("a module's value can only be written from its bytes")
        return target.type_of(grammar.MODULE, grammar.L_MODULE)[0], value.data
    if kind == "stream":
        if not isinstance(value, StreamValue):
            raise EncodeError("a stream's value is not a StreamValue")
        return stream_bytes(value, target)
    if not value:
        raise EncodeError(f"a {kind} without elements: no server keeps one")
    if kind == "list":
        return _list(value, target, packing)
    if kind == "set":
        return _set(value, target, packing)
    if kind == "zset":
        return _zset(value, target, packing)
    if kind == "hash":
        return _hash(value, target, packing)
    raise EncodeError(f"there is no type {kind!r}")


def _list(value: Sequence[bytes], target: Target, packing: Packing) -> Encoded:
    if not packing.node_bytes:
        return _elements(grammar.LIST, grammar.E_ONE, map(string_bytes, value), target)
    number, row = target.type_of(grammar.LIST, grammar.L_QUICKLIST)
    nodes = list(_list_nodes(value, row.form, packing.node_bytes))
    return number, length_bytes(len(nodes)) + b"".join(nodes)


def _elements(key_type: int, element: int, elements: Iterable[bytes], target: Target, lead: bytes = b"") -> Encoded:
    """A value that is not packed, from the bytes of its elements and what stands before them."""
    number, _ = target.type_of(key_type, grammar.L_ELEMENTS, element=element)
    held = list(elements)
    return number, lead + length_bytes(len(held)) + b"".join(held)


def _packed(key_type: int, words: Sequence[bytes], target: Target, **like: int) -> Encoded:
    number, row = target.type_of(key_type, grammar.L_PACKED, **like)
    return number, raw_string_bytes(_PACKERS[row.form](words))


_PACKERS = {grammar.F_LISTPACK: listpack_bytes, grammar.F_ZIPLIST: ziplist_bytes}


def _list_nodes(value: Sequence[bytes], form: int, node_bytes: int) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for element in value:
        is_large = len(element) > node_bytes
        if held and (is_large or size + len(element) + 11 > node_bytes):
            yield _list_node(held, form)
            held, size = [], 0
        if is_large and form == grammar.F_LISTPACK:
            yield length_bytes(grammar.PLAIN_NODE) + raw_string_bytes(element)
        else:
            held.append(element)
            size += len(element) + 11
    if held:
        yield _list_node(held, form)


def _list_node(elements: Sequence[bytes], form: int) -> bytes:
    container = length_bytes(grammar.PACKED_NODE) if form == grammar.F_LISTPACK else b""
    return container + raw_string_bytes(_PACKERS[form](elements))


def _set(value: Sequence[bytes], target: Target, packing: Packing) -> Encoded:
    _refuse_twice("set", value)
    if len(value) <= packing.intset_elements:
        numbers = [number for number in map(canonical_integer, value) if number is not None]
        if len(numbers) == len(value):
            return target.type_of(grammar.SET, grammar.L_PACKED, form=grammar.F_INTSET)[0], raw_string_bytes(
                intset_bytes(numbers)
            )
    if target.has_set_listpacks and _is_small(value, 1, packing):
        return _packed(grammar.SET, value, target, form=grammar.F_LISTPACK)
    return _elements(grammar.SET, grammar.E_ONE, map(string_bytes, value), target)


def _zset(value: Sequence[tuple[bytes, float]], target: Target, packing: Packing) -> Encoded:
    _refuse_twice("zset", [member for member, _ in value])
    if any(math.isnan(score) for _, score in value):
        raise EncodeError("a score that is not a number")
    ordered = sorted(value, key=lambda pair: (pair[1], pair[0]))  # as a server keeps them
    words = [word for member, score in ordered for word in (member, _score_word(score))]
    if _is_small(words, 2, packing):
        return _packed(grammar.ZSET, words, target)
    descending = reversed(ordered)  # so that each is inserted at the head
    pairs = (string_bytes(member) + struct.pack("<d", score) for member, score in descending)
    return _elements(grammar.ZSET, grammar.E_SCORE, pairs, target)


def printf_score(score: float) -> str:
    """Return *score* as Redis up to 7.0 writes it, which every server reads.

    >>> printf_score(0.1)
    '0.10000000000000001'
    """
    if math.isinf(score):
        return "inf" if score > 0 else "-inf"
    return "%.17g" % score  # noqa: UP031 - it is the C format


def _score_word(score: float) -> bytes:
    if score.is_integer() and abs(score) < 1 << 53 and (score or math.copysign(1.0, score) > 0):
        return b"%d" % int(score)
    return printf_score(score).encode()


def _hash(value: Sequence[Field], target: Target, packing: Packing) -> Encoded:
    _refuse_twice("hash", [field.name for field in value])
    if any(field.expire_at_ms >= 0 for field in value):
        return _expiring_hash(value, target)
    words = [word for field in value for word in (field.name, field.value)]
    if _is_small(words, 2, packing):
        return _packed(grammar.HASH, words, target)
    return _elements(
        grammar.HASH, grammar.E_PAIR, (string_bytes(field.name) + string_bytes(field.value) for field in value), target
    )


def _expiring_hash(value: Sequence[Field], target: Target) -> Encoded:
    """A hash with fields that expire: relative to the earliest in Redis 7.4, absolute in Valkey 9."""
    is_valkey = target.dialect == grammar.DIALECT_VALKEY
    element = grammar.E_EXPIRY_AFTER if is_valkey else grammar.E_EXPIRY_BEFORE
    if not target.holds(grammar.HASH, grammar.L_ELEMENTS, element=element):
        raise EncodeError(f"version {target.version} does not hold expiries of fields")
    pairs = [string_bytes(field.name) + string_bytes(field.value) for field in value]
    times = [field.expire_at_ms for field in value]
    if is_valkey:
        elements = (pair + time.to_bytes(8, "little", signed=True) for pair, time in zip(pairs, times, strict=True))
        return _elements(grammar.HASH, element, elements, target)
    earliest = min(time for time in times if time >= 0)
    relative = [length_bytes(0 if time < 0 else time - earliest + 1) for time in times]
    elements = (time + pair for time, pair in zip(relative, pairs, strict=True))
    return _elements(grammar.HASH, element, elements, target, earliest.to_bytes(8, "little"))


def _is_small(words: Sequence[bytes], stride: int, packing: Packing) -> bool:
    return len(words) <= stride * packing.elements and all(len(word) <= packing.element_bytes for word in words)


def _refuse_twice(kind: str, names: Sequence[bytes]) -> None:
    if len(set(names)) != len(names):
        raise EncodeError(f"a {kind} that holds an element twice")
