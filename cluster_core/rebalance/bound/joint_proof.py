"""The proven lower bound on what all masters together must move, and how anyone can check it.

How this works.  Let load on master n cost p[n][r] >= 0 a unit of resource r, and room below its limit earn as much: a placement within
all limits gets no dearer by that.  Then every slot can be put where it is cheapest on its own, and the sum is a lower bound for any
prices (Lagrange).  Where heavy slots make it too low, it is proven case by case: heavy slot s is on the first master, or on the second,
and so on (`JointProof.tree`), each case with prices of its own.  A slot heavier than a limit fills whichever master is its host, so there
it weighs what is common to have (`Targets.common`).  `prove_joint` repeats the argument in whole numbers; no solver, no rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster_core.kernels import whole_costs
from cluster_core.kernels.whole_costs import WholeCosts, add_up, bits_needed, unused_bits
from cluster_core.rebalance.bound.cover import PRICE_BITS
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, fillers

PRICES_MAX = 256
"""Most price lists of one proof: each costs a pass over all slots to check."""
CASES_MAX = 40_000


@dataclass(frozen=True, slots=True)
class JointProof:
    """Proof that at least *value* (whole units of the cost) moves.

    *prices*: lists of one price a master and resource, ``[n * R + r]``, in 2**-60 units of cost a unit of the resource.  *tree* in
    preorder: a slot >= 0 is followed by one case for each master that may take slots, in their order; -1 - k closes a case by list k.
    """

    value: int
    prices: tuple[tuple[int, ...], ...]
    tree: tuple[int, ...]


def prove_joint(scaled: Scaled, targets: Targets, joint: JointProof) -> bool:
    """Return whether *joint* holds, in whole numbers."""
    size, masters = len(scaled.resources), len(scaled.masters)
    if len(joint.prices) > PRICES_MAX or len(joint.tree) > CASES_MAX:
        return False
    if any(len(prices) != size * masters or min(prices, default=0) < 0 for prices in joint.prices):
        return False
    takers = scaled.takers()
    lists = [_PricedSlots(scaled, targets, takers, prices) for prices in joint.prices]
    cases: list[list[tuple[int, int]]] = [[]]
    for entry in joint.tree:
        if not cases:
            return False
        case = cases.pop()
        if entry >= 0:
            if entry >= len(scaled.owner) or entry in scaled.fixed or any(s == entry for s, _ in case):
                return False
            cases += [[*case, (entry, n)] for n in reversed(takers)]
        elif -1 - entry >= len(lists) or lists[-1 - entry].least(case) <= (joint.value - 1) << PRICE_BITS:
            return False
    return not cases


def coarse(scaled: Scaled, prices: Sequence[int]) -> tuple[int, ...]:
    """Return *prices* rounded down so that whatever they are multiplied with is below 2**62: that is checked much faster."""
    bits = bits_needed(_fees(scaled, PRICE_BITS), scaled.loads, _by_master(scaled, prices))
    return whole_costs.coarse(prices, bits, PRICE_BITS)


def _fees(scaled: Scaled, bits: int) -> list[int]:
    """Return what it costs to move each slot, in units of which 2**bits are one of the cost."""
    return [load << bits for load in scaled.loads[scaled.cost]]


def _by_master(scaled: Scaled, prices: Sequence[int]) -> list[Sequence[int]]:
    size = len(scaled.resources)
    return [prices[n * size : (n + 1) * size] for n in range(len(scaled.masters))]


class _PricedSlots:
    """What every slot costs at one list of prices, in units of which 2**bits are one of the cost: no finer than the prices are."""

    def __init__(self, scaled: Scaled, targets: Targets, takers: Sequence[int], prices: Sequence[int]) -> None:
        size, dropped = len(scaled.resources), unused_bits(prices, PRICE_BITS)
        self._bits = PRICE_BITS - dropped
        rows = _by_master(scaled, [p >> dropped for p in prices])
        self._costs = WholeCosts(_fees(scaled, self._bits), scaled.owner, scaled.loads, rows)
        for s, r in fillers(scaled, targets):
            for n in takers:
                self._costs.lower(s, n, rows[n][r] * max(0, scaled.loads[r][s] - targets.common[n][r]))
        self._least = self._costs.cheapest(takers, [(s, scaled.owner[s]) for s in scaled.fixed])
        counted = [s for s, n in enumerate(scaled.owner) if not scaled.masters[n].excluded]
        room = sum(targets.common[n][r] * rows[n][r] for n in takers for r in range(size))
        self._total = add_up(self._least[counted]) - room

    def least(self, case: Sequence[tuple[int, int]]) -> int:
        """Return what a placement costs at least that has the slots of *case* where it says, in 2**-60 units."""
        more = sum(self._costs.at(s, n) - int(self._least[s]) for s, n in case)
        return (self._total + more) << (PRICE_BITS - self._bits)
