"""Commands of lists (`t_list.c`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from cluster_core.aof.store import LIST, Refused, Store, number

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


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "lpush": _push(left=True), "rpush": _push(left=False), "lpushx": _push(left=True, only_existing=True),
    "rpushx": _push(left=False, only_existing=True), "lpop": _pop(left=True), "rpop": _pop(left=False),
    "blpop": _blocking_pop(left=True), "brpop": _blocking_pop(left=False), "lmpop": _lmpop(1), "blmpop": _lmpop(2),
    "rpoplpush": _rpoplpush, "brpoplpush": _rpoplpush, "lmove": _lmove, "blmove": _lmove, "lset": _lset, "linsert": _linsert,
    "lrem": _lrem, "ltrim": _ltrim,
}  # fmt: skip
