"""Commands on lists, sets and hashes, as a replay of a log runs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from cluster_core.aof.store import HASH, LIST, SET, Hash, Refused, Store, Unsettled, lowered, number
from cluster_core.aof.strings import expiry

Words = Sequence[bytes]
_LEFT = (b"left", b"l")


def _push(*, left: bool, only_existing: bool = False) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        if len(words) < 3:
            raise Refused
        if only_existing and store.typed(words[1], LIST) is None:
            raise Refused
        values = store.made(words[1], LIST)
        if left:
            values.extendleft(words[2:])
        else:
            values.extend(words[2:])

    return run


def _pop(*, left: bool) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        take(store, words[1], number(words[2]) if len(words) > 2 else 1, left=left)

    return run


def take(store: Store, key: bytes, count: int, *, left: bool) -> None:
    """Remove *count* elements from an end of a list."""
    values = store.typed(key, LIST)
    if values is None:
        raise Refused
    if count >= len(values):
        values.clear()
    for _ in range(min(count, len(values))):
        if left:
            values.popleft()
        else:
            values.pop()
    store.drop_if_empty(key)


def _blocking_pop(*, left: bool) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        for key in words[1:-1]:
            if store.typed(key, LIST) is not None:
                take(store, key, 1, left=left)
                return

    return run


def _lmpop(first: int) -> Callable[[Store, Words], None]:
    """LMPOP numkeys key … LEFT|RIGHT [COUNT count]; *first* is the place of numkeys."""

    def run(store: Store, words: Words) -> None:
        keys = words[first + 1 : first + 1 + number(words[first])]
        rest = words[first + 1 + len(keys) :]
        count = number(rest[2]) if len(rest) > 2 else 1
        for key in keys:
            if store.typed(key, LIST) is not None:
                take(store, key, count, left=rest[0].lower() in _LEFT)
                return

    return run


def _move(store: Store, source: bytes, target: bytes, *, from_left: bool, to_left: bool) -> None:
    values = store.typed(source, LIST)
    if not values:
        raise Refused
    store.typed(target, LIST)
    value = values.popleft() if from_left else values.pop()
    moved = store.made(target, LIST)
    if to_left:
        moved.appendleft(value)
    else:
        moved.append(value)
    store.drop_if_empty(source)


def _rpoplpush(store: Store, words: Words) -> None:
    _move(store, words[1], words[2], from_left=False, to_left=True)


def _lmove(store: Store, words: Words) -> None:
    from_left, to_left = (word.lower() in _LEFT for word in words[3:5])
    _move(store, words[1], words[2], from_left=from_left, to_left=to_left)


def _lset(store: Store, words: Words) -> None:
    values = store.typed(words[1], LIST)
    at = number(words[2])
    if values is None or not -len(values) <= at < len(values):
        raise Refused
    values[at] = words[3]


def _linsert(store: Store, words: Words) -> None:
    values = store.typed(words[1], LIST)
    if values is None or words[3] not in values:
        raise Refused
    at = values.index(words[3])
    values.insert(at if words[2].lower() == b"before" else at + 1, words[4])


def _lrem(store: Store, words: Words) -> None:
    values = store.typed(words[1], LIST)
    if values is None:
        raise Refused
    count, word = number(words[2]), words[3]
    left = abs(count) or len(values)
    kept: list[bytes] = []
    for value in values if count >= 0 else reversed(values):
        if left and value == word:
            left -= 1
        else:
            kept.append(value)
    store.keys[words[1]].value = deque(kept if count >= 0 else reversed(kept))
    store.drop_if_empty(words[1])


def _ltrim(store: Store, words: Words) -> None:
    values = store.typed(words[1], LIST)
    if values is None:
        raise Refused
    first, last = number(words[2]), number(words[3])
    first = max(first + len(values) if first < 0 else first, 0)
    last = min(last + len(values) if last < 0 else last, len(values) - 1)
    store.keys[words[1]].value = deque(islice(values, first, last + 1) if first <= last else ())
    store.drop_if_empty(words[1])


LIST_HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "lpush": _push(left=True), "rpush": _push(left=False), "lpushx": _push(left=True, only_existing=True),
    "rpushx": _push(left=False, only_existing=True), "lpop": _pop(left=True), "rpop": _pop(left=False),
    "blpop": _blocking_pop(left=True), "brpop": _blocking_pop(left=False), "lmpop": _lmpop(1), "blmpop": _lmpop(2),
    "rpoplpush": _rpoplpush, "brpoplpush": _rpoplpush, "lmove": _lmove, "blmove": _lmove, "lset": _lset, "linsert": _linsert,
    "lrem": _lrem, "ltrim": _ltrim,
}  # fmt: skip


def _sadd(store: Store, words: Words) -> None:
    if len(words) < 3:
        raise Refused
    store.made(words[1], SET).update(words[2:])


def _srem(store: Store, words: Words) -> None:
    members = store.typed(words[1], SET)
    if members is None:
        raise Refused
    members.difference_update(words[2:])
    store.drop_if_empty(words[1])


def _spop(store: Store, words: Words) -> None:
    """Servers log what was taken, as SREM; a log that holds SPOP itself does not say which members are gone."""
    members = store.typed(words[1], SET)
    if members is None:
        raise Refused
    if len(words) > 2 and number(words[2]) >= len(members):
        store.remove(words[1])
        return
    raise Unsettled


def _smove(store: Store, words: Words) -> None:
    members = store.typed(words[1], SET)
    store.typed(words[2], SET)
    if members is None or words[3] not in members:
        raise Refused
    if words[1] == words[2]:
        return
    members.discard(words[3])
    store.drop_if_empty(words[1])
    store.made(words[2], SET).add(words[3])


def _combine(how: Callable[[set[bytes], set[bytes]], set[bytes]]) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        found = [store.typed(key, SET) or set() for key in words[2:]]
        result = set(found[0])
        for members in found[1:]:
            result = how(result, members)
        store.put(words[1], SET, result)

    return run


SET_HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "sadd": _sadd, "srem": _srem, "spop": _spop, "smove": _smove, "sunionstore": _combine(set.union),
    "sinterstore": _combine(set.intersection), "sdiffstore": _combine(set.difference),
}  # fmt: skip


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


HASH_HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "hset": _hset, "hmset": _hset, "hsetnx": _hsetnx, "hdel": _hdel, "hincrby": _hincrby, "hincrbyfloat": _unsettled,
    "hsetex": _hsetex, "hgetex": _hgetex, "hgetdel": _hgetdel, "hexpire": _unsettled, "hpexpire": _unsettled,
    "hexpireat": _hpexpireat(1000), "hpexpireat": _hpexpireat(1), "hpersist": _hpersist,
}  # fmt: skip
