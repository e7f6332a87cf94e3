"""Replay of logged commands on strings.

Bit commands and dense HyperLogLogs keep a known length; a sparse one's length is unknown after PFADD and PFMERGE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster_core.aof.store import STRING, Refused, Sized, Store, UnknownEffect, length_of, lowered, number

DENSE_BYTES = 16 + 16384 * 6 // 8
"""A dense HyperLogLog: header and 16384 registers of six bits."""
Args = Sequence[bytes]


def expiry(option: bytes, word: bytes) -> int:
    """Return the expiry of EXAT or PXAT (epoch ms); raises UnknownEffect for EX and PX, which servers never log."""
    amount = number(word)
    if option == b"pxat":
        return amount
    if option == b"exat":
        return amount * 1000
    raise UnknownEffect  # relative to the execution, which the log does not time to the ms


def _set(store: Store, args: Args) -> None:
    key, value = args[1], args[2]
    expire, keep, at = -1, False, 3
    options = lowered(args[3:])
    while at < len(args):
        option = options[at - 3]
        if option == b"nx" and store.find(key) is not None:
            raise Refused
        if option == b"xx" and store.find(key) is None:
            raise Refused
        if option == b"keepttl":
            keep = True
        elif option == b"ifeq":
            _refuse_other(store, key, args[at + 1])
            at += 1
        elif option in (b"ex", b"px", b"exat", b"pxat"):
            expire = expiry(option, args[at + 1])
            at += 1
        elif option not in (b"nx", b"xx", b"get"):
            raise UnknownEffect
        at += 1
    if b"get" in options:
        store.typed(key, STRING)
    store.put(key, STRING, store.sized(value), keep_expiry=keep)
    if expire >= 0:
        store.keys[key].expire_at_ms = expire


def _refuse_other(store: Store, key: bytes, expected: bytes) -> None:
    """Raise Refused if the string is known and differs."""
    value = store.typed(key, STRING)
    if value is None or (value != expected if isinstance(value, bytes) else value != len(expected)):
        raise Refused


def _setnx(store: Store, args: Args) -> None:
    if store.find(args[1]) is not None:
        raise Refused
    store.put(args[1], STRING, store.sized(args[2]))


def _mset(store: Store, args: Args) -> None:
    if len(args) % 2 == 0:
        raise Refused
    for key, value in zip(args[1::2], args[2::2], strict=True):
        store.put(key, STRING, store.sized(value))


def _msetnx(store: Store, args: Args) -> None:
    if any(store.find(key) is not None for key in args[1::2]):
        raise Refused
    _mset(store, args)


def _msetex(store: Store, args: Args) -> None:
    count = number(args[1])
    keys, values = args[2 : 2 + 2 * count : 2], args[3 : 2 + 2 * count : 2]
    options = lowered(args[2 + 2 * count :])
    if b"nx" in options and any(store.find(key) is not None for key in keys):
        raise Refused
    if b"xx" in options and any(store.find(key) is None for key in keys):
        raise Refused
    expire = -1
    for at, option in enumerate(options):
        if option in (b"ex", b"px", b"exat", b"pxat"):
            expire = expiry(option, options[at + 1])
    for key, value in zip(keys, values, strict=True):
        store.put(key, STRING, store.sized(value), keep_expiry=b"keepttl" in options)
        if expire >= 0:
            store.keys[key].expire_at_ms = expire


def _change(store: Store, key: bytes, value: Sized) -> None:
    """Set a string and keep its expiry."""
    store.put(key, STRING, value, keep_expiry=True)


def _append(store: Store, args: Args) -> None:
    old = store.typed(args[1], STRING)
    _overwrite(store, args[1], 0 if old is None else length_of(old), args[2])


def _setrange(store: Store, args: Args) -> None:
    offset = number(args[2])
    if offset < 0 or (not args[3] and store.typed(args[1], STRING) is None):
        raise Refused
    if args[3]:
        _overwrite(store, args[1], offset, args[3])


def _overwrite(store: Store, key: bytes, offset: int, part: bytes) -> None:
    """Write *part* at *offset*, padding with zero bytes."""
    old = store.typed(key, STRING)
    old = b"" if old is None else old
    length = max(length_of(old), offset + len(part))
    if not isinstance(old, bytes) or not store.keeps(length):
        _change(store, key, length)
        return
    padded = old.ljust(offset, b"\0")
    _change(store, key, padded[:offset] + part + padded[offset + len(part) :])


def _incr(sign: int) -> Callable[[Store, Args], None]:
    def run(store: Store, args: Args) -> None:
        amount = number(args[2]) if len(args) > 2 else 1
        old = store.typed(args[1], STRING)
        if isinstance(old, int):
            raise UnknownEffect if old <= 20 else Refused
        value = (0 if old is None else number(old)) + sign * amount
        if not -(1 << 63) <= value < 1 << 63:
            raise Refused
        _change(store, args[1], b"%d" % value)

    return run


def _grow(store: Store, key: bytes, bits: int) -> None:
    """Make a string long enough for *bits* bits, with unknown content."""
    old = store.typed(key, STRING)
    _change(store, key, max(0 if old is None else length_of(old), (bits + 7) >> 3))


def _setbit(store: Store, args: Args) -> None:
    _grow(store, args[1], number(args[2]) + 1)


def _bitfield(store: Store, args: Args) -> None:
    """BITFIELD: the string grows to the highest written bit, even if overflow prevents the write."""
    highest, at = 0, 2
    while at < len(args):
        option = args[at].lower()
        if option in (b"set", b"incrby"):
            width, place = number(args[at + 1][1:]), args[at + 2]
            offset = number(place[1:]) * width if place[:1] == b"#" else number(place)
            highest = max(highest, offset + width)
            number(args[at + 3])
        at += 4 if option in (b"set", b"incrby") else 2 if option == b"overflow" else 3
    if not highest:
        raise Refused
    _grow(store, args[1], highest)


def _bitop(store: Store, args: Args) -> None:
    sources = [store.typed(key, STRING) for key in args[3:]]
    length = max((length_of(value) for value in sources if value is not None), default=0)
    if length:
        store.put(args[2], STRING, length)
    else:
        store.remove(args[2])


def _pfadd(store: Store, args: Args) -> None:
    value = store.typed(args[1], STRING)
    if value is None or length_of(value) != DENSE_BYTES:
        raise UnknownEffect


def _pfmerge(store: Store, args: Args) -> None:
    values = [store.typed(key, STRING) for key in args[1:]]
    if not any(value is not None and length_of(value) == DENSE_BYTES for value in values):
        raise UnknownEffect
    _change(store, args[1], DENSE_BYTES)


STRING_HANDLERS: Final[dict[str, Callable[[Store, Args], None]]] = {
    "set": _set, "setnx": _setnx,
    "mset": _mset, "msetnx": _msetnx, "msetex": _msetex, "append": _append, "setrange": _setrange,
    "incr": _incr(1), "decr": _incr(-1), "incrby": _incr(1), "decrby": _incr(-1),
    "setbit": _setbit, "bitfield": _bitfield, "bitop": _bitop, "pfadd": _pfadd, "pfmerge": _pfmerge,
}  # fmt: skip
