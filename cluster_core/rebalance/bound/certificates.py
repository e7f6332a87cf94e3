"""The proven lower bound on what must move, and how anyone can check it.

A master over its limits must give away enough of every resource (`Certificate`, one a master); different masters give away different
slots, so the figures add up.  Where g heavy slots may each turn one master into their host with a higher limit, the g largest figures
are left out.  `prove` repeats the argument of a certificate in whole numbers; no solver, no rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cluster_core.rebalance.bound.cover import BEYOND, Cover, Room, dive
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets

PRICE_BITS = 60
"""Prices are whole multiples of 2**-60."""
NODES_MAX = 3000
"""Nodes of the search that proves one certificate."""
CHECK_NODES_MAX = 4 * NODES_MAX
COVER_SLOTS_MAX = 4096
"""Masters with more slots keep the bound of the prices."""


class ProofKind(StrEnum):
    """How it is proven: the master gives away all that it has, its prices alone prove it, or they and a search do."""

    DRAINED = "drained"
    PRICES = "prices"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof that master *node* must give away at least *value* (whole units of the cost).

    *prices*, one a resource, in 2**-60 units of cost a unit of the resource; *nodes* are those of the search.
    """

    node: str
    kind: ProofKind
    value: int
    prices: tuple[int, ...]
    nodes: int = 0


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


def prove(scaled: Scaled, slots: Sequence[int], need: Sequence[int], certificate: Certificate) -> bool:
    """Return whether *certificate* holds for a master of *slots* with *need*, in whole numbers."""
    if certificate.kind == ProofKind.DRAINED:
        return certificate.value <= sum(scaled.loads[scaled.cost][s] for s in slots)
    if len(certificate.prices) != len(need) or any(p < 0 for p in certificate.prices):
        return False
    cover = make_cover(scaled, slots, need, certificate.prices)
    if certificate.value <= round_up(scaled, slots, cover.base):
        return True
    if certificate.kind != ProofKind.SEARCH or len(slots) > COVER_SLOTS_MAX:
        return False
    depth, size = len(slots) + 2, len(need)
    room = Room([0] * depth, [0] * (depth * size), [0] * (depth * size), [0] * (2 * depth), [0] * len(slots))
    return dive(cover, room, certificate.value << PRICE_BITS, CHECK_NODES_MAX, False)[0]


def round_up(scaled: Scaled, slots: Sequence[int], base: int) -> int:
    """Return the least sum of whole slots' costs that is not below *base* / 2**60, as far as their common divisor tells."""
    unit = math.gcd(*(scaled.loads[scaled.cost][s] for s in slots)) or 1
    return max(0, -(-base // (unit << PRICE_BITS))) * unit


def add_up(certificates: Sequence[Certificate], hosts: int) -> int:
    """Return the bound for the whole cluster: the sum, less the *hosts* largest figures of masters that stay."""
    stay = sorted((c.value for c in certificates if c.kind != ProofKind.DRAINED), reverse=True)
    return sum(c.value for c in certificates) - sum(stay[:hosts])
