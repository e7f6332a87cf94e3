"""The value of one key of a dump, element by element: for whoever replays a log on top of it.

Works on the bytes of one record whose bounds a skim has found and checked (`KeyRow.offset`, ``serialized_bytes``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb import grammar
from cluster_core.formats.rdb.packed_elements import packed_elements
from cluster_core.formats.rdb.stream_elements import stream_value, string_end
from cluster_core.formats.rdb.strings import Fault, length_at, string_at, string_prefix

NO_EXPIRY = -1
DAMAGE = (LookupError, ValueError, OverflowError, struct.error, Fault)
"""What decoders raise for bytes that end early or stand for nothing."""
_PLAIN = -1  # the form of a node that is one element
_NAN, _INFINITY, _MINUS_INFINITY = 253, 254, 255


class Field(NamedTuple):
    """A field of a hash; *expire_at_ms* is -1 if it stays."""

    name: bytes
    value: bytes
    expire_at_ms: int


class ModuleValue(NamedTuple):
    """A module's value as its bytes: the module's id, what it saved, its end mark.  Only the module knows what they mean."""

    data: bytes


class Record(NamedTuple):
    """One key: its type as TYPE answers and its value.

    *value* is bytes; a list of bytes (list, set, array without its indices); a list of (member, score); a list of `Field`; a `StreamValue`; a
    `ModuleValue`.  Expiry, idle time and frequency are -1 where the file does not say.
    """

    key: bytes
    type: str
    value: object
    expire_at_ms: int
    idle_s: int = -1
    freq: int = -1


def type_of(data: bytes, dialect: str) -> grammar.ValueType:
    """Return the value type of the record; LookupError if it is not known."""
    return grammar.grammar_of(dialect).types[data[_attributes(data)[0]]]


def decode_record(data: bytes, dialect: str, *, source: str = "<record>", offset: int = 0) -> Record:
    """Decode the bytes of one record, from its first attribute to the end of its value.

    Raises DecodeError if the bytes end early or stand for nothing.
    """
    try:
        at, expire, idle, freq = _attributes(data)
        row = grammar.grammar_of(dialect).types[data[at]]
        key = string_at(data, at + 1)
        start, body, _, _ = string_prefix(data, at + 1)
        value = _value(row, data, start + body)
    except DAMAGE as error:
        raise DecodeError("the record cannot be decoded", offset=offset, source=source) from error
    return Record(key, grammar.KEY_TYPES[row.key_type], value, expire, idle, freq)


def packed_values(data: bytes, dialect: str) -> Iterator[tuple[bytes, int]]:
    """Yield the packed values (bytes, form) in a record that `decode_record` takes: its value, the nodes of a list or stream."""
    for at, form in _strings_of(data, dialect):
        if form != _PLAIN:
            yield string_at(data, at), form


def has_empty_node(data: bytes, dialect: str) -> bool:
    """Whether the record is a list with a node that is an element by itself, but without bytes."""
    return any(form == _PLAIN and not string_at(data, at) for at, form in _strings_of(data, dialect))


def _strings_of(data: bytes, dialect: str) -> Iterator[tuple[int, int]]:
    """Where the strings of a record are that its elements are in, and their form."""
    row = type_of(data, dialect)
    at = string_end(data, _attributes(data)[0] + 1) + row.lead_bytes
    if row.layout == grammar.L_PACKED:
        yield at, row.form
    elif row.layout in (grammar.L_QUICKLIST, grammar.L_STREAM):
        nodes, at = length_at(data, at)
        for _ in range(nodes):
            container = grammar.PACKED_NODE
            if row.layout == grammar.L_STREAM:
                at = string_end(data, at)
            elif row.form == grammar.F_LISTPACK:
                container, at = length_at(data, at)
            yield at, _PLAIN if container == grammar.PLAIN_NODE else row.form
            at = string_end(data, at)


def decode_value(data: bytes, dialect: str, *, source: str = "<value>") -> tuple[str, object]:
    """Decode a type byte and the value after it, as DUMP and RESTORE have them: (type, value)."""
    try:
        row = grammar.grammar_of(dialect).types[data[0]]
        return grammar.KEY_TYPES[row.key_type], _value(row, data, 1)
    except DAMAGE as error:
        raise DecodeError("the value cannot be decoded", offset=0, source=source) from error


def _attributes(data: bytes) -> tuple[int, int, int, int]:
    at, expire, idle, freq = 0, NO_EXPIRY, -1, -1
    while True:
        op = data[at]
        if op == grammar.OP_EXPIRE_MS:
            expire, at = int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
        elif op == grammar.OP_EXPIRE_S:
            expire, at = 1000 * int.from_bytes(data[at + 1 : at + 5], "little"), at + 5
        elif op == grammar.OP_FREQ:
            freq, at = data[at + 1], at + 2
        elif op == grammar.OP_IDLE:
            idle, at = length_at(data, at + 1)
        elif op in (grammar.OP_RAM_LRU, grammar.OP_SLOT_NUMBER):
            _, at = length_at(data, at + 1)
        elif op == grammar.OP_KEY_META:
            at = _key_meta_end(data, at + 1)
        else:
            return at, expire, idle, freq


def _key_meta_end(data: bytes, at: int) -> int:
    """Return the position after what modules keep beside a key."""
    classes, at = length_at(data, at)
    for _ in range(classes):
        opcode, at = length_at(data, at + 4)
        while opcode != grammar.MODULE_EOF:
            if opcode == grammar.MODULE_STRING:
                at = string_end(data, at)
            elif opcode in (grammar.MODULE_FLOAT, grammar.MODULE_DOUBLE):
                at += 4 if opcode == grammar.MODULE_FLOAT else 8
            else:
                _, at = length_at(data, at)
            opcode, at = length_at(data, at)
    return at


def _value(row: grammar.ValueType, data: bytes, at: int) -> object:
    if row.layout == grammar.L_STRING:
        return string_at(data, at)
    if row.layout == grammar.L_MODULE:
        return ModuleValue(data[at:])
    if row.layout == grammar.L_STREAM:
        return stream_value(row.generation, data, at)
    if row.layout == grammar.L_QUICKLIST:
        return _quicklist(row.form, data, at)
    if row.layout == grammar.L_ELEMENTS:
        return _elements(row, data, at)
    if row.layout == grammar.L_PACKED and not row.skipped_entries:
        return _packed(row, data, at + row.lead_bytes)
    if row.layout == grammar.L_ARRAY:
        return list(_array(data, at))
    raise ValueError(f"type {row.name} is not in the record alone")


def _elements(row: grammar.ValueType, data: bytes, at: int) -> object:
    """A value that is not packed; `ValueType.element` says how each element is made."""
    if row.key_type == grammar.HASH:
        return _hash(row, data, at)
    return list(_scored(row.element, data, at)) if row.key_type == grammar.ZSET else list(_strings(data, at))


def _packed(row: grammar.ValueType, data: bytes, at: int) -> object:
    words = packed_elements(string_at(data, at), row.form)
    if row.key_type == grammar.ZSET:
        return [(member, float(score)) for member, score in zip(words[::2], words[1::2], strict=True)]
    if row.key_type != grammar.HASH:
        return words
    if row.encoding != grammar.LISTPACKEX:
        return [Field(*pair, NO_EXPIRY) for pair in zip(words[::2], words[1::2], strict=True)]
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    return [Field(name, value, int(expire) or NO_EXPIRY) for name, value, expire in triples]


def _strings(data: bytes, at: int) -> Iterator[bytes]:
    count, at = length_at(data, at)
    for _ in range(count):
        yield string_at(data, at)
        at = string_end(data, at)


def _quicklist(form: int, data: bytes, at: int) -> list[bytes]:
    nodes, at = length_at(data, at)
    found: list[bytes] = []
    for _ in range(nodes):
        container = grammar.PACKED_NODE
        if form == grammar.F_LISTPACK:
            container, at = length_at(data, at)
        node, at = string_at(data, at), string_end(data, at)
        if container == grammar.PLAIN_NODE:
            found.append(node)
        else:
            found += packed_elements(node, form)
    return found


def _array(data: bytes, at: int) -> Iterator[bytes]:
    count, at = length_at(data, at)
    flag, at = length_at(data, at)
    if flag:
        _, at = length_at(data, at)
    for _ in range(count):
        _, at = length_at(data, at)
        kind, at = length_at(data, at)
        if kind in (grammar.ARRAY_STRING, grammar.ARRAY_SHORT_STRING):
            yield string_at(data, at)
            at = string_end(data, at)
        else:
            (number,) = struct.unpack_from("<q" if kind == grammar.ARRAY_INTEGER else "<d", data, at)
            yield b"%d" % number if kind == grammar.ARRAY_INTEGER else repr(number).encode()
            at += 8


def _scored(element: int, data: bytes, at: int) -> Iterator[tuple[bytes, float]]:
    count, at = length_at(data, at)
    for _ in range(count):
        member, at = string_at(data, at), string_end(data, at)
        if element == grammar.E_SCORE:
            (score,) = struct.unpack_from("<d", data, at)
            at += 8
        else:
            size = data[at]
            special = {_NAN: "nan", _INFINITY: "inf", _MINUS_INFINITY: "-inf"}.get(size)
            score = float(special if special else data[at + 1 : at + 1 + size])
            at += 1 if special else 1 + size
        yield member, score


def _hash(row: grammar.ValueType, data: bytes, at: int) -> list[Field]:
    base = int.from_bytes(data[at : at + row.lead_bytes], "little")
    count, at = length_at(data, at + row.lead_bytes)
    found = []
    for _ in range(count):
        expire = NO_EXPIRY
        if row.element == grammar.E_EXPIRY_BEFORE:
            delta, at = length_at(data, at)  # counted from one before the earliest; from 1970 in the release candidates
            expire = NO_EXPIRY if delta == 0 else delta + base - (row.lead_bytes > 0)
        name, at = string_at(data, at), string_end(data, at)
        value, at = string_at(data, at), string_end(data, at)
        if row.element == grammar.E_EXPIRY_AFTER:
            expire = int.from_bytes(data[at : at + 8], "little", signed=True)
            at += 8
        found.append(Field(name, value, expire))
    return found
