"""Commands of streams, as far as entries, ids and the names of groups go (`t_stream.c`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster_core.aof.live_bytes import head_bytes, word_bytes
from cluster_core.aof.store import STREAM, Entry, Refused, Store, Stream, StreamId, Unsettled, lowered, number

Words = Sequence[bytes]
_SEQUENCE_MAX = (1 << 64) - 1


def entry_bytes(words: Sequence[bytes]) -> int:
    """Bytes of fields and values in the XADD that makes an entry, with the head of that command."""
    return head_bytes(3 + len(words)) + sum(word_bytes(len(word)) for word in words)


def stream_id(word: bytes, missing: int = 0) -> StreamId:
    """An id as ``ms-seq`` or ``ms``; raises Refused for anything else, Unsettled for one that the server shall choose."""
    if word in (b"-", b"+"):
        return (0, 0) if word == b"-" else (_SEQUENCE_MAX, _SEQUENCE_MAX)
    head, dash, tail = word.partition(b"-")
    if not head.isdigit() or (dash and not tail.isdigit()) or len(word) > 41:
        if word in (b"*", b"$", b">") or tail == b"*":
            raise Unsettled
        raise Refused
    return int(head), int(tail) if dash else missing


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
    """MAXLEN|MINID [=|~] threshold: (how, threshold, whether about), and the place after it."""
    how, about = words[at].lower(), False
    at += 1
    if words[at] in (b"=", b"~"):
        about = words[at] == b"~"
        at += 1
    return (how, words[at], about), at + 1


def _trim(stream: Stream, how: bytes, threshold: bytes, about: bool) -> None:
    """Remove the oldest entries; servers log the exact outcome of an approximate trim, so ``~`` itself is not modelled."""
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


def _existing(store: Store, key: bytes) -> Stream:
    stream: Stream | None = store.typed(key, STREAM)
    if stream is None:
        raise Refused
    return stream


def _xtrim(store: Store, words: Words) -> None:
    trim, _ = _trim_of(words, 2)
    _trim(_existing(store, words[1]), *trim)


def _xdel(store: Store, words: Words) -> None:
    stream = _existing(store, words[1])
    for word in words[2:]:
        name = stream_id(word)
        if stream.entries.pop(name, None) is not None:
            stream.deleted_id = max(stream.deleted_id, name)


def _xsetid(store: Store, words: Words) -> None:
    stream = _existing(store, words[1])
    stream.last_id = stream_id(words[2])
    options = lowered(words[3:])
    for at, option in enumerate(options):
        if option == b"entriesadded":
            stream.added = number(options[at + 1])
        elif option == b"maxdeletedid":
            stream.deleted_id = stream_id(options[at + 1])


def _xgroup(store: Store, words: Words) -> None:
    action = words[1].lower()
    stream: Stream | None = store.typed(words[2], STREAM)
    if stream is None:
        if action != b"create" or b"mkstream" not in lowered(words[4:]):
            raise Refused
        stream = Stream()
        store.keys[words[2]] = Entry(STREAM, stream)
    if action == b"create":
        stream.groups[words[3]] = None
    elif action == b"destroy":
        stream.groups.pop(words[3], None)


def _touch(store: Store, words: Words) -> None:
    """Pending entries and consumers change, and nothing that is followed here."""
    store.typed(words[1], STREAM)


def _xreadgroup(store: Store, words: Words) -> None:
    return None


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "xadd": _xadd, "xtrim": _xtrim, "xdel": _xdel, "xsetid": _xsetid, "xgroup": _xgroup, "xack": _touch, "xclaim": _touch,
    "xautoclaim": _touch, "xreadgroup": _xreadgroup,
}  # fmt: skip
