"""Makes the tables of one snapshot of a key space.

``inputs → units → partial sums (Python workers) → attribution of dumps to nodes → tables → warnings``.  Every table is a small aggregate of the
partial sums.  All are appended; figures that must agree are compared before the run is complete.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.errors import ClusterCoreError
from cluster_core.kinds import Severity
from cluster_core.load.unread import WHOLE, Attribution, FileUnread, UnreadInputs, attribute
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.topology.node import Topology
from cluster_core.topology.nodes_text import write_nodes
from schemas.aof import COMMAND_LOAD, UNCERTAIN_KEYS, WRITE_KEYS, WRITE_LOAD
from schemas.bronze import BAD_RECORDS, KEYS
from schemas.caveats import Caveat
from schemas.gold import BIG_KEYS, HASH_TAGS, KEY_PREFIXES, KEY_SIZES, KEY_TYPES, KEY_USE, NODE_LOAD, TTL_BUCKETS
from schemas.interim import BAD, UnitFacts, joined
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from schemas.table import Table
from slotscope.options import SnapshotOptions
from slotscope.pipelines.keys.inputs import check_request, tally_options
from slotscope.pipelines.keys.options import KeyOptions
from slotscope.reports.delivery import deliver
from slotscope.reports.keyspace.report import load_report
from slotscope.runtime.errors import InputError, TryAgainError
from slotscope.runtime.failure import Failure, code_of_all, describe
from slotscope.runtime.progress import progress, silence
from slotscope.runtime.spark.session import how_far
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import as_table
from slotscope.runtime.storage.runs import Run, running
from slotscope.runtime.storage.tables import Change
from slotscope.sources import fleet_manifest
from slotscope.sources.inputs import Inputs, find_inputs, load_topology
from slotscope.sources.keys.partial_rows import GROUPS_LISTED, TallyOptions
from slotscope.sources.rdb.data_source import read_dumps
from slotscope.transforms import snapshot_tables, snapshot_warnings
from slotscope.transforms.partial_sums import PartialSums, read_units
from slotscope.transforms.snapshot_tables import RATE_BOUNDS, SnapshotTables
from slotscope.transforms.snapshot_warnings import ForeignKeys

JOB = "key-slots"
KNOWN = ("serialized_bytes", "memory_bytes", "expires", "ops", "idle", "counters")
"""Loads, and access data, that a unit has if its fact ``knows_NAME`` is set."""


@dataclass(slots=True)
class KeySnapshot:
    """The facts of one snapshot between reading and writing."""

    request: KeyOptions
    topology: Topology | None
    inputs: Inputs
    options: TallyOptions
    partial: PartialSums
    units: list[UnitFacts]
    bad_count: int
    bad: list[tuple[str, int, str]]
    keys_by_owner: list[ForeignKeys] = field(default_factory=list)
    attributions: dict[str, Attribution] = field(default_factory=dict)
    unread: UnreadInputs = WHOLE

    @classmethod
    def read(cls, spark: SparkSession, request: KeyOptions, *, advice: bool = False) -> KeySnapshot:
        """Read and tally the inputs, with *advice* their savings, too; DecodeError for missing files, and in strict mode for bad input."""
        topology = load_topology(request.topology)
        inputs = find_inputs(
            list(request.rdb), list(request.keys), request.key_format, request.aof, replay=not request.no_replay
        ).newest()
        options = tally_options(request, topology, advice=advice)
        with progress("reading", how_far(spark, "tasks", inputs.summary)):
            partial, units = read_units(spark, inputs, options)
        bad = partial.of(BAD, step=snapshot_tables.first_bad, by="source").to_pylist() if request.permissive else []
        snapshot = cls(
            request=request, topology=topology, inputs=inputs, options=options, partial=partial,
            units=units, bad_count=sum(row["count"] for row in bad),
            bad=[(row["source"], row["offset"], row["text"]) for row in bad], unread=snapshot_warnings.find_unread(units),
        )  # fmt: skip
        snapshot.attributions = snapshot._attribute()
        return snapshot

    def _attribute(self) -> dict[str, Attribution]:
        if self.topology:
            self.keys_by_owner = snapshot_tables.keys_by_owner(self.partial)
        by_source: dict[str, dict[str | None, int]] = {}
        for row in self.keys_by_owner:
            by_source.setdefault(row.source, {})[row.owner_id] = row.keys
        return {
            unit.source: attribute(unit.source, by_source.get(unit.source, {}), self.topology)
            for unit in self.units
            if unit.kind in ("rdb", "aof")
        }

    def write(self, spark: SparkSession, run: Run) -> None:
        """Write every table; raises InputError where they contradict each other."""
        with progress("writing tables"):
            if self.request.keep_keys:
                self._write_keys(spark, run)
            tables.apply_changes(self._changes(spark), run)
            keys, size = check_sums(run)
            row = self._snapshot_row(self._warnings(), keys, size)
            run.append(SNAPSHOTS, [row])
            run.data_at, run.partial = row["taken_at"], row["partial"]

    @property
    def _nodes(self) -> dict[str, str | None] | None:
        """Return the node of each dump and log."""
        if self.topology is None:
            return None
        return {source: attribution.node_id for source, attribution in self.attributions.items()}

    def sizes(self) -> dict[str, int]:
        """The inputs and their bytes, as stored."""
        return {unit.source: unit.file_bytes for unit in self.units}

    def node_ids(self) -> list[str]:
        """The nodes of the topology."""
        return [node.id for node in self.topology.nodes] if self.topology else []

    def _known(self) -> frozenset[str]:
        """Loads and access data that an input has."""
        known = {name for name in KNOWN if any(getattr(unit, f"knows_{name}") for unit in self.units)}
        return frozenset(known | {RATE_BOUNDS} if self.options.lfu.are_bounded and "counters" in known else known)

    def _changes(self, spark: SparkSession) -> list[Change]:
        options, topology = self.options, self.topology
        made = SnapshotTables(
            self.partial, self._nodes, self._known(), options.top, options.top_per_slot, GROUPS_LISTED
        )
        slots = made.slot_load(topology.slot_map().owners() if topology else [None] * SLOT_COUNT)
        masters = {node.id: node.address for node in topology.masters()} if topology else {}
        unread = snapshot_warnings.share_by_node(self.unread, self._nodes or {})
        prefixes = made.prefixes()
        return [
            self._change(lambda: slots, SLOT_LOAD),
            self._change(lambda: snapshot_tables.node_load(slots, masters, unread), NODE_LOAD),
            self._change(made.big_keys, BIG_KEYS),
            self._change(made.hash_tags, HASH_TAGS),
            self._change(lambda: snapshot_tables.key_prefixes(prefixes), KEY_PREFIXES),
            self._change(made.key_types, KEY_TYPES),
            self._change(made.key_sizes, KEY_SIZES),
            self._change(made.ttl_buckets, TTL_BUCKETS),
            self._change(lambda: made.key_use(prefixes), KEY_USE),
            self._change(lambda: self._bad_records(spark), BAD_RECORDS),
            Change(self._source_rows(), SOURCES),
            *(self._log_changes(spark) if self.inputs.logs else []),
        ]

    def _change(self, rows: Callable[[], DataFrame | pa.Table], table: Table) -> Change:
        """*rows* with the column ``partial``."""
        return Change(lambda: _with_partial(rows(), bool(self.unread)), table)

    def _bad_records(self, spark: SparkSession) -> DataFrame | pa.Table:
        if not self.bad_count:
            return BAD_RECORDS.unlabelled.empty_table()
        return snapshot_tables.bad_records(self.partial.frame(spark, None, BAD), JOB)

    def _log_changes(self, spark: SparkSession) -> list[Change]:
        """The tables of logs."""
        partial, count = self.partial.frame(spark, self._nodes, *snapshot_tables.LOG_KINDS), GROUPS_LISTED
        return [
            self._change(lambda: snapshot_tables.write_load(partial), WRITE_LOAD),
            self._change(lambda: snapshot_tables.command_load(partial), COMMAND_LOAD),
            self._change(lambda: snapshot_tables.write_keys(partial, count=count), WRITE_KEYS),
            self._change(lambda: snapshot_tables.uncertain_keys(partial), UNCERTAIN_KEYS),
        ]

    def _write_keys(self, spark: SparkSession, run: Run) -> None:
        """Every key of the dumps."""
        paths = [file.path for file in self.inputs.rdb]
        keys = _with_partial(read_dumps(spark, paths, self.options), bool(self.unread))
        tables.apply_change(Change(keys, KEYS, by=iter), run)

    def _source_rows(self) -> pa.Table:
        merged: dict[str, UnitFacts] = {}
        nodes = self._nodes or {}
        for unit in self.units:
            known = merged.get(unit.source)
            merged[unit.source] = unit if known is None else joined(known, unit)
        unread = {file.source: file for file in self.unread.files}
        return as_table(
            SOURCES,
            (
                {
                    "source": unit.source,
                    "kind": unit.kind,
                    "node_id": nodes.get(unit.source),
                    "keys": unit.keys,
                    "file_bytes": unit.file_bytes,
                    "facts": list(unit.texts().items()),
                    **_unread_columns(unread.get(unit.source)),
                }
                for unit in merged.values()
            ),
        )

    def _warnings(self) -> list[Caveat]:
        caveats = [
            *snapshot_warnings.find_bad(self.bad, self.bad_count),
            *snapshot_warnings.find_partial(self.unread),
            *snapshot_warnings.find_older(self.inputs.older),
            *snapshot_warnings.find_twins(self.units, self.attributions, self.topology),
            *snapshot_warnings.find_unattributed(self.attributions, self.topology),
            *snapshot_warnings.find_trailing(self.units),
            *snapshot_warnings.find_hollow(self.units),
            *snapshot_warnings.find_contradictions(self.units),
            *snapshot_warnings.find_cuts(self.units),
            *snapshot_warnings.find_uncertain(self.units),
        ]
        if self.topology is not None:
            dumps = [row for row in self.keys_by_owner if row.source in self.attributions]
            unowned = sum(row.keys for row in self.keys_by_owner if row.owner_id is None)
            caveats += snapshot_warnings.find_foreign(dumps, self.attributions, self.topology)
            caveats += snapshot_warnings.find_coverage(self.topology, unowned)
        return sorted(caveats, key=lambda caveat: list(Severity).index(caveat.severity))

    def _snapshot_row(self, warnings: list[Caveat], keys: int, size: int | None) -> dict[str, Any]:
        taken = [unit.ctime for unit in self.units if unit.ctime is not None]
        basis = snapshot_warnings.memory_basis(self.units)
        return {
            "taken_at": max(taken) * 1_000_000 if taken else None,
            "keys": keys,
            "serialized_bytes": size,
            "bad_records": self.bad_count,
            "warnings": [caveat._asdict() for caveat in warnings],
            "topology": write_nodes(self.topology).decode() if self.topology else None,
            "memory_model": basis.model if basis else None,
            "memory_exactness": basis.exactness.value if basis else None,
            "unmeasured_keys": basis.unmeasured_keys if basis else None,
            "partial": bool(self.unread),
            "file_bytes": self.unread.file_bytes,
            "unread_bytes": self.unread.whole.unread_bytes,
            "unread_share": self.unread.whole.share if self.unread else 0.0,
            "written_at": datetime.now(UTC),
        }


def count_keys(spark: SparkSession, request: KeyOptions) -> str:
    """Read the inputs of *request* into a snapshot; its name.  Raises as `KeySnapshot.read`; the tables are then as they were."""
    with counted(spark, request) as (name, _):
        return name


@contextmanager
def counted(spark: SparkSession, request: KeyOptions, *, advice: bool = False) -> Iterator[tuple[str, KeySnapshot]]:
    """Read the inputs of *request* into a snapshot; yield its name and its facts, which hold Spark rows until the end."""
    with ExitStack() as ended:
        with running(request.root, JOB, request.snapshot, cluster=request.cluster) as run:
            snapshot = KeySnapshot.read(spark, request, advice=advice)
            ended.callback(snapshot.partial.release)
            run.inputs = snapshot.sizes()
            run.belongs_to(snapshot.node_ids())
            snapshot.write(spark, run)
        yield run.name, snapshot


def check_sums(run: Run) -> tuple[int, int | None]:
    """Keys of the snapshot, and their bytes, when all tables that *run* wrote agree on them; raises InputError where they do not."""
    sums: dict[str, dict[str, int | None]] = {"keys": {}, "serialized_bytes": {}}
    for table in (NODE_LOAD, SLOT_LOAD, KEY_TYPES):
        columns = list(sums)
        rows = run.read(table, columns)
        for name in columns:
            known = [row[name] for row in rows if row[name] is not None]
            sums[name][table.name] = sum(known) if known else None
    sums["keys"][SOURCES.name] = sum(row["keys"] for row in run.read(SOURCES, ["keys"]))
    for name, values in sums.items():
        run.check(name, values)
    return sums["keys"][NODE_LOAD.name] or 0, sums["serialized_bytes"][NODE_LOAD.name]


def _unread_columns(file: FileUnread | None) -> dict[str, Any]:
    """The columns of ``silver/sources`` from ``partial`` on."""
    values: tuple[Any, ...] = (False, 0, 0, None, 0, 0.0)
    if file is not None:
        values = (True, file.bad_records, file.unread_bytes, file.records, file.unread_records, file.share)
    names = ("partial", "bad_records", "unread_bytes", "records", "unread_records", "unread_share")
    return dict(zip(names, values, strict=True))


def _with_partial(rows: DataFrame | pa.Table, partial: bool) -> DataFrame | pa.Table:
    if isinstance(rows, DataFrame):
        return rows.withColumn("partial", F.lit(partial))
    names = [name for name in rows.column_names if name != "partial"]
    return rows.select(names).append_column("partial", pa.repeat(pa.scalar(partial), len(rows)))


AT_ONCE: Final = 4
"""Clusters that are read at a time: much of a small job is waiting for its commits."""
OF_ALL: Final = frozenset(field.name for field in fields(SnapshotOptions)) - {"mode", "snapshot"} | {"manifest"}
"""Options that cannot be set per cluster."""
OF_ONE: Final = ("aof", "keys", "rdb", "topology", "cluster", "html")
"""Options that are set per cluster."""


class SnapshotOutcome(NamedTuple):
    """The outcome of one cluster: its snapshot, warnings of severity error, and *page*, or the *failure*."""

    cluster: str
    snapshot: str | None = None
    state: str = "failed"
    keys: int | None = None
    input_bytes: int | None = None
    errors: int | None = None
    page: str | None = None
    failure: Failure | None = None

    @property
    def row(self) -> tuple[str | int | None, ...]:
        """Its values by `COLUMNS`."""
        return (*self[:-1], self.failure.line if self.failure else None)


COLUMNS: Final = (*SnapshotOutcome._fields[:-1], "reason")
COLUMNS_SHOWN: Final = COLUMNS.index("page")
"""Columns of the table in a terminal; a reason was printed when its cluster failed."""


def requests_of(request: KeyOptions, parse: Callable[[Sequence[str]], KeyOptions]) -> list[KeyOptions]:
    """Return a request per cluster of the manifest of *request*, with a snapshot of its own; raises InputError."""
    manifest = request.manifest or ""
    for name in OF_ONE:
        if getattr(request, name):
            raise InputError(f"--{name.replace('_', '-')}: set it per cluster, in the manifest")
    asked = fleet_manifest.requests_of(replace(request, snapshot=None), manifest, parse, OF_ALL)
    if request.snapshot:
        asked = [replace(entry, snapshot=entry.snapshot or f"{request.snapshot}-{entry.cluster}") for entry in asked]
    named = [entry.snapshot for entry in asked if entry.snapshot is not None]
    if len(set(named)) < len(named):
        raise InputError(f"{manifest}: two clusters write one snapshot: give each a name of its own")
    return asked


def count_clusters(spark: SparkSession, requests: Sequence[KeyOptions]) -> Iterator[SnapshotOutcome]:
    """Read the inputs of each request into a snapshot with a page, several at a time; yield the outcomes as they end."""
    done = 0
    pool = ThreadPoolExecutor(AT_ONCE, "cluster")
    with progress("reading clusters", lambda: f"{done} of {len(requests)}"):
        pending = {pool.submit(_count, spark, request): request for request in requests}
        try:
            for ended in as_completed(pending):
                done += 1
                yield _outcome(pending[ended], ended)
        finally:
            if done < len(requests):  # interrupted
                spark.interruptAll()
            pool.shutdown(cancel_futures=True)


def _outcome(request: KeyOptions, ended: Future[str]) -> SnapshotOutcome:
    """Return the outcome of one cluster; pages are written one by one, since they share the list of pages."""
    cluster = str(request.cluster)
    error = ended.exception()
    if error is not None:
        return SnapshotOutcome(cluster, failure=describe(error))
    try:
        report = load_report(request.root, ended.result(), time.time_ns() // 1_000_000)
        page = deliver(report, root=request.root, html=request.html, stream=None)
    except (ClusterCoreError, InputError, TryAgainError, OSError) as trouble:
        return SnapshotOutcome(cluster, ended.result(), failure=describe(trouble))
    state = "partial" if report.bad_records else "finished"
    errors = sum(warning.severity is Severity.ERROR for warning in report.warnings)
    read = sum(source.file_bytes for source in report.sources)
    return SnapshotOutcome(cluster, report.snapshot_id, state, report.keys, read, errors, page)


def _count(spark: SparkSession, request: KeyOptions) -> str:
    with silence():
        try:
            check_request(request)
        except (ClusterCoreError, InputError, OSError):
            with running(request.root, JOB, request.snapshot, cluster=request.cluster):
                raise
        return count_keys(spark, request)


def exit_code(clusters: Sequence[SnapshotOutcome]) -> int:
    """The exit code of a job over *clusters*."""
    return code_of_all(
        [outcome.failure for outcome in clusters], is_partial=any(outcome.state == "partial" for outcome in clusters)
    )
