"""Commands of consumer groups: last ids, consumers and pending entries, as servers log them (`t_stream.c`).

A server logs what XREADGROUP, XCLAIM and XAUTOCLAIM do as one XCLAIM an entry, with TIME, RETRYCOUNT, FORCE, JUSTID and LASTID.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster_core.aof.store import (
    NOT_READ,
    STREAM,
    Claimed,
    Entry,
    Group,
    Refused,
    Store,
    Stream,
    StreamId,
    lowered,
    number,
    stream_id,
)

Words = Sequence[bytes]
_TIME_UNKNOWN = 10**12
"""Stands for the time of a claim that does not tell it: as many digits as any time from 2001 to 2286."""


def _stream(store: Store, key: bytes) -> Stream:
    stream: Stream | None = store.typed(key, STREAM)
    if stream is None:
        raise Refused
    return stream


def _group(store: Store, key: bytes, name: bytes) -> tuple[Stream, Group]:
    stream = _stream(store, key)
    group = stream.groups.get(name)
    if group is None:
        raise Refused
    return stream, group


def _xgroup(store: Store, words: Words) -> None:
    action = words[1].lower()
    if action == b"create":
        _create(store, words)
        return
    stream = _stream(store, words[2])
    if action == b"destroy":
        stream.groups.pop(words[3], None)
        return
    _, group = _group(store, words[2], words[3])
    if action == b"setid":
        group.last_id, group.read = _start(stream, words)
    elif action == b"createconsumer":
        group.consumers.setdefault(words[4], {})
    elif action == b"delconsumer":
        for name in group.consumers.pop(words[4], {}):
            group.holders.pop(name, None)


def _create(store: Store, words: Words) -> None:
    """XGROUP CREATE key group id [MKSTREAM] [ENTRIESREAD n]."""
    stream: Stream | None = store.typed(words[2], STREAM)
    if stream is None:
        if b"mkstream" not in lowered(words[4:]):
            raise Refused
        stream = Stream()
        store.keys[words[2]] = Entry(STREAM, stream)
    if words[3] in stream.groups:
        raise Refused
    last_id, read = _start(stream, words)
    stream.groups[words[3]] = Group(last_id, read)


def _start(stream: Stream, words: Words) -> tuple[StreamId, int]:
    """Where a group begins: an id or ``$``, and how many entries lie before it."""
    last_id = stream.last_id if words[4] == b"$" else stream_id(words[4])
    options = lowered(words[5:])
    at = options.index(b"entriesread") + 1 if b"entriesread" in options else len(options)
    return last_id, number(options[at]) if at < len(options) else NOT_READ


def _xack(store: Store, words: Words) -> None:
    _, group = _group(store, words[1], words[2])
    for word in words[3:]:
        group.release(stream_id(word))


def _xclaim(store: Store, words: Words) -> None:
    """XCLAIM key group consumer min-idle id … [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID] [LASTID id]."""
    stream, group = _group(store, words[1], words[2])
    at = 5
    while at < len(words) and words[at][:1].isdigit():
        at += 1
    options = _options(words[at:])
    last_id = stream_id(options.get(b"lastid", b"0"))
    group.last_id = max(group.last_id, last_id)
    consumer = group.consumers.setdefault(words[3], {})
    for word in words[5:at]:
        name = stream_id(word)
        if name not in stream.entries:
            group.release(name)
            continue
        if name not in group.holders and b"force" not in options:
            continue
        held = group.consumers[group.holders[name]].pop(name) if name in group.holders else None
        count = held.deliveries if held is not None else 1
        if b"retrycount" in options:
            count = number(options[b"retrycount"])
        elif b"justid" not in options:
            count += 1
        consumer[name] = Claimed(number(options[b"time"]) if b"time" in options else _TIME_UNKNOWN, count)
        group.holders[name] = words[3]


def _options(words: Words) -> dict[bytes, bytes]:
    """Options in lower case with their values, empty for those that have none."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(words):
        name = words[at].lower()
        has_value = name not in (b"force", b"justid")
        found[name] = words[at + 1] if has_value else b""
        at += 2 if has_value else 1
    return found


def _touch(store: Store, words: Words) -> None:
    """What reads or claims for a client is logged as XCLAIM and XGROUP."""
    store.typed(words[1], STREAM)


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "xgroup": _xgroup, "xack": _xack, "xclaim": _xclaim, "xautoclaim": _touch, "xreadgroup": lambda store, words: None,
}  # fmt: skip
