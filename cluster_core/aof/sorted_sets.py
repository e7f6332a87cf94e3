"""Commands on sorted sets as a replay of a log runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cluster_core.aof.store import SET, ZSET, Refused, Store, Unsettled, lowered, number, real

Words = Sequence[bytes]
Scores = dict[bytes, float]
_WEIGHTS, _AGGREGATE = b"weights", b"aggregate"


def ordered(scores: Scores) -> list[bytes]:
    """Members by score, then by name."""
    return sorted(scores, key=lambda member: (scores[member], member))


def _zadd(store: Store, words: Words) -> None:
    at, flags = 2, set()
    while at < len(words) and (flag := words[at].lower()) in (b"nx", b"xx", b"gt", b"lt", b"ch", b"incr"):
        flags.add(flag)
        at += 1
    pairs = list(zip((real(word) for word in words[at::2]), words[at + 1 :: 2], strict=True))
    old = store.typed(words[1], ZSET)
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
        store.made(words[1], ZSET).update(changed)


def _zincrby(store: Store, words: Words) -> None:
    amount = real(words[2])
    old = store.typed(words[1], ZSET)
    total = (old or {}).get(words[3], 0.0) + amount
    if total != total:
        raise Refused
    store.made(words[1], ZSET)[words[3]] = total


def _remove(store: Store, key: bytes, members: Iterable[bytes]) -> None:
    scores = store.typed(key, ZSET)
    if scores is None:
        raise Refused
    for member in members:
        scores.pop(member, None)
    store.drop_if_empty(key)


def _zrem(store: Store, words: Words) -> None:
    _remove(store, words[1], words[2:])


def _existing(store: Store, key: bytes) -> Scores:
    scores: Scores | None = store.typed(key, ZSET)
    if scores is None:
        raise Refused
    return scores


def bounds_of(low: bytes, high: bytes) -> Callable[[float], bool]:
    """A test for scores between two words such as ``(1.5``, ``-inf``, ``+inf``."""
    low_open, high_open = low[:1] == b"(", high[:1] == b"("
    least, most = real(low[low_open:]), real(high[high_open:])
    return lambda score: (
        (score > least if low_open else score >= least) and (score < most if high_open else score <= most)
    )


def lex_bounds_of(low: bytes, high: bytes) -> Callable[[bytes], bool]:
    """A test for members between two words such as ``[a``, ``(b``, ``-``, ``+``."""

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


def _zremrangebyrank(store: Store, words: Words) -> None:
    scores = _existing(store, words[1])
    _remove(store, words[1], _ranked(ordered(scores), number(words[2]), number(words[3])))


def _zremrangebyscore(store: Store, words: Words) -> None:
    scores, inside = _existing(store, words[1]), bounds_of(words[2], words[3])
    _remove(store, words[1], [member for member, score in scores.items() if inside(score)])


def _refuse_mixed(scores: Scores) -> None:
    """Raise Unsettled where members differ in score: what a range by name then is depends on the skip list's chance."""
    if len(set(scores.values())) > 1:
        raise Unsettled


def _zremrangebylex(store: Store, words: Words) -> None:
    scores, inside = _existing(store, words[1]), lex_bounds_of(words[2], words[3])
    _refuse_mixed(scores)
    _remove(store, words[1], [member for member in scores if inside(member)])


def _pop(store: Store, key: bytes, count: int, *, highest: bool) -> None:
    members = ordered(_existing(store, key))
    _remove(store, key, members[max(len(members) - count, 0) :] if highest else members[:count])


def _zpop(*, highest: bool) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        _pop(store, words[1], number(words[2]) if len(words) > 2 else 1, highest=highest)

    return run


def _bzpop(*, highest: bool) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        for key in words[1:-1]:
            if store.typed(key, ZSET) is not None:
                _pop(store, key, 1, highest=highest)
                return

    return run


def _zmpop(first: int) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        keys = words[first + 1 : first + 1 + number(words[first])]
        rest = lowered(words[first + 1 + len(keys) :])
        for key in keys:
            if store.typed(key, ZSET) is not None:
                _pop(store, key, number(rest[2]) if len(rest) > 2 else 1, highest=rest[0] == b"max")
                return

    return run


def _scores_of(store: Store, key: bytes) -> Scores:
    """Scores of a sorted set, or of a set, whose members score 1."""
    entry = store.find(key)
    if entry is None:
        return {}
    if entry.kind == SET:
        return dict.fromkeys(entry.value, 1.0)
    if entry.kind != ZSET:
        raise Refused
    return dict(entry.value)


def _combine(how: str) -> Callable[[Store, Words], None]:
    """ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE destination numkeys key … [WEIGHTS …] [AGGREGATE …]"""

    def run(store: Store, words: Words) -> None:
        count = number(words[2])
        if not 0 < count <= len(words) - 3:
            raise Refused
        options = lowered(words[3 + count :])
        weights, aggregate = _options(options, count)
        found = [_scores_of(store, key) for key in words[3 : 3 + count]]
        if how == "diff":
            others = {member for scores in found[1:] for member in scores}
            result = {member: score for member, score in found[0].items() if member not in others}
        else:
            result = _weighed(found, weights, aggregate)
            if how == "inter":
                result = {member: score for member, score in result.items() if all(member in one for one in found)}
        store.put(words[1], ZSET, result)

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


def _weighed(found: list[Scores], weights: list[float], aggregate: bytes) -> Scores:
    result: Scores = {}
    for scores, weight in zip(found, weights, strict=True):
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


def _zrangestore(store: Store, words: Words) -> None:
    """ZRANGESTORE destination source first last [BYSCORE|BYLEX] [REV] [LIMIT offset count]"""
    options = lowered(words[5:])
    scores = store.typed(words[2], ZSET) or {}
    reverse = b"rev" in options
    members = ordered(scores)
    low, high = (words[4], words[3]) if reverse else (words[3], words[4])
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
        members = _ranked(members, number(words[3]), number(words[4]))
    elif b"limit" in options:
        at = options.index(b"limit")
        skip, count = number(options[at + 1]), number(options[at + 2])
        members = [] if skip < 0 else members[skip:] if count < 0 else members[skip : skip + count]
    store.put(words[1], ZSET, {member: scores[member] for member in members})


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "zadd": _zadd, "zincrby": _zincrby, "zrem": _zrem, "zremrangebyrank": _zremrangebyrank,
    "zremrangebyscore": _zremrangebyscore, "zremrangebylex": _zremrangebylex, "zpopmin": _zpop(highest=False),
    "zpopmax": _zpop(highest=True), "bzpopmin": _bzpop(highest=False), "bzpopmax": _bzpop(highest=True), "zmpop": _zmpop(1),
    "bzmpop": _zmpop(2), "zunionstore": _combine("union"), "zinterstore": _combine("inter"), "zdiffstore": _combine("diff"),
    "zrangestore": _zrangestore,
}  # fmt: skip
