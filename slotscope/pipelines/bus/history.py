"""A replay from its inputs to its tables: the order of calls.

``captures, polls, logs → one task: messages, evidence → one task a process: beliefs, events → tables``.  The driver holds
the results of both tasks if the files are small, else Spark does.  Every table is a selection of them; tables of captures are written
while the machines run.  A fold continues the states in silver/replay_state when
their files are the first of this run's inputs; else everything is read from the start.  Rows that
are not settled are replaced, settled ones last (`slotscope.runtime.storage.runs`).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial as bind
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.errors import DecodeError
from cluster_core.kinds import Severity
from cluster_core.replay.saving import STATE_SOURCE
from schemas import history
from schemas.bronze import BAD_RECORDS
from schemas.caveats import Caveat, Code
from schemas.table import Table
from slotscope.pipelines.bus.findings import check_figures, recent_since, write_gold
from slotscope.pipelines.bus.headers import Basis, Headers, basis_of, headers_of, read_headers, task_notes
from slotscope.pipelines.bus.inputs import Inputs
from slotscope.pipelines.bus.outcome import Outcome, late_rows, outcome_of, replay_row
from slotscope.pipelines.bus.states import UNREADABLE, Batch, FoldState, States
from slotscope.runtime import text
from slotscope.runtime.progress import progress
from slotscope.runtime.spark.session import how_far, parallelism, runs_here
from slotscope.runtime.spark.spark_schema import spark_frame, spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import any_of
from slotscope.runtime.storage.runs import HELD_ROWS_MAX, HISTORY_JOBS, Run, completing, finished_names
from slotscope.runtime.storage.tables import Change
from slotscope.sources.bus import captured
from slotscope.sources.bus import observers as replayed
from slotscope.sources.bus.blobs import unpacked_table
from slotscope.sources.bus.captured import AHEAD, CAPTURED, MessageTable
from slotscope.sources.bus.evidence import JOB, CaptureOptions, capture_task, start_of
from slotscope.sources.bus.observers import MACHINES_BESIDE, ReplayOptions, replay_beside, replay_task
from slotscope.sources.bus.point_series import LATENESS_NS, ReplayProgress
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from slotscope.transforms.history_frames import (
    KIND,
    Rows,
    beliefs_of,
    blobs_of,
    clock_warnings,
    of_kind,
    unpack,
    unpacked,
    with_times,
)
from slotscope.transforms.ownership import VIEW_COLUMNS, find_owners

if TYPE_CHECKING:
    from slotscope.pipelines.bus.options import HistoryOptions

EVENT_KINDS = ("fail-decided", "fail-learned", "election-started", "vote", "election-won", "state-ok", "state-fail")
"""Events of silver/events that logs tell as well, manual failovers aside."""
LOGGED_EVENTS = (
    "SELECT observer, ts, ts_ns, kind, coalesce(subject, '') AS subject, coalesce(epoch, 0) AS epoch, text AS detail, 'log' AS source,"
    " CAST(NULL AS BIGINT) AS message_id, CAST(NULL AS BIGINT) AS settled_by FROM log_events"
    f" WHERE observer IS NOT NULL AND ({any_of('kind', EVENT_KINDS)} OR kind LIKE 'manual-failover%')"
)
"""Events come from logs where there are no captures."""
EXPIRY_STEPS = 24
"""Parts of the retention; messages and polls are removed when one more part of them is too old."""
BYTES_HERE_MAX = 8 << 20
"""Bytes of inputs up to which the driver holds messages and evidence instead of Spark."""


class _ReadRows(NamedTuple):
    """Rows of the reading task: all *rows*, those *seen* on the driver, without bulk, and whether machines ran beside."""

    rows: Rows
    seen: pa.Table
    with_machines: bool


class HistoryReplay:
    """One run of the job; without *spark* everything is done in this process, which may be a task itself."""

    def __init__(
        self,
        spark: SparkSession | None,
        request: HistoryOptions,
        inputs: Inputs,
        *,
        batch: Batch | None = None,
        lateness_ns: int = LATENESS_NS,
        keep_ns: int | None = None,
        warnings: Sequence[Caveat] = (),
    ) -> None:
        self._batch = batch
        self._keep_ns = keep_ns
        self._kept: list[DataFrame] = []
        self._lateness_ns = lateness_ns
        self._states = States(request, inputs, batch, lateness_ns)
        self._states.warnings.extend(warnings)
        self._spark = spark
        self._request = request
        self._inputs = inputs

    def run(self) -> Outcome:
        """Read, replay, write; raises DecodeError for bad input in strict mode."""
        with completing(self.new_run()) as run:
            return self.fold(run)

    def new_run(self) -> Run:
        """The run that this replay is to be, not started yet."""
        request, cluster = self._request, self._request.cluster or self._inputs.cluster
        name = request.snapshot or self._continued(cluster) or ""
        return Run(
            request.root,
            JOB,
            name,
            cluster,
            self._inputs.sizes(),
            replaces=("bus-replay", "sentinel-replay"),
        )

    def fold(self, run: Run) -> Outcome:
        """Read, replay, and stage the rows of *run*; raises as `run`."""
        self._run = run
        try:
            return self._go_on()
        finally:
            self._forget()

    def _continued(self, cluster: str | None) -> str | None:
        """The latest replay, of the cluster if one is named, where its files are the first of those of this one."""
        names = finished_names(self._request.root, HISTORY_JOBS, cluster)
        goes_on = bool(names) and self._states.last(Run(self._request.root, JOB, names[-1])) is not None
        self._states.warnings.clear()
        return names[-1] if goes_on else None

    def _go_on(self) -> Outcome:
        state = self._states.last(self._run)
        try:
            return self._fold(state)
        except (PySparkException, DecodeError) as error:
            if state is None or STATE_SOURCE not in str(error):
                raise
            self._states.warnings.append(UNREADABLE)
            self._run.begin_anew()
            return self._fold(None)

    def _fold(self, state: FoldState | None) -> Outcome:
        """Continue from *state*, or from the start after late packets."""
        read, facts = self._read(state)
        if facts.get("late") or (state is not None and self._batch is None and facts["left_out"]):
            self._forget()
            state = None
            if _stored(read):
                self._run.begin_anew()
            read, facts = self._read(None)
        facts["has_captures"] = bool(self._inputs.captures) or (state is not None and state.has_captures)
        run, basis = self._run, basis_of(facts)
        run.belongs_to(node for _, _, node in facts["processes"])
        run.continues = state is not None
        with ThreadPoolExecutor(1, "captured") as beside:
            captured_tables = beside.submit(self._write_captured, read, facts, state)
            with progress("replaying", how_far(self._spark, "tasks") if self._spark else str):
                beliefs = self._keep(beliefs_of(self._replayed(read, facts, state)))
            with progress("writing tables"):
                captured_tables.result()
        with progress("writing tables"):
            return self._write(read.seen, beliefs, facts, state, basis)

    def _keep(self, rows: Rows) -> Any:
        """Persist *rows* in Spark until `_forget` if they are a query."""
        if isinstance(rows, DataFrame):
            self._kept.append(rows.persist(StorageLevel.MEMORY_AND_DISK))
        return rows

    def _forget(self) -> None:
        """Let Spark keep no rows any longer."""
        while self._kept:
            self._kept.pop().unpersist()

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, state: FoldState | None) -> tuple[_ReadRows, dict[str, Any]]:
        """Read new inputs and show progress."""
        known = state.options["files"] if state is not None else {}
        if self._spark is None:
            return self._read_into(state, "")
        new = {path: size for path, size in self._inputs.sizes().items() if path not in known}
        captured_bytes = sum(new.get(file.path, 0) for file in self._inputs.captures)
        with ReplayProgress(captured_bytes, is_here=runs_here(self._spark)) as reading:
            files = f"{text.plural(len(new), 'file')}, {text.size(sum(new.values()))}"
            with progress("reading", how_far(self._spark, "tasks", files, reading.share)):
                return self._read_into(state, reading.path)

    def _read_into(self, state: FoldState | None, meter: str) -> tuple[_ReadRows, dict[str, Any]]:
        request = self._request
        known = state.options["files"] if state is not None else {}
        statements = PollsAndLogs(
            tuple(file.path for file in self._inputs.polls if file.path not in known),
            tuple(file.path for file in self._inputs.logs if file.path not in known),
            request.log_zone,
            self._inputs.log_node,
            tuple(file.path for file in self._inputs.metrics if file.path not in known),
        )
        recorded = tuple(file for file in self._inputs.recorded if file.path not in known)
        if recorded:
            statements = replace(statements, polls=(), logs=(), metrics=())
        options = CaptureOptions(
            () if self._inputs.recorded else tuple(self._states.new_captures(state)),
            statements,
            request.node_timeout_ms,
            request.permissive,
            state.capture if state is not None else None,
            recorded,
            self._lateness_ns,
            meter,
            time.time_ns(),
            self._message_table(state),
        )
        if self._spark is None:
            return self._read_here(options, state)
        rows = self._spark.range(0, 1, 1, 1).mapInArrow(bind(capture_task, options=options), spark_schema(CAPTURED))
        states = self._states_beside(state)
        if states is not None:
            machines = bind(replay_beside, profile=request.profile, states=states, machines_max=MACHINES_BESIDE)
            rows = rows.mapInArrow(machines, spark_schema(CAPTURED))
        is_small = bool(self._inputs.captures) and sum(self._inputs.sizes().values()) <= BYTES_HERE_MAX
        if is_small:
            seen: Any = rows.toArrow()
            read = _ReadRows(seen, seen, states is not None)
        else:
            seen = self._keep(rows).where(~F.col(KIND).isin(*captured.BULK)).toArrow()
            read = _ReadRows(rows, seen, states is not None)
        return read, _facts(seen)

    def _read_here(self, options: CaptureOptions, state: FoldState | None) -> tuple[_ReadRows, dict[str, Any]]:
        """Read and replay in this process."""
        states = self._states.of_processes_here(self._run, sys.maxsize) if state is not None else {}
        start = pa.record_batch({"id": pa.array([0])})
        read = capture_task(iter([start]), options)
        batches = replay_beside(read, self._request.profile, states, sys.maxsize, batches_ahead=AHEAD)
        seen = pa.Table.from_batches(batches, CAPTURED)
        return _ReadRows(seen, seen, with_machines=True), _facts(seen)

    def _message_table(self, state: FoldState | None) -> MessageTable | None:
        """Return the table for the task's messages; None where their cluster is unknown before they are read."""
        run = self._run
        if run.cluster is None or self._spark is None or not runs_here(self._spark):
            return None
        run.continues = state is not None
        ours = run.for_tasks(history.BUS_MESSAGES, self._replaced_messages(state))
        noted = bind(task_notes, run=ours, states=self._states.of_headers(run, state))
        return MessageTable(ours, HELD_ROWS_MAX, tables.STAGED_ROWS, noted)

    def _states_beside(self, state: FoldState | None) -> dict[str, bytes] | None:
        """The states of the processes whose machines run beside the reading, in a second process of the same task; None for no such process."""
        if self._spark is None or not runs_here(self._spark):
            return None
        return self._states.of_processes_here(self._run, MACHINES_BESIDE) if state is not None else {}

    # -- replaying ---------------------------------------------------------------------------------------------------

    def _replayed(self, read: _ReadRows, facts: dict[str, Any], state: FoldState | None) -> Rows:
        """Return the packed rows of the machines."""
        rows = read.rows
        spark = self._spark
        if spark is None or (read.with_machines and facts["machines"] <= MACHINES_BESIDE):
            return rows
        beliefs = self._replay(spark, rows, facts, state, MACHINES_BESIDE if read.with_machines else 0)
        if read.with_machines:
            some = of_kind(rows, captured.BELIEFS)
            beliefs = beliefs.union(spark_frame(spark, some) if isinstance(some, pa.Table) else some)
        if isinstance(rows, pa.Table):
            return beliefs.toArrow()
        self._keep(beliefs).count()  # all processes at once: for a few rows they would run one by one
        return beliefs

    def _replay(
        self, spark: SparkSession, read: Rows, facts: dict[str, Any], state: FoldState | None, beside: int
    ) -> DataFrame:
        """Run the machines of all processes but the first *beside*, each in one of Spark's tasks."""
        request = self._request
        pieces = of_kind(read, captured.EVIDENCE).select(["part", "phase", "number", "blob"])
        if isinstance(pieces, pa.Table):
            pieces = spark_frame(spark, pieces)
        if state is not None:
            pieces = pieces.union(self._states.of_processes(spark, self._run, beside))
        start_ns, is_settled = start_of(facts["first_ns"]), facts["settled_by"] > 0
        options = ReplayOptions(facts["node_timeout_ms"], start_ns, request.profile, is_settled)
        partitions = 2 * parallelism(spark)
        by_process = pieces.repartition(partitions, "part").sortWithinPartitions("part", "phase", "number")
        frame: DataFrame = by_process.mapInArrow(bind(replay_task, options=options), spark_schema(CAPTURED))
        return frame

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write_captured(self, read: _ReadRows, facts: dict[str, Any], state: FoldState | None) -> None:
        """Write the tables of captures; they need no machine."""
        changes = [*self._seen(read, facts, state), *self._beside_packets(read.seen, facts, state)]
        if facts["left_out"] or state is None:
            late = late_rows(facts)
            changes.append(
                Change(late, history.LATE_FILES, any_of("source", (row for row in late["source"].to_pylist())))
            )
        tables.apply_changes(changes, self._run)

    def _replaced_messages(self, state: FoldState | None) -> str:
        """The condition of stored messages that this fold replaces or removes."""
        return f"{_new_messages(state)} OR {self._expired(state)}"

    def _expired(self, state: FoldState | None) -> str:
        """The condition of stored messages and polls that are too old to keep; it advances in steps, so few batches rewrite files for it."""
        if state is None or self._keep_ns is None:
            return "FALSE"
        step_ns = max(1, self._keep_ns // EXPIRY_STEPS)
        return f"ts_ns < {(state.options['last_ns'] - self._keep_ns) // step_ns * step_ns}"

    def _recent_since(self, state: FoldState | None) -> int:
        """Return the time from which this batch finds incidents again; 0 for all."""
        if state is None or self._batch is None:
            return 0
        return recent_since(state.options["last_ns"], self._lateness_ns)

    def _headers(self, seen: pa.Table, facts: dict[str, Any], state: FoldState | None, basis: Basis) -> Headers:
        """Return headers from the notes of the task, else from the table."""
        states = self._states.of_headers(self._run, state).settled_by(facts)
        notes = [unpacked_table(blob) for _, blob in blobs_of(of_kind(seen, captured.NOTES))]
        if notes:
            return headers_of(chain.from_iterable(table.to_batches() for table in notes), basis, states)
        return read_headers(self._run, basis, states)

    def _write(
        self, seen: pa.Table, replayed_rows: Rows, facts: dict[str, Any], state: FoldState | None, basis: Basis
    ) -> Outcome:
        """Write the tables of the machines and those derived from them, then the states, and last the row that completes the run."""
        run, request = self._run, self._request
        with ThreadPoolExecutor(2, "beside") as beside:
            headers = beside.submit(self._headers, seen, facts, state, basis)
            tables.apply_changes(self._believed(replayed_rows, facts, state), run)
            derived = beside.submit(self._write_owners)
            gold = write_gold(run, basis, headers.result(), self._recent_since(state))
            derived.result()
        run.append(history.NODE_VIEWS, gold.views)  # after the tables derived from views: these name no slots
        check_figures(run, facts, state.messages if state is not None else 0, gold.steps)
        tables.apply_change(
            Change(self._states.table(seen, replayed_rows, gold.states, facts), history.REPLAY_STATE), run
        )
        caveats: list[Caveat] = []
        if self._inputs.captures and self._inputs.logs:
            logged = unpacked(seen, captured.LOGS, history.LOG_EVENTS)
            caveats = clock_warnings(logged, of_kind(replayed_rows, replayed.EVENT))
        if len(gold.clusters) > 1:
            nodes = "; ".join(", ".join(node[:8] for node in cluster[:3]) for cluster in gold.clusters)
            problem = f"nodes of {len(gold.clusters)} clusters that never knew each other ({nodes}) under the name {run.cluster}"
            caveats.append(
                Caveat(
                    Severity.WARNING,
                    Code.TWO_CLUSTERS,
                    f"{problem}: record each as its own --cluster, also after a rebuild",
                )
            )
        known = len(state.options["files"].keys() & self._inputs.sizes()) if state is not None else 0
        notes = [*self._states.warnings, *caveats, *gold.notes]
        outcome = outcome_of(request, self._inputs, facts, known, notes, run.name)
        tables.apply_change(Change(replay_row(request, self._inputs, facts, outcome), history.REPLAYS), run)
        run.data_at = datetime.fromtimestamp(facts["last_ns"] / 1e9, UTC) if facts["last_ns"] else None
        run.partial = bool(outcome.bad_records)
        return outcome

    def _write_owners(self) -> None:
        """Write silver/slot_owners by all views of the snapshot: most of them stand there since earlier runs."""
        run = self._run
        views = run.query(
            f"SELECT {', '.join(VIEW_COLUMNS)} FROM node_views ORDER BY valid_from_ns", history.NODE_VIEWS
        )
        tables.apply_change(Change(with_times(find_owners(views), history.SLOT_OWNERS), history.SLOT_OWNERS), run)

    def _seen(self, read: _ReadRows, facts: dict[str, Any], state: FoldState | None) -> Iterator[Change]:
        """The tables of the captures; messages that *state* has not settled are replaced."""
        lasting = self._replaced_messages(state)
        rows, seen = read.rows, read.seen
        stored = _stored(read)
        if stored:
            self._run.wrote(history.BUS_MESSAGES, stored)
        elif facts["fresh_messages"] > HELD_ROWS_MAX and isinstance(rows, DataFrame):
            by = bind(unpack, table=history.BUS_MESSAGES)
            yield Change(of_kind(rows, captured.MESSAGE).select("blob"), history.BUS_MESSAGES, lasting, by)
        else:
            yield Change(unpacked(rows, captured.MESSAGE, history.BUS_MESSAGES), history.BUS_MESSAGES, lasting)
        yield Change(unpacked(seen, captured.BITMAPS, history.SLOT_BITMAPS), history.SLOT_BITMAPS, _new_messages(state))
        yield Change(unpacked(seen, captured.BAD, BAD_RECORDS), BAD_RECORDS)
        yield Change(unpacked(seen, captured.LINK_ROWS, history.LINKS), history.LINKS)
        yield Change(unpacked(seen, captured.GAP_ROWS, history.GAPS), history.GAPS)
        if self._inputs.recorded:
            yield Change(unpacked(seen, captured.UNRECORDED_ROWS, history.UNRECORDED), history.UNRECORDED)

    def _believed(self, replayed_rows: Rows, facts: dict[str, Any], state: FoldState | None) -> Iterator[Change]:
        """The tables of the machines; rows that *state* has not settled are replaced."""
        lasting = "TRUE" if state is None else f"settled_by IS NULL OR settled_by > {state.settled_by}"
        kinds = (
            (history.NODE_VIEWS, replayed.VIEW),
            (history.DISAGREEMENTS, replayed.DISAGREEMENT),
            (history.FAILURE_REPORTS, replayed.REPORT),
            (history.VOTES, replayed.VOTE),
            (history.EPOCHS, replayed.EPOCH_RAISED),
            (history.EVENTS, replayed.EVENT),
        )
        for table, kind in kinds:
            if table is history.EVENTS and not facts["has_captures"]:
                yield Change(self._run.query(LOGGED_EVENTS, history.LOG_EVENTS), table)
            else:
                yield Change(self._beliefs(replayed_rows, table, kind), table, lasting)

    def _beliefs(self, replayed_rows: Rows, table: Table, kind: int) -> Any:
        rows = of_kind(replayed_rows, kind)
        if table is history.EVENTS and isinstance(rows, pa.Table):
            bus = pa.array(["bus"] * len(rows), pa.string())
            rows = rows.set_column(rows.column_names.index("source"), "source", bus)
        elif table is history.EVENTS:
            rows = rows.withColumn("source", F.lit("bus"))
        return with_times(rows, table)

    def _beside_packets(self, seen: pa.Table, facts: dict[str, Any], state: FoldState | None) -> Iterator[Change]:
        """Polls, log events and metrics of new files; rows of known files stay."""
        known = state.options["files"] if state is not None else {}
        recorded = [file.path for file in self._inputs.recorded]
        for files, kind, table, expired in (
            (self._inputs.polls, captured.POLLS, history.NODE_POLLS, self._expired(state)),
            (self._inputs.logs, captured.LOGS, history.LOG_EVENTS, "FALSE"),
        ):
            new = [path for path in (*recorded, *(file.path for file in files)) if path not in known]
            if new:
                yield Change(unpacked(seen, kind, table), table, f"{any_of('source', new)} OR {expired}")
        if self._inputs.metrics:
            samples = unpacked(seen, captured.METRICS, history.METRIC_SAMPLES)
            yield Change(samples, history.METRIC_SAMPLES, f"line > {facts['metrics_before']}")


def _new_messages(state: FoldState | None) -> str:
    """The condition of messages that *state* has not settled."""
    return "TRUE" if state is None else f"message_id >= {state.messages}"


def _facts(seen: pa.Table) -> dict[str, Any]:
    """Return the facts of the reading task about all inputs."""
    ((_, meta),) = blobs_of(of_kind(seen, captured.META))
    facts: dict[str, Any] = json.loads(meta)
    return facts


def _stored(read: _ReadRows) -> int:
    """How many messages the task has staged itself."""
    return int(pc.sum(of_kind(read.seen, captured.STORED).column("number")).as_py() or 0)
