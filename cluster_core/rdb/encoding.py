"""Values as the bytes of an RDB file of a given dialect and version: the inverse of `values`.

Small values are packed as a server packs them; larger ones, and all with `PLAIN`, are written element by element.  A server
chooses its own encoding when it loads either.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cluster_core.errors import EncodeError
from cluster_core.rdb import grammar
from cluster_core.rdb.grammar import DIALECT_REDIS, DIALECT_VALKEY, KEY_TYPES, L_STREAM, STREAM, ValueType, written_type
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.values import (
    NOT_READ,
    SAME_FIELDS,
    Field,
    ModuleValue,
    StreamConsumer,
    StreamEntry,
    StreamGroup,
    StreamId,
    StreamValue,
)

WRITTEN_VERSIONS = {DIALECT_REDIS: (9, 10, 11, 12), DIALECT_VALKEY: (80,)}
"""9: Redis 5.0 to 6.2.  10: Redis 7.0.  11: Redis 7.2, Valkey 7.2 and 8.  12: Redis 7.4 and 8.0.  80: Valkey 9."""


class Target(NamedTuple):
    """Dialect and version of a file to be written; make one with `target_of`."""

    dialect: str
    version: int

    @property
    def magic(self) -> bytes:
        """The first nine bytes."""
        return self.dialect.encode() + b"%0*d" % (9 - len(self.dialect), self.version)

    @property
    def has_listpacks(self) -> bool:
        """Whether packed values are listpacks, not ziplists; functions came with the same version."""
        return self.version >= 10

    @property
    def has_set_listpacks(self) -> bool:
        """Whether a set may be a listpack; active times of consumers came with the same version."""
        return self.version >= 11

    def holds(self, key_type: int, layout: int, **like: int) -> bool:
        """Whether the version has a value type of that kind that is written here."""
        return written_type(self.dialect, self.version, key_type, layout, **like) is not None

    def type_of(self, key_type: int, layout: int, **like: int) -> tuple[int, ValueType]:
        """Return (number, row) of the newest value type of that kind that the version holds and that is written here (`written_type`).

        Raises EncodeError if it holds none.
        """
        found = written_type(self.dialect, self.version, key_type, layout, **like)
        if found is None:
            raise EncodeError(f"version {self.version} does not hold such a {KEY_TYPES[key_type]}")
        return found

    @property
    def slot_info_is_opcode(self) -> bool:
        """Whether slot info is an opcode (Redis); before, and in Valkey, it is an aux field that may be ignored."""
        return self.dialect == DIALECT_REDIS and self.version >= 12


def target_of(dialect: str, version: int) -> Target:
    """Return the target of that dialect and version; EncodeError for one that is not written here."""
    if version not in WRITTEN_VERSIONS.get(dialect, ()):
        known = ", ".join(f"{name} {number}" for name, numbers in WRITTEN_VERSIONS.items() for number in numbers)
        raise EncodeError(f"RDB version {dialect} {version} is not written; there are {known}")
    return Target(dialect, version)


def target_like(head: RdbHead) -> Target:
    """Return the target of a copy of the file that *head* begins: any version, since values go through as they are."""
    return Target(head.dialect, head.version)


INTEGER_DIGITS_MAX = 11
"""A string of more digits is never written as an integer (`rdbSaveRawString`)."""
LISTPACK_INTEGER_DIGITS_MAX = 20
_PACKED_BYTES_MAX = 1 << 30
_COUNT_MAX = 65_535


def length_bytes(value: int) -> bytes:
    """Return a length or count, 0 to 2**64 - 1 (`rdbSaveLen`)."""
    if value < 0x40:
        if value < 0:
            raise EncodeError(f"{value} is no length")
        return bytes((value,))
    if value < 0x4000:
        return bytes((0x40 | value >> 8, value & 0xFF))
    if value < 1 << 32:
        return b"\x80" + value.to_bytes(4, "big")
    if value < 1 << 64:
        return b"\x81" + value.to_bytes(8, "big")
    raise EncodeError(f"{value} is longer than a length can say")


def raw_string_bytes(data: bytes) -> bytes:
    """Return a string as length and bytes."""
    return length_bytes(len(data)) + data


def string_bytes(data: bytes) -> bytes:
    """Return a string, as an integer if it is one of up to 32 bits, else uncompressed (`rdbSaveRawString`)."""
    if 0 < len(data) <= INTEGER_DIGITS_MAX:
        number = canonical_integer(data)
        if number is not None:
            for form, code in enumerate("bhi"):
                limit = 1 << (8 << form) - 1
                if -limit <= number < limit:
                    return bytes((0xC0 | form,)) + struct.pack(f"<{code}", number)
    return length_bytes(len(data)) + data


def canonical_integer(text: bytes) -> int | None:
    """Return the 64-bit integer that *text* is, written as a server writes it (`string2ll`), or None."""
    if not 0 < len(text) <= LISTPACK_INTEGER_DIGITS_MAX:
        return None
    digits = text[1:] if text[0] == 45 else text
    if not digits.isdigit() or (digits[0] == 48 and len(text) > 1):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def listpack_bytes(entries: Sequence[bytes]) -> bytes:
    """Return a listpack of *entries*; those that are integers become integers (`lpEncodeGetType`)."""
    body = b"".join(map(listpack_entry, entries))
    return struct.pack("<IH", _packed_bytes(len(body) + 7), min(len(entries), _COUNT_MAX)) + body + b"\xff"


def listpack_entry(entry: bytes) -> bytes:
    """Return one entry of a listpack with its back length."""
    number = canonical_integer(entry)
    if number is not None:
        body = _listpack_integer(number)
    elif len(entry) < 64:
        body = bytes((0x80 | len(entry),)) + entry
    elif len(entry) < 4096:
        body = bytes((0xE0 | len(entry) >> 8, len(entry) & 0xFF)) + entry
    else:
        body = b"\xf0" + struct.pack("<I", _packed_bytes(len(entry))) + entry
    return body + _back_length(len(body))


def _listpack_integer(number: int) -> bytes:
    if 0 <= number < 128:
        return bytes((number,))
    if -4096 <= number < 4096:
        return bytes((0xC0 | (number & 0x1FFF) >> 8, number & 0xFF))
    for code, width in ((0xF1, 2), (0xF2, 3), (0xF3, 4), (0xF4, 8)):
        if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
            return bytes((code,)) + (number & (1 << 8 * width) - 1).to_bytes(width, "little")
    raise EncodeError(f"{number} is no 64-bit integer")


def _back_length(size: int) -> bytes:
    """The size of an entry, seven bits a byte, to be read from its end; all bytes but the first are marked (`lpEncodeBacklen`)."""
    if size <= 127:
        return bytes((size,))
    count = 2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5
    parts = [size >> 7 * place & 127 | 128 for place in range(count - 1, -1, -1)]
    parts[0] &= 127
    return bytes(parts)


def ziplist_bytes(entries: Sequence[bytes]) -> bytes:
    """Return a ziplist of *entries*; those that are integers become integers (`zipTryEncoding`)."""
    out = bytearray()
    before = tail = 0
    for entry in entries:
        tail = len(out)
        head = bytes((before,)) if before < 254 else b"\xfe" + struct.pack("<I", before)
        out += head + _ziplist_entry(entry)
        before = len(out) - tail
    head = struct.pack("<IIH", _packed_bytes(len(out) + 11), 10 + tail, min(len(entries), _COUNT_MAX))
    return head + bytes(out) + b"\xff"


def _ziplist_entry(entry: bytes) -> bytes:
    number = canonical_integer(entry)
    if number is not None:
        if 0 <= number <= 12:
            return bytes((0xF1 + number,))
        for code, width in ((0xFE, 1), (0xC0, 2), (0xF0, 3), (0xD0, 4), (0xE0, 8)):
            if -(1 << 8 * width - 1) <= number < 1 << 8 * width - 1:
                return bytes((code,)) + (number & (1 << 8 * width) - 1).to_bytes(width, "little")
    if len(entry) < 64:
        return bytes((len(entry),)) + entry
    if len(entry) < 16384:
        return bytes((0x40 | len(entry) >> 8, len(entry) & 0xFF)) + entry
    return b"\x80" + _packed_bytes(len(entry)).to_bytes(4, "big") + entry


def intset_bytes(numbers: Sequence[int]) -> bytes:
    """Return an intset of *numbers*, sorted, in the narrowest width that holds them all."""
    ordered = sorted(numbers)
    width = next(width for width in (2, 4, 8) if all(-(1 << 8 * width - 1) <= n < 1 << 8 * width - 1 for n in ordered))
    code = {2: "h", 4: "i", 8: "q"}[width]
    return struct.pack(f"<II{len(ordered)}{code}", width, len(ordered), *ordered)


def _packed_bytes(size: int) -> int:
    if size > _PACKED_BYTES_MAX:
        raise EncodeError(f"a packed value of {size} bytes is larger than a server takes ({_PACKED_BYTES_MAX})")
    return size


NODE_ENTRIES_MAX = 100
NODE_BYTES_MAX = 4096
"""Bounds of a node, the servers' defaults (``stream-node-max-entries``, ``stream-node-max-bytes``)."""

