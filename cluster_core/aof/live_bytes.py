"""Bytes of a log that only creates one key, as a rewrite with ``aof-use-rdb-preamble no`` (`rewriteAppendOnlyFileRio`).

Exact but for sorted set scores, which Valkey writes in a longer form, and consumer groups, which are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cluster_core.aof.store import (
    HASH,
    LIST,
    MODULE,
    SET,
    STREAM,
    STRING,
    ZSET,
    Entry,
    Hash,
    Sized,
    Stream,
    length_of,
)

ITEMS_PER_COMMAND = 64
"""``AOF_REWRITE_ITEMS_PER_CMD``."""


def bulk_bytes(length: int) -> int:
    """Return the bytes of a bulk string with header and CRLF."""
    return length + len(str(length)) + 5


def head_bytes(count: int) -> int:
    """Return the bytes of a command's header."""
    return len(str(count)) + 3


def entry_bytes(args: Sequence[bytes]) -> int:
    """Return the bytes of fields and values in the XADD of an entry, with the command's header."""
    return head_bytes(3 + len(args)) + sum(bulk_bytes(len(word)) for word in args)


def live_bytes(key: bytes, entry: Entry) -> int:
    """Return the bytes of commands that create *entry* as *key*; 0 for a module value."""
    name = bulk_bytes(len(key))
    total = _value_bytes(name, entry)
    if entry.expire_at_ms >= 0 and entry.kind != MODULE:
        total += head_bytes(3) + bulk_bytes(len("PEXPIREAT")) + name + bulk_bytes(len(str(entry.expire_at_ms)))
    return total


def _value_bytes(name: int, entry: Entry) -> int:
    if entry.kind == STRING:
        return head_bytes(3) + bulk_bytes(3) + name + bulk_bytes(length_of(entry.value))
    if entry.kind == LIST:
        return _in_commands(name, len("RPUSH"), 1, (bulk_bytes(len(value)) for value in entry.value))
    if entry.kind == SET:
        return _in_commands(name, len("SADD"), 1, (bulk_bytes(len(value)) for value in entry.value))
    if entry.kind == ZSET:
        pairs = (bulk_bytes(len(score_text(score))) + bulk_bytes(len(member)) for member, score in entry.value.items())
        return _in_commands(name, len("ZADD"), 2, pairs)
    if entry.kind == HASH:
        return _hash_bytes(name, entry.value)
    return _stream_bytes(name, entry.value) if entry.kind == STREAM else 0


def _in_commands(name: int, command: int, values_per_item: int, sizes: Iterable[int]) -> int:
    """Return the bytes of items of *values_per_item* arguments each, 64 per command."""
    total = count = 0
    for size in sizes:
        total += size
        count += 1
    full, rest = divmod(count, ITEMS_PER_COMMAND)
    per_command = bulk_bytes(command) + name
    total += full * (head_bytes(2 + values_per_item * ITEMS_PER_COMMAND) + per_command)
    return total + (head_bytes(2 + values_per_item * rest) + per_command if rest else 0)


def score_text(score: float) -> str:
    """Format a score like a rewrite (``%.17g``)."""
    if math.isinf(score):
        return "inf" if score > 0 else "-inf"
    return "%.17g" % score  # noqa: UP031 - it is the C format


def _hash_bytes(name: int, value: Hash) -> int:
    """Return the bytes of HMSET, and of HSETEX key PXAT time FIELDS 1 field value for expiring fields (Valkey 9)."""

    def pair(field: bytes, word: Sized) -> int:
        return bulk_bytes(len(field)) + bulk_bytes(length_of(word))

    lasting = (pair(field, word) for field, word in value.fields.items() if field not in value.expiry)
    total = _in_commands(name, len("HMSET"), 2, lasting)
    for field, expire in value.expiry.items():
        fixed = bulk_bytes(6) + name + bulk_bytes(4) + bulk_bytes(len(str(expire))) + bulk_bytes(6) + bulk_bytes(1)
        total += head_bytes(8) + fixed + pair(field, value.fields[field])
    return total


def _stream_bytes(name: int, stream: Stream) -> int:
    total = 0
    for (ms, seq), size in stream.entries.items():
        total += bulk_bytes(4) + name + bulk_bytes(len(f"{ms}-{seq}")) + size
    last, deleted = (f"{ms}-{seq}" for ms, seq in (stream.last_id, stream.deleted_id))
    if not stream.entries:
        total += head_bytes(7) + bulk_bytes(4) + name + bulk_bytes(6) + bulk_bytes(1) + bulk_bytes(len(last))
        total += 2 * bulk_bytes(1)
    total += head_bytes(7) + bulk_bytes(6) + name + bulk_bytes(len(last)) + bulk_bytes(12)
    total += bulk_bytes(len(str(stream.added))) + bulk_bytes(12) + bulk_bytes(len(deleted))
    return total
