"""The proof of a plan's lower bound in figures that a person can add up.

A master that is over by e(r) of each resource r must give away a set X of slots whose loads w(s, r) cover e.  For prices p(r) >= 0
the cost b of X is at least the sum over r of p(r)·e(r), less what slots pay beyond their cost: for any X,
``b(X) >= p·e - sum over all its slots of max(0, p·w(s) - b(s))``.  Prices are a witness: nobody needs to trust who found them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from cluster_core.rebalance.bound.certificates import Certificate, ProofKind, needs
from cluster_core.rebalance.bound.cover import PRICE_BITS
from cluster_core.rebalance.goal.limits import kept
from cluster_core.rebalance.goal.problem import Problem, Scaled, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.plan import Plan


@dataclass(frozen=True, slots=True)
class Argument:
    """Why master *node* gives away at least *least* of the cost, all in the units of the loads as they were given.

    *over* by resource, where it is over; *prices* in cost a unit of the resource; *priced* is the sum of their products, *rebate* the
    sum of what slots pay beyond their cost.  *least* is ``priced - rebate`` rounded up, more where a search of *nodes* nodes proved it.
    """

    node: str
    kind: ProofKind
    over: Mapping[str, Fraction]
    prices: Mapping[str, Fraction]
    priced: Fraction
    rebate: Fraction
    least: Fraction
    nodes: int


def explain_bound(problem: Problem, plan: Plan) -> list[Argument]:
    """Return the argument of every certificate of *plan*, the largest first; raises PlanError for an invalid problem."""
    scaled = validate(problem)
    index = {master.id: n for n, master in enumerate(scaled.masters)}
    limits = find_targets(replace(scaled, tolerance=plan.tolerance or scaled.tolerance))
    targets = kept(scaled, limits, scaled.places(plan.owners_after))
    held = scaled.held()
    found = []
    for certificate in plan.certificates:
        n = index[certificate.node]
        own = held[n]
        drained = certificate.kind == ProofKind.DRAINED
        over = [sum(load[s] for s in own) for load in scaled.loads] if drained else needs(scaled, targets, n, own)
        found.append(_argument(scaled, own, over, certificate))
    return sorted(found, key=lambda argument: (-argument.least, argument.node))


def _argument(scaled: Scaled, slots: Sequence[int], over: Sequence[int], certificate: Certificate) -> Argument:
    """Repeat the sum in whole numbers (2**-60 of the cost), then say it in the units of the loads."""
    cost, unit = scaled.loads[scaled.cost], scaled.units[scaled.cost]
    if certificate.kind == ProofKind.DRAINED:
        prices = [0] * len(over)
    else:
        prices = [price if need > 0 else 0 for price, need in zip(certificate.prices, over, strict=True)]
    paid = [(price, load) for price, load in zip(prices, scaled.loads, strict=True) if price]
    rebate = sum(
        max(0, sum(price * load[s] for price, load in paid) - (cost[s] << PRICE_BITS))
        for s in slots
        if s not in scaled.fixed
    )
    priced = sum(price * need for price, need in zip(prices, over, strict=True))
    whole = unit << PRICE_BITS
    rows = list(zip(scaled.resources, over, prices, scaled.units, strict=True))
    return Argument(
        certificate.node,
        certificate.kind,
        {name: Fraction(need, own_unit) for name, need, _, own_unit in rows if need > 0},
        {name: Fraction(price * own_unit, whole) for name, need, price, own_unit in rows if need > 0},
        Fraction(priced, whole),
        Fraction(rebate, whole),
        Fraction(certificate.value, unit),
        certificate.nodes,
    )
