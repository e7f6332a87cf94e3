"""The value of one key of a dump, element by element: for whoever replays a log on top of it.

Works on the bytes of one record whose bounds a skim has found and checked (`KeyRow.offset`, ``serialized_bytes``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb import packed
from cluster_core.formats.rdb.opcodes import (
    ARRAY_INTEGER,
    ARRAY_SHORT_STRING,
    ARRAY_STRING,
    DIALECT_VALKEY,
    MODULE_DOUBLE,
    MODULE_EOF,
    MODULE_FLOAT,
    MODULE_STRING,
    OP_EXPIRE_MS,
    OP_EXPIRE_S,
    OP_FREQ,
    OP_IDLE,
    OP_KEY_META,
    OP_RAM_LRU,
    OP_SLOT_NUMBER,
    T_ARRAY,
    T_HASH_2,
    T_HASH_LISTPACK,
    T_HASH_LISTPACK_EX,
    T_HASH_LISTPACK_EX_PRE_GA,
    T_HASH_METADATA,
    T_HASH_ZIPLIST,
    T_HASH_ZIPMAP,
    T_LIST,
    T_LIST_QUICKLIST,
    T_LIST_QUICKLIST_2,
    T_LIST_ZIPLIST,
    T_MODULE_2,
    T_SET,
    T_SET_INTSET,
    T_SET_LISTPACK,
    T_STREAM,
    T_STREAM_2,
    T_STREAM_3,
    T_STREAM_4,
    T_STREAM_5,
    T_STRING,
    T_ZSET,
    T_ZSET_2,
    T_ZSET_LISTPACK,
    T_ZSET_ZIPLIST,
    TEMPLATE_TYPES,
)
from cluster_core.formats.rdb.packed_elements import packed_elements
from cluster_core.formats.rdb.stream_elements import stream_value, string_end
from cluster_core.formats.rdb.strings import Fault, length_at, string_at, string_prefix

NO_EXPIRY = -1
_DAMAGE = (LookupError, ValueError, OverflowError, struct.error, Fault)
"""What decoders raise for bytes that end early or stand for nothing."""
_PLAIN_NODE = 1
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


def is_by_expiry(data: bytes) -> bool:
    """Whether the record is a hash whose fields are in the order in which they expire."""
    return data[_attributes(data)[0]] in (T_HASH_LISTPACK_EX, T_HASH_LISTPACK_EX_PRE_GA)


def is_by_template(data: bytes) -> bool:
    """Whether the record is a hash whose field names are in a template of the file, so that it cannot be decoded alone."""
    return data[_attributes(data)[0]] in TEMPLATE_TYPES


def decode_record(data: bytes, dialect: str, *, source: str = "<record>", offset: int = 0) -> Record:
    """Decode the bytes of one record, from its first attribute to the end of its value.

    Raises DecodeError if the bytes end early or stand for nothing.
    """
    try:
        at, expire, idle, freq = _attributes(data)
        kind = data[at]
        key = string_at(data, at + 1)
        start, body, _, _ = string_prefix(data, at + 1)
        name, value = _value(kind, data, start + body, dialect)
    except _DAMAGE as error:
        raise DecodeError("the record cannot be decoded", offset=offset, source=source) from error
    return Record(key, name, value, expire, idle, freq)


def packed_values(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the packed values (bytes, form of `packed`) in a record that `decode_record` takes: its value, the nodes of a list or stream."""
    for at, form in _strings_of(data):
        if form != _PLAIN:
            yield string_at(data, at), form


def has_empty_node(data: bytes) -> bool:
    """Whether the record is a list with a node that is an element by itself, but without bytes."""
    return any(form == _PLAIN and not string_at(data, at) for at, form in _strings_of(data))


