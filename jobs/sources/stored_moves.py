"""Do the tables of a plan say the same as its document?  A row that was changed, added or lost is named."""

from __future__ import annotations

from cluster_core.rebalance.document import identify, slot_rows, write_document
from cluster_core.rebalance.record import StoredPlan
from cluster_core.rebalance.staleness import hash_state
from jobs.runtime.delta_files import read_rows
from jobs.sources.stored_plans import find_plan
from schemas.rebalance import REBALANCE_MOVES


def compare_tables(root: str, stored: StoredPlan) -> list[str]:
    """Return how gold/rebalance_moves and gold/rebalance_plans differ from *stored*, a sentence each."""
    wrong = []
    told = {
        (row["slot"], row["source"], row["target"], row["batch"])
        for row in read_rows(root, REBALANCE_MOVES, plan_id=stored.plan_id)
    }
    meant = {
        (s, job.source, job.target, batch.number) for batch in stored.batches for job in batch.jobs for s in job.slots
    }
    for slot, source, target, batch in sorted(told ^ meant)[:20]:
        where = (
            "only in the table of moves" if (slot, source, target, batch) in told else "missing in the table of moves"
        )
        wrong.append(f"slot {slot} from {source} to {target} in batch {batch}: {where}")
    batched = {(s, job.source, job.target) for batch in stored.batches for job in batch.jobs for s in job.slots}
    if batched != {(move.slot, move.source, move.target) for move in stored.plan.moves}:
        wrong.append("the batches do not hold each move of the plan once")
    epochs = {node.id: node.config_epoch for node in stored.nodes if node.address}
    if hash_state(stored.problem.owners, epochs) != stored.state_hash:
        wrong.append("the digest of owners and config epochs is not that of the slots")
    row = find_plan(root, stored.plan_id)
    document = write_document(stored.problem, stored.plan, stored.batches, stored.nodes, stored.time_model)
    if identify(document + stored.state_hash, slot_rows(stored.problem, stored.plan)) != stored.plan_id:
        wrong.append("the plan's id is not the digest of what it holds")
    if row["moved_bytes"] != stored.plan.moved // stored.plan.unit or row["moved_slots"] != len(stored.plan.moves):
        wrong.append("the plan's row says other sums than its document")
    if row["lower_bound_bytes"] != -(-stored.plan.bound // stored.plan.unit):
        wrong.append("the plan's row says another bound than its document")
    return wrong
