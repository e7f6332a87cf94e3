"""What was found of a plan, and the plan that it comes to: proofs for the limits that are kept, everything summed up in whole numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import NamedTuple

from cluster_core.errors import PlanError
from cluster_core.rebalance.bound.certificates import Certificate, ProofKind, add_up, needs
from cluster_core.rebalance.bound.conflict import Conflict
from cluster_core.rebalance.bound.fees import FeeProof
from cluster_core.rebalance.bound.hosts import HostProof
from cluster_core.rebalance.bound.joint_proof import JointProof
from cluster_core.rebalance.bound.range_bound import least_ranges
from cluster_core.rebalance.goal.limits import excess, keeps, kept, must_drain, overload
from cluster_core.rebalance.goal.problem import Number, Scaled, exact
from cluster_core.rebalance.goal.targets import Targets, find_targets
from cluster_core.rebalance.plan import CurvePoint, Move, Plan, PlanVerdict, WorstLoad, count_ranges
from cluster_core.rebalance.search.account import Account
from cluster_core.rebalance.search.covers import Overload, certify, certify_hosts


class Proposal(NamedTuple):
    """What a cluster with these owners is told: the proofs, and where its slots would go."""

    certificates: list[Certificate]
    joint: JointProof | None
    fees: FeeProof | None
    after: Sequence[int]


class Outcome(NamedTuple):
    """A problem, what of it contradicts itself, the *raised* problem planned for, proofs (None: nothing is over), and owners in the end.

    *forgone*: a placement was found that is better, by too little.
    """

    scaled: Scaled
    conflicts: tuple[Conflict, ...]
    raised: Scaled
    proofs: Proposal | None
    owner: tuple[int, ...]
    forgone: bool = False
    curve: tuple[CurvePoint, ...] = ()


class Proof(NamedTuple):
    """What is proven for the limits that a placement keeps."""

    targets: Targets
    certificates: tuple[Certificate, ...]
    joint: JointProof | None
    fees: FeeProof | None
    hosts: HostProof | None
    bound: int


def prove(found: Outcome) -> Proof:
    """Return the proof for what was found."""
    limits = find_targets(found.raised)
    bounded = kept(found.scaled, limits, found.owner)
    if found.proofs is not None and keeps(found.scaled, limits, found.owner):
        certificates, joint, fees = tuple(found.proofs.certificates), found.proofs.joint, found.proofs.fees
    else:
        certificates, joint, fees = tuple(certify_masters(found.scaled, bounded, set(found.owner))[0]), None, None
    hosts = certify_hosts(found.scaled, bounded, certificates)
    bound = max(add_up(certificates, hosts_max(bounded)), *(proof.value for proof in (joint, fees, hosts) if proof), 0)
    return Proof(bounded, certificates, joint, fees, hosts, bound)


def conclude(found: Outcome) -> Plan:
    over = excess(found.scaled, find_targets(found.scaled), found.owner) or must_drain(found.scaled, found.owner)
    stays = found.owner == found.scaled.owner
    over = over or overload(found.scaled, find_targets(found.scaled), found.owner)
    verdict = (
        (PlanVerdict.TOO_SMALL if found.forgone and stays else PlanVerdict.CLOSER)
        if over
        else PlanVerdict.BALANCED
        if stays
        else PlanVerdict.MOVE
    )
    return describe(found, PlanVerdict.IMPOSSIBLE if found.conflicts else verdict)


def certify_masters(
    scaled: Scaled, targets: Targets, keep: Collection[int] = (), account: Account | None = None
) -> tuple[list[Certificate], list[int]]:
    """Return a certificate for every master that must give something away, but for drained ones of *keep*, and slots with which that is done."""
    held = scaled.held()
    certificates: list[Certificate] = []
    evicted: list[int] = []
    overloads: list[Overload] = []
    for n, slots in enumerate(held):
        if scaled.masters[n].excluded or not slots:
            continue
        if scaled.masters[n].drained:
            if n in keep:
                continue
            value = sum(scaled.loads[scaled.cost][s] for s in slots)
            certificates.append(Certificate(scaled.masters[n].id, ProofKind.DRAINED, value, ()))
            evicted += slots
            continue
        need = needs(scaled, targets, n, slots)
        if max(need) > 0:
            overloads.append(Overload(n, slots, need))
    for certificate, gone in certify(scaled, overloads, account):
        certificates.append(certificate)
        evicted += gone
    return certificates, evicted


def hosts_max(targets: Targets) -> int:
    """Return how many masters may become hosts of heavy slots."""
    return len({h.slot for h in targets.heavy})


def describe(found: Outcome, verdict: PlanVerdict) -> Plan:
    """Return the plan that leads from the problem's owners to those found, everything summed up in whole numbers."""
    scaled, owner = found.scaled, found.owner
    targets = find_targets(scaled)
    bounded, certificates, joint, fees, hosts, bound = prove(found)
    names = [master.id for master in scaled.masters]
    given = [scaled.problem.loads[name] for name in scaled.resources]
    moves = tuple(
        Move(s, names[scaled.owner[s]], names[n], tuple(_given(load[s]) for load in given))
        for s, n in enumerate(owner)
        if n != scaled.owner[s]
    )
    moved = sum(scaled.loads[scaled.cost][move.slot] for move in moves)
    if not 0 <= bound <= moved:
        raise PlanError(f"{moved} move and {bound} are proven to: a fault of the planner, no plan")
    return Plan(
        verdict,
        scaled.resources[scaled.cost],
        scaled.units[scaled.cost],
        moves,
        moved,
        bound,
        certificates,
        hosts_max(bounded),
        reach_of(scaled, targets, owner),
        targets.floors,
        targets.heavy,
        targets.zone_share,
        targets.zone_relaxed,
        count_ranges(scaled.owner),
        count_ranges(owner),
        tuple(names[n] for n in owner),
        joint,
        found.conflicts,
        found.raised.tolerance,
        fees=fees,
        hosts=hosts,
        ranges_bound=least_ranges(scaled, bounded),
        budget=exact(scaled.problem.bytes_budget, "bytes_budget"),
        curve=found.curve,
    )


def reach_of(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> tuple[WorstLoad, ...]:
    """Return by resource where the heaviest masters are, and where they would be if *owner* held."""
    before, after = ratios(scaled, targets, scaled.owner), ratios(scaled, targets, owner)
    return tuple(
        WorstLoad(name, before[r], after[r], max(targets.relaxed[r], _heaviest(targets, r)), targets.floors[r].ratio,
              targets.relaxed[r] > 1 + scaled.tolerance[r] or any(h.resource == name for h in targets.heavy))
        for r, name in enumerate(scaled.resources)
    )  # fmt: skip


def _heaviest(targets: Targets, r: int) -> Fraction:
    name = targets.floors[r].resource
    return max((h.ratio for h in targets.heavy if h.resource == name), default=Fraction(0))


def _given(value: Number) -> int | float:
    return value if isinstance(value, int | float) else float(value)


def ratios(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> list[Fraction]:
    """Return by resource the heaviest load of a master that stays over its fair share; 0 where there is no load."""
    worst = [Fraction(0)] * len(scaled.resources)
    for n, row in enumerate(scaled.totals(owner)):
        for r, load in enumerate(row):
            if targets.fair[n][r]:
                worst[r] = max(worst[r], load / targets.fair[n][r])
    return worst
