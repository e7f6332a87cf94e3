"""From partial sums to the tables of a snapshot: slots, nodes, and whose keys are where.

All functions take and return Arrow tables, and add nothing twice: what is given to a second one may be what the first has left of several pieces of
the rows (`slotscope.transforms.partial_sums.PartialSums.of`).  ``snapshot_id`` and ``partial``, which all rows of a snapshot share, are added by who
writes them.  Partial rows have the columns of `schemas.interim.PARTIAL`, whose ``owner_id`` is the owner of the row's slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.gold import NODE_LOAD
from schemas.interim import BAD, LOG_SLOT, OWNER
from schemas.table import INTEGER, LONG
from slotscope.transforms.arrow_sums import LOADS, constant, replaced, sums, with_node
from slotscope.transforms.findings import LISTED_MAX, Foreign, SlotInDump, SuspiciousSlot


def held_slots(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Loads of rows of kinds `SLOT` and `LOG_SLOT` by slot and node, where there are keys or writes."""
    sizes = pc.if_else(pc.equal(rows["kind"], LOG_SLOT), pa.scalar(None, LONG), rows["serialized_bytes"])
    rows = replaced(rows, keys=pc.fill_null(rows["keys"], 0), serialized_bytes=sizes)
    held = pc.or_(pc.greater(rows["keys"], 0), pc.greater(pc.fill_null(rows["ops"], 0), 0))
    return _by_slot(with_node(rows, nodes).filter(held))


def _by_slot(rows: pa.Table) -> pa.Table:
    return sums(rows, ("slot", "node_id", "owner_id"), LOADS)


def slot_load(held: pa.Table, owners: Sequence[str | None], known: Iterable[str]) -> pa.Table:
    """Every slot on every node that owns it or holds keys of it (`held_slots`); a slot without keys has a row of its owner.

    *owners* says who owns each slot, None for nobody.  A load in *known* (of serialized_bytes, memory_bytes, expires, ops) is 0 for a slot without
    keys, another one null.
    """
    count, ids = len(owners), pa.array(owners, pa.string())
    owned = pa.table({"slot": pa.array(range(count), INTEGER), "node_id": ids, "owner_id": ids})
    for name in LOADS:
        owned = owned.append_column(name, constant(0 if name == "keys" else None, count, LONG))
    loads = _by_slot(pa.concat_tables([held.select(owned.column_names), owned]))
    slots = np.asarray(loads["slot"])
    others = pa.array(np.bincount(slots, minlength=1)[slots] > 1)
    without_keys = pc.equal(loads["keys"], 0)
    is_idle = pc.and_(without_keys, pc.equal(pc.fill_null(loads["ops"], 0), 0))
    redundant = pc.and_(pc.and_(pc.is_null(loads["node_id"]), is_idle), others)
    names = set(LOADS) & set(known)
    filled = {name: pc.if_else(without_keys, pc.fill_null(loads[name], 0), loads[name]) for name in names}
    return replaced(loads, **filled).filter(pc.invert(redundant))


def node_load(slots: pa.Table, addresses: Mapping[str, str], unread: Mapping[str, float | None]) -> pa.Table:
    """Sums of `slot_load` per master; *addresses* are those of all masters by node id, and none without topology.

    *unread* is the share of a node's inputs that could not be read, None where that is not known; nodes that lack nothing are not in it.
    """
    owns = pc.or_(
        pc.fill_null(pc.equal(slots["owner_id"], slots["node_id"]), False),
        pc.and_(pc.is_null(slots["owner_id"]), pc.is_null(slots["node_id"])),
    )
    found = sums(slots.append_column("slots", pc.cast(owns, LONG)), ("node_id",), ("slots", *LOADS)).to_pylist()
    idle = {"slots": 0, **dict.fromkeys(LOADS), "keys": 0}
    held = {row["node_id"] for row in found}
    rows = [*found, *({"node_id": node, **idle} for node in addresses if node not in held)]
    masters = max(sum(row["node_id"] is not None for row in rows), 1)
    keys, sizes = (_shares([row[load] for row in rows]) for load in ("keys", "serialized_bytes"))
    for row, of_keys, of_bytes in zip(rows, keys, sizes, strict=True):
        row |= {"address": addresses.get(row["node_id"]), "unread_share": unread.get(row["node_id"], 0.0)}
        row |= {"keys_share": of_keys or 0.0, "keys_over_mean": (of_keys or 0.0) * masters}
        row |= {"bytes_share": of_bytes, "bytes_over_mean": None if of_bytes is None else of_bytes * masters}
    columns = [field for field in NODE_LOAD.unlabelled if field.name != "partial"]
    return pa.Table.from_pylist(rows, pa.schema(columns))


def _shares(loads: list[int | None]) -> list[float | None]:
    """What each load is of all of them; None where none is known."""
    known = [load for load in loads if load is not None]
    total = sum(known)
    return [((load or 0) / total if total else 0.0) if known else None for load in loads]


def owned_keys(rows: pa.Table) -> pa.Table:
    """Keys, or writes, of rows of kinds `OWNER` and `LOG_SLOT` by source and the owner of their slots."""
    return sums(rows, ("kind", "source", "owner_id"), ("keys", "ops"))


def keys_by_owner(owned: pa.Table) -> list[Foreign]:
    """Keys of each file per owner of their slots (`owned_keys`); of a log that is not replayed, the writes."""
    found = owned_keys(owned).to_pylist()
    replayed = {row["source"] for row in found if row["kind"] == OWNER}
    return [
        Foreign(row["source"], row["owner_id"], row["keys"] if row["kind"] == OWNER else row["ops"])
        for row in found
        if row["kind"] == OWNER or row["source"] not in replayed
    ]


def suspicious_rows(rows: pa.Table) -> pa.Table:
    """Of rows of kind `DECLARED` those of slots that hold another number of keys than they declare, or are in several dumps."""
    slots, keys = np.asarray(rows["slot"], np.int64), np.asarray(rows["keys"], np.int64)
    lies = np.bincount(slots, keys != np.asarray(rows["number"], np.int64), minlength=1) > 0
    holders = np.bincount(slots, keys > 0, minlength=1) > 1
    return rows.select(["slot", "source", "keys", "number"]).filter(pa.array((lies | holders)[slots], pa.bool_()))


def suspicious_slots(rows: pa.Table) -> list[SuspiciousSlot]:
    """The slots of `suspicious_rows` with their dumps, by slot and source."""
    told = sorted((row["slot"], SlotInDump(row["source"], row["keys"], row["number"])) for row in rows.to_pylist())
    return [SuspiciousSlot(slot, [dump for _, dump in dumps]) for slot, dumps in groupby(told, lambda one: one[0])]


def first_bad(rows: pa.Table) -> pa.Table:
    """How many rows of kind `BAD` there are, told in the first, and the first of them."""
    head = rows.slice(0, LISTED_MAX).select(["source", "offset", "text"])
    return head.append_column("count", pa.array([len(rows), *[0] * (LISTED_MAX - 1)][: len(head)], LONG))


def bad_records(rows: DataFrame, job: str) -> DataFrame:
    """What *job* could not read, as rows of ``bronze/bad_records``."""
    return rows.where(F.col("kind") == BAD).select(
        F.lit(job).alias("job"),
        "source",
        "offset",
        F.col("text").alias("reason"),
        F.col("serialized_bytes").alias("skipped_bytes"),
    )