_U64 = 1 << 64


def stream_bytes(value: StreamValue, target: Target) -> tuple[int, bytes]:
    """Return (value type, bytes) of a stream in a file of *target*.

    Raises EncodeError for what no server holds (ids that do not rise, pending entries without a consumer) and for what
    the target does not hold: version 9 has no largest deleted id, no count of deleted entries and no read counts, versions
    before 11 no active times apart from the times seen.
    """
    number, row = target.type_of(STREAM, L_STREAM)
    generation = row.generation
    if generation == 1 and (value.added != len(value.entries) or value.deleted_id != (0, 0)):
        raise EncodeError(f"version {target.version} does not hold the deleted entries of a stream")
    nodes = list(_nodes(value.entries, value.last_id))
    out = [length_bytes(len(nodes)), *nodes, length_bytes(len(value.entries)), _lengths(*value.last_id)]
    if generation > 1:
        first = value.entries[0].id if value.entries else (0, 0)
        out.append(_lengths(*first, *value.deleted_id, value.added))
    out.append(length_bytes(len(value.groups)))
    for group in value.groups:
        out += _group(group, generation, target)
    return number, b"".join(out)


def _nodes(entries: Sequence[StreamEntry], last: StreamId) -> Iterator[bytes]:
    held: list[StreamEntry] = []
    size, before = 0, (-1, -1)
    for entry in entries:
        if not before < entry.id <= last or len(entry.words) % 2 or not entry.words:
            raise EncodeError(f"entry {entry.id[0]}-{entry.id[1]} of a stream is out of order or has no pairs")
        before = entry.id
        entry_size = sum(map(len, entry.words))
        if held and (len(held) == NODE_ENTRIES_MAX or size + entry_size > NODE_BYTES_MAX):
            yield _node(held)
            held, size = [], 0
        held.append(entry)
        size += entry_size
    if held:
        yield _node(held)


