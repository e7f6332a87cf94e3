"""Memory savings: measures values under all conditions, with a new snapshot or from the dumps of one, and ranks changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.advice.changes import Change, Condition, conditions_for, rank_changes
from cluster_core.advice.totals import WALKED, PrefixTotals, Splittable, Totals, expiries, splits
from cluster_core.memory.model import MemoryModel, MemorySettings, model_name, model_named
from cluster_core.rdb.grammar import KEY_TYPES
from schemas.advice import MEMORY_CONDITIONS, SAVING_CURVES, SAVINGS
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_USE, NODE_LOAD
from schemas.interim import ADVICE, ADVICE_PARTIAL, UnitFacts
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.pipelines.keys.inputs import memory_settings, tally_options
from slotscope.pipelines.keys.snapshot import counted
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.runtime.program import LATEST
from slotscope.runtime.progress import progress
from slotscope.runtime.storage.delta_files import as_table, exists, read_rows
from slotscope.runtime.storage.runs import KEY_JOBS, cluster_of, find_name, running
from slotscope.runtime.stores import is_live
from slotscope.sources.inputs import find_inputs
from slotscope.sources.keys.partial_rows import GROUPS_LISTED
from slotscope.sources.keys.text import key_texts
from slotscope.transforms.partial_sums import PartialSums, read_units

if TYPE_CHECKING:
    from slotscope.pipelines.keys.options import KeyOptions

Rows = list[dict[str, Any]]
JOB = "advise"
HEAVY_READ = 200
NO_MODEL = model_name(None)
NO_DUMP = "the snapshot has no dumps; advise reads the values of keys"


def advise(spark: SparkSession, request: KeyOptions) -> str:
    """Write the savings of the dumps of *request*, which become a snapshot, or of a snapshot; return its name.

    Raises InputError where the snapshot is not there, holds no dump, or its servers differ.
    """
    if request.rdb or request.keys or request.aof:
        with counted(spark, request, advice=True) as (name, read):
            _write(spark, request.root, name, read.partial, _model_of(read.units, read.options.memory))
        return name
    name = find_name(request.root, request.snapshot or LATEST, KEY_JOBS, request.cluster)
    paths, in_cluster = _dumps_of(request.root, name)
    memory = memory_settings(request, in_cluster=in_cluster)
    options = replace(tally_options(request, None, advice=True), details=False, memory=memory)
    with progress("measuring"):
        partial, units = read_units(spark, find_inputs(paths, [], None), options)
    try:
        _write(spark, request.root, name, partial, _model_of(units, memory))
    finally:
        partial.release()
    return name


def _write(spark: SparkSession, root: str, snapshot_id: str, partial: PartialSums, model: MemoryModel) -> None:
    """Rank the savings in the *partial* sums, and write the tables."""
    conditions = conditions_for(model)
    rows = partial.frame(spark, None, ADVICE).drop("kind", "number")
    rows = rows.withColumnsRenamed({"text": "kind", "offset": "number"}).select(*ADVICE_PARTIAL.names)
    sums = _Sums(rows, conditions)
    changes = rank_changes(sums.totals.sums(model))
    with progress("writing tables"):
        owners = {row["slot"]: row["owner_id"] for row in read_rows(root, SLOT_LOAD, snapshot_id=snapshot_id)}
        with running(root, JOB, snapshot_id, cluster=cluster_of(root, snapshot_id)) as run:
            run.append(SAVINGS, _saving_rows(changes, root, snapshot_id, sums))
            run.append(SAVING_CURVES, [point._asdict() for point in sums.totals.points(model)])
            run.append(MEMORY_CONDITIONS, _condition_rows(sums, conditions, owners))


def _dumps_of(root: str, snapshot_id: str) -> tuple[list[str], bool]:
    """The dumps of a finished snapshot, and whether it has a topology."""
    heads = read_rows(root, SNAPSHOTS, snapshot_id=snapshot_id) if exists(root, SNAPSHOTS) else []
    if not heads:
        raise InputError(
            f"{root}: no finished snapshot {snapshot_id!r}; name dumps with --rdb, or run key-slots for it"
        )
    paths = [row["source"] for row in read_rows(root, SOURCES, snapshot_id=snapshot_id) if row["kind"] == "rdb"]
    if not paths:
        raise InputError(NO_DUMP)
    if any(map(is_live, paths)):
        raise InputError(
            f"snapshot {snapshot_id!r} was made from live servers without keeping their dumps: name the servers with --rdb"
            " to make snapshot and advice from one dump"
        )
    return sorted(paths), heads[0]["topology"] is not None


def _model_of(units: Sequence[UnitFacts], memory: MemorySettings | None) -> MemoryModel:
    """The model of all dumps; raises InputError where a dump has none, or they differ."""
    sources: dict[str, str] = {}
    for unit in units:
        if unit.kind == "rdb" and (unit.keys or unit.memory_model):
            sources.setdefault(unit.memory_model or NO_MODEL, unit.source)
    if not sources or memory is None:
        raise InputError(NO_DUMP)
    if NO_MODEL in sources:
        raise InputError(f"{printable(sources[NO_MODEL])}: unknown server version; give --server")
    if len(sources) > 1:
        named = ", ".join(f"{printable(path)}: {name}" for name, path in sources.items())
        raise InputError(f"the dumps are of different servers ({named}); give --server to measure all by one version")
    return model_named(next(iter(sources)), memory)


class _Sums:
    """Totals of the partial sums; Spark adds up prefixes, slots and types."""

    def __init__(self, partial: DataFrame, conditions: Sequence[Condition]) -> None:
        self.slots = _added(partial, "slot", 2 + len(conditions))
        self.types = _added(partial, "type", 2 + len(conditions))
        prefixes = partial.where(F.col("kind") == "prefix")
        summed = prefixes.groupBy("name").agg(F.sum("number").alias("number"), *_sums_of(2 + len(conditions)))
        heaviest = summed.orderBy(F.desc("a0"), "name").limit(GROUPS_LISTED).collect()
        counts = partial.where(F.col("kind") == "keys").collect()
        self.totals = Totals(
            conditions,
            sum(row["number"] for row in counts),
            self.slots[:, 1:].sum(axis=0).tolist(),
            {bytes(row["name"]): (row["number"], list(row[2:])) for row in heaviest},
            _added_curves(partial),
        )

    @property
    def now(self) -> int:
        """Bytes in memory now."""
        return int(self.totals.memory[0])


def _added_curves(partial: DataFrame) -> dict[tuple[str, int], Sequence[int]]:
    """Sums by setting and value; of the most elements that are walked the largest."""
    curves: dict[tuple[str, int], Sequence[int]] = {}
    for row in partial.where(F.col("kind") == "curve").collect():
        at = row["name"].decode(), row["number"]
        sums = curves.get(at, [0] * len(row["amounts"]))
        curves[at] = [
            max(old, new) if place == WALKED else old + new
            for place, (old, new) in enumerate(zip(sums, row["amounts"], strict=True))
        ]
    return curves


def _sums_of(width: int) -> list[Any]:
    return [F.sum(F.col("amounts")[at]).alias(f"a{at}") for at in range(width)]


def _added(partial: DataFrame, kind: str, width: int) -> NDArray[np.int64]:
    """Sums by number: int64[numbers, 1 + width], the number first."""
    rows = partial.where(F.col("kind") == kind).groupBy("number").agg(*_sums_of(width)).orderBy("number").toArrow()
    return np.column_stack([column.to_numpy() for column in rows.columns]).astype(np.int64).reshape(-1, 1 + width)


def _saving_rows(changes: Sequence[Change], root: str, snapshot_id: str, summed: _Sums) -> Rows:
    """Rows of ``gold/savings``: ranked changes, then expiries, then keys and tags to split."""
    use = read_rows(root, KEY_USE, snapshot_id=snapshot_id, scope="prefix") if exists(root, KEY_USE) else []
    nodes = [row["memory_bytes"] for row in read_rows(root, NODE_LOAD, snapshot_id=snapshot_id) if row["memory_bytes"]]
    slots = {int(row[0]): int(row[1]) for row in summed.slots}
    keys = read_rows(root, BIG_KEYS, order_by="rank", limit=HEAVY_READ, snapshot_id=snapshot_id, scope="cluster")
    tags = read_rows(root, HASH_TAGS, order_by="rank_bytes", limit=HEAVY_READ, snapshot_id=snapshot_id)
    heavy = [
        *(
            Splittable(
                "split_key",
                row["key"],
                row["slot"],
                row["memory_bytes"] or 0,
                row["elements"] or 0,
                "bytes" if row["type"] == "string" else "elements",
            )
            for row in keys
        ),
        *(
            Splittable("split_tag", row["hash_tag"], row["slot"], row["memory_bytes"] or 0, row["keys"], "keys")
            for row in tags
        ),
    ]
    held = [
        PrefixTotals(
            row["scope_value"], row["keys"], row["expires"], row["weight_bytes"] or 0, row["untouched_30d_bytes"]
        )
        for row in use
    ]
    mean = sum(nodes) // len(nodes) if nodes else summed.now
    rows = [
        {
            "kind": change.kind.value, "subject": change.subject, "saved_bytes": change.saved_bytes, "keys": change.keys, "how": change.how,
            "risk": change.risk, "undo": change.undo, "counted": change.counted,
        }
        for change in changes
    ]  # fmt: skip
    rows += [
        change._asdict() | {"counted": False} for change in (*expiries(held, summed.now), *splits(heavy, slots, mean))
    ]
    texts = key_texts(pa.array([row["subject"] for row in rows], pa.binary())).to_pylist()
    return [
        {"rank": rank, "subject_text": text, **row} for rank, (row, text) in enumerate(zip(rows, texts, strict=True), 1)
    ]


def _condition_rows(summed: _Sums, conditions: Sequence[Condition], owners: Mapping[int, str | None]) -> pa.Table:
    """Rows of ``gold/memory_conditions``: each scope under each condition."""
    scopes: list[tuple[str, bytes, Sequence[int]]] = [("cluster", b"", summed.totals.memory)]
    scopes += [("type", KEY_TYPES[row[0]].encode(), row[1:]) for row in summed.types.tolist()]
    by_node: dict[str, NDArray[np.int64]] = {}
    for row in summed.slots:
        owner = owners.get(int(row[0]))
        if owner is not None:
            by_node[owner] = by_node.get(owner, np.zeros(len(row) - 1, np.int64)) + row[1:]
        scopes.append(("slot", str(row[0]).encode(), row[1:].tolist()))
    scopes += [("node", node.encode(), sums.tolist()) for node, sums in sorted(by_node.items())]
    scopes += [("prefix", name, sums) for name, (_, sums) in summed.totals.prefixes.items()]
    texts = key_texts(pa.array([value for _, value, _ in scopes], pa.binary())).to_pylist()
    return as_table(
        MEMORY_CONDITIONS,
        (
            {
                "server": condition.server, "allocator": condition.allocator, "scope": scope, "scope_value": value,
                "scope_value_text": text, "now_bytes": sums[0], "memory_bytes": sums[1 + at],
                "unmeasured_keys": sums[1 + len(conditions)],
            }
            for (scope, value, sums), text in zip(scopes, texts, strict=True)
            for at, condition in enumerate(conditions)
        ),
    )  # fmt: skip
