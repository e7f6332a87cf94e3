"""Replay of logged commands on streams and groups.

Servers log XREADGROUP, XCLAIM and XAUTOCLAIM as one XCLAIM per entry, with TIME, RETRYCOUNT, FORCE, JUSTID and LASTID.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster_core.aof.live_bytes import entry_bytes
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
    Unsettled,
    lowered,
    number,
    stream_id,
)

Words = Sequence[bytes]
_TIME_UNKNOWN = 10**12
"""Substitute for an unknown claim time, with as many digits as times from 2001 to 2286."""


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
    """Return a group's start, from an id or ``$``, and the number of earlier entries."""
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
    """Return lower-case options with values, empty for options without one."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(words):
        name = words[at].lower()
        has_value = name not in (b"force", b"justid")
        found[name] = words[at + 1] if has_value else b""
        at += 2 if has_value else 1
    return found


def _touch(store: Store, words: Words) -> None:
    """Ignore reads and claims, which servers log as XCLAIM and XGROUP."""
    store.typed(words[1], STREAM)


_GROUP_HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "xgroup": _xgroup, "xack": _xack, "xclaim": _xclaim, "xautoclaim": _touch, "xreadgroup": lambda store, words: None,
}  # fmt: skip


def _xadd(store: Store, words: Words) -> None:
    at, trim, create = 2, None, True
    while at < len(words):
        option = words[at].lower()
        if option == b"nomkstream":
            create = False
        elif option in (b"maxlen", b"minid"):
            trim, at = _trim_of(words, at)
            continue
        elif option == b"limit":
            at += 1
        elif option not in (b"keepref", b"delref", b"acked"):
            break
        at += 1
    key, name, fields = words[1], stream_id(words[at]), words[at + 1 :]
    if not fields or len(fields) % 2:
        raise Refused
    stream = store.typed(key, STREAM)
    if stream is None and not create:
        raise Refused
    if stream is None:
        stream = store.made(key, STREAM)
    elif name <= stream.last_id:
        raise Refused
    stream.entries[name] = entry_bytes(fields)
    stream.last_id = name
    stream.added += 1
    if trim is not None:
        _trim(stream, *trim)


def _trim_of(words: Words, at: int) -> tuple[tuple[bytes, bytes, bool], int]:
    """Parse MAXLEN|MINID [=|~] threshold: (how, threshold, approximate), and the next index."""
    how, about = words[at].lower(), False
    at += 1
    if words[at] in (b"=", b"~"):
        about = words[at] == b"~"
        at += 1
    return (how, words[at], about), at + 1


def _trim(stream: Stream, how: bytes, threshold: bytes, about: bool) -> None:
    """Remove the oldest entries; ``~`` is not modelled, as servers log the exact outcome."""
    if how == b"maxlen":
        keep = number(threshold)
        gone = list(stream.entries)[: max(len(stream.entries) - keep, 0)]
    else:
        least = stream_id(threshold)
        gone = [name for name in stream.entries if name < least]
    if gone and about:
        raise Unsettled
    for name in gone:
        del stream.entries[name]


def _xtrim(store: Store, words: Words) -> None:
    trim, _ = _trim_of(words, 2)
    _trim(_stream(store, words[1]), *trim)


def _xdel(store: Store, words: Words) -> None:
    stream = _stream(store, words[1])
    for word in words[2:]:
        name = stream_id(word)
        if stream.entries.pop(name, None) is not None:
            stream.deleted_id = max(stream.deleted_id, name)


def _xsetid(store: Store, words: Words) -> None:
    stream = _stream(store, words[1])
    stream.last_id = stream_id(words[2])
    options = lowered(words[3:])
    for at, option in enumerate(options):
        if option == b"entriesadded":
            stream.added = number(options[at + 1])
        elif option == b"maxdeletedid":
            stream.deleted_id = stream_id(options[at + 1])


STREAM_HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "xadd": _xadd, "xtrim": _xtrim, "xdel": _xdel, "xsetid": _xsetid, **_GROUP_HANDLERS,
}  # fmt: skip
