"""When batches run, and which heavy keys move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster_core.rebalance.execution.remaining import Path, seconds_of
from cluster_core.rebalance.stored_plan import StoredPlan
from schemas.gold import BIG_KEYS, HASH_TAGS
from slotscope.runtime.storage.delta_files import exists, read_rows

PARTS_LISTED = 12
PATH_WORDS = {
    Path.VALKEY_JOBS: "CLUSTER MIGRATESLOTS (Valkey 9)",
    Path.REDIS_IMPORT: "CLUSTER MIGRATION IMPORT (Redis 8.4)",
    Path.LEGACY: "SETSLOT and MIGRATE, key by key (any version)",
}
BY_HAND = PATH_WORDS[Path.LEGACY]


@dataclass(frozen=True, slots=True)
class BatchTime:
    """When a batch runs by the model of the plan, in seconds from the first command."""

    number: int
    starts_s: float
    seconds: float
    jobs: int
    slots: int
    moved: float


@dataclass(frozen=True, slots=True)
class MovingPart:
    """A hash tag or a key that moves with its slot."""

    name: bytes
    is_tag: bool
    slot: int
    source: str
    target: str
    keys: int
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class Consequences:
    """*parts* are None where no snapshot lists keys."""

    batches: Sequence[BatchTime]
    seconds_by_path: Mapping[str, float]
    parts: Sequence[MovingPart] | None


def load_consequences(root: str, stored: StoredPlan) -> Consequences:
    """Return what *stored* means, with the heavy keys of the snapshot from the tables under *root*."""
    return Consequences(
        batch_times(stored),
        {words: sum(seconds_of(stored, stored.batches, path)) for path, words in PATH_WORDS.items()},
        moving_parts(root, stored),
    )


def batch_times(stored: StoredPlan) -> list[BatchTime]:
    """Return when each batch runs as jobs of the servers."""
    names = list(stored.problem.loads)
    at, starts_s, found = names.index(stored.problem.cost), 0.0, []
    for batch, seconds in zip(stored.batches, seconds_of(stored, stored.batches, Path.VALKEY_JOBS), strict=True):
        slots, moved = sum(len(job.slots) for job in batch.jobs), sum(job.loads[at] for job in batch.jobs)
        found.append(BatchTime(batch.number, starts_s, seconds, len(batch.jobs), slots, moved))
        starts_s += seconds
    return found


def moving_parts(root: str, stored: StoredPlan) -> list[MovingPart] | None:
    """Return the heaviest hash tags and keys of slots that move, as the snapshot lists them; None where it lists none at all."""
    moves = {move.slot: move for move in stored.plan.moves}
    snapshot_id = stored.snapshot_id
    if not moves or not snapshot_id or not exists(root, HASH_TAGS) or not exists(root, BIG_KEYS):
        return None
    tags = read_rows(root, HASH_TAGS, where="keys > 1", snapshot_id=snapshot_id)
    keys = read_rows(root, BIG_KEYS, snapshot_id=snapshot_id, scope="slot")
    if not tags and not keys:
        return None
    found = [_part(row, "hash_tag", moves) for row in tags if row["slot"] in moves]
    found += [_part(row, "key", moves) for row in keys if row["slot"] in moves]
    return sorted(found, key=lambda part: (-(part.size_bytes or 0), -part.keys, part.name))[:PARTS_LISTED]


def _part(row: Mapping[str, Any], name: str, moves: Mapping[int, Any]) -> MovingPart:
    move, memory = moves[row["slot"]], row.get("memory_bytes")
    size = row["serialized_bytes"] if memory is None else memory
    return MovingPart(
        bytes(row[name]), name == "hash_tag", row["slot"], move.source, move.target, row.get("keys") or 1, size
    )
