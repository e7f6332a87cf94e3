"""Plans in the tables: read back whole without Spark, and compared with their document.  A row that was changed, added or lost is named."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from cluster_core.errors import PlanError
from cluster_core.rebalance.stored_plan import SlotRow, StoredPlan, hash_state, identify, read_document, slot_rows
from schemas.rebalance import REBALANCE_MOVES, REBALANCE_PLANS, REBALANCE_SLOTS
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import LATEST
from slotscope.runtime.storage.delta_files import exists, read_rows

LIVE = "live"
"""The `snapshot_id` of plans from loads of live servers."""
_ID = re.compile(r"[0-9a-f]{4,12}")


def plan_rows(root: str) -> list[dict[str, Any]]:
    """Rows of gold/rebalance_plans, oldest first; none if no plan was made."""
    if not exists(root, REBALANCE_PLANS):
        return []
    return sorted(read_rows(root, REBALANCE_PLANS), key=lambda row: (row["created_at"], row["plan_id"]))


def find_plan(root: str, plan_id: str) -> dict[str, Any]:
    """Return the row of a plan by its id, a prefix, or ``latest``; InputError for none or several."""
    rows = plan_rows(root)
    if not rows:
        raise InputError(f"{root}: no plan there; slotscope plan make makes one")
    if plan_id == LATEST:
        return rows[-1]
    matches = [row for row in rows if row["plan_id"].startswith(plan_id)] if _ID.fullmatch(plan_id) else []
    if len(matches) != 1:
        known = ", ".join(row["plan_id"] for row in rows[-5:])
        raise InputError(f"--plan {plan_id}: {len(matches)} plans have that id; the newest are {known}")
    return matches[0]


def read_stored_plan(root: str, plan_id: str) -> StoredPlan:
    """Return a plan with its problem; InputError as `find_plan`, PlanError for damaged tables."""
    row = find_plan(root, plan_id)
    slots = sorted(read_rows(root, REBALANCE_SLOTS, plan_id=row["plan_id"]), key=lambda slot: int(slot["slot"]))
    if [slot["slot"] for slot in slots] != list(range(len(slots))) or not slots:
        raise InputError(f"{root}: the slots of plan {row['plan_id']} are not complete")
    return read_document(
        row["document"],
        [SlotRow(slot["slot"], slot["owner"], slot["planned_owner"], slot["loads"]) for slot in slots],
        plan_id=row["plan_id"],
        snapshot_id=row["snapshot_id"],
        state_hash=row["state_hash"],
        created_at_ms=epoch_ms(row["created_at"]),
    )


def epoch_ms(moment: datetime) -> int:
    """A time of a table, which is UTC where it does not say so, in ms since the epoch."""
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def read_unchanged_plan(root: str, plan_id: str) -> StoredPlan:
    """Return a plan with unchanged tables; InputError as `read_stored_plan`, PlanError for a changed plan.

    Execution and audit read plans here: the id of a plan is the digest of its proven content.
    """
    stored = read_stored_plan(root, plan_id)
    wrong = compare_tables(root, stored)
    if wrong:
        more = f" (and {len(wrong) - 1} more: slotscope plan check)" if len(wrong) > 1 else ""
        raise PlanError(f"plan {stored.plan_id} was changed after it was made: {wrong[0]}{more}; make a new one")
    return stored


def compare_tables(root: str, stored: StoredPlan) -> list[str]:
    """Return how gold/rebalance_moves and gold/rebalance_plans differ from *stored*, a sentence each."""
    row = find_plan(root, stored.plan_id)
    wrong = []
    if identify(row["document"] + stored.state_hash, slot_rows(stored.problem, stored.plan)) != stored.plan_id:
        wrong.append("the id of the plan is not the digest of its content")
    moves_in_table = {
        (moved["slot"], moved["source"], moved["target"], moved["batch"])
        for moved in read_rows(root, REBALANCE_MOVES, plan_id=stored.plan_id)
    }
    batched = [
        (s, job.source, job.target, batch.number) for batch in stored.batches for job in batch.jobs for s in job.slots
    ]
    for slot, source, target, batch in sorted(moves_in_table ^ set(batched))[:20]:
        where = (
            "only in the table of moves"
            if (slot, source, target, batch) in moves_in_table
            else "missing in the table of moves"
        )
        wrong.append(f"slot {slot} from {source} to {target} in batch {batch}: {where}")
    if Counter(move[:3] for move in batched) != Counter((m.slot, m.source, m.target) for m in stored.plan.moves):
        wrong.append("the batches do not hold each move of the plan once")
    epochs = {node.id: node.config_epoch for node in stored.nodes if node.address}
    if hash_state(stored.problem.owners, epochs) != stored.state_hash:
        wrong.append("the digest of owners and config epochs is not that of the slots")
    if row["moved_bytes"] != stored.plan.moved // stored.plan.unit or row["moved_slots"] != len(stored.plan.moves):
        wrong.append("the sums in its row and its document differ")
    if row["lower_bound_bytes"] != -(-stored.plan.bound // stored.plan.unit):
        wrong.append("the bounds in its row and its document differ")
    return wrong
