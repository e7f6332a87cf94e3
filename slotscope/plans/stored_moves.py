"""Do the tables of a plan say the same as its document?  A row that was changed, added or lost is named."""

from __future__ import annotations

from collections import Counter

from cluster_core.errors import PlanError
from cluster_core.rebalance.document import hash_state, identify, slot_rows
from cluster_core.rebalance.execution.remaining import Path, seconds_of
from cluster_core.rebalance.stored_plan import StoredPlan
from schemas.rebalance import REBALANCE_MOVES
from slotscope.plans.stored_plans import find_plan, read_stored_plan
from slotscope.runtime.storage.delta_files import read_rows


def read_unchanged_plan(root: str, plan_id: str) -> StoredPlan:
    """Return a plan whose tables are what was written when it was made; InputError as `read_stored_plan`, PlanError for any other.

    Whoever acts on a plan, or measures by it, reads it here: what was proven is what its id is the digest of.
    """
    stored = read_stored_plan(root, plan_id)
    wrong = compare_tables(root, stored)
    if wrong:
        more = f" (and {len(wrong) - 1} more: slotscope check-plan)" if len(wrong) > 1 else ""
        raise PlanError(f"plan {stored.plan_id} was changed after it was made: {wrong[0]}{more}; make a new one")
    return stored


def compare_tables(root: str, stored: StoredPlan) -> list[str]:
    """Return how gold/rebalance_moves and gold/rebalance_plans differ from *stored*, a sentence each."""
    row = find_plan(root, stored.plan_id)
    wrong = []
    if identify(row["document"] + stored.state_hash, slot_rows(stored.problem, stored.plan)) != stored.plan_id:
        wrong.append("the plan's id is not the digest of what it holds")
    told = {
        (moved["slot"], moved["source"], moved["target"], moved["batch"])
        for moved in read_rows(root, REBALANCE_MOVES, plan_id=stored.plan_id)
    }
    batched = [
        (s, job.source, job.target, batch.number) for batch in stored.batches for job in batch.jobs for s in job.slots
    ]
    for slot, source, target, batch in sorted(told ^ set(batched))[:20]:
        where = (
            "only in the table of moves" if (slot, source, target, batch) in told else "missing in the table of moves"
        )
        wrong.append(f"slot {slot} from {source} to {target} in batch {batch}: {where}")
    if Counter(move[:3] for move in batched) != Counter((m.slot, m.source, m.target) for m in stored.plan.moves):
        wrong.append("the batches do not hold each move of the plan once")
    epochs = {node.id: node.config_epoch for node in stored.nodes if node.address}
    if hash_state(stored.problem.owners, epochs) != stored.state_hash:
        wrong.append("the digest of owners and config epochs is not that of the slots")
    if row["moved_bytes"] != stored.plan.moved // stored.plan.unit or row["moved_slots"] != len(stored.plan.moves):
        wrong.append("the plan's row says other sums than its document")
    if row["estimated_s"] != sum(seconds_of(stored, stored.batches, Path.VALKEY_JOBS)):
        wrong.append("the plan's row says another time than its batches take")
    if row["lower_bound_bytes"] != -(-stored.plan.bound // stored.plan.unit):
        wrong.append("the plan's row says another bound than its document")
    return wrong
