"""The keys that a replay has left, with their values, as records of a dump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cluster_core.aof.store import HASH, LIST, NEVER, SET, STREAM, UNCERTAIN, ZSET, Entry, Group, Store, Stream
from cluster_core.rdb.values import Field, Pending, Record, StreamConsumer, StreamEntry, StreamGroup, StreamValue


def records(store: Store) -> Iterator[tuple[int, Record]]:
    """Yield (database, record) of every key that is not uncertain; *store* has kept the values."""
    for db in sorted(store.databases):
        for key, entry in store.databases[db].items():
            if entry.kind != UNCERTAIN:
                yield db, Record(key, entry.kind, _value(entry), entry.expire_at_ms)


def _value(entry: Entry) -> object:
    value: Any = entry.value
    if entry.kind in (LIST, SET):
        return list(value)
    if entry.kind == ZSET:
        return list(value.items())
    if entry.kind == HASH:
        return [Field(name, word, value.expiry.get(name, NEVER)) for name, word in value.fields.items()]
    return _stream(value) if entry.kind == STREAM else value


def _stream(stream: Stream) -> StreamValue:
    entries = [StreamEntry(id_, words) for id_, words in stream.entries.items() if isinstance(words, tuple)]
    groups = [_group(name, group) for name, group in stream.groups.items()]
    return StreamValue(entries, stream.last_id, stream.added, stream.deleted_id, groups)


def _group(name: bytes, group: Group) -> StreamGroup:
    pending = {id_: claimed for held in group.consumers.values() for id_, claimed in held.items()}
    consumers = tuple(StreamConsumer(consumer, 0, 0, tuple(sorted(held))) for consumer, held in group.consumers.items())
    told = tuple(Pending(id_, *pending[id_]) for id_ in sorted(pending))
    return StreamGroup(name, group.last_id, group.read, told, consumers)