def _strings_of(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the strings of a record are that its elements are in, and their form."""
    at = _attributes(data)[0]
    kind, at = data[at], string_end(data, at + 1)
    if kind == T_HASH_LISTPACK_EX:
        at += 8
    if kind in _PACKED:
        yield at, _PACKED[kind]
    elif kind in (T_LIST_QUICKLIST, T_LIST_QUICKLIST_2, *_STREAMS):
        nodes, at = length_at(data, at)
        for _ in range(nodes):
            container = 2
            if kind == T_LIST_QUICKLIST_2:
                container, at = length_at(data, at)
            elif kind in _STREAMS:
                at = string_end(data, at)
            packed_form = packed.ZIPLIST if kind == T_LIST_QUICKLIST else packed.LISTPACK
            yield at, _PLAIN if container == _PLAIN_NODE else packed_form
            at = string_end(data, at)


def decode_value(data: bytes, dialect: str, *, source: str = "<value>") -> tuple[str, object]:
    """Decode a type byte and the value after it, as DUMP and RESTORE have them: (type, value)."""
    try:
        return _value(data[0], data, 1, dialect)
    except _DAMAGE as error:
        raise DecodeError("the value cannot be decoded", offset=0, source=source) from error


def _attributes(data: bytes) -> tuple[int, int, int, int]:
    at, expire, idle, freq = 0, NO_EXPIRY, -1, -1
    while True:
        op = data[at]
        if op == OP_EXPIRE_MS:
            expire, at = int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
        elif op == OP_EXPIRE_S:
            expire, at = 1000 * int.from_bytes(data[at + 1 : at + 5], "little"), at + 5
        elif op == OP_FREQ:
            freq, at = data[at + 1], at + 2
        elif op == OP_IDLE:
            idle, at = length_at(data, at + 1)
        elif op in (OP_RAM_LRU, OP_SLOT_NUMBER):
            _, at = length_at(data, at + 1)
        elif op == OP_KEY_META:
            at = _key_meta_end(data, at + 1)
        else:
            return at, expire, idle, freq


def _key_meta_end(data: bytes, at: int) -> int:
    """Return the position after what modules keep beside a key."""
    classes, at = length_at(data, at)
    for _ in range(classes):
        opcode, at = length_at(data, at + 4)
        while opcode != MODULE_EOF:
            if opcode == MODULE_STRING:
                at = string_end(data, at)
            elif opcode in (MODULE_FLOAT, MODULE_DOUBLE):
                at += 4 if opcode == MODULE_FLOAT else 8
            else:
                _, at = length_at(data, at)
            opcode, at = length_at(data, at)
    return at


def _value(kind: int, data: bytes, at: int, dialect: str) -> tuple[str, object]:
    if kind == T_STRING:
        return "string", string_at(data, at)
    if kind == T_MODULE_2:
        return "module", ModuleValue(data[at:])
    if kind in (T_LIST, T_LIST_ZIPLIST, T_LIST_QUICKLIST, T_LIST_QUICKLIST_2):
        return "list", _list(kind, data, at)
    if kind in (T_SET, T_SET_INTSET, T_SET_LISTPACK):
        return "set", list(_strings(data, at)) if kind == T_SET else packed_elements(string_at(data, at), _SETS[kind])
    if kind in (T_ZSET, T_ZSET_2):
        return "zset", list(_scored(kind, data, at))
    if kind in (T_ZSET_ZIPLIST, T_ZSET_LISTPACK):
        words = packed_elements(string_at(data, at), _ZSETS[kind])
        return "zset", [(member, float(score)) for member, score in zip(words[::2], words[1::2], strict=True)]
    if kind in _STREAMS:
        return "stream", stream_value(kind, data, at)
    if kind == T_ARRAY:
        return "array", list(_array(data, at))
    if kind in TEMPLATE_TYPES:
        raise ValueError("the names of its fields are not in the record")
    return "hash", _hash(kind, data, at, dialect)


_SETS = {T_SET_INTSET: packed.INTSET, T_SET_LISTPACK: packed.LISTPACK}
_ZSETS = {T_ZSET_ZIPLIST: packed.ZIPLIST, T_ZSET_LISTPACK: packed.LISTPACK}
_HASHES = {
    T_HASH_ZIPMAP: (packed.ZIPMAP, 2),
    T_HASH_ZIPLIST: (packed.ZIPLIST, 2),
    T_HASH_LISTPACK: (packed.LISTPACK, 2),
    T_HASH_LISTPACK_EX: (packed.LISTPACK, 3),
    T_HASH_LISTPACK_EX_PRE_GA: (packed.LISTPACK, 3),
}


_STREAMS = (T_STREAM, T_STREAM_2, T_STREAM_3, T_STREAM_4, T_STREAM_5)
_PACKED = {T_LIST_ZIPLIST: packed.ZIPLIST, **_SETS, **_ZSETS, **{kind: form for kind, (form, _) in _HASHES.items()}}


def _strings(data: bytes, at: int) -> Iterator[bytes]:
    count, at = length_at(data, at)
    for _ in range(count):
        yield string_at(data, at)
        at = string_end(data, at)


def _list(kind: int, data: bytes, at: int) -> list[bytes]:
    if kind == T_LIST:
        return list(_strings(data, at))
    if kind == T_LIST_ZIPLIST:
        return packed_elements(string_at(data, at), packed.ZIPLIST)
    nodes, at = length_at(data, at)
    found: list[bytes] = []
    for _ in range(nodes):
        container = 2
        if kind == T_LIST_QUICKLIST_2:
            container, at = length_at(data, at)
        node, at = string_at(data, at), string_end(data, at)
        if container == _PLAIN_NODE:
            found.append(node)
        else:
            found += packed_elements(node, packed.ZIPLIST if kind == T_LIST_QUICKLIST else packed.LISTPACK)
    return found


def _array(data: bytes, at: int) -> Iterator[bytes]:
    count, at = length_at(data, at)
    flag, at = length_at(data, at)
    if flag:
        _, at = length_at(data, at)
    for _ in range(count):
        _, at = length_at(data, at)
        kind, at = length_at(data, at)
        if kind in (ARRAY_STRING, ARRAY_SHORT_STRING):
            yield string_at(data, at)
            at = string_end(data, at)
        else:
            (number,) = struct.unpack_from("<q" if kind == ARRAY_INTEGER else "<d", data, at)
            yield b"%d" % number if kind == ARRAY_INTEGER else repr(number).encode()
            at += 8


def _scored(kind: int, data: bytes, at: int) -> Iterator[tuple[bytes, float]]:
    count, at = length_at(data, at)
    for _ in range(count):
        member, at = string_at(data, at), string_end(data, at)
        if kind == T_ZSET_2:
            (score,) = struct.unpack_from("<d", data, at)
            at += 8
        else:
            size = data[at]
            special = {_NAN: "nan", _INFINITY: "inf", _MINUS_INFINITY: "-inf"}.get(size)
            score = float(special if special else data[at + 1 : at + 1 + size])
            at += 1 if special else 1 + size
        yield member, score


def _hash(kind: int, data: bytes, at: int, dialect: str) -> list[Field]:
    base = 0
    if kind in (T_HASH_METADATA, T_HASH_LISTPACK_EX):
        base, at = int.from_bytes(data[at : at + 8], "little"), at + 8
    if kind in _HASHES:
        form, stride = _HASHES[kind]
        words = packed_elements(string_at(data, at), form)
        if stride == 2:
            return [Field(*pair, NO_EXPIRY) for pair in zip(words[::2], words[1::2], strict=True)]
        triples = zip(words[::3], words[1::3], words[2::3], strict=True)
        return [Field(name, value, int(expire) or NO_EXPIRY) for name, value, expire in triples]
    count, at = length_at(data, at)
    found = []
    for _ in range(count):
        expire = NO_EXPIRY
        if kind in (T_HASH_2, T_HASH_METADATA) and dialect != DIALECT_VALKEY:
            delta, at = length_at(data, at)  # counted from one before the earliest; from 1970 in the release candidates
            expire = NO_EXPIRY if delta == 0 else delta + base - (kind == T_HASH_METADATA)
        name, at = string_at(data, at), string_end(data, at)
        value, at = string_at(data, at), string_end(data, at)
        if kind == T_HASH_2 and dialect == DIALECT_VALKEY:
            expire = int.from_bytes(data[at : at + 8], "little", signed=True)
            at += 8
        found.append(Field(name, value, expire))
    return found
