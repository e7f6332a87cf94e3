"""A replay from its inputs to its tables: who calls what, in which order.

``captures, polls, logs → one task: messages, evidence → one task a process: beliefs, events → tables``.  Results of both
tasks come here where the files are small, else Spark keeps them; every table is a selection of them.  A fold continues the states in silver/replay_state when
the files that they hold are the first of those that are named now; else everything is read from the start.  Rows that
are not settled are replaced, settled ones last (`slotscope.runtime.storage.runs`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial as bind
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.errors import DecodeError
from cluster_core.replay.saving import STATE_SOURCE
from schemas import history
from schemas.bronze import BAD_RECORDS
from schemas.caveats import Caveat
from schemas.table import Table
from slotscope.pipelines.bus.findings import check_figures, write_gold
from slotscope.pipelines.bus.headers import Basis
from slotscope.pipelines.bus.inputs import Inputs
from slotscope.pipelines.bus.outcome import Outcome, late_rows, outcome_of, replay_row
from slotscope.pipelines.bus.states import CAPTURE_PART, HEADERS_PART, UNREADABLE, Batch, State, States
from slotscope.runtime import text
from slotscope.runtime.progress import progress
from slotscope.runtime.spark.session import how_far, is_one_process
from slotscope.runtime.spark.spark_schema import spark_frame, spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import few_rows
from slotscope.runtime.storage.runs import running
from slotscope.runtime.storage.snapshot_names import finished_names
from slotscope.runtime.storage.tables import Change
from slotscope.sources.bus import captured
from slotscope.sources.bus import observers as replayed
from slotscope.sources.bus.captured import CAPTURED
from slotscope.sources.bus.evidence import JOB, PRELUDE_NS, CaptureOptions, capture_task
from slotscope.sources.bus.observers import REPLAYED, STATE_PHASE, ReplayOptions, replay_task
from slotscope.sources.bus.point_series import LATENESS_NS
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from slotscope.sources.bus.reading import Reading
from slotscope.transforms.history_frames import (
    Rows,
    blobs_of,
    clock_warnings,
    forget,
    logged_events,
    of_kind,
    packed,
    unpacked,
    with_times,
)
from slotscope.transforms.ownership import DERIVED, MEMBER, OWNED, VIEW_COLUMNS, derive_task

if TYPE_CHECKING:
    from slotscope.requests.bus_replay import Request

BYTES_HERE_MAX = 8 << 20
"""Files whose messages and evidence the driver holds, rather than ask Spark for them again and again."""
ALL = 1 << 62
"""A bound that no number of lines or packets comes to."""


class HistoryReplay:
    """One run of the job."""

    def __init__(
        self,
        spark: SparkSession,
        request: Request,
        inputs: Inputs,
        *,
        batch: Batch | None = None,
        lateness_ns: int = LATENESS_NS,
    ) -> None:
        self._batch = batch
        self._lateness_ns = lateness_ns
        self._states = States(request, inputs, batch, lateness_ns)
        self._spark = spark
        self._request = request
        self._inputs = inputs
        self._found = 0

    @property
    def is_done(self) -> bool:
        """Whether the rows of this batch are there: it was carried out, and its stream was killed before it took note of that."""
        state = self._states.last(str(self._request.snapshot))
        return state is not None and self._batch is not None and self._batch <= Batch(*state.options["batch"])

    def run(self) -> Outcome:
        """Read, replay, write; raises DecodeError for bad input in strict mode."""
        request, sizes, cluster = self._request, self._inputs.sizes(), self._request.cluster or self._inputs.cluster
        name = request.snapshot or self._continued(cluster)
        with running(
            request.root, JOB, name, cluster=cluster, inputs=sizes, replaces=("sentinel-replay",)
        ) as self._run:
            return self._go_on()

    def _continued(self, cluster: str | None) -> str | None:
        """The latest replay, of the cluster if one is named, where its files are the first of those of this one."""
        names = finished_names(self._request.root, (JOB,), cluster)
        goes_on = bool(names) and self._states.last(names[-1]) is not None
        self._states.warnings.clear()
        return names[-1] if goes_on else None

    def _go_on(self) -> Outcome:
        state = self._states.last(self._run.name, self._run.before)
        try:
            read, found, facts, state = self._follow(state)
        except (PySparkException, Py4JError, DecodeError) as error:
            if state is None or STATE_SOURCE not in str(error):
                raise
            self._states.warnings.append(UNREADABLE)
            read, found, facts, state = self._follow(None)
        with progress("writing tables"):
            outcome = self._write(read, found, facts, state)
        forget(found)
        forget(read)
        return outcome

    def _follow(self, state: State | None) -> tuple[Rows, Rows, dict[str, Any], State | None]:
        """Read and replay from *state* on, or from the start where packets came late: what was read, found and is known, and the state."""
        read, facts = self._read(state)
        if facts.get("late") or (state is not None and self._batch is None and facts["left_out"]):
            forget(read)
            state = None
            read, facts = self._read(None)
        with progress("replaying", how_far(self._spark, "tasks")):
            beliefs = self._replay(read, facts, state)
            if isinstance(read, pa.Table):
                return read, beliefs.toArrow(), facts, state
            found = beliefs.persist(StorageLevel.MEMORY_AND_DISK)
            self._found = found.count()  # all processes at once: for a table of one file they would run one by one
        return read, found, facts, state

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, state: State | None) -> tuple[Rows, dict[str, Any]]:
        """Read what is new, and say how far that is."""
        known = state.options["files"] if state is not None else {}
        new = [file for file in self._inputs.captures if file.path not in known]
        size = sum(file.size for file in new)
        is_here = is_one_process(str(self._spark.conf.get("spark.master")))
        with Reading(size, is_here=is_here) as reading:
            told = how_far(self._spark, "tasks", f"{text.plural(len(new), 'file')}, {text.size(size)}", reading.share)
            with progress("reading captures", told):
                return self._read_into(state, reading.path)

    def _read_into(self, state: State | None, meter: str) -> tuple[Rows, dict[str, Any]]:
        request = self._request
        known = state.options["files"] if state is not None else {}
        statements = PollsAndLogs(
            tuple(file.path for file in self._inputs.polls if file.path not in known),
            tuple(file.path for file in self._inputs.logs if file.path not in known),
            request.log_zone,
            self._inputs.log_node,
        )
        recorded = tuple(file for file in self._inputs.recorded if file.path not in known)
        if recorded:
            statements = replace(statements, polls=(), logs=())
        options = CaptureOptions(
            () if self._inputs.recorded else tuple(self._states.new_captures(state)),
            statements,
            request.node_timeout_ms,
            request.gossip,
            request.permissive,
            state.capture if state is not None else None,
            recorded,
            self._lateness_ns,
            meter,
        )
        task = self._spark.range(0, 1, 1, 1).mapInArrow(bind(capture_task, options=options), spark_schema(CAPTURED))
        is_small = self._inputs.captures and sum(self._inputs.sizes().values()) <= BYTES_HERE_MAX
        read = task.toArrow() if is_small and not request.gossip else task.persist(StorageLevel.MEMORY_AND_DISK)
        ((_, meta),) = blobs_of(of_kind(read, "kind", captured.META))
        return read, json.loads(meta)

    # -- replaying ---------------------------------------------------------------------------------------------------

    def _replay(self, read: Rows, facts: dict[str, Any], state: State | None) -> DataFrame:
        request, spark = self._request, self._spark
        pieces = of_kind(read, "kind", captured.EVIDENCE).select(["part", "phase", "number", "blob"])
        if isinstance(pieces, pa.Table):
            pieces = spark_frame(spark, pieces)
        if state is not None:
            saved = tables.read_snapshot(spark, history.REPLAY_STATE, request.root, self._run.name, self._run.before)
            saved = saved.where((F.col("part") != CAPTURE_PART) & ~F.col("part").startswith(HEADERS_PART))
            pieces = pieces.union(
                saved.select("part", F.lit(STATE_PHASE).alias("phase"), F.lit(0).cast("bigint"), F.col("state"))
            )
        start_ns = facts["first_ns"] - PRELUDE_NS if facts["first_ns"] else 0
        options = ReplayOptions(facts["node_timeout_ms"], start_ns, request.profile, facts["settled_by"] > 0)
        partitions = 2 * spark.sparkContext.defaultParallelism
        by_process = pieces.repartition(partitions, "part").sortWithinPartitions("part", "phase", "number")
        found: DataFrame = by_process.mapInArrow(bind(replay_task, options=options), spark_schema(REPLAYED))
        return found

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write(self, read: Rows, found: Rows, facts: dict[str, Any], state: State | None) -> Outcome:
        """All tables; the states when these are complete, and last the row that says so."""
        run, request = self._run, self._request
        run.belongs_to(node for _, _, node in facts["processes"])
        run.keep(run.lasting_before if state is not None else ())
        seen, beliefs = self._answers(read, found, facts)
        changes = [*self._seen(read, seen, facts), *self._believed(read, beliefs, facts), *self._told(seen)]
        if facts["left_out"] or state is None:
            changes.append(Change(late_rows(facts), history.LATE_FILES, ("left_out", ALL)))
        if state is not None:  # the older beliefs stand in the table, which must be complete first
            tables.apply_changes(changes, run)
            changes = []
        derived = self._derived(beliefs, state)
        for table, kind in ((history.SLOT_OWNERS, OWNED), (history.MEMBERSHIPS, MEMBER)):
            changes.append(Change(with_times(of_kind(derived, "row_kind", kind), table), table))
        tables.apply_changes(changes, run)
        if isinstance(derived, DataFrame):
            derived.unpersist()
        clocks: list[Caveat] = []
        if self._inputs.captures and self._inputs.logs:
            logged = unpacked(read, captured.LOGS, history.LOG_EVENTS)
            clocks = clock_warnings(logged, of_kind(found, "row_kind", replayed.EVENT))
        basis = Basis(facts["node_timeout_ms"], facts["first_ns"] or 0, facts["last_ns"] or 0)
        gold = write_gold(self._spark, run, basis, self._states.of_headers(run, facts, state))
        check_figures(run, facts, state.messages if state is not None else 0, gold)
        tables.apply_change(Change(self._states.table(seen, beliefs, gold.states, facts), history.REPLAY_STATE), run)
        known = len(state.options["files"]) if state is not None else 0
        outcome = outcome_of(request, self._inputs, facts, known, [*self._states.warnings, *clocks], run.name)
        tables.apply_change(Change(replay_row(request, self._inputs, facts, outcome), history.REPLAYS), run)
        run.data_at = datetime.fromtimestamp(facts["last_ns"] / 1e9, UTC) if facts["last_ns"] else None
        run.partial = bool(outcome.bad_records)
        return outcome

    def _answers(self, read: Rows, found: Rows, facts: dict[str, Any]) -> tuple[Rows, Rows]:
        """What was read, without the evidence and without messages that are many, and found: two answers in place of twenty queries."""
        if isinstance(read, pa.Table):
            return read, found
        bulk = (captured.EVIDENCE, *((captured.MESSAGE,) if _is_many(facts) else ()))
        seen = read if self._request.gossip else read.where(~F.col("kind").isin(*bulk)).toArrow()
        return seen, found if self._found > tables.SMALL_ROWS_MAX else found.toArrow()

    def _seen(self, rows: Rows, read: Rows, facts: dict[str, Any]) -> Iterator[Change]:
        """The tables of the captures; the next fold has messages that are not settled again."""
        lasting = ("message_id", facts["settled_messages"] - 1)
        if _is_many(facts):
            many = packed(rows, captured.MESSAGE, history.BUS_MESSAGES)
            yield Change(many, history.BUS_MESSAGES, lasting, files=None)
        else:
            yield Change(unpacked(read, captured.MESSAGE, history.BUS_MESSAGES), history.BUS_MESSAGES, lasting)
        yield Change(unpacked(read, captured.BITMAPS, history.SLOT_BITMAPS), history.SLOT_BITMAPS, lasting)
        yield Change(unpacked(read, captured.BAD, BAD_RECORDS), BAD_RECORDS)
        yield Change(unpacked(read, captured.LINK_ROWS, history.LINKS), history.LINKS)
        yield Change(unpacked(read, captured.GAP_ROWS, history.GAPS), history.GAPS)
        if self._inputs.recorded:
            yield Change(unpacked(read, captured.UNRECORDED_ROWS, history.UNRECORDED), history.UNRECORDED)
        if self._request.gossip:
            gossip = unpacked(read, captured.GOSSIP, history.GOSSIP_ENTRIES)
            yield Change(gossip, history.GOSSIP_ENTRIES, lasting, files=None)

    def _believed(self, read: Rows, found: Rows, facts: dict[str, Any]) -> Iterator[Change]:
        """The tables of the machines; the next fold has what is not settled again."""
        lasting = ("settled_by", facts["settled_by"])
        kinds = (
            (history.NODE_VIEWS, replayed.VIEW),
            (history.DISAGREEMENTS, replayed.DISAGREEMENT),
            (history.FAILURE_REPORTS, replayed.REPORT),
            (history.VOTES, replayed.VOTE),
            (history.EPOCHS, replayed.EPOCH_RAISED),
            (history.EVENTS, replayed.EVENT),
            (history.IGNORED_INPUTS, replayed.IGNORED),
        )
        for table, kind in kinds:
            if table is history.EVENTS and not self._inputs.captures:
                yield Change(logged_events(read), table)
            else:
                yield Change(self._beliefs(found, table, kind), table, lasting)

    def _beliefs(self, found: Rows, table: Table, kind: int) -> Any:
        rows = of_kind(found, "row_kind", kind)
        if table is history.EVENTS and isinstance(rows, pa.Table):
            bus = pa.array(["bus"] * len(rows), pa.string())
            rows = rows.set_column(rows.column_names.index("source"), "source", bus)
        elif table is history.EVENTS:
            rows = rows.withColumn("source", F.lit("bus"))
        return with_times(rows, table)

    def _told(self, read: Rows) -> Iterator[Change]:
        """Polls and log events of new files: they last, since a fold goes on only where all older files are named again, or were taken."""
        for files, kind, table in (
            (self._inputs.polls, captured.POLLS, history.NODE_POLLS),
            (self._inputs.logs, captured.LOGS, history.LOG_EVENTS),
        ):
            if files or self._inputs.recorded:
                yield Change(unpacked(read, kind, table), table, ("line", ALL))

    def _derived(self, found: Rows, state: State | None) -> Rows:
        run, views = self._run, of_kind(found, "row_kind", replayed.VIEW)
        if state is not None:  # older views stand in the table
            few = few_rows(
                run.root,
                history.NODE_VIEWS,
                VIEW_COLUMNS,
                tables.SMALL_ROWS_MAX,
                where="TRUE",
                order_by="valid_from_ns",
                runs=run.counted,
                snapshot_id=run.name,
            )
            views = (
                few
                if few is not None
                else tables.read_snapshot(self._spark, history.NODE_VIEWS, run.root, run.name, run.counted)
            )
        if isinstance(views, pa.Table):
            return pa.Table.from_batches(derive_task(iter(views.select(list(VIEW_COLUMNS)).to_batches())), DERIVED)
        rows = views.select(*VIEW_COLUMNS).coalesce(1).mapInArrow(derive_task, spark_schema(DERIVED))
        return rows.persist(StorageLevel.MEMORY_AND_DISK)


def _is_many(facts: dict[str, Any]) -> bool:
    """Whether the messages of a fold are more than the driver should hold."""
    return bool(facts["fresh_messages"] > tables.SMALL_ROWS_MAX)
