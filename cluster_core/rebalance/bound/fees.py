"""The proven lower bound where slots fit nowhere as it is: whoever takes one in must give others away.

How this works.  A master that sends away a slot of `FeeProof.fees` pays its fee, and the master that takes it in earns it: in any
placement all fees cancel out, so the least that it costs each master on its own, fees and all, adds up to a lower bound, whatever the
fees are.  A master may take in as many of these slots as it likes, if it gives away what then is too much: two of them on one host are
one of its cases.  `prove_fees` repeats the argument in whole numbers; no solver, no rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster_core.rebalance.bound.certificates import Certificate, make_cover, needs, proven
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets

FEES_MAX = 64
"""Most slots of one proof that have a fee."""


@dataclass(frozen=True, slots=True)
class FeeProof:
    """Proof that at least *value* (whole units of the cost) moves: *fees* are pairs of slot and fee, *certificates* one a master that stays.

    The value of a certificate is what it costs its master at least, fees included: below 0 where it earns.
    """

    value: int
    fees: tuple[tuple[int, int], ...]
    certificates: tuple[Certificate, ...]


def prove_fees(scaled: Scaled, targets: Targets, proof: FeeProof) -> bool:
    """Return whether *proof* holds, in whole numbers.  With slots that are heavier than a limit it never does: their hosts vary."""
    fees = dict(proof.fees)
    told = {certificate.node: certificate for certificate in proof.certificates}
    if targets.heavy or not len(fees) == len(proof.fees) <= FEES_MAX or len(told) != len(proof.certificates):
        return False
    if any(not 0 <= s < len(scaled.owner) or s in scaled.fixed or fee < 0 for s, fee in fees.items()):
        return False
    held: list[list[int]] = [[] for _ in scaled.masters]
    for s, n in enumerate(scaled.owner):
        held[n].append(s)
    total = 0
    for n, (master, slots) in enumerate(zip(scaled.masters, held, strict=True)):
        if master.excluded:
            continue
        if master.drained:
            total += leave(scaled, slots, fees)
            continue
        certificate = told.get(master.id)
        if certificate is None:
            return False
        found = proven(make_cover(scaled, slots, needs(scaled, targets, n, slots), fees), certificate)
        if found is None or found < certificate.value:
            return False
        total += certificate.value
    return total >= proof.value


def leave(scaled: Scaled, slots: list[int], fees: dict[int, int]) -> int:
    """Return what it costs a drained master to send all its *slots* away."""
    return sum(scaled.loads[scaled.cost][s] + fees.get(s, 0) for s in slots)
