"""Replay of logged commands on streams; consumer groups are not followed, as no count or size depends on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster_core.aof.live_bytes import entry_bytes
from cluster_core.aof.store import STREAM, Refused, Store, Stream, UnknownEffect, lowered, number, stream_id

Args = Sequence[bytes]


def _stream(store: Store, key: bytes) -> Stream:
    stream: Stream | None = store.typed(key, STREAM)
    if stream is None:
        raise Refused
    return stream


def _xgroup(store: Store, args: Args) -> None:
    """XGROUP CREATE key group id [MKSTREAM] creates a stream; other actions change no stream."""
    stream = store.typed(args[2], STREAM)
    if args[1].lower() == b"create" and stream is None:
        if b"mkstream" not in lowered(args[4:]):
            raise Refused
        store.made(args[2], STREAM)


def _touch(store: Store, args: Args) -> None:
    """Ignore reads, claims and acknowledgements."""
    store.typed(args[1], STREAM)


def _xadd(store: Store, args: Args) -> None:
    at, trim, create = 2, None, True
    while at < len(args):
        option = args[at].lower()
        if option == b"nomkstream":
            create = False
        elif option in (b"maxlen", b"minid"):
            trim, at = _trim_of(args, at)
            continue
        elif option == b"limit":
            at += 1
        elif option not in (b"keepref", b"delref", b"acked"):
            break
        at += 1
    key, name, fields = args[1], stream_id(args[at]), args[at + 1 :]
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


def _trim_of(args: Args, at: int) -> tuple[tuple[bytes, bytes, bool], int]:
    """Parse MAXLEN|MINID [=|~] threshold: (how, threshold, approximate), and the next index."""
    how, about = args[at].lower(), False
    at += 1
    if args[at] in (b"=", b"~"):
        about = args[at] == b"~"
        at += 1
    return (how, args[at], about), at + 1


def _trim(stream: Stream, how: bytes, threshold: bytes, about: bool) -> None:
    """Remove the oldest entries; ``~`` is not modelled, as servers log the exact outcome."""
    if how == b"maxlen":
        keep = number(threshold)
        gone = list(stream.entries)[: max(len(stream.entries) - keep, 0)]
    else:
        least = stream_id(threshold)
        gone = [name for name in stream.entries if name < least]
    if gone and about:
        raise UnknownEffect
    for name in gone:
        del stream.entries[name]


def _xtrim(store: Store, args: Args) -> None:
    trim, _ = _trim_of(args, 2)
    _trim(_stream(store, args[1]), *trim)


def _xdel(store: Store, args: Args) -> None:
    stream = _stream(store, args[1])
    for word in args[2:]:
        name = stream_id(word)
        if stream.entries.pop(name, None) is not None:
            stream.deleted_id = max(stream.deleted_id, name)


def _xsetid(store: Store, args: Args) -> None:
    stream = _stream(store, args[1])
    stream.last_id = stream_id(args[2])
    options = lowered(args[3:])
    for at, option in enumerate(options):
        if option == b"entriesadded":
            stream.added = number(options[at + 1])
        elif option == b"maxdeletedid":
            stream.deleted_id = stream_id(options[at + 1])


STREAM_HANDLERS: Final[dict[str, Callable[[Store, Args], None]]] = {
    "xadd": _xadd, "xtrim": _xtrim, "xdel": _xdel, "xsetid": _xsetid, "xgroup": _xgroup, "xack": _touch, "xclaim": _touch,
    "xautoclaim": _touch, "xreadgroup": lambda store, args: None,
}  # fmt: skip
