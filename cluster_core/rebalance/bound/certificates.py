"""The proven lower bound on what must move, and how anyone can check it.

A master over its limits must give away enough of every resource (`Certificate`, one a master); different masters give away different
slots, so the figures add up.  Where g heavy slots may each turn one master into their host with a higher limit, the g largest figures
are left out.  `prove` repeats the argument of a certificate in whole numbers; no solver, no rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from cluster_core.rebalance.bound.cover import BEYOND, dive
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets
from cluster_core.rebalance.search.engine import Engine

PRICE_BITS = 60
"""Prices are whole multiples of 2**-60."""
NODES_MAX = 3000
"""Nodes of the search that proves one certificate."""
CHECK_NODES_MAX = 4 * NODES_MAX
PASSES = 10
COVER_SLOTS_MAX = 4096
"""Masters with more slots keep the bound of the prices."""
_ONE = 1 << PRICE_BITS


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof that master *node* must give away at least *value* (whole units of the cost).

    *kind*: ``drained`` (all it has), ``prices`` (the prices alone prove it) or ``search`` (prices and a search of *nodes* nodes).
    *prices*, one a resource, in 2**-60 units of cost a unit of the resource.
    """

    node: str
    kind: str
    value: int
    prices: tuple[int, ...]
    nodes: int = 0


class Cover(NamedTuple):
    """The covering problem of one master in whole numbers, in the order in which `dive` takes its slots."""

    slots: list[int]
    b: list[int]
    rc: list[int]
    x0: list[int]
    w: list[int]
    need: list[int]
    surplus: list[int]
    prices: list[int]
    base: int
    tail: list[int | float]


def needs(scaled: Scaled, targets: Targets, n: int, slots: Sequence[int]) -> list[int]:
    """Return by how much master *n*, holding *slots*, is over the common limit; negative where there is room."""
    return [sum(load[s] for s in slots) - targets.common[n][r] for r, load in enumerate(scaled.loads)]


def make_cover(scaled: Scaled, slots: Sequence[int], need: Sequence[int], prices: Sequence[int]) -> Cover:
    """Return the covering problem at *prices* (2**-60 units), everything of the cost scaled by 2**60."""
    size = len(scaled.resources)
    prices = [p if need[r] > 0 else 0 for r, p in enumerate(prices)]
    rows = []
    for s in slots:
        b = scaled.loads[scaled.cost][s] << PRICE_BITS
        reduced = b - sum(prices[r] * scaled.loads[r][s] for r in range(size))
        rows.append((abs(reduced), -b, s, reduced < 0))
    rows.sort()
    order = [row[2] for row in rows]
    w = [scaled.loads[r][s] for s in order for r in range(size)]
    x0 = [int(row[3]) for row in rows]
    surplus = [sum(w[j * size + r] for j, x in enumerate(x0) if x) - need[r] for r in range(size)]
    base = sum(p * e for p, e in zip(prices, need, strict=True)) - sum(row[0] for row in rows if row[3])
    b_list, rc = [-row[1] for row in rows], [row[0] for row in rows]
    tail = _tail(size, b_list, rc, w)
    return Cover(order, b_list, rc, x0, w, list(need), surplus, list(prices), base, tail)


