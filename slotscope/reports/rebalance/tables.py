"""The report on a rebalancing plan, read from its tables without Spark, with the limits that it cannot meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import find_targets, keeps
from cluster_core.rebalance.plan import Conflict, ConflictKind, PlanVerdict
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.slot_set import SlotSet
from schemas import rebalance
from schemas.caveats import Caveat, Code
from schemas.table import Table
from slotscope.plans.stored_plans import epoch_ms, find_plan, read_stored_plan
from slotscope.reports.rebalance.report import RebalanceReport, amount, resource_label, share_text
from slotscope.reports.records import Row, grouped, read
from slotscope.runtime import text

CODES = frozenset(Code)
"""Warnings with other codes, which earlier versions wrote, are left out."""
RECOMMENDED = "recommended"
"""The plan itself among the budgets."""


def load_rebalance_report(root: str, plan_id: str = "latest") -> RebalanceReport:
    """Return the report on a plan of the tables under *root*; InputError if it is missing, PlanError if its tables are damaged."""
    row = find_plan(root, plan_id)
    stored = read_stored_plan(root, row["plan_id"])
    plan = stored.plan
    known = row["max_over_mean_before"].keys() & row["limits"].keys()
    warnings = [Caveat.of(**warning) for warning in row.get("warnings") or () if warning["code"] in CODES]
    left_out = ("document", "created_at", "warnings")
    own = {name: row.get(name) for name in rebalance.REBALANCE_PLANS.columns if name not in left_out}
    return RebalanceReport(
        **own,
        created_at_ms=epoch_ms(row["created_at"]),
        root=root,
        asked=(),
        gain_min=float(stored.problem.gain_min),
        is_partial=bool(stored.unread),
        has_headroom=stored.has_headroom,
        warnings=[*warnings, *limit_warnings(stored)],
        reaches=[_reach(row, reach.resource) for reach in plan.reach if reach.resource in known],
        nodes=_nodes(_rows(root, rebalance.REBALANCE_LOAD, stored.plan_id)),
        transfers=_transfers(_rows(root, rebalance.REBALANCE_MOVES, stored.plan_id)),
        curve=_curve(_rows(root, rebalance.REBALANCE_CURVE, stored.plan_id)),
        heavy=_heavy(_rows(root, rebalance.REBALANCE_HEAVY, stored.plan_id)),
    )


def _rows(root: str, table: Table, plan_id: str) -> list[dict[str, Any]]:
    return [vars(row) for row in read(root, table, plan_id=plan_id)]


def _reach(row: Mapping[str, Any], name: str) -> Row:
    return Row(
        resource=name, tolerance=row["tolerance"].get(name, 0.0), before=row["max_over_mean_before"][name],
        after=row["max_over_mean_after"][name], limit=row["limits"][name], floor=row["floors"].get(name, 1.0),
    )  # fmt: skip


def _nodes(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    by_node = sorted(grouped(rows, "node_id").items())
    return [Row(**{**mine[0], "shares": {row["resource"]: Row(**row) for row in mine}}) for _, mine in by_node]


def _transfers(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the slots of each batch, source and target as one transfer."""
    joined = grouped(sorted(rows, key=lambda row: int(row["slot"])), "batch", "source", "target")
    transfers = []
    for (batch, source, target), moves in sorted(joined.items()):
        slots = tuple(row["slot"] for row in moves)
        sums = {"bytes": _sum(moves, "bytes"), "keys": _sum(moves, "keys")}
        transfers.append(
            Row(batch=batch, source=source, target=target, slots=slots, ranges=SlotSet(slots).ranges(), **sums)
        )
    return transfers


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


