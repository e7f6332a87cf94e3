"""Commands of hashes, with fields that expire (`t_hash.c` of Redis 7.0 and Valkey 9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster_core.aof.store import HASH, Hash, Refused, Store, Unsettled, lowered, number
from cluster_core.aof.strings import expiry

Words = Sequence[bytes]
_TIMES = (b"ex", b"px", b"exat", b"pxat")


def _hset(store: Store, words: Words) -> None:
    if len(words) < 4 or len(words) % 2:
        raise Refused
    value = store.made(words[1], HASH)
    for name, word in zip(words[2::2], words[3::2], strict=True):
        value.fields[name] = store.sized(word)
        value.expiry.pop(name, None)


def _hsetnx(store: Store, words: Words) -> None:
    value = store.made(words[1], HASH)
    if words[2] in value.fields:
        raise Refused
    value.fields[words[2]] = store.sized(words[3])


def _hdel(store: Store, words: Words) -> None:
    _remove_fields(store, words[1], words[2:])


def _remove_fields(store: Store, key: bytes, names: Sequence[bytes]) -> None:
    value = store.typed(key, HASH)
    if value is None:
        raise Refused
    for name in names:
        value.fields.pop(name, None)
        value.expiry.pop(name, None)
    store.drop_if_empty(key)


def _hincrby(store: Store, words: Words) -> None:
    amount = number(words[3])
    value = store.made(words[1], HASH)
    old = value.fields.get(words[2], b"0")
    store.drop_if_empty(words[1])
    if isinstance(old, int):
        raise Refused
    total = number(old) + amount
    if not -(1 << 63) <= total < 1 << 63:
        raise Refused
    store.made(words[1], HASH).fields[words[2]] = b"%d" % total


def _unsettled(store: Store, words: Words) -> None:
    raise Unsettled  # servers log the result, or an absolute time


def _fields_at(words: Words) -> tuple[list[bytes], int, int]:
    """Options in lower case before FIELDS, the number of fields, the place of the first."""
    options = lowered(words[2:])
    try:
        at = options.index(b"fields")
    except ValueError:
        raise Refused from None
    return options[:at], number(words[3 + at]), 4 + at


def _expiry_of(options: Sequence[bytes]) -> int | None:
    """The time that options give; None if they give none."""
    for at, option in enumerate(options):
        if option in _TIMES:
            return expiry(option, options[at + 1])
    return None


def _hsetex(store: Store, words: Words) -> None:
    """HSETEX key [NX|XX] [FNX|FXX] [EX …|KEEPTTL] FIELDS n field value …"""
    options, count, first = _fields_at(words)
    pairs = list(zip(words[first : first + 2 * count : 2], words[first + 1 : first + 2 * count : 2], strict=True))
    old: Hash | None = store.typed(words[1], HASH)
    held = old.fields if old is not None else {}
    if b"fnx" in options and any(name in held for name, _ in pairs):
        raise Refused
    if b"fxx" in options and not all(name in held for name, _ in pairs):
        raise Refused
    if (b"nx" in options and old is not None) or (b"xx" in options and old is None):
        raise Refused
    expire = _expiry_of(options)
    value = store.made(words[1], HASH)
    for name, word in pairs:
        value.fields[name] = store.sized(word)
        if expire is not None:
            value.expiry[name] = expire
        elif b"keepttl" not in options:
            value.expiry.pop(name, None)


def _hgetex(store: Store, words: Words) -> None:
    options, count, first = _fields_at(words)
    expire = _expiry_of(options)
    _set_expiry(store, words[1], words[first : first + count], expire, clear=b"persist" in options)


def _set_expiry(store: Store, key: bytes, names: Sequence[bytes], expire: int | None, *, clear: bool = False) -> None:
    value = store.typed(key, HASH)
    if value is None:
        raise Refused
    for name in names:
        if name in value.fields:
            if expire is not None:
                value.expiry[name] = expire
            elif clear:
                value.expiry.pop(name, None)


def _hpexpireat(scale: int) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        options, count, first = _fields_at(words)
        expire = number(words[2]) * scale
        value = store.typed(words[1], HASH)
        names = [name for name in words[first : first + count] if value is not None and name in value.fields]
        chosen = [name for name in names if _is_chosen(options[1:], value.expiry.get(name), expire)]
        _set_expiry(store, words[1], chosen, expire)

    return run


def _is_chosen(options: Sequence[bytes], old: int | None, new: int) -> bool:
    """Whether NX, XX, GT and LT let an expiry be set (`parseExtendedExpireArgumentsOrReply`)."""
    if b"nx" in options and old is not None:
        return False
    if b"xx" in options and old is None:
        return False
    if b"gt" in options and (old is None or new <= old):
        return False
    return not (b"lt" in options and old is not None and new >= old)


def _hpersist(store: Store, words: Words) -> None:
    _, count, first = _fields_at(words)
    _set_expiry(store, words[1], words[first : first + count], None, clear=True)


def _hgetdel(store: Store, words: Words) -> None:
    _, count, first = _fields_at(words)
    _remove_fields(store, words[1], words[first : first + count])


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "hset": _hset, "hmset": _hset, "hsetnx": _hsetnx, "hdel": _hdel, "hincrby": _hincrby, "hincrbyfloat": _unsettled,
    "hsetex": _hsetex, "hgetex": _hgetex, "hgetdel": _hgetdel, "hexpire": _unsettled, "hpexpire": _unsettled,
    "hexpireat": _hpexpireat(1000), "hpexpireat": _hpexpireat(1), "hpersist": _hpersist,
}  # fmt: skip
