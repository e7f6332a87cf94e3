"""From loads and owners to a stored plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from cluster_core.load.unread import WHOLE, UnreadInputs
from cluster_core.rebalance import planner
from cluster_core.rebalance.execution.cluster_now import MigrationPath
from cluster_core.rebalance.execution.situation import seconds_of
from cluster_core.rebalance.goal.problem import Problem, ScaledProblem, exact, validate
from cluster_core.rebalance.goal.targets import Targets, find_targets, rehost
from cluster_core.rebalance.plan import Batch, MasterRoom, Plan, order_moves
from cluster_core.rebalance.planner import defragment, hold_back
from cluster_core.rebalance.stored_plan import (
    PlannedNode,
    SlotRow,
    StoredPlan,
    hash_state,
    identify,
    slot_rows,
    write_document,
)
from slotscope.plans.stored_plans import LIVE
from slotscope.runtime.progress import progress

BYTES = ("serialized_bytes", "memory_bytes")
"""Resources that determine the time of a move; the first known one counts."""


@dataclass(frozen=True, slots=True)
class MadePlan:
    """A plan with its problem in whole units, its slots, the limits, and its effect on other loads."""

    stored: StoredPlan
    scaled: ScaledProblem
    document: str
    slots: list[SlotRow]
    targets: Targets

    def created_first(self, at_ms: int | None) -> MadePlan:
        """Return the plan with the time *at_ms* of an earlier run that made the same plan (None: there is none)."""
        return self if at_ms is None else replace(self, stored=replace(self.stored, created_at_ms=at_ms))

    @property
    def estimated_s(self) -> float:
        """The estimated seconds: key by key, unless all servers of a live cluster migrate whole slots."""
        stored = self.stored
        has_jobs = stored.snapshot_id == LIVE and not stored.problem.slot_cost
        return sum(seconds_of(stored, stored.batches, MigrationPath.VALKEY_JOBS if has_jobs else MigrationPath.LEGACY))


def make_plan(
    problem: Problem,
    nodes: Sequence[PlannedNode],
    *,
    snapshot_id: str,
    created_at_ms: int,
    join_ranges: bool = False,
    unread: UnreadInputs = WHOLE,
) -> MadePlan:
    """Return the plan for *problem* with its batches; PlanError for bad or impossible input.

    *unread* are the inputs that could not be read in full.
    """
    scaled = validate(problem)
    targets = find_targets(scaled)
    with progress("planning"):
        made = defragment(problem) if join_ranges else planner.make_plan(problem)
    with progress("ordering the moves"):
        rooms = _rooms(scaled, rehost(scaled, targets, scaled.places(made.owners_after)))
        made, batches = _ordered(problem, made, rooms)
    epochs = {node.id: node.config_epoch for node in nodes if node.address}
    document = write_document(problem, made, batches, nodes, unread)
    slots = slot_rows(problem, made)
    state = hash_state(problem.owners, epochs)
    plan_id = identify(document + state, slots)
    stored = StoredPlan(plan_id, snapshot_id, problem, made, tuple(batches), tuple(nodes), state, created_at_ms, unread)
    return MadePlan(stored, scaled, document, slots, targets)


def _ordered(problem: Problem, made: Plan, rooms: Mapping[str, MasterRoom]) -> tuple[Plan, list[Batch]]:
    """Return the plan without moves that no target ever has room for, and its batches."""
    while True:
        order = order_moves(made.moves, rooms)
        if not order.left:
            return made, order.batches
        made = hold_back(problem, made, {move.slot for move in order.left})


def _rooms(scaled: ScaledProblem, targets: Targets) -> dict[str, MasterRoom]:
    """Return the loads and limits of every master while slots move, in the units of the input."""
    counts = Counter(scaled.owner)
    rooms = {}
    for n, (master, row) in enumerate(zip(scaled.masters, scaled.totals(scaled.owner), strict=True)):
        limits = {
            r: float(exact(master.capacity[name], name))
            for r, name in enumerate(scaled.resources)
            if name in master.capacity
        }
        over = [(load - targets.caps[n][r]) / targets.fair[n][r] for r, load in enumerate(row) if targets.fair[n][r]]
        urgent = math.inf if master.drained else float(max(over, default=Fraction(0)))
        held = tuple(load / unit for load, unit in zip(row, scaled.units, strict=True))
        rooms[master.id] = MasterRoom(held, limits, counts[n], not master.drained, max(0.0, urgent))
    return rooms
