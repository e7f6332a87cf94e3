"""Commands of strings, bit fields and HyperLogLogs (`t_string.c`, `bitops.c`, `hyperloglog.c`)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final, NamedTuple

from cluster_core.aof.hyperloglog import EMPTY, HLL_BYTES_MAX, add_to, is_hyperloglog, merge
from cluster_core.aof.store import (
    STRING,
    Refused,
    Sized,
    Store,
    Unsettled,
    length_of,
    lowered,
    number,
)

Words = Sequence[bytes]


def expiry(option: bytes, word: bytes) -> int:
    """When a key expires by EXAT or PXAT (epoch in ms); raises Unsettled for EX and PX, which servers never log."""
    amount = number(word)
    if option == b"pxat":
        return amount
    if option == b"exat":
        return amount * 1000
    raise Unsettled  # counted from when the command ran, which the log does not tell to the millisecond


def _set(store: Store, words: Words) -> None:
    key, value = words[1], words[2]
    expire, keep, at = -1, False, 3
    options = lowered(words[3:])
    while at < len(words):
        option = options[at - 3]
        if option == b"nx" and store.find(key) is not None:
            raise Refused
        if option == b"xx" and store.find(key) is None:
            raise Refused
        if option == b"keepttl":
            keep = True
        elif option == b"ifeq":
            _refuse_other(store, key, words[at + 1])
            at += 1
        elif option in (b"ex", b"px", b"exat", b"pxat"):
            expire = expiry(option, words[at + 1])
            at += 1
        elif option not in (b"nx", b"xx", b"get"):
            raise Unsettled
        at += 1
    if b"get" in options:
        store.typed(key, STRING)
    store.put(key, STRING, _content(store, value), keep_expiry=keep)
    if expire >= 0:
        store.keys[key].expire_at_ms = expire


def _content(store: Store, value: bytes) -> Sized:
    """What is kept of a string: a HyperLogLog as a whole, as its length depends on its registers."""
    return value if value[:4] == b"HYLL" and len(value) <= HLL_BYTES_MAX else store.sized(value)


def _refuse_other(store: Store, key: bytes, expected: bytes) -> None:
    """Raise Refused if the string is known to be another."""
    value = store.typed(key, STRING)
    if value is None or (value != expected if isinstance(value, bytes) else value != len(expected)):
        raise Refused


def _setnx(store: Store, words: Words) -> None:
    if store.find(words[1]) is not None:
        raise Refused
    store.put(words[1], STRING, _content(store, words[2]))


def _setex(store: Store, words: Words) -> None:
    raise Unsettled


def _getset(store: Store, words: Words) -> None:
    store.typed(words[1], STRING)
    store.put(words[1], STRING, _content(store, words[2]))


def _getdel(store: Store, words: Words) -> None:
    if store.typed(words[1], STRING) is not None:
        store.remove(words[1])


def _delifeq(store: Store, words: Words) -> None:
    _refuse_other(store, words[1], words[2])
    store.remove(words[1])


def _getex(store: Store, words: Words) -> None:
    if store.typed(words[1], STRING) is None or len(words) < 3:
        raise Refused
    option = words[2].lower()
    store.keys[words[1]].expire_at_ms = -1 if option == b"persist" else expiry(option, words[3])


def _mset(store: Store, words: Words) -> None:
    if len(words) % 2 == 0:
        raise Refused
    for key, value in zip(words[1::2], words[2::2], strict=True):
        store.put(key, STRING, _content(store, value))


def _msetnx(store: Store, words: Words) -> None:
    if any(store.find(key) is not None for key in words[1::2]):
        raise Refused
    _mset(store, words)


def _msetex(store: Store, words: Words) -> None:
    count = number(words[1])
    keys, values = words[2 : 2 + 2 * count : 2], words[3 : 2 + 2 * count : 2]
    options = lowered(words[2 + 2 * count :])
    if b"nx" in options and any(store.find(key) is not None for key in keys):
        raise Refused
    if b"xx" in options and any(store.find(key) is None for key in keys):
        raise Refused
    expire = -1
    for at, option in enumerate(options):
        if option in (b"ex", b"px", b"exat", b"pxat"):
            expire = expiry(option, options[at + 1])
    for key, value in zip(keys, values, strict=True):
        store.put(key, STRING, _content(store, value), keep_expiry=b"keepttl" in options)
        if expire >= 0:
            store.keys[key].expire_at_ms = expire


def _change(store: Store, key: bytes, value: Sized) -> None:
    """Set a string and leave its expiry."""
    store.put(key, STRING, value, keep_expiry=True)


def _append(store: Store, words: Words) -> None:
    old = store.typed(words[1], STRING)
    _overwrite(store, words[1], 0 if old is None else length_of(old), words[2])


def _setrange(store: Store, words: Words) -> None:
    offset = number(words[2])
    if offset < 0 or (not words[3] and store.typed(words[1], STRING) is None):
        raise Refused
    if words[3]:
        _overwrite(store, words[1], offset, words[3])


def _overwrite(store: Store, key: bytes, offset: int, part: bytes) -> None:
    """Write *part* at *offset*, with zero bytes up to it."""
    old = store.typed(key, STRING)
    old = b"" if old is None else old
    length = max(length_of(old), offset + len(part))
    if not isinstance(old, bytes) or not store.keeps(length):
        _change(store, key, length)
        return
    padded = old.ljust(offset, b"\0")
    _change(store, key, padded[:offset] + part + padded[offset + len(part) :])


def _incr(sign: int) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        amount = number(words[2]) if len(words) > 2 else 1
        old = store.typed(words[1], STRING)
        if isinstance(old, int):
            raise Unsettled if old <= 20 else Refused
        value = (0 if old is None else number(old)) + sign * amount
        if not -(1 << 63) <= value < 1 << 63:
            raise Refused
        _change(store, words[1], b"%d" % value)

    return run


def _incrbyfloat(store: Store, words: Words) -> None:
    raise Unsettled  # servers log the result, as SET … KEEPTTL


def _setbit(store: Store, words: Words) -> None:
    bit = number(words[2])
    old = store.typed(words[1], STRING)
    old = b"" if old is None else old
    length = max(length_of(old), (bit >> 3) + 1)
    if not isinstance(old, bytes) or not store.keeps(length):
        _change(store, words[1], length)
        return
    content = bytearray(old.ljust(length, b"\0"))
    mask = 0x80 >> (bit & 7)
    content[bit >> 3] = content[bit >> 3] | mask if words[3] == b"1" else content[bit >> 3] & ~mask
    _change(store, words[1], bytes(content))


class _FieldWrite(NamedTuple):
    """One SET or INCRBY of BITFIELD."""

    is_set: bool
    signed: bool
    width: int
    offset: int
    amount: int
    overflow: bytes


def _field_writes(words: Words) -> list[_FieldWrite]:
    found, overflow, at = [], b"wrap", 2
    while at < len(words):
        option = words[at].lower()
        if option == b"overflow":
            overflow = words[at + 1].lower()
            at += 2
        elif option in (b"set", b"incrby"):
            width = number(words[at + 1][1:])
            place = words[at + 2]
            offset = number(place[1:]) * width if place[:1] == b"#" else number(place)
            signed = words[at + 1][:1].lower() == b"i"
            found.append(_FieldWrite(option == b"set", signed, width, offset, number(words[at + 3]), overflow))
            at += 4
        else:
            at += 3
    return found


def _bitfield(store: Store, words: Words) -> None:
    """The string grows to the highest bit that is written, even if an overflow prevents the writing."""
    writes = _field_writes(words)
    if not writes:
        raise Refused
    old = store.typed(words[1], STRING)
    old = b"" if old is None else old
    highest = max(write.offset + write.width - 1 for write in writes)
    length = max(length_of(old), (highest >> 3) + 1)
    if not isinstance(old, bytes) or not store.keeps(length):
        _change(store, words[1], length)
        return
    bits = int.from_bytes(old.ljust(length, b"\0"), "big")
    for write in writes:
        shift = 8 * length - write.offset - write.width
        mask = (1 << write.width) - 1
        held = bits >> shift & mask
        if write.signed and held >> (write.width - 1):
            held -= 1 << write.width
        value = _fitted(write, write.amount if write.is_set else held + write.amount)
        if value is not None:
            bits = bits & ~(mask << shift) | (value & mask) << shift
    _change(store, words[1], bits.to_bytes(length, "big"))


def _fitted(write: _FieldWrite, value: int) -> int | None:
    """*value* as OVERFLOW makes it fit; None if it shall fail."""
    low = -(1 << (write.width - 1)) if write.signed else 0
    high = (1 << (write.width - 1)) - 1 if write.signed else (1 << write.width) - 1
    if low <= value <= high or write.overflow == b"wrap":
        return value
    return min(max(value, low), high) if write.overflow == b"sat" else None


def _bitop(store: Store, words: Words) -> None:
    sources = [store.typed(key, STRING) for key in words[3:]]
    length = max((length_of(value) for value in sources if value is not None), default=0)
    if not length:
        store.remove(words[2])
        return
    contents = [value for value in sources if isinstance(value, bytes)]
    how = words[1].lower()
    if not store.keeps(length) or len(contents) + sources.count(None) < len(sources) or how not in _BIT_OPERATIONS:
        store.put(words[2], STRING, length)
        return
    numbers = [int.from_bytes((value or b"").ljust(length, b"\0"), "big") for value in sources]
    result = reduce(_BIT_OPERATIONS[how], numbers)
    if how == b"not":
        result = (1 << 8 * length) - 1 - result
    store.put(words[2], STRING, result.to_bytes(length, "big"))


_BIT_OPERATIONS: Final[dict[bytes, Callable[[int, int], int]]] = {
    b"and": operator.and_,
    b"or": operator.or_,
    b"xor": operator.xor,
    b"not": operator.or_,
}


def _hyperloglog(store: Store, key: bytes) -> bytes | None:
    value = store.typed(key, STRING)
    if value is None:
        return None
    if not isinstance(value, bytes):
        raise Unsettled
    if not is_hyperloglog(value):
        raise Refused
    return value


def _pfadd(store: Store, words: Words) -> None:
    old = _hyperloglog(store, words[1])
    _change(store, words[1], add_to(EMPTY if old is None else old, words[2:]))


def _pfmerge(store: Store, words: Words) -> None:
    found = [_hyperloglog(store, key) for key in words[1:]]
    _change(store, words[1], merge([value for value in found if value is not None], found[0]))


def _pfdebug(store: Store, words: Words) -> None:
    raise Unsettled


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "set": _set, "setnx": _setnx, "setex": _setex, "psetex": _setex, "getset": _getset, "getdel": _getdel, "getex": _getex,
    "delifeq": _delifeq, "mset": _mset, "msetnx": _msetnx, "msetex": _msetex, "append": _append, "setrange": _setrange,
    "incr": _incr(1), "decr": _incr(-1), "incrby": _incr(1), "decrby": _incr(-1), "incrbyfloat": _incrbyfloat,
    "setbit": _setbit, "bitfield": _bitfield, "bitop": _bitop, "pfadd": _pfadd, "pfmerge": _pfmerge, "pfdebug": _pfdebug,
}  # fmt: skip
