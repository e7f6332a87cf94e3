"""Decode the value of one key from its record, located and checked by a skim (`KeyRow.offset`, ``serialized_bytes``)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.rdb import grammar
from cluster_core.rdb.grammar import F_LISTPACK
from cluster_core.rdb.packed import packed_elements
from cluster_core.rdb.strings import length_at, string_at

StreamId = tuple[int, int]
"""Milliseconds and sequence."""

NOT_READ = -1
"""`StreamGroup.read` if the server does not know the count (``SCG_INVALID_ENTRIES_READ``)."""

DELETED, SAME_FIELDS = 1, 2
"""Flags of an entry in a node."""

_RAW_ID = struct.Struct(">QQ")
_U64 = 1 << 64


class StreamEntry(NamedTuple):
    """One entry of a stream: its id and its words, field and value by turns."""

    id: StreamId
    words: tuple[bytes, ...]


class Pending(NamedTuple):
    """A delivered, unacknowledged entry."""

    id: StreamId
    delivered_at_ms: int
    deliveries: int


class StreamConsumer(NamedTuple):
    """A consumer of a group: when it was last seen and last got an entry, and the ids that wait for its word."""

    name: bytes
    seen_at_ms: int
    active_at_ms: int
    pending: tuple[StreamId, ...]


class StreamGroup(NamedTuple):
    """A consumer group: last delivered id, entries read (`NOT_READ` if unknown), pending entries, consumers."""

    name: bytes
    last_id: StreamId
    read: int
    pending: tuple[Pending, ...]
    consumers: tuple[StreamConsumer, ...]


class StreamValue(NamedTuple):
    """A stream: entries in order, its last id, the entries ever added, the largest id deleted, its groups."""

    entries: list[StreamEntry]
    last_id: StreamId
    added: int
    deleted_id: StreamId
    groups: list[StreamGroup]


def id_text(id_: StreamId) -> str:
    """Return an id as servers write it."""
    return f"{id_[0]}-{id_[1]}"


def stream_document(value: StreamValue, name_of: Callable[[bytes], Any]) -> dict[str, Any]:
    """Return all of a stream but its entries by name; *name_of* gives names of groups and consumers."""
    groups = [
        {
            "name": name_of(group.name),
            "last_id": id_text(group.last_id),
            "entries_read": None if group.read == NOT_READ else group.read,
            "pending": [
                {"id": id_text(item.id), "delivered_at_ms": item.delivered_at_ms, "deliveries": item.deliveries}
                for item in group.pending
            ],
            "consumers": [
                {
                    "name": name_of(item.name),
                    "seen_at_ms": item.seen_at_ms,
                    "active_at_ms": item.active_at_ms,
                    "pending": [id_text(id_) for id_ in item.pending],
                }
                for item in group.consumers
            ],
        }
        for group in value.groups
    ]
    return {
        "last_id": id_text(value.last_id),
        "entries_added": value.added,
        "max_deleted_id": id_text(value.deleted_id),
        "groups": groups,
    }


def stream_value(generation: int, data: bytes, at: int) -> StreamValue:
    """Decode the stream at *at* in the form of its *generation* (`grammar`).

    Like a server's load: before the third generation a consumer's active time is its seen time, and in the first a
    group's entries read are unknown. Data on idempotent producers (fourth on) is skipped. Raises IndexError or
    ValueError for invalid bytes.
    """
    nodes, at = length_at(data, at)
    entries: list[StreamEntry] = []
    for _ in range(nodes):
        raw, at = string_at(data, at)
        node, at = string_at(data, at)
        entries += _entries(raw, packed_elements(node, F_LISTPACK))
    return StreamValue(entries, *stream_tail(generation, data, at))


def stream_tail(generation: int, data: bytes, at: int) -> tuple[StreamId, int, StreamId, list[StreamGroup]]:
    """Decode what stands behind the entries of a stream, from *at* on: last id, entries ever added, largest id deleted, groups."""
    meta = []
    for _ in range(3 if generation == 1 else 8):
        number, at = length_at(data, at)
        meta.append(number)
    added, deleted = (meta[7], (meta[5], meta[6])) if len(meta) == 8 else (meta[0], (0, 0))
    return (meta[1], meta[2]), added, deleted, _groups(generation, data, at)


def _groups(generation: int, data: bytes, at: int) -> list[StreamGroup]:
    count, at = length_at(data, at)
    result = []
    for _ in range(count):
        name, at = string_at(data, at)
        ms, at = length_at(data, at)
        seq, at = length_at(data, at)
        read = NOT_READ
        if generation > 1:
            read, at = length_at(data, at)
            read = NOT_READ if read == _U64 - 1 else read
        pending, at = _pending(data, at)
        consumers, at = _consumers(generation, data, at)
        if generation >= 5:  # entries that were handed back and wait for any consumer
            handed_back, at = length_at(data, at)
            at += 16 * handed_back
        result.append(StreamGroup(name, (ms, seq), read, pending, consumers))
    return result


def _pending(data: bytes, at: int) -> tuple[tuple[Pending, ...], int]:
    count, at = length_at(data, at)
    result = []
    for _ in range(count):
        deliveries, after = length_at(data, at + 24)
        result.append(Pending(_raw_id(data, at), _time(data, at + 16), deliveries))
        at = after
    return tuple(result), at


def _consumers(generation: int, data: bytes, at: int) -> tuple[tuple[StreamConsumer, ...], int]:
    count, at = length_at(data, at)
    result = []
    for _ in range(count):
        name, at = string_at(data, at)
        seen = active = _time(data, at)
        at += 8
        if generation >= 3:
            active = _time(data, at)
            at += 8
        size, at = length_at(data, at)
        if at + 16 * size > len(data):
            raise IndexError
        result.append(StreamConsumer(name, seen, active, tuple(_RAW_ID.iter_unpack(data[at : at + 16 * size]))))
        at += 16 * size
    return tuple(result), at


def _raw_id(data: bytes, at: int) -> StreamId:
    if at + 16 > len(data):
        raise IndexError
    ms, seq = _RAW_ID.unpack_from(data, at)
    return ms, seq


def _time(data: bytes, at: int) -> int:
    if at + 8 > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + 8], "little", signed=True)


def _entries(raw: bytes, words: list[bytes]) -> Iterator[StreamEntry]:
    """The entries, not deleted, of the node with id *raw* that is a listpack of *words*: a master entry with field names, then entries that may
    share them (`streamAppendItem`).

    Raises IndexError or ValueError where the words stand for nothing.
    """
    ms, seq = int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")
    fields = _counted(words[2])
    names = words[3 : 3 + fields]
    at = 4 + fields
    while at < len(words):
        flags, ms_delta, seq_delta = int(words[at]), int(words[at + 1]), int(words[at + 2])
        at += 3
        if flags & SAME_FIELDS:
            values = words[at : at + fields]
            pairs = tuple(word for pair in zip(names, values, strict=True) for word in pair)
            at += fields
        else:
            count = _counted(words[at])
            pairs = tuple(words[at + 1 : at + 1 + 2 * count])
            at += 1 + 2 * count
        int(words[at])
        at += 1
        if not flags & DELETED:
            yield StreamEntry(((ms + ms_delta) % _U64, (seq + seq_delta) % _U64), pairs)


def _counted(word: bytes) -> int:
    """A count in a node of a stream; raises ValueError if it is none."""
    count = int(word)
    if count < 0:
        raise ValueError
    return count


NO_EXPIRY = -1
DAMAGE = (LookupError, ValueError, OverflowError, struct.error)
"""What decoders raise for bytes that end early or stand for nothing."""
_NAN, _INFINITY, _MINUS_INFINITY = 253, 254, 255


class Field(NamedTuple):
    """A field of a hash; *expire_at_ms* is -1 if it stays."""

    name: bytes
    value: bytes
    expire_at_ms: int


class ModuleValue(NamedTuple):
    """A module value: module id, saved bytes, end mark. Only the module can interpret them."""

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


def decode_record(data: bytes, dialect: str, *, source: str = "<record>", offset: int = 0) -> Record:
    """Decode the bytes of one record, from its first attribute to the end of its value.

    Raises DecodeError if the bytes end early or stand for nothing.
    """
    try:
        at, expire, idle, freq = _attributes(data)
        row = grammar.grammar_of(dialect).types[data[at]]
        key, start = string_at(data, at + 1)
        value = _value(row, data, start)
    except DAMAGE as error:
        raise DecodeError("the record cannot be decoded", offset=offset, source=source) from error
    return Record(key, grammar.KEY_TYPES[row.key_type], value, expire, idle, freq)


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
                _, at = string_at(data, at)
            elif opcode in (grammar.MODULE_FLOAT, grammar.MODULE_DOUBLE):
                at += 4 if opcode == grammar.MODULE_FLOAT else 8
            else:
                _, at = length_at(data, at)
            opcode, at = length_at(data, at)
    return at


def _value(row: grammar.ValueType, data: bytes, at: int) -> object:
    if row.layout == grammar.L_STRING:
        return string_at(data, at)[0]
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
    """Decode an unpacked value; `ValueType.element` describes its elements."""
    if row.key_type == grammar.HASH:
        return _hash(row, data, at)
    return list(_scored(row.element, data, at)) if row.key_type == grammar.ZSET else list(_strings(data, at))


def _packed(row: grammar.ValueType, data: bytes, at: int) -> object:
    words = packed_elements(string_at(data, at)[0], row.form)
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
        word, at = string_at(data, at)
        yield word


def _quicklist(form: int, data: bytes, at: int) -> list[bytes]:
    nodes, at = length_at(data, at)
    result: list[bytes] = []
    for _ in range(nodes):
        container = grammar.PACKED_NODE
        if form == grammar.F_LISTPACK:
            container, at = length_at(data, at)
        node, at = string_at(data, at)
        if container == grammar.PLAIN_NODE:
            result.append(node)
        else:
            result += packed_elements(node, form)
    return result


def _array(data: bytes, at: int) -> Iterator[bytes]:
    count, at = length_at(data, at)
    flag, at = length_at(data, at)
    if flag:
        _, at = length_at(data, at)
    for _ in range(count):
        _, at = length_at(data, at)
        kind, at = length_at(data, at)
        if kind in (grammar.ARRAY_STRING, grammar.ARRAY_SHORT_STRING):
            word, at = string_at(data, at)
            yield word
        else:
            (number,) = struct.unpack_from("<q" if kind == grammar.ARRAY_INTEGER else "<d", data, at)
            yield b"%d" % number if kind == grammar.ARRAY_INTEGER else repr(number).encode()
            at += 8


def _scored(element: int, data: bytes, at: int) -> Iterator[tuple[bytes, float]]:
    count, at = length_at(data, at)
    for _ in range(count):
        member, at = string_at(data, at)
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
    result = []
    for _ in range(count):
        expire = NO_EXPIRY
        if row.element == grammar.E_EXPIRY_BEFORE:
            delta, at = length_at(data, at)  # counted from one before the earliest; from 1970 in the release candidates
            expire = NO_EXPIRY if delta == 0 else delta + base - (row.lead_bytes > 0)
        name, at = string_at(data, at)
        value, at = string_at(data, at)
        if row.element == grammar.E_EXPIRY_AFTER:
            expire = int.from_bytes(data[at : at + 8], "little", signed=True)
            at += 8
        result.append(Field(name, value, expire))
    return result