def _curve(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Budgets in their order; those that give the same are one row, named after the plan if it is among them."""
    points = []
    ordered = sorted(rows, key=lambda row: int(row["number"]))
    for alike in grouped(ordered, "moved_bytes", "ranges", "moved_slots").values():
        names = [row["choice"] for row in alike if row["choice"]]
        name = RECOMMENDED if RECOMMENDED in names else next(iter(names), None)
        points.append(Row(**{**alike[0], "choice": name}))
    return points


def _heavy(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    lines = []
    for alike in grouped(rows, "slot", "resource").values():
        ranked = sorted((row for row in alike if row["rank"] is not None), key=lambda row: int(row["rank"]))
        lines.append(Row(**{**alike[0], "parts": [Row(**row) for row in ranked]}))
    return sorted(lines, key=lambda line: (-line.ratio, line.slot, line.resource))


LISTED = 4
"""Names in one sentence."""


def limit_warnings(stored: StoredPlan) -> list[Caveat]:
    """Return the warnings about limits that cannot be met and capacities that are exceeded, the worst first."""
    plan = stored.plan
    caveats = [Caveat.error(Code.LIMITS_AT_ODDS, conflict_text(stored, conflict)) for conflict in plan.conflicts]
    if plan.verdict == PlanVerdict.CLOSER:
        over = [f"{resource_label(r.resource)} {float(r.after):.3f}× (limit {float(r.limit):.3f}×)" for r in plan.reach if r.after > r.limit]  # fmt: skip
        where = f": {', '.join(over)}" if over else ""
        message = f"The search found no plan that keeps all limits{where}. Whether one exists is unknown."
        caveats.append(Caveat.warning(Code.LIMITS_NOT_REACHED, message))
    if plan.given_up:
        names = _listed([resource_label(name) for name in plan.given_up])
        message = f"Soft goal given up: {names} may stay above the limit. Keeping it would break other limits or split slots into many ranges."
        caveats.append(Caveat.warning(Code.GOAL_GIVEN_UP, message))
    if plan.held_back:
        slots = text.plural(len(plan.held_back), "slot")
        message = f"{slots} must stay for now: no master has room for both copies during the move. Plan again after this plan."
        caveats.append(Caveat.warning(Code.NO_ROOM, message))
    return [*caveats, *_capacity_warnings(stored)]


def conflict_text(stored: StoredPlan, conflict: Conflict) -> str:
    """Return the contradiction in a sentence: the limits, the least that gives way, and the tolerance of the plan."""
    resources = _listed([resource_label(name) for name in conflict.resources])
    names = _listed([_name(stored, node) for node in conflict.nodes[:LISTED]], len(conflict.nodes) - LISTED)
    slots = _listed([str(slot) for slot in conflict.slots[:LISTED]], len(conflict.slots) - LISTED)
    if conflict.kind is ConflictKind.PINNED:
        helps = (
            "no tolerance helps"
            if conflict.least is None
            else f"it would take a tolerance of {_percent(conflict.least)}"
        )
        return f"These limits cannot be met together, proven: pinned slots alone bring {names} above its limit of {resources}; {helps}."
    if conflict.kind is ConflictKind.SMALL:
        return (
            f"Impossible limit: {names} stays and must keep a slot, but its limit of {resources} is below the lightest slot."
            " Raise its weight or capacity, or drain it."
        )
    if conflict.kind is ConflictKind.SLOT:
        verb = "is" if len(conflict.slots) == 1 else "are each"
        return f"These limits cannot be met together, proven: slot {slots} {verb} larger than the capacity in {resources} of any master{_drained_clause(stored)}, and cannot be divided."
    if conflict.kind is ConflictKind.CAPACITY:
        parts = _hard_limits(stored, names)
        if stored.problem.zone_share_max is not None:
            parts.append(f"no zone above {_zone_share(stored)}")
        return f"These limits cannot be met together, proven: {_listed(parts)}. No tolerance helps. The plan comes as close as the search did."
    if conflict.kind is ConflictKind.ZONES:
        helps = (
            "no tolerance helps"
            if conflict.least is None
            else f"the requested share needs a tolerance above {_percent(conflict.least)}"
        )
        given = _hard_limits(stored) if conflict.least is None else ["these tolerances"]
        return (
            f"These limits cannot be met together, proven: {_listed([f'no zone above {_zone_share(stored)}', *given])}. The least share that may work is"
            f" {share_text(float(conflict.share or 0), digits=1)}, which the plan goes by; {helps}."
        )
    limits = [f"the capacity of {names}"] if conflict.nodes else []
    limits += [f"slot {slots}, which cannot be divided"] if conflict.slots else []
    limits += ["the zones' share"] if conflict.prices is not None and conflict.prices.zones else []
    limits.append(f"the tolerance in {resources}")
    message = f"These limits cannot be met together, proven: {_listed(limits)}."
    if conflict.least is None:
        return f"{message} No tolerance helps. The plan comes as close as the search did."
    message += f" Every tolerance up to {_percent(conflict.least)} is proven impossible."
    used = max(stored.plan.tolerance, default=Fraction(0))
    if _keeps(stored):
        return f"{message} The plan keeps {_percent(used)}; tolerances between them are unknown."
    return f"{message} The plan was made for {_percent(used)} and comes close; whether that can be met is unknown."


def _zone_share(stored: StoredPlan) -> str:
    return share_text(float(stored.problem.zone_share_max or 0), digits=1)


def _drained_clause(stored: StoredPlan) -> str:
    """Return the drained masters, which could hold it."""
    drained = _drained(stored)
    return f", with {drained}" if drained else ""


def _drained(stored: StoredPlan) -> str:
    names = [_name(stored, master.id) for master in stored.problem.masters if master.drained]
    return f"the drain of {_listed(names[:LISTED], len(names) - LISTED)}" if names else ""


def _hard_limits(stored: StoredPlan, names: str = "") -> list[str]:
    """Return the limits of masters that no tolerance changes; *names* are the masters with a capacity."""
    problem = stored.problem
    capped = [resource_label(name) for name in problem.loads if any(name in m.capacity for m in problem.masters)]
    parts = [f"the capacity of {names or 'masters'} in {_listed(capped)}"] if capped else []
    parts += [drained] if (drained := _drained(stored)) else []
    return parts + (["the pinned slots"] if problem.pinned else [])


def _keeps(stored: StoredPlan) -> bool:
    scaled = validate(stored.problem)
    limits = find_targets(replace(scaled, tolerance=stored.plan.tolerance))
    return keeps(scaled, limits, scaled.places(stored.plan.owners_after))


def _capacity_warnings(stored: StoredPlan) -> list[Caveat]:
    """Return an error for every master that ends above a capacity."""
    problem, caveats = stored.problem, []
    for master in problem.masters:
        for resource, most in master.capacity.items():
            load = problem.loads[resource]
            before = sum(v for v, owner in zip(load, problem.owners, strict=True) if owner == master.id)
            after = sum(v for v, owner in zip(load, stored.plan.owners_after, strict=True) if owner == master.id)
            if after <= most:
                continue
            now = f"{_name(stored, master.id)} holds {amount(resource, float(before))} {resource_label(resource)}, above its capacity of {amount(resource, float(most))}"  # fmt: skip
            ends = f"ends with {amount(resource, float(after))}" if before != after else "stays so"
            caveats.append(Caveat.error(Code.ABOVE_CAPACITY, f"{now}, and {ends}: no better plan was found. Nothing moves into it."))  # fmt: skip
    return caveats


def _name(stored: StoredPlan, node_id: str) -> str:
    node = next((node for node in stored.nodes if node.id == node_id), None)
    return text.printable(node.address if node is not None and node.address else node_id[:12], 60)


def _listed(items: Sequence[str], more: int = 0) -> str:
    if more > 0:
        return f"{', '.join(items)} and {text.count(more)} more"
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def _percent(value: Fraction) -> str:
    return share_text(float(value))
