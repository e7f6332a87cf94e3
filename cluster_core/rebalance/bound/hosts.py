"""The proven lower bound where one slot is heavier than a limit: whichever master is its host, all else must give way there.

Every placement has one host.  It may hold that slot and, of the resources in which the slot is too heavy, nothing else; every other master
keeps the common limit.  So what moves is at least the least, over all hosts, of the host's own figure and those of the other masters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster_core.rebalance.bound.certificates import Certificate, make_cover, needs, proven
from cluster_core.rebalance.bound.cover import Cover
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets


@dataclass(frozen=True, slots=True)
class HostProof:
    """Proof that at least *value* moves wherever the heavy slot is: *certificates* say what each master would give away as its host."""

    value: int
    certificates: tuple[Certificate, ...]


def single_heavy(scaled: Scaled, targets: Targets) -> int | None:
    """Return the heavy slot where there is just one that may have any host; None otherwise."""
    slots = {h.slot for h in targets.heavy}
    return None if len(slots) != 1 or slots & scaled.fixed else slots.pop()


def host_cover(scaled: Scaled, targets: Targets, s: int, n: int, held: Sequence[int]) -> Cover:
    """Return the covering problem of master *n*, which holds the slots *held*, as the host of the heavy slot *s*."""
    need = needs(scaled, targets, n, held)
    too_heavy = {h.resource for h in targets.heavy}
    for r, (name, load) in enumerate(zip(scaled.resources, scaled.loads, strict=True)):
        need[r] += 0 if scaled.owner[s] == n else load[s]
        if name in too_heavy:
            need[r] -= max(targets.common[n][r], load[s]) - targets.common[n][r]
    return make_cover(scaled, [slot for slot in held if slot != s], need)


def add_up_hosts(certificates: Sequence[Certificate], hosts: Sequence[Certificate]) -> int:
    """Return the bound: the least, over the *hosts*, of the host's figure and what *certificates* say of all other masters."""
    own = {certificate.node: certificate.value for certificate in certificates}
    total = sum(own.values())
    return min(total - own.get(host.node, 0) + host.value for host in hosts)


def prove_hosts(scaled: Scaled, targets: Targets, certificates: Sequence[Certificate], proof: HostProof) -> bool:
    """Return whether *proof* holds, in whole numbers; the *certificates* of the masters themselves are checked elsewhere."""
    s = single_heavy(scaled, targets)
    told = {certificate.node: certificate for certificate in proof.certificates}
    takers = scaled.takers()
    if s is None or len(told) != len(proof.certificates) or set(told) != {scaled.masters[n].id for n in takers}:
        return False
    held = scaled.held()
    for n in takers:
        certificate = told[scaled.masters[n].id]
        found = proven(host_cover(scaled, targets, s, n, held[n]), certificate)
        if found is None or certificate.value > max(0, found):
            return False
    return proof.value <= add_up_hosts(certificates, proof.certificates)