def _node(entries: Sequence[StreamEntry]) -> bytes:
    """A node: the id of its first entry, then a listpack with the field names of that entry and all entries."""
    (ms, seq), names = entries[0].id, entries[0].words[::2]
    words = [_number(len(entries)), b"0", _number(len(names)), *names, b"0"]
    for entry in entries:
        same = entry.words[::2] == names
        item = [*entry.words[1::2]] if same else [_number(len(entry.words) // 2), *entry.words]
        delta = (_number(SAME_FIELDS if same else 0), _wrapped(entry.id[0] - ms), _wrapped(entry.id[1] - seq))
        words += [*delta, *item, _number(len(item) + 3)]
    return raw_string_bytes(_raw_id((ms, seq))) + raw_string_bytes(listpack_bytes(words))


def _number(value: int) -> bytes:
    return b"%d" % value


def _wrapped(difference: int) -> bytes:
    """A difference of two 64-bit numbers, as the signed number that a listpack holds."""
    return b"%d" % ((difference + (1 << 63)) % _U64 - (1 << 63))


def _lengths(*values: int) -> bytes:
    return b"".join(map(length_bytes, values))


def _raw_id(stream_id: StreamId) -> bytes:
    return stream_id[0].to_bytes(8, "big") + stream_id[1].to_bytes(8, "big")


def _time(at_ms: int) -> bytes:
    return at_ms.to_bytes(8, "little", signed=True)


def _group(group: StreamGroup, generation: int, target: Target) -> Iterator[bytes]:
    yield string_bytes(group.name) + _lengths(*group.last_id)
    if generation > 1:
        yield length_bytes(group.read % _U64)
    elif group.read != NOT_READ:
        raise EncodeError(f"version {target.version} does not hold how many entries a group has read")
    yield length_bytes(len(group.pending))
    for entry in group.pending:
        yield _raw_id(entry.id) + _time(entry.delivered_at_ms) + length_bytes(entry.deliveries)
    waiting = sorted(entry for consumer in group.consumers for entry in consumer.pending)
    if waiting != sorted(entry.id for entry in group.pending):
        raise EncodeError("the pending entries of a group are not those of its consumers")
    yield length_bytes(len(group.consumers))
    for consumer in group.consumers:
        yield _consumer(consumer, generation, target)


def _consumer(consumer: StreamConsumer, generation: int, target: Target) -> bytes:
    out = string_bytes(consumer.name) + _time(consumer.seen_at_ms)
    if generation >= 3:
        out += _time(consumer.active_at_ms)
    elif consumer.active_at_ms != consumer.seen_at_ms:
        raise EncodeError(f"version {target.version} does not hold when a consumer was active, only when it was seen")
    return out + length_bytes(len(consumer.pending)) + b"".join(map(_raw_id, consumer.pending))


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
