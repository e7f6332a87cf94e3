"""Commands of keys of any type, and of databases (`db.c`, `expire.c`, RESTORE of `cluster.c`)."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster_core.aof.live_bytes import entry_bytes
from cluster_core.aof.store import (
    LIST,
    NEVER,
    SET,
    UNCERTAIN,
    ZSET,
    Claimed,
    Entry,
    Group,
    Hash,
    Refused,
    Store,
    Stream,
    Unsettled,
    lowered,
    number,
)
from cluster_core.errors import DecodeError
from cluster_core.rdb.values import ModuleValue, StreamGroup, StreamValue, decode_value
from cluster_core.rdb.writer import TAIL_BYTES, target_of_dump, without_tail
from cluster_core.slots.key_slot import key_slot

Words = Sequence[bytes]


def entry_of(store: Store, kind: str, value: Any, expire_at_ms: int) -> Entry:
    """The entry in *store* for a decoded value of a dump (`cluster_core.rdb.values`)."""
    if isinstance(value, bytes):
        kept: Any = value if value[:4] == b"HYLL" else store.sized(value)
    elif kind == LIST:
        kept = deque(value)
    elif kind == SET:
        kept = set(value)
    elif kind == ZSET:
        kept = dict(value)
    elif isinstance(value, StreamValue):
        entries = {entry.id: entry_bytes(entry.words) for entry in value.entries}
        groups = {group.name: _group_of(group) for group in value.groups}
        kept = Stream(entries, value.last_id, value.added, value.deleted_id, groups)
    elif isinstance(value, ModuleValue):
        kept = None
    else:
        expiry = {field.name: field.expire_at_ms for field in value if field.expire_at_ms >= 0}
        kept = Hash({field.name: store.sized(field.value) for field in value}, expiry)
    return Entry(kind, kept, expire_at_ms)


def _group_of(group: StreamGroup) -> Group:
    delivered = {entry.id: Claimed(entry.delivered_at_ms, entry.deliveries) for entry in group.pending}
    consumers = {
        held.name: {name: delivered[name] for name in held.pending if name in delivered} for held in group.consumers
    }
    holders = {name: held.name for held in group.consumers for name in held.pending if name in delivered}
    return Group(group.last_id, group.read, consumers, holders)


def _del(store: Store, words: Words) -> None:
    for key in words[1:]:
        store.remove(key)


def _expireat(scale: int) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        entry = store.find(words[1])
        if entry is None:
            raise Refused
        when, options, old = number(words[2]) * scale, lowered(words[3:]), entry.expire_at_ms
        if (b"nx" in options and old >= 0) or (b"xx" in options and old < 0):
            raise Refused
        if (b"gt" in options and (old < 0 or when <= old)) or (b"lt" in options and 0 <= old <= when):
            raise Refused
        entry.expire_at_ms = max(when, 0)

    return run


def _expire(store: Store, words: Words) -> None:
    if store.find(words[1]) is None:
        raise Refused
    raise Unsettled  # counted from when it ran; servers log PEXPIREAT


def _persist(store: Store, words: Words) -> None:
    entry = store.find(words[1])
    if entry is None:
        raise Refused
    entry.expire_at_ms = NEVER


def _rename(store: Store, words: Words) -> None:
    entry = store.keys.get(words[1])
    if entry is None:
        raise Refused
    if words[1] != words[2]:
        store.keys[words[2]] = store.keys.pop(words[1])


def _renamenx(store: Store, words: Words) -> None:
    if store.find(words[2]) is not None:
        raise Refused
    _rename(store, words)


def _move(store: Store, words: Words) -> None:
    target = store.databases.setdefault(number(words[2]), {})
    entry = store.keys.get(words[1])
    if entry is None or words[1] in target:
        if words[1] in target and target[words[1]].kind == UNCERTAIN:
            raise Unsettled
        raise Refused
    target[words[1]] = store.keys.pop(words[1])


def _copy(store: Store, words: Words) -> None:
    options = lowered(words[3:])
    db = number(options[options.index(b"db") + 1]) if b"db" in options else store.db
    entry = store.keys.get(words[1])
    target = store.databases.setdefault(db, {})
    held = target.get(words[2])
    if entry is None or (held is not None and b"replace" not in options):
        if held is not None and held.kind == UNCERTAIN:
            raise Unsettled
        raise Refused
    target[words[2]] = copy.deepcopy(entry)


def _restore(store: Store, words: Words) -> None:
    """RESTORE key ttl payload [REPLACE] [ABSTTL] …: a value as DUMP gives it, with a version and a checksum after it."""
    key, payload, options = words[1], words[3], lowered(words[4:])
    if store.find(key) is not None and b"replace" not in options:
        raise Refused
    ttl = number(words[2])
    if ttl and b"absttl" not in options:
        raise Unsettled
    if len(payload) <= TAIL_BYTES:
        raise Refused
    try:
        kind, value = decode_value(without_tail(payload), target_of_dump(payload).dialect)
    except DecodeError:
        raise Unsettled from None
    store.keys[key] = entry_of(store, kind, value, ttl or NEVER)


def _flushdb(store: Store, words: Words) -> None:
    store.keys.clear()


def _flushall(store: Store, words: Words) -> None:
    store.databases.clear()


def _swapdb(store: Store, words: Words) -> None:
    first, second = number(words[1]), number(words[2])
    held = store.databases.pop(first, {}), store.databases.pop(second, {})
    store.databases[second], store.databases[first] = held


def _flushslot(store: Store, words: Words) -> None:
    """CLUSTER FLUSHSLOT slot (Valkey 9)."""
    if words[1].lower() != b"flushslot":
        raise Refused
    slot = number(words[2])
    for keys in store.databases.values():
        for key in [key for key in keys if key_slot(key) == slot]:
            del keys[key]


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "del": _del, "unlink": _del, "expireat": _expireat(1000), "pexpireat": _expireat(1), "expire": _expire, "pexpire": _expire,
    "persist": _persist, "rename": _rename, "renamenx": _renamenx, "move": _move, "copy": _copy, "restore": _restore,
    "restore-asking": _restore, "flushdb": _flushdb, "flushall": _flushall, "swapdb": _swapdb, "cluster": _flushslot,
}  # fmt: skip