def _tail(size: int, b: list[int], rc: list[int], w: list[int]) -> list[int | float]:
    wide = 4 * size + 1
    row: list[int | float] = [0] * wide
    for r in range(size):
        row[4 * r] = row[4 * r + 2] = BEYOND
    row[4 * size] = BEYOND
    rows = [row]
    for j in range(len(b) - 1, -1, -1):
        row = list(row)
        for r in range(size):
            v = w[j * size + r]
            if v:
                row[4 * r] = min(row[4 * r], rc[j] // v)
                row[4 * r + 2] = min(row[4 * r + 2], b[j] // v)
            row[4 * r + 1] += v
            row[4 * r + 3] = max(row[4 * r + 3], v)
        row[4 * size] = min(row[4 * size], b[j])
        rows.append(row)
    return [value for row in reversed(rows) for value in row]


class Diver:
    """`dive` over one cover, with room to work in: whole numbers with the plain function, floats with an engine's."""

    def __init__(
        self, cover: Cover, run: Callable[..., int], floats: Callable[..., Any], whole: Callable[..., Any]
    ) -> None:
        n, size = len(cover.slots), len(cover.need)
        numbers = [cover.b, cover.rc, cover.x0, cover.w, cover.need, cover.surplus, cover.prices]
        made = [floats(v) if number != 2 else whole(v) for number, v in enumerate(numbers)]
        self._head = (n, size, *made)
        self._tail = floats(cover.tail)
        self._base = floats([cover.base])[0]
        self._run = run
        self._xs, self.best_x = whole([0] * (n + 2)), whole([0] * n)
        room = (n + 2) * size
        self._room = floats([0] * room), floats([0] * room), floats([0] * (2 * n + 6)), floats([0] * 2)

    def __call__(self, limit: Any, nodes_max: int, find: bool) -> bool:
        """Return whether the search below *limit* was complete; see `dive`."""
        head = (*self._head, self._base, limit, nodes_max, int(find), self._tail, self._xs, self.best_x)
        return bool(self._run(*head, *self._room))

    @property
    def limit(self) -> Any:
        """The least cost found, or the limit."""
        return self._room[3][0]

    @property
    def nodes(self) -> int:
        """Nodes visited."""
        return int(self._room[3][1])


def prove(scaled: Scaled, slots: Sequence[int], need: Sequence[int], certificate: Certificate) -> bool:
    """Return whether *certificate* holds for a master of *slots* with *need*, in whole numbers."""
    if certificate.kind == "drained":
        return certificate.value <= sum(scaled.loads[scaled.cost][s] for s in slots)
    if len(certificate.prices) != len(need) or any(p < 0 for p in certificate.prices):
        return False
    cover = make_cover(scaled, slots, need, certificate.prices)
    if certificate.value <= round_up(scaled, slots, cover.base):
        return True
    if certificate.kind != "search" or len(slots) > COVER_SLOTS_MAX:
        return False
    return Diver(cover, dive, list, list)(certificate.value << PRICE_BITS, CHECK_NODES_MAX, False)


def round_up(scaled: Scaled, slots: Sequence[int], base: int) -> int:
    """Return the least sum of whole slots' costs that is not below *base* / 2**60, as far as their common divisor tells."""
    unit = math.gcd(*(scaled.loads[scaled.cost][s] for s in slots)) or 1
    return max(0, -(-base // (unit << PRICE_BITS))) * unit


def certify(
    scaled: Scaled, need: Sequence[int], n: int, slots: Sequence[int], engine: Engine
) -> tuple[Certificate, list[int]]:
    """Return the certificate of master *n* and the slots that it had best give away."""
    prices = _prices(scaled, slots, need, engine)
    cover = make_cover(scaled, slots, need, prices)
    value = round_up(scaled, slots, cover.base)
    plain = Certificate(scaled.masters[n].id, "prices", value, tuple(cover.prices))
    chosen = _greedy(cover)
    worth = sum(b for b, x in zip(cover.b, chosen, strict=True) if x)
    if len(slots) > COVER_SLOTS_MAX or worth <= value << PRICE_BITS:
        return plain, [s for s, x in zip(cover.slots, chosen, strict=True) if x]
    search = Diver(cover, engine.dive, engine.floats, engine.whole)
    complete = search(worth * (1 + 1e-12), NODES_MAX, True)
    high = float(min(search.limit, worth))
    if search.limit < worth:
        chosen = [int(x) for x in search.best_x]
    low, nodes = (high, search.nodes) if complete else (float(cover.base), 0)
    if not complete:
        for _ in range(PASSES):
            middle = (low + high) / 2
            if search(middle, NODES_MAX, False):
                low, nodes = middle, search.nodes
            else:
                high = middle
    proven = int(low * (1 - 1e-9)) >> PRICE_BITS
    evicted = [s for s, x in zip(cover.slots, chosen, strict=True) if x]
    if proven <= value:
        return plain, evicted
    return Certificate(plain.node, "search", proven, plain.prices, nodes), evicted


def _prices(scaled: Scaled, slots: Sequence[int], need: Sequence[int], engine: Engine) -> list[int]:
    """Return the prices of the covering program, found in floats and made whole."""
    size = len(need)
    mean = [max(1, sum(load[s] for s in slots)) / len(slots) for load in scaled.loads]
    b = engine.floats([scaled.loads[scaled.cost][s] / mean[scaled.cost] for s in slots])
    w = engine.floats([scaled.loads[r][s] / mean[r] for s in slots for r in range(size)])
    wanted = engine.floats([max(0, e) / mean[r] for r, e in enumerate(need)])
    found = engine.floats([0.0] * size)
    n = len(slots) + size
    basis, upper = engine.whole([0] * size), engine.whole([0] * len(slots))
    room = [engine.floats([0.0] * k) for k in (size * size, size, n, n)]
    engine.price(b, w, wanted, size, found, basis, upper, *room)
    return [int(max(0.0, float(p)) * (mean[scaled.cost] / mean[r]) * _ONE) for r, p in enumerate(found)]


def _greedy(cover: Cover) -> list[int]:
    """Complete the choice at the prices to a cover: cheapest for what it adds first; then drop what is not needed."""
    size, chosen, surplus = len(cover.need), list(cover.x0), list(cover.surplus)
    scale = [max(1, v) for v in cover.need]
    lacking = [r for r, g in enumerate(surplus) if g < 0]
    gains = [sum(cover.w[j * size + r] / scale[r] for r in lacking) for j in range(len(chosen))]
    useful = [j for j, x in enumerate(chosen) if not x and gains[j] > 0]
    for j in sorted(useful, key=lambda j: (cover.b[j] / gains[j], cover.slots[j])):
        row = cover.w[j * size : (j + 1) * size]
        if any(g < 0 < v for g, v in zip(surplus, row, strict=True)):
            chosen[j] = 1
            surplus = [g + v for g, v in zip(surplus, row, strict=True)]
    for j in sorted(range(len(chosen)), key=lambda j: (-cover.b[j], cover.slots[j])):
        row = cover.w[j * size : (j + 1) * size]
        if chosen[j] and all(g >= v for g, v in zip(surplus, row, strict=True)):
            chosen[j] = 0
            surplus = [g - v for g, v in zip(surplus, row, strict=True)]
    return chosen


def add_up(certificates: Sequence[Certificate], hosts: int) -> int:
    """Return the bound for the whole cluster: the sum, less the *hosts* largest figures of masters that stay."""
    stay = sorted((c.value for c in certificates if c.kind != "drained"), reverse=True)
    return sum(c.value for c in certificates) - sum(stay[:hosts])
