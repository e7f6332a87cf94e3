"""The proven lower bound by what each master can hold as a whole: whoever takes a slot in must have room for it, or give others away.

How this works.  A master that sends away a slot pays its fee, and the master that takes it in earns it: in any placement all fees cancel
out, so the least that it costs each master on its own, fees and all, adds up to a lower bound, whatever the fees are.  A master may take
in as many slots as it likes, if it gives away what then is too much: two heavy ones on one host are one of its cases.  Few slots have fees of
their own; where room has prices, every other slot's fee is what its room costs at the cheapest other master.  A slot heavier than a
limit fills whichever master is its host, so there it weighs what is common to have (`Targets.common`).  `prove_fees` repeats the
argument in whole numbers; no solver, no rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cluster_core.kernels.whole_costs import cheapest_elsewhere
from cluster_core.rebalance.bound.certificates import Certificate, make_cover, needs, proven
from cluster_core.rebalance.bound.cover import PRICE_BITS, Cover
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, loads_on

FEES_MAX = 128
"""Most slots of one proof that have a fee of their own."""


@dataclass(frozen=True, slots=True)
class FeeProof:
    """Proof that at least *value* (whole units of the cost) moves: *fees* are pairs of slot and fee, *certificates* one a master that stays.

    The value of a certificate is what it costs its master at least, fees included: below 0 where it earns.  *prices* of room
    ``[n * R + r]``, in 2**-60 units of cost a unit of the resource, say the fees of all other slots: none where there are none.
    """

    value: int
    fees: tuple[tuple[int, int], ...]
    certificates: tuple[Certificate, ...]
    prices: tuple[int, ...] = ()


def prove_fees(scaled: Scaled, targets: Targets, proof: FeeProof) -> bool:
    """Return whether *proof* holds, in whole numbers."""
    told = {certificate.node: certificate for certificate in proof.certificates}
    if not len(dict(proof.fees)) == len(proof.fees) <= FEES_MAX or len(told) != len(proof.certificates):
        return False
    if any(not 0 <= s < len(scaled.owner) or s in scaled.fixed or fee < 0 for s, fee in proof.fees):
        return False
    if len(proof.prices) not in (0, len(scaled.masters) * len(scaled.resources)) or min(proof.prices, default=0) < 0:
        return False
    fees = room_fees(scaled, proof.prices) | dict(proof.fees)
    total = 0
    for n, (master, slots) in enumerate(zip(scaled.masters, scaled.held(), strict=True)):
        if master.excluded:
            continue
        if master.drained:
            total += leave(scaled, slots, fees)
            continue
        certificate = told.get(master.id)
        if certificate is None:
            return False
        found = proven(fee_cover(scaled, targets, n, slots, fees), certificate)
        if found is None or found < certificate.value:
            return False
        total += certificate.value
    return total >= proof.value


def room_fees(scaled: Scaled, prices: Sequence[int]) -> dict[int, int]:
    """Return the fees of all slots that may move where room has *prices*: what theirs costs at the cheapest other master."""
    size = len(scaled.resources)
    takers = scaled.takers()
    if not prices or len(takers) < 2:
        return {}
    rows = [prices[n * size : (n + 1) * size] for n in range(len(scaled.masters))]
    least = cheapest_elsewhere(scaled.owner, scaled.loads, rows, takers, PRICE_BITS)
    return {
        s: fee for s, fee in enumerate(least) if s not in scaled.fixed and not scaled.masters[scaled.owner[s]].excluded
    }


def fee_cover(scaled: Scaled, targets: Targets, n: int, slots: Sequence[int], fees: Mapping[int, int]) -> Cover:
    """Return the covering problem of master *n*, which holds *slots*, with *fees*."""
    loads = loads_on(scaled, targets, n)
    return make_cover(scaled, slots, needs(scaled, targets, n, slots, loads), fees, loads)


def leave(scaled: Scaled, slots: Sequence[int], fees: Mapping[int, int]) -> int:
    """Return what it costs a drained master to send all its *slots* away."""
    return sum(scaled.loads[scaled.cost][s] + fees.get(s, 0) for s in slots)
