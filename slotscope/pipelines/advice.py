"""What would save memory: the dumps of a snapshot read once more, measured under all conditions, and the changes ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial as bind
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.advice.changes import AdviceSums, Change, PrefixSums, rank_changes
from cluster_core.advice.conditions import Condition, conditions_for
from cluster_core.advice.curves import LIST_SETTING, SETTINGS, Point, Step, curve, marked
from cluster_core.advice.heavy import Held, Splittable, expiries, splits
from cluster_core.formats.rdb.grammar import KEY_TYPES
from cluster_core.memory.model import MemoryModel, MemorySettings, model_of
from cluster_core.memory.packed_sizes import listpack_string_bytes
from cluster_core.memory.strings import sds_bytes
from schemas.advice import MEMORY_CONDITIONS, SAVING_CURVES, SAVINGS
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_USE, NODE_LOAD
from schemas.interim import ADVICE_PARTIAL
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.pipelines.key_inputs import memory_settings
from slotscope.runtime.delta_files import as_table, exists, read_rows
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.runtime.progress import progress
from slotscope.runtime.runs import running
from slotscope.runtime.snapshot_names import cluster_of
from slotscope.runtime.spark_schema import spark_schema
from slotscope.sources.advice_tally import BEHIND, AdviceOptions, advise_units
from slotscope.sources.files import expand
from slotscope.sources.key_text import key_texts
from slotscope.sources.rdb.files import plan_units, read_facts
from slotscope.transforms.partial_sums import over_units

if TYPE_CHECKING:
    from slotscope.requests.key_slots import Request
    from slotscope.runtime.settings import Settings

Rows = list[dict[str, Any]]
JOB = "advise"
HEAVY_READ = 200


def advise(spark: SparkSession, request: Request, settings: Settings) -> None:
    """Read the dumps of the snapshot of *request*; write what would save memory.

    Raises InputError where the snapshot is not there, holds no dump, or its servers differ.
    """
    root, snapshot_id = request.root, str(request.snapshot)
    paths, in_cluster = _dumps_of(root, snapshot_id)
    memory = memory_settings(request, in_cluster=in_cluster)
    if memory is None:
        raise InputError("--no-memory: advise measures memory")
    model = _model_of(paths, memory)
    conditions = conditions_for(model)
    options = AdviceOptions(
        memory, settings.separators.encode(), settings.groups_max, not request.no_crc, request.permissive
    )
    with progress("measuring"):
        partial = _measure(spark, paths, options).persist()
        found = _Sums(partial, conditions, settings.groups_listed)
    changes = rank_changes(found.sums(model))
    with progress("writing tables"):
        owners = {row["slot"]: row["owner_id"] for row in read_rows(root, SLOT_LOAD, snapshot_id=snapshot_id)}
        with running(root, JOB, snapshot_id, cluster=cluster_of(root, snapshot_id)) as run:
            run.append(SAVINGS, _saving_rows(changes, root, snapshot_id, found))
            run.append(SAVING_CURVES, [point._asdict() for point in found.points(model)])
            run.append(MEMORY_CONDITIONS, _condition_rows(found, conditions, owners))
    partial.unpersist()


def _dumps_of(root: str, snapshot_id: str) -> tuple[list[str], bool]:
    """The dumps of a finished snapshot, and whether it has a topology."""
    heads = read_rows(root, SNAPSHOTS, snapshot_id=snapshot_id) if exists(root, SNAPSHOTS) else []
    if not heads:
        raise InputError(
            f"{root}: no finished snapshot {snapshot_id!r}; name dumps with --rdb, or run key-slots for it"
        )
    paths = [row["source"] for row in read_rows(root, SOURCES, snapshot_id=snapshot_id) if row["kind"] == "rdb"]
    if not paths:
        raise InputError(f"snapshot {snapshot_id!r} was made of no dump: what would save memory is read from values")
    return sorted(paths), heads[0]["topology"] is not None


def _model_of(paths: Sequence[str], memory: MemorySettings) -> MemoryModel:
    """The model of all dumps; raises InputError where a dump has none, or they differ."""
    found: dict[MemoryModel, str] = {}
    for path in paths:
        model = model_of(read_facts(path)[0], memory)
        if model is None:
            raise InputError(
                f"{printable(path)}: no model knows the memory of the server that wrote it; --server names one"
            )
        found.setdefault(model, path)
    if len(found) > 1:
        named = ", ".join(f"{printable(path)}: {model.layout.name}" for model, path in found.items())
        raise InputError(f"the dumps are of different servers ({named}); --server names one to measure all by")
    return next(iter(found))


def _measure(spark: SparkSession, paths: Sequence[str], options: AdviceOptions) -> DataFrame:
    units = plan_units(expand(list(paths)), parallelism=spark.sparkContext.defaultParallelism, split=True)
    task = bind(advise_units, units=units, options=options)
    return over_units(spark, task, len(units), spark_schema(ADVICE_PARTIAL))


class _Sums:
    """The partial sums of all tasks, added up: by Spark what may be many, here the rest."""

    def __init__(self, partial: DataFrame, conditions: Sequence[Condition], groups_listed: int) -> None:
        self.conditions = conditions
        self.slots = _added(partial, "slot", 2 + len(conditions))
        self.types = _added(partial, "type", 2 + len(conditions))
        prefixes = partial.where(F.col("kind") == "prefix")
        width = 2 + 2 * len(conditions) + len(BEHIND)
        summed = prefixes.groupBy("name").agg(F.sum("number").alias("number"), *_sums_of(width))
        self.prefixes = [row.asDict() for row in summed.orderBy(F.desc("a0"), "name").limit(groups_listed).collect()]
        self._width = width
        curves = partial.where(F.col("kind") == "curve").collect()
        self._curves: dict[tuple[str, int], list[int]] = {}
        for row in curves:
            sums = self._curves.setdefault((row["name"].decode(), row["number"]), [0] * len(row["amounts"]))
            walked = max(sums[2], row["amounts"][2])
            sums[:] = [old + new for old, new in zip(sums, row["amounts"], strict=True)]
            sums[2] = walked
        self._values = _added_values(partial)

    @property
    def now(self) -> int:
        """Bytes in memory now."""
        return int(self.slots[:, 1].sum())

    def points(self, model: MemoryModel) -> list[Point]:
        """The curves of the settings that the server of *model* has."""
        found: list[Point] = []
        for name in [setting.name for setting in SETTINGS if _has_setting(model, setting.name)]:
            steps = [
                Step(value, sums[0], sums[1], sums[2])
                for (of, value), sums in sorted(self._curves.items())
                if of == name
            ]
            found += curve(name, steps)
        lists = [
            (value, sums) for (of, value), sums in sorted(self._curves.items(), reverse=True) if of == LIST_SETTING
        ]
        return found + marked(
            [Point(LIST_SETTING, value, sums[0], sums[1], sums[2], is_knee=False) for value, sums in lists]
        )

    def sums(self, model: MemoryModel) -> AdviceSums:
        """What changes are ranked by."""
        points = self.points(model)
        knees = {point.setting: point.value for point in points if point.is_knee}
        claimed = {
            name: [
                sum(values)
                for values in zip(
                    *(sums[3:] for (of, value), sums in self._curves.items() if of == name and value <= knee),
                    strict=True,
                )
            ]
            for name, knee in knees.items()
            if name != LIST_SETTING
        }
        count = len(self.conditions)
        memory = self.slots[:, 2 : 2 + count].sum(axis=0).tolist()
        shift, copies, size = self._values
        return AdviceSums(
            self.now, int(sum(row["number"] for row in self.prefixes)), [(one.server, one.allocator) for one in self.conditions], memory,
            points, claimed, [self._prefix(row, count) for row in self.prefixes], size << shift, copies << shift, _bucket_bytes(model),
        )  # fmt: skip

    def _prefix(self, row: Mapping[str, Any], count: int) -> PrefixSums:
        amounts = [row[f"a{at}"] for at in range(self._width)]
        return PrefixSums(
            bytes(row["name"]), row["number"], amounts[0], amounts[1 : count + 1], amounts[count + 2 : 2 * count + 2],
            *amounts[2 * count + 2 :],
        )  # fmt: skip


def _sums_of(width: int) -> list[Any]:
    return [F.sum(F.col("amounts")[at]).alias(f"a{at}") for at in range(width)]


def _added(partial: DataFrame, kind: str, width: int) -> NDArray[np.int64]:
    """Sums by number: int64[numbers, 1 + width], the number first."""
    rows = partial.where(F.col("kind") == kind).groupBy("number").agg(*_sums_of(width)).orderBy("number").toArrow()
    return np.column_stack([column.to_numpy() for column in rows.columns]).astype(np.int64).reshape(-1, 1 + width)


def _added_values(partial: DataFrame) -> tuple[int, int, int]:
    """Of values that were sampled by their hash: the shift of the sample, copies beyond the first, bytes of those."""
    rows = (
        partial.where(F.col("kind") == "value")
        .groupBy("number")
        .agg(F.max(F.col("amounts")[0]).alias("shift"), F.sum(F.col("amounts")[1]), F.max(F.col("amounts")[2]))
        .collect()
    )
    shift = max((row[1] for row in rows), default=0)
    chosen = [row for row in rows if not row[0] & ((1 << shift) - 1) and row[2] > 1]
    return shift, sum(row[2] - 1 for row in chosen), sum((row[2] - 1) * row[3] for row in chosen)


def _has_setting(model: MemoryModel, name: str) -> bool:
    return "SET_LISTPACK" in model.layout.types or not name.startswith("set-max-listpack")


def _bucket_bytes(model: MemoryModel) -> int:
    """What a bucket takes besides its entries: name, object, entry, the head of a listpack and what its allocation is rounded up by."""
    name = model.allocated(sds_bytes(16))
    return 24 + 16 + name + 7 + listpack_string_bytes(64)


def _saving_rows(changes: Sequence[Change], root: str, snapshot_id: str, found: _Sums) -> Rows:
    """Rows of ``gold/savings``: the ranked changes, then what frees memory without saving it, then what should be split."""
    use = read_rows(root, KEY_USE, snapshot_id=snapshot_id, scope="prefix") if exists(root, KEY_USE) else []
    nodes = [row["memory_bytes"] for row in read_rows(root, NODE_LOAD, snapshot_id=snapshot_id) if row["memory_bytes"]]
    slots = {int(row[0]): int(row[1]) for row in found.slots}
    keys = read_rows(root, BIG_KEYS, order_by="rank", limit=HEAVY_READ, snapshot_id=snapshot_id, scope="cluster")
    tags = read_rows(root, HASH_TAGS, order_by="rank_bytes", limit=HEAVY_READ, snapshot_id=snapshot_id)
    heavy = [
        *(
            Splittable("split_key", row["key"], row["slot"], row["memory_bytes"] or 0, row["elements"] or 0)
            for row in keys
        ),
        *(Splittable("split_tag", row["hash_tag"], row["slot"], row["memory_bytes"] or 0, row["keys"]) for row in tags),
    ]
    held = [
        Held(row["scope_value"], row["keys"], row["expires"], row["weight_bytes"] or 0, row["untouched_30d_bytes"])
        for row in use
    ]
    mean = sum(nodes) // len(nodes) if nodes else found.now
    rows = [
        {
            "kind": one.kind.value, "subject": one.subject, "saved_bytes": one.saved_bytes, "keys": one.keys, "how": one.how,
            "risk": one.risk, "undo": one.undo, "counted": one.counted,
        }
        for one in changes
    ]  # fmt: skip
    rows += [one._asdict() | {"counted": False} for one in (*expiries(held, found.now), *splits(heavy, slots, mean))]
    texts = key_texts(pa.array([row["subject"] for row in rows], pa.binary())).to_pylist()
    return [
        {"rank": rank, "subject_text": text, **row} for rank, (row, text) in enumerate(zip(rows, texts, strict=True), 1)
    ]


def _condition_rows(found: _Sums, conditions: Sequence[Condition], owners: Mapping[int, str | None]) -> pa.Table:
    """Rows of ``gold/memory_conditions``: each scope under each condition."""
    scopes: list[tuple[str, bytes, Sequence[int]]] = [("cluster", b"", found.slots[:, 1:].sum(axis=0).tolist())]
    scopes += [("type", KEY_TYPES[row[0]].encode(), row[1:]) for row in found.types.tolist()]
    by_node: dict[str, NDArray[np.int64]] = {}
    for row in found.slots:
        owner = owners.get(int(row[0]))
        if owner is not None:
            by_node[owner] = by_node.get(owner, np.zeros(len(row) - 1, np.int64)) + row[1:]
        scopes.append(("slot", str(row[0]).encode(), row[1:].tolist()))
    scopes += [("node", node.encode(), sums.tolist()) for node, sums in sorted(by_node.items())]
    scopes += [
        ("prefix", bytes(row["name"]), [row[f"a{at}"] for at in range(2 + len(conditions))]) for row in found.prefixes
    ]
    texts = key_texts(pa.array([value for _, value, _ in scopes], pa.binary())).to_pylist()
    return as_table(
        MEMORY_CONDITIONS,
        (
            {
                "server": one.server, "allocator": one.allocator, "scope": scope, "scope_value": value,
                "scope_value_text": text, "now_bytes": sums[0], "memory_bytes": sums[1 + at],
                "unmeasured_keys": sums[1 + len(conditions)],
            }
            for (scope, value, sums), text in zip(scopes, texts, strict=True)
            for at, one in enumerate(conditions)
        ),
    )  # fmt: skip
