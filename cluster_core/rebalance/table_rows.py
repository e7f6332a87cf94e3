"""Plans, their executions and audits as rows of the tables; what plans are labelled with (id, *partial*) is not in them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, NamedTuple

from cluster_core.columns import Small

Name = bytes
"""Keys and hash tags are bytes; a field of that name hides the type."""


class MoveRow(NamedTuple):
    """A slot that moves."""

    batch: Annotated[Small, "1 runs first; moves of one batch run together"]
    slot: Annotated[Small, "0 to 16383"]
    source: Annotated[str, "node id of the master that gives it away"]
    target: Annotated[str, "node id of the master that gets it"]
    bytes: Annotated[int | None, "bytes that move; null where no source knows sizes"]
    keys: Annotated[int | None, "keys that move; null where no source counts keys"]


class LoadRow(NamedTuple):
    """Load of a master before and after, of one resource."""

    node_id: Annotated[str, "master"]
    address: Annotated[str, "host:port"]
    zone: Annotated[str, "zone or rack; empty if none was given"]
    role: Annotated[str, "stays, added, drained or excluded"]
    resource: Annotated[str, "what is measured"]
    before: Annotated[float, "load before"]
    after: Annotated[float, "load afterwards"]
    fair: Annotated[float, "its fair share; 0 for a drained or excluded master"]
    limit: Annotated[float, "what it may hold; 0 for a drained master"]
    capacity: Annotated[float | None, "what it can hold; null if none was given"]
    slots_before: Annotated[Small, "slots before"]
    slots_after: Annotated[Small, "slots afterwards"]
    ranges_before: Annotated[Small, "slot ranges before"]
    ranges_after: Annotated[Small, "slot ranges afterwards"]


class SlotRow(NamedTuple):
    """What was planned with, of one slot."""

    slot: Annotated[Small, "0 to 16383"]
    owner: Annotated[str, "node id of its master before"]
    planned_owner: Annotated[str, "node id of its master afterwards"]
    loads: Annotated[dict[str, float], "load of the slot, by resource"]


class CurveRow(NamedTuple):
    """What another budget of bytes would give."""

    number: Annotated[Small, "1 has the smallest budget"]
    budget: Annotated[float | None, "bytes above the bound that may move, as a share of it; null for any number"]
    choice: Annotated[str | None, "recommended (the plan), fewest bytes, fewest ranges; null for what lies between"]
    moved_bytes: Annotated[int, "what would move, in the resource of cost"]
    over_bound: Annotated[float | None, "moved over the bound, less 1; null where nothing has to move"]
    ranges: Annotated[Small, "slot ranges of all masters afterwards"]
    moved_slots: Annotated[Small, "slots that would move"]


class HeavyRow(NamedTuple):
    """A slot that alone is over a limit, or one part of it."""

    slot: Annotated[Small, "0 to 16383"]
    node_id: Annotated[str, "master that is to hold it"]
    resource: Annotated[str, "resource that is too much"]
    ratio: Annotated[float, "load of the slot over a fair share"]
    pieces: Annotated[Small, "slots over which its keys must be spread to fit"]
    rank: Annotated[Small | None, "1 is the heaviest part; null if no part is known"] = None
    hash_tag: Annotated[Name | None, "hash tag of the part; null where it has none, or none is known"] = None
    key: Annotated[Name | None, "the key, where one key is the part"] = None
    keys: Annotated[int | None, "keys of the part"] = None
    bytes: Annotated[
        int | None, "bytes of the part: in memory where memory is too much or nothing else is known, else of the dump"
    ] = None
    share: Annotated[float | None, "of the slot's load, 0 to 1"] = None
    part_pieces: Annotated[Small | None, "into how many pieces the tag must be split"] = None


class PlanStepRow(NamedTuple):
    """What was about to be done, or what came of it."""

    plan_id: Annotated[str, "the plan that is carried out"]
    run_id: Annotated[str, "one run of execute-plan"]
    seq: Annotated[Small, "number of the row within its run, from 1"]
    ts: Annotated[datetime, "when it was written, UTC"]
    batch: Annotated[Small, "batch of the plan, 0 where it concerns none"]
    source: Annotated[str | None, "master that gives, null where it concerns none"]
    target: Annotated[str | None, "master that takes, null where it concerns none"]
    slots: Annotated[str | None, "slots as in CLUSTER NODES: 1-3 7"]
    step: Annotated[
        str,
        "started, intent, done, failed, cancelled, paused, refused, rolled-back, finished; held: an execution extends its lease of an object store",
    ]
    detail: Annotated[str | None, "more in words"]
    keys: Annotated[int | None, "keys that were sent, if counted"]
    seconds: Annotated[float | None, "how long it took"]
    path: Annotated[str | None, "where a run started: setslot, migrateslots or migration import"] = None
