"""Limits that cannot be met together, and masters above their capacity, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from cluster_core.rebalance.conflict import Conflict, ConflictKind
from cluster_core.rebalance.goal.limits import keeps
from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.plan import PlanVerdict
from cluster_core.rebalance.stored_plan import StoredPlan
from schemas.caveats import Caveat, Code
from slotscope.reports.rebalance.words import amount, resource_words, share_text
from slotscope.runtime import text

LISTED = 4
"""Names in one sentence."""


def limit_warnings(stored: StoredPlan) -> list[Caveat]:
    """Return the warnings about limits that cannot be met and capacities that are exceeded, the worst first."""
    plan = stored.plan
    found = [Caveat.error(Code.LIMITS_AT_ODDS, conflict_words(stored, one)) for one in plan.conflicts]
    if plan.verdict == PlanVerdict.CLOSER:
        over = [f"{resource_words(r.resource)} {float(r.after):.3f}× (limit {float(r.limit):.3f}×)" for r in plan.reach if r.after > r.limit]  # fmt: skip
        where = f": {', '.join(over)}" if over else ""
        words = f"The search found no plan that keeps all limits{where}. Whether one exists is unknown."
        found.append(Caveat.warning(Code.LIMITS_NOT_REACHED, words))
    if plan.given_up:
        names = _listed([resource_words(name) for name in plan.given_up])
        words = f"Soft goal given up: {names} may stay above the limit. To keep it would break other limits or split slots into many ranges."
        found.append(Caveat.warning(Code.GOAL_GIVEN_UP, words))
    if plan.held_back:
        slots = text.plural(len(plan.held_back), "slot")
        words = f"{slots} that would move stay: no master has room for both copies while they do. Plan again when this plan is carried out."
        found.append(Caveat.warning(Code.NO_ROOM, words))
    return [*found, *_capacity_warnings(stored)]


def conflict_words(stored: StoredPlan, one: Conflict) -> str:
    """Return the contradiction in a sentence: the limits, the least that gives way, and the tolerance of the plan."""
    what = _listed([resource_words(name) for name in one.resources])
    names = _listed([_name(stored, node) for node in one.nodes[:LISTED]], len(one.nodes) - LISTED)
    slots = _listed([str(slot) for slot in one.slots[:LISTED]], len(one.slots) - LISTED)
    if one.kind is ConflictKind.PINNED:
        helps = "no tolerance helps" if one.least is None else f"it would take a tolerance of {_percent(one.least)}"
        return f"These limits cannot be met together, proven: pinned slots alone bring {names} above its limit of {what}; {helps}."
    if one.kind is ConflictKind.SMALL:
        return (
            f"Impossible limit: {names} stays and must keep a slot, but its limit of {what} is below the lightest slot."
            " Raise its weight or capacity, or drain it."
        )
    if one.kind is ConflictKind.SLOT:
        verb = "is" if len(one.slots) == 1 else "are each"
        return f"These limits cannot be met together, proven: slot {slots} {verb} larger than the capacity in {what} of any master{_besides(stored)}, and cannot be divided."
    if one.kind is ConflictKind.CAPACITY:
        parts = _hard_limits(stored, names)
        if stored.problem.zone_share_max is not None:
            parts.append(f"no zone above {_zone_share(stored)}")
        return f"These limits cannot be met together, proven: {_listed(parts)}. No tolerance helps. The plan comes as close as the search did."
    if one.kind is ConflictKind.ZONES:
        helps = (
            "no tolerance helps"
            if one.least is None
            else f"what was asked would take a tolerance of more than {_percent(one.least)}"
        )
        given = _hard_limits(stored) if one.least is None else ["these tolerances"]
        return (
            f"These limits cannot be met together, proven: {_listed([f'no zone above {_zone_share(stored)}', *given])}. The least share that may work is"
            f" {share_text(float(one.share or 0), digits=1)}, which the plan goes by; {helps}."
        )
    limits = [f"the capacity of {names}"] if one.nodes else []
    limits += [f"slot {slots}, which cannot be divided"] if one.slots else []
    limits += ["the zones' share"] if one.prices is not None and one.prices.zones else []
    limits.append(f"the tolerance in {what}")
    words = f"These limits cannot be met together, proven: {_listed(limits)}."
    if one.least is None:
        return f"{words} No tolerance helps. The plan comes as close as the search did."
    words += f" Every tolerance up to {_percent(one.least)} is proven impossible."
    used = max(stored.plan.tolerance, default=Fraction(0))
    if _keeps(stored):
        return f"{words} The plan keeps {_percent(used)}; what lies between is unknown."
    return f"{words} The plan was made for {_percent(used)} and comes close; whether that can be met is unknown."


def _zone_share(stored: StoredPlan) -> str:
    return share_text(float(stored.problem.zone_share_max or 0), digits=1)


def _besides(stored: StoredPlan) -> str:
    """Return the drained masters, which could hold it."""
    drained = _drained(stored)
    return f", with {drained}" if drained else ""


def _drained(stored: StoredPlan) -> str:
    names = [_name(stored, master.id) for master in stored.problem.masters if master.drained]
    return f"the drain of {_listed(names[:LISTED], len(names) - LISTED)}" if names else ""


def _hard_limits(stored: StoredPlan, names: str = "") -> list[str]:
    """Return the limits of masters that no tolerance changes; *names* are the masters with a capacity."""
    problem = stored.problem
    capped = [resource_words(name) for name in problem.loads if any(name in m.capacity for m in problem.masters)]
    parts = [f"the capacity of {names or 'masters'} in {_listed(capped)}"] if capped else []
    parts += [drained] if (drained := _drained(stored)) else []
    return parts + (["what is pinned"] if problem.pinned else [])


def _keeps(stored: StoredPlan) -> bool:
    scaled = validate(stored.problem)
    limits = find_targets(replace(scaled, tolerance=stored.plan.tolerance))
    return keeps(scaled, limits, scaled.places(stored.plan.owners_after))


def _capacity_warnings(stored: StoredPlan) -> list[Caveat]:
    """Return an error for every master that ends above a capacity."""
    problem, found = stored.problem, []
    for master in problem.masters:
        for resource, most in master.capacity.items():
            load = problem.loads[resource]
            before = sum(v for v, owner in zip(load, problem.owners, strict=True) if owner == master.id)
            after = sum(v for v, owner in zip(load, stored.plan.owners_after, strict=True) if owner == master.id)
            if after <= most:
                continue
            now = f"{_name(stored, master.id)} holds {amount(resource, float(before))} {resource_words(resource)}, above its capacity of {amount(resource, float(most))}"  # fmt: skip
            ends = f"ends with {amount(resource, float(after))}" if before != after else "stays so"
            found.append(Caveat.error(Code.ABOVE_CAPACITY, f"{now}, and {ends}: no better plan was found. Nothing moves into it."))  # fmt: skip
    return found


def _name(stored: StoredPlan, node_id: str) -> str:
    node = next((node for node in stored.nodes if node.id == node_id), None)
    return text.printable(node.address if node is not None and node.address else node_id[:12], 60)


def _listed(words: Sequence[str], more: int = 0) -> str:
    if more > 0:
        return f"{', '.join(words)} and {text.count(more)} more"
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def _percent(value: Fraction) -> str:
    return share_text(float(value))
