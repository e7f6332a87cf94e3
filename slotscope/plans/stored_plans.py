"""Plans as they lie in the tables: read back whole, without Spark."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from cluster_core.rebalance.document import read_document
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.rebalance.table_rows import SlotRow
from schemas.rebalance import REBALANCE_PLANS, REBALANCE_SLOTS
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import LATEST
from slotscope.runtime.storage.delta_files import exists, read_rows

_ID = re.compile(r"[0-9a-f]{4,12}")


def plan_rows(root: str) -> list[dict[str, Any]]:
    """Rows of gold/rebalance_plans, oldest first; none if no plan was made."""
    if not exists(root, REBALANCE_PLANS):
        return []
    return sorted(read_rows(root, REBALANCE_PLANS), key=lambda row: (row["created_at"], row["plan_id"]))


def find_plan(root: str, plan_id: str) -> dict[str, Any]:
    """Return the row of a plan: by its id, the beginning of it, or ``latest``; InputError for none or several."""
    rows = plan_rows(root)
    if not rows:
        raise InputError(f"{root}: no plan there; slotscope rebalance-plan makes one")
    if plan_id == LATEST:
        return rows[-1]
    found = [row for row in rows if row["plan_id"].startswith(plan_id)] if _ID.fullmatch(plan_id) else []
    if len(found) != 1:
        known = ", ".join(row["plan_id"] for row in rows[-5:])
        raise InputError(f"--plan {plan_id}: {len(found)} plans have that id; the newest are {known}")
    return found[0]


def read_stored_plan(root: str, plan_id: str) -> StoredPlan:
    """Return a plan with all that it was made from; InputError as `find_plan`, PlanError for damaged tables."""
    row = find_plan(root, plan_id)
    slots = sorted(read_rows(root, REBALANCE_SLOTS, plan_id=row["plan_id"]), key=lambda slot: int(slot["slot"]))
    if [slot["slot"] for slot in slots] != list(range(len(slots))) or not slots:
        raise InputError(f"{root}: the slots of plan {row['plan_id']} are not complete")
    return read_document(
        row["document"],
        [SlotRow(one["slot"], one["owner"], one["planned_owner"], one["loads"]) for one in slots],
        plan_id=row["plan_id"],
        snapshot_id=row["snapshot_id"],
        state_hash=row["state_hash"],
        created_at_ms=epoch_ms(row["created_at"]),
    )


def epoch_ms(moment: datetime) -> int:
    """A time of a table, which is UTC where it does not say so, in ms since the epoch."""
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
