"""Replay of logged commands on lists, sets, hashes and sorted sets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from cluster_core.aof.store import HASH, LIST, SET, ZSET, Hash, Refused, Store, UnknownEffect, lowered, number, real
from cluster_core.aof.strings import expiry

Args = Sequence[bytes]
_LEFT = (b"left", b"l")


def _push(*, left: bool, only_existing: bool = False) -> Callable[[Store, Args], None]:
    def run(store: Store, args: Args) -> None:
        if len(args) < 3:
            raise Refused
        if only_existing and store.typed(args[1], LIST) is None:
            raise Refused
        values = store.made(args[1], LIST)
        if left:
            values.extendleft(args[2:])
        else:
            values.extend(args[2:])

    return run


def _pop(*, left: bool) -> Callable[[Store, Args], None]:
    def run(store: Store, args: Args) -> None:
        take(store, args[1], number(args[2]) if len(args) > 2 else 1, left=left)

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


def _rpoplpush(store: Store, args: Args) -> None:
    _move(store, args[1], args[2], from_left=False, to_left=True)


def _lmove(store: Store, args: Args) -> None:
    from_left, to_left = (word.lower() in _LEFT for word in args[3:5])
    _move(store, args[1], args[2], from_left=from_left, to_left=to_left)


def _lset(store: Store, args: Args) -> None:
    values = store.typed(args[1], LIST)
    at = number(args[2])
    if values is None or not -len(values) <= at < len(values):
        raise Refused
    values[at] = args[3]


def _linsert(store: Store, args: Args) -> None:
    values = store.typed(args[1], LIST)
    if values is None or args[3] not in values:
        raise Refused
    at = values.index(args[3])
    values.insert(at if args[2].lower() == b"before" else at + 1, args[4])


def _lrem(store: Store, args: Args) -> None:
    values = store.typed(args[1], LIST)
    if values is None:
        raise Refused
    count, word = number(args[2]), args[3]
    left = abs(count) or len(values)
    kept: list[bytes] = []
    for value in values if count >= 0 else reversed(values):
        if left and value == word:
            left -= 1
        else:
            kept.append(value)
    store.keys[args[1]].value = deque(kept if count >= 0 else reversed(kept))
    store.drop_if_empty(args[1])


def _ltrim(store: Store, args: Args) -> None:
    values = store.typed(args[1], LIST)
    if values is None:
        raise Refused
    first, last = number(args[2]), number(args[3])
    first = max(first + len(values) if first < 0 else first, 0)
    last = min(last + len(values) if last < 0 else last, len(values) - 1)
    store.keys[args[1]].value = deque(islice(values, first, last + 1) if first <= last else ())
    store.drop_if_empty(args[1])


LIST_HANDLERS: Final[dict[str, Callable[[Store, Args], None]]] = {
    "lpush": _push(left=True), "rpush": _push(left=False), "lpushx": _push(left=True, only_existing=True),
    "rpushx": _push(left=False, only_existing=True), "lpop": _pop(left=True), "rpop": _pop(left=False),
    "rpoplpush": _rpoplpush, "lmove": _lmove, "lset": _lset, "linsert": _linsert,
    "lrem": _lrem, "ltrim": _ltrim,
}  # fmt: skip


def _sadd(store: Store, args: Args) -> None:
    if len(args) < 3:
        raise Refused
    store.made(args[1], SET).update(args[2:])


def _srem(store: Store, args: Args) -> None:
    members = store.typed(args[1], SET)
    if members is None:
        raise Refused
    members.difference_update(args[2:])
    store.drop_if_empty(args[1])


def _spop(store: Store, args: Args) -> None:
    """Remove an emptied set; otherwise raise UnknownEffect: a logged SPOP does not name the removed members."""
    members = store.typed(args[1], SET)
    if members is None:
        raise Refused
    if len(args) > 2 and number(args[2]) >= len(members):
        store.remove(args[1])
        return
    raise UnknownEffect


def _smove(store: Store, args: Args) -> None:
    members = store.typed(args[1], SET)
    store.typed(args[2], SET)
    if members is None or args[3] not in members:
        raise Refused
    if args[1] == args[2]:
        return
    members.discard(args[3])
    store.drop_if_empty(args[1])
    store.made(args[2], SET).add(args[3])


def _combine(how: Callable[[set[bytes], set[bytes]], set[bytes]]) -> Callable[[Store, Args], None]:
    def run(store: Store, args: Args) -> None:
        sources = [store.typed(key, SET) or set() for key in args[2:]]
        result = set(sources[0])
        for members in sources[1:]:
            result = how(result, members)
        store.put(args[1], SET, result)

    return run


SET_HANDLERS: Final[dict[str, Callable[[Store, Args], None]]] = {
    "sadd": _sadd, "srem": _srem, "spop": _spop, "smove": _smove, "sunionstore": _combine(set.union),
    "sinterstore": _combine(set.intersection), "sdiffstore": _combine(set.difference),
}  # fmt: skip


_TIMES = (b"ex", b"px", b"exat", b"pxat")


def _hset(store: Store, args: Args) -> None:
    if len(args) < 4 or len(args) % 2:
        raise Refused
    value = store.made(args[1], HASH)
    for name, word in zip(args[2::2], args[3::2], strict=True):
        value.fields[name] = store.sized(word)
        value.expiry.pop(name, None)


def _hsetnx(store: Store, args: Args) -> None:
    value = store.made(args[1], HASH)
    if args[2] in value.fields:
        raise Refused
    value.fields[args[2]] = store.sized(args[3])


def _hdel(store: Store, args: Args) -> None:
    _remove_fields(store, args[1], args[2:])


def _remove_fields(store: Store, key: bytes, names: Sequence[bytes]) -> None:
    value = store.typed(key, HASH)
    if value is None:
        raise Refused
    for name in names:
        value.fields.pop(name, None)
        value.expiry.pop(name, None)
    store.drop_if_empty(key)


def _hincrby(store: Store, args: Args) -> None:
    amount = number(args[3])
    value = store.made(args[1], HASH)
    old = value.fields.get(args[2], b"0")
    store.drop_if_empty(args[1])
    if isinstance(old, int):
        raise Refused
    total = number(old) + amount
    if not -(1 << 63) <= total < 1 << 63:
        raise Refused
    store.made(args[1], HASH).fields[args[2]] = b"%d" % total


def _fields_at(args: Args) -> tuple[list[bytes], int, int]:
    """Return lower-case options before FIELDS, the number of fields, and the index of the first."""
    options = lowered(args[2:])
    try:
        at = options.index(b"fields")
    except ValueError:
        raise Refused from None
    return options[:at], number(args[3 + at]), 4 + at


def _expiry_of(options: Sequence[bytes]) -> int | None:
    """Return the expiry in options; None without one."""
    for at, option in enumerate(options):
        if option in _TIMES:
            return expiry(option, options[at + 1])
    return None


def _hsetex(store: Store, args: Args) -> None:
    """HSETEX key [NX|XX] [FNX|FXX] [EX …|KEEPTTL] FIELDS n field value …"""
    options, count, first = _fields_at(args)
    pairs = list(zip(args[first : first + 2 * count : 2], args[first + 1 : first + 2 * count : 2], strict=True))
    old: Hash | None = store.typed(args[1], HASH)
    held = old.fields if old is not None else {}
    if b"fnx" in options and any(name in held for name, _ in pairs):
        raise Refused
    if b"fxx" in options and not all(name in held for name, _ in pairs):
        raise Refused
    if (b"nx" in options and old is not None) or (b"xx" in options and old is None):
        raise Refused
    expire = _expiry_of(options)
    value = store.made(args[1], HASH)
    for name, word in pairs:
        value.fields[name] = store.sized(word)
        if expire is not None:
            value.expiry[name] = expire
        elif b"keepttl" not in options:
            value.expiry.pop(name, None)


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


def _hpexpireat(scale: int) -> Callable[[Store, Args], None]:
    def run(store: Store, args: Args) -> None:
        options, count, first = _fields_at(args)
        expire = number(args[2]) * scale
        value = store.typed(args[1], HASH)
        names = [name for name in args[first : first + count] if value is not None and name in value.fields]
        chosen = [name for name in names if _is_chosen(options[1:], value.expiry.get(name), expire)]
        _set_expiry(store, args[1], chosen, expire)

    return run


def _is_chosen(options: Sequence[bytes], old: int | None, new: int) -> bool:
    """Return whether NX, XX, GT and LT allow the new expiry (`parseExtendedExpireArgumentsOrReply`)."""
    if b"nx" in options and old is not None:
        return False
    if b"xx" in options and old is None:
        return False
    if b"gt" in options and (old is None or new <= old):
        return False
    return not (b"lt" in options and old is not None and new >= old)


def _hpersist(store: Store, args: Args) -> None:
    _, count, first = _fields_at(args)
    _set_expiry(store, args[1], args[first : first + count], None, clear=True)


def _hgetdel(store: Store, args: Args) -> None:
    _, count, first = _fields_at(args)
    _remove_fields(store, args[1], args[first : first + count])


HASH_HANDLERS: Final[dict[str, Callable[[Store, Args], None]]] = {
    "hset": _hset, "hmset": _hset, "hsetnx": _hsetnx, "hdel": _hdel, "hincrby": _hincrby, "hgetdel": _hgetdel,
    "hsetex": _hsetex,
    "hexpireat": _hpexpireat(1000), "hpexpireat": _hpexpireat(1), "hpersist": _hpersist,
}  # fmt: skip


Scores = dict[bytes, float]
_WEIGHTS, _AGGREGATE = b"weights", b"aggregate"


def ordered(scores: Scores) -> list[bytes]:
    """Return members sorted by score, then name."""
    return sorted(scores, key=lambda member: (scores[member], member))


def _zadd(store: Store, args: Args) -> None:
    at, flags = 2, set()
    while at < len(args) and (flag := args[at].lower()) in (b"nx", b"xx", b"gt", b"lt", b"ch", b"incr"):
        flags.add(flag)
        at += 1
    pairs = list(zip((real(word) for word in args[at::2]), args[at + 1 :: 2], strict=True))
    old = store.typed(args[1], ZSET)
    scores: Scores = {} if old is None else old
    changed: Scores = {}
    for score, member in pairs:
        held = changed.get(member, scores.get(member))
        if (b"nx" in flags and held is not None) or (b"xx" in flags and held is None):
            continue
        value = score + held if b"incr" in flags and held is not None else score
        if held is not None and ((b"gt" in flags and value <= held) or (b"lt" in flags and value >= held)):
            continue
        changed[member] = value
    if changed:
        store.made(args[1], ZSET).update(changed)


def _zincrby(store: Store, args: Args) -> None:
    amount = real(args[2])
    old = store.typed(args[1], ZSET)
    total = (old or {}).get(args[3], 0.0) + amount
    if total != total:
        raise Refused
    store.made(args[1], ZSET)[args[3]] = total


def _remove(store: Store, key: bytes, members: Iterable[bytes]) -> None:
    scores = store.typed(key, ZSET)
    if scores is None:
        raise Refused
    for member in members:
        scores.pop(member, None)
    store.drop_if_empty(key)


def _zrem(store: Store, args: Args) -> None:
    _remove(store, args[1], args[2:])


def _existing(store: Store, key: bytes) -> Scores:
    scores: Scores | None = store.typed(key, ZSET)
    if scores is None:
        raise Refused
    return scores


def bounds_of(low: bytes, high: bytes) -> Callable[[float], bool]:
    """Return a test of scores between two bounds such as ``(1.5``, ``-inf``, ``+inf``."""
    low_open, high_open = low[:1] == b"(", high[:1] == b"("
    least, most = real(low[low_open:]), real(high[high_open:])
    return lambda score: (
        (score > least if low_open else score >= least) and (score < most if high_open else score <= most)
    )


def lex_bounds_of(low: bytes, high: bytes) -> Callable[[bytes], bool]:
    """Return a test of members between two bounds such as ``[a``, ``(b``, ``-``, ``+``."""

    def above(member: bytes) -> bool:
        if low in (b"-", b"+"):
            return low == b"-"
        return member >= low[1:] if low[:1] == b"[" else member > low[1:]

    def below(member: bytes) -> bool:
        if high in (b"-", b"+"):
            return high == b"+"
        return member <= high[1:] if high[:1] == b"[" else member < high[1:]

    if any(word not in (b"-", b"+") and word[:1] not in (b"[", b"(") for word in (low, high)):
        raise Refused
    return lambda member: above(member) and below(member)


def _ranked(members: list[bytes], first: int, last: int) -> list[bytes]:
    first = max(first + len(members) if first < 0 else first, 0)
    last = last + len(members) if last < 0 else last
    return members[first : last + 1] if last >= first else []


def _zremrangebyrank(store: Store, args: Args) -> None:
    scores = _existing(store, args[1])
    _remove(store, args[1], _ranked(ordered(scores), number(args[2]), number(args[3])))


def _zremrangebyscore(store: Store, args: Args) -> None:
    scores, inside = _existing(store, args[1]), bounds_of(args[2], args[3])
    _remove(store, args[1], [member for member, score in scores.items() if inside(score)])


def _refuse_mixed(scores: Scores) -> None:
    """Raise UnknownEffect for different scores: ranges by name then depend on the random skip list."""
    if len(set(scores.values())) > 1:
        raise UnknownEffect


def _zremrangebylex(store: Store, args: Args) -> None:
    scores, inside = _existing(store, args[1]), lex_bounds_of(args[2], args[3])
    _refuse_mixed(scores)
    _remove(store, args[1], [member for member in scores if inside(member)])


def _pop_scored(store: Store, key: bytes, count: int, *, highest: bool) -> None:
    members = ordered(_existing(store, key))
    _remove(store, key, members[max(len(members) - count, 0) :] if highest else members[:count])


def _zpop(*, highest: bool) -> Callable[[Store, Args], None]:
    def run(store: Store, args: Args) -> None:
        _pop_scored(store, args[1], number(args[2]) if len(args) > 2 else 1, highest=highest)

    return run


def _scores_of(store: Store, key: bytes) -> Scores:
    """Return the scores of a sorted set, or of a set (all 1)."""
    entry = store.find(key)
    if entry is None:
        return {}
    if entry.kind == SET:
        return dict.fromkeys(entry.value, 1.0)
    if entry.kind != ZSET:
        raise Refused
    return dict(entry.value)


def _combine_scored(how: str) -> Callable[[Store, Args], None]:
    """ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE destination numkeys key … [WEIGHTS …] [AGGREGATE …]"""

    def run(store: Store, args: Args) -> None:
        count = number(args[2])
        if not 0 < count <= len(args) - 3:
            raise Refused
        options = lowered(args[3 + count :])
        weights, aggregate = _options(options, count)
        sources = [_scores_of(store, key) for key in args[3 : 3 + count]]
        if how == "diff":
            excluded = {member for scores in sources[1:] for member in scores}
            result = {member: score for member, score in sources[0].items() if member not in excluded}
        else:
            result = _weighed(sources, weights, aggregate)
            if how == "inter":
                result = {
                    member: score for member, score in result.items() if all(member in scores for scores in sources)
                }
        store.put(args[1], ZSET, result)

    return run


def _options(options: list[bytes], count: int) -> tuple[list[float], bytes]:
    weights, aggregate, at = [1.0] * count, b"sum", 0
    while at < len(options):
        if options[at] == _WEIGHTS:
            weights = [real(word) for word in options[at + 1 : at + 1 + count]]
            at += 1 + count
        elif options[at] == _AGGREGATE:
            aggregate = options[at + 1]
            at += 2
        else:
            raise Refused
    return weights, aggregate


def _weighed(sources: list[Scores], weights: list[float], aggregate: bytes) -> Scores:
    result: Scores = {}
    for scores, weight in zip(sources, weights, strict=True):
        for member, score in scores.items():
            value = score * weight
            value = 0.0 if value != value else value
            if member not in result:
                result[member] = value
            elif aggregate == b"sum":
                total = result[member] + value
                result[member] = 0.0 if total != total else total
            else:
                result[member] = min(result[member], value) if aggregate == b"min" else max(result[member], value)
    return result


def _zrangestore(store: Store, args: Args) -> None:
    """ZRANGESTORE destination source first last [BYSCORE|BYLEX] [REV] [LIMIT offset count]"""
    options = lowered(args[5:])
    scores = store.typed(args[2], ZSET) or {}
    reverse = b"rev" in options
    members = ordered(scores)
    low, high = (args[4], args[3]) if reverse else (args[3], args[4])
    if b"byscore" in options:
        inside = bounds_of(low, high)
        members = [member for member in members if inside(scores[member])]
    elif b"bylex" in options:
        within = lex_bounds_of(low, high)
        _refuse_mixed(scores)
        members = [member for member in members if within(member)]
    if reverse:
        members.reverse()
    if b"byscore" not in options and b"bylex" not in options:
        members = _ranked(members, number(args[3]), number(args[4]))
    elif b"limit" in options:
        at = options.index(b"limit")
        skip, count = number(options[at + 1]), number(options[at + 2])
        members = [] if skip < 0 else members[skip:] if count < 0 else members[skip : skip + count]
    store.put(args[1], ZSET, {member: scores[member] for member in members})


ZSET_HANDLERS: Final[dict[str, Callable[[Store, Args], None]]] = {
    "zadd": _zadd, "zincrby": _zincrby, "zrem": _zrem, "zremrangebyrank": _zremrangebyrank,
    "zremrangebyscore": _zremrangebyscore, "zremrangebylex": _zremrangebylex, "zpopmin": _zpop(highest=False),
    "zpopmax": _zpop(highest=True),
    "zunionstore": _combine_scored("union"), "zinterstore": _combine_scored("inter"), "zdiffstore": _combine_scored("diff"),
    "zrangestore": _zrangestore,
}  # fmt: skip
