"""Commands of sets (`t_set.c`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cluster_core.aof.store import SET, Refused, Store, Unsettled, number

Words = Sequence[bytes]


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


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "sadd": _sadd, "srem": _srem, "spop": _spop, "smove": _smove, "sunionstore": _combine(set.union),
    "sinterstore": _combine(set.intersection), "sdiffstore": _combine(set.difference),
}  # fmt: skip
