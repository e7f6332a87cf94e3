"""A stream as bytes: the way back from `stream_elements` (`rdbSaveObject`, `streamAppendItem`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cluster_core.errors import EncodeError
from cluster_core.formats.rdb.encoding import length_bytes, listpack_bytes, raw_string_bytes, string_bytes
from cluster_core.formats.rdb.grammar import L_STREAM, STREAM
from cluster_core.formats.rdb.stream_elements import (
    NOT_READ,
    SAME_FIELDS,
    StreamConsumer,
    StreamEntry,
    StreamGroup,
    StreamId,
    StreamValue,
)
from cluster_core.formats.rdb.target import Target

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
