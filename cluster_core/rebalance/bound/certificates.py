"""The proven lower bound on what must move, and how anyone can check it.

A master over its limits must give away enough of every resource (`Certificate`, one a master); different masters give away different
slots, so the figures add up.  Where g heavy slots may each turn one master into their host with a higher limit, the g largest figures
are left out.  `prove` repeats the argument of a certificate in whole numbers; no solver, no rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cluster_core.rebalance.bound.cover import PRICE_BITS, Cover, least
from cluster_core.rebalance.bound.dive import SLOTS_MAX, costs_at_least
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets


class ProofKind(StrEnum):
    """How it is proven: the master gives away all that it has, its prices alone prove it, a search over its few slots does, or prices by case do."""

    DRAINED = "drained"
    PRICES = "prices"
    SEARCH = "search"
    CASES = "cases"


@dataclass(frozen=True, slots=True)
class Certificate:
    """Proof that it costs master *node* at least *value* (whole units of the cost) to keep its limits.

    *prices*, one a resource, in 2**-60 units of cost a unit of the resource; *nodes* are those of the search, or of the *tree* of cases,
    which says by which list of prices each is closed: list 0 is *prices*, the others are *more* (`cover.least`).
    """

    node: str
    kind: ProofKind
    value: int
    prices: tuple[int, ...]
    nodes: int = 0
    more: tuple[tuple[int, ...], ...] = ()
    tree: tuple[int, ...] = ()


def needs(
    scaled: Scaled, targets: Targets, n: int, slots: Sequence[int], loads: Sequence[Sequence[int]] | None = None
) -> list[int]:
    """Return by how much master *n*, holding *slots*, is over the common limit; negative where there is room; *loads* where slots weigh something else there."""
    return [sum(load[s] for s in slots) - targets.common[n][r] for r, load in enumerate(loads or scaled.loads)]


def make_cover(
    scaled: Scaled, slots: Sequence[int], need: Sequence[int], fees: Mapping[int, int] | None = None,
    loads: Sequence[Sequence[int]] | None = None,
) -> Cover:  # fmt: skip
    """Return the covering problem of a master that holds *slots* and is over by *need*; *loads* where slots weigh something else there.

    Pinned slots stay.  With *fees* (`bound.fees`), a slot of another master is *chosen* where it is refused: that costs the fee, all of
    which are thought to be earned at first.
    """
    fees, loads = fees or {}, loads or scaled.loads
    cost, held = scaled.loads[scaled.cost], set(slots)
    own = [s for s in slots if s not in scaled.fixed]
    others = [s for s, fee in fees.items() if fee and s not in held]
    costs = [cost[s] + fees.get(s, 0) for s in own] + [fees[s] for s in others]
    rows = [[load[s] for s in (*own, *others)] for load in loads]
    wanted = [v + sum(load[s] for s in others) for v, load in zip(need, loads, strict=True)]
    return Cover((*own, *others), costs, rows, wanted, -sum(fees[s] for s in others))


def proven(cover: Cover, certificate: Certificate) -> int | None:
    """Return what *certificate* proves, in whole units: the least sum of whole slots' costs that is not below its bound; None for nothing."""
    found = least(cover, (certificate.prices, *certificate.more), certificate.tree or (-1,))
    if found is None:
        return None
    unit = math.gcd(cover.paid, *cover.costs) or 1
    return -(-found // (unit << PRICE_BITS)) * unit


def prove(scaled: Scaled, slots: Sequence[int], need: Sequence[int], certificate: Certificate) -> bool:
    """Return whether *certificate* holds for a master of *slots* with *need*, in whole numbers."""
    if certificate.kind == ProofKind.DRAINED:
        return certificate.value <= sum(scaled.loads[scaled.cost][s] for s in slots)
    cover = make_cover(scaled, slots, need)
    found = proven(cover, certificate)
    if found is None or certificate.value <= max(0, found):
        return found is not None
    few = certificate.kind == ProofKind.SEARCH and len(slots) <= SLOTS_MAX
    return few and costs_at_least(cover, certificate.prices, certificate.value)


def add_up(certificates: Sequence[Certificate], hosts: int) -> int:
    """Return the bound for the whole cluster: the sum, less the *hosts* largest figures of masters that stay."""
    stay = sorted((c.value for c in certificates if c.kind != ProofKind.DRAINED), reverse=True)
    return sum(c.value for c in certificates) - sum(stay[:hosts])
