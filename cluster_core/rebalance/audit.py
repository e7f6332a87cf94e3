"""Compare measurements after a plan's moves with the figures that it promised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Annotated, NamedTuple

from cluster_core.rebalance.execution.cluster_now import ClusterSight
from cluster_core.rebalance.execution.situation import short_slots
from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import fair_parts
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.slot_set import SlotSet, slots_by

OWNERS = "owners"
OPEN_SLOTS = "open slots"
LEFT_BEHIND = "keys left behind"
LOAD = "load"
"""Aspects of an audit; `LOAD` has one finding per resource."""

SLACK = 0.005
"""Excess of a measured load over its promise, in fair shares, that counts as growth during the moves."""
STANDARD_ERRORS = 1.96
"""Half-width, in standard errors, of a 95 % confidence interval."""
DETAILS_MAX = 5


class Finding(NamedTuple):
    """One aspect of an audit."""

    aspect: Annotated[str, "owners, open slots, keys left behind or load"]
    resource: Annotated[str, "resource of a load; empty for counts"]
    promised: Annotated[float | None, "load: planned maximum over the fair share"]
    measured: Annotated[float | None, "measured value; null if not measurable"]
    allowed: Annotated[float | None, "largest value that keeps the promise; null without a promise"]
    kept: Annotated[bool | None, "whether the promise was kept; null if unknown or not comparable"]
    detail: Annotated[str, "method, fault, or reason for no comparison"]
    error: Annotated[float | None, "95 % error bound of the measurement; null where nothing was estimated"] = None

    @property
    def is_unknown(self) -> bool:
        """Return whether the error of the measurement is too large for a verdict."""
        return self.kept is None and self.error is not None and self.allowed is not None


@dataclass(frozen=True, slots=True)
class MasterLoads:
    """Load of each master (node id) in one resource.

    *errors* are standard errors of estimates, *basis* is the measuring method, *reason* explains why it is not compared.
    """

    resource: str
    loads: Mapping[str, float]
    basis: str
    errors: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""


def audit_owners(stored: StoredPlan, sight: ClusterSight) -> list[Finding]:
    """Return whether every node knows the planned owners, and whether a slot is still open."""
    planned = slots_by((owner, slot) for slot, owner in enumerate(stored.plan.owners_after))
    needed = {address: reason for address, reason in sight.lost.items() if not _is_out(sight, address)}
    wrong = [f"{address} did not answer: {reason}" for address, reason in needed.items()]
    views: dict[str, list[str]] = {}
    out = [address for address in sight.lost if address not in needed]
    worst = 0
    for node in sight.nodes.values():
        misplaced = reduce(or_, (slots - node.owners.get(owner, SlotSet()) for owner, slots in planned.items()))
        worst = max(worst, len(misplaced))
        if misplaced:
            first = next(iter(misplaced))
            owner = next((owner for owner, slots in node.owners.items() if first in slots), "")
            now, then = stored.name(owner), stored.name(stored.plan.owners_after[first])
            fault = f"slots {short_slots(misplaced)} are not as planned (slot {first} belongs to {now}, not {then})"
            views.setdefault(fault, []).append(node.address)
    every = len(sight.nodes)
    wrong += [
        f"{f'all {every} nodes' if len(at) == every > 1 else ', '.join(at)}: {fault}" for fault, at in views.items()
    ]
    opened = SlotSet(sight.open_slots())
    count = len(stored.plan.owners_after)
    kept = f"all {count:,} slots belong to the planned masters on all {every} nodes"
    kept += f" that answer; failed, without slots: {', '.join(out)}" if out else ""
    return [
        Finding(OWNERS, "", 0.0, float(worst), 0.0, not wrong, _few(wrong) or kept),
        Finding(
            OPEN_SLOTS, "", 0.0, float(len(opened)), 0.0, not opened,
            f"slots {short_slots(opened)} are migrating or importing" if opened else "no slot is migrating or importing",
        ),
    ]  # fmt: skip


def _is_out(sight: ClusterSight, address: str) -> bool:
    views = [(node, name) for node in sight.nodes.values() for name, at in node.addresses.items() if at == address]
    return bool(views) and all(name in node.unreachable and not node.owners.get(name) for node, name in views)


def audit_left_behind(stored: StoredPlan, left: Mapping[tuple[str, int], int]) -> Finding:
    """Return whether former owners hold keys of slots that moved: *left* by (node, slot)."""
    held = {place: keys for place, keys in left.items() if keys}
    by_node = slots_by(sorted(held))
    details = [
        f"{stored.name(node)} holds {sum(held[node, slot] for slot in slots):,} keys of slots {short_slots(slots)}"
        for node, slots in by_node.items()
    ]
    keys = float(sum(held.values()))
    moved = len(stored.plan.moves)
    asked = (
        f"{moved:,} moved slots"
        if len(left) == moved
        else f"{len(left):,} of {moved:,} moved slots; the rest do not answer"
    )
    detail = _few(details) or f"the former owners hold no key of {asked}"
    return Finding(LEFT_BEHIND, "", 0.0, keys, 0.0, not held, detail)


def audit_load(stored: StoredPlan, measured: MasterLoads, slack: float = SLACK) -> Finding:
    """Compare the heaviest master over its fair share with the promise, which includes the plan's limit and *slack*.

    The result is unknown if the error of an estimate reaches across that limit.
    """
    reach = next((reach for reach in stored.plan.reach if reach.resource == measured.resource), None)
    promised = None if reach is None else float(reach.after)
    allowed = None if reach is None else max(float(reach.after), float(reach.limit)) + slack
    share, heaviest, error = heaviest_share(stored, measured)
    detail = f"{measured.basis}; heaviest is {stored.name(heaviest)}" if heaviest else measured.basis
    off = STANDARD_ERRORS * error
    if off:
        detail += f", ±{100 * off:.2g} % of a fair share"
    if measured.reason or allowed is None or share is None:
        reason = measured.reason or ("it was not planned with" if reach is None else "nothing was measured")
        return Finding(LOAD, measured.resource, promised, share, allowed, None, f"not compared: {reason}; {detail}")
    kept = True if share + off <= allowed else False if share - off > allowed else None
    if kept is None:
        detail = f"unknown: {allowed:.3f}× are allowed, and the error reaches across that; {detail}"
    return Finding(LOAD, measured.resource, promised, share, allowed, kept, detail, off or None)


def heaviest_share(stored: StoredPlan, measured: MasterLoads) -> tuple[float | None, str, float]:
    """Return the largest load over its fair share, its master, and the figure's standard error."""
    scaled = validate(stored.problem)
    excluded = {master.id for master in scaled.masters if master.excluded}
    total = sum(load for node, load in measured.loads.items() if node not in excluded)
    if not total or measured.resource not in scaled.resources:
        return None, "", 0.0
    part = fair_parts(scaled, measured.resource)

    def over_fair(loads: Mapping[str, float], node: str) -> float:
        return loads.get(node, 0.0) / total / part[node]  # in this order: a fair share of a tiny total may be 0

    worst = max(part, key=lambda node: (over_fair(measured.loads, node), node), default="")
    return (over_fair(measured.loads, worst), worst, over_fair(measured.errors, worst)) if worst else (None, "", 0.0)


def is_kept(findings: Iterable[Finding]) -> bool:
    """Return whether no finding reports a broken promise."""
    return all(finding.kept is not False for finding in findings)


def _few(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - DETAILS_MAX} more" if len(sentences) > DETAILS_MAX else ""
    return "; ".join(sentences[:DETAILS_MAX]) + more
