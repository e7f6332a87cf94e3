"""States of the last fold of a replay (silver/replay_state), and the decision to continue from them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cluster_core.kinds import Severity
from cluster_core.replay.saving import STATE_SOURCE, STATE_VERSION
from schemas import history
from schemas.caveats import Caveat, Code
from slotscope.pipelines.bus.headers import NO_STATES, HeaderStates
from slotscope.pipelines.bus.inputs import Inputs
from slotscope.runtime.errors import InputError
from slotscope.runtime.spark.spark_schema import spark_frame
from slotscope.runtime.storage.delta_files import as_table
from slotscope.runtime.storage.runs import Run
from slotscope.sources.bus import captured
from slotscope.sources.bus import observers as replayed
from slotscope.sources.bus.files import OVERLAP_NS, CaptureFile, survey
from slotscope.transforms.history_frames import Rows, blobs_of, of_kind

if TYPE_CHECKING:
    from slotscope.pipelines.bus.options import HistoryOptions

CAPTURE_PART = "capture"
HEADERS_PART = "headers of "
"""Prefix of parts with the state of a node's headers."""
PROCESSES = f"SELECT part, state FROM replay_state WHERE part <> '{CAPTURE_PART}' AND part NOT LIKE '{HEADERS_PART}%' ORDER BY part"
"""The states of processes in a fixed order."""
PIECE = ("part", f"CAST({replayed.STATE_PHASE} AS INT) AS phase", "CAST(0 AS BIGINT) AS number", "state AS blob")
"""A state as a piece of evidence, in SQL of Spark."""
UNREADABLE = Caveat(
    Severity.NOTE,
    Code.STATE,
    f"the state of the last run in {STATE_SOURCE} is of another version: all captures were replayed from the start",
)


class Batch(NamedTuple):
    """A batch of a stream: it names new files only, and never the same twice, unless it is carried out again."""

    stream: str
    number: int


class FoldState(NamedTuple):
    """Where the last fold stopped."""

    options: dict[str, Any]
    capture: bytes
    settled_by: int
    messages: int

    @property
    def has_captures(self) -> bool:
        """Whether captures were among the files so far: without any, events come from logs."""
        return bool(self.options["has_captures"])


class States:
    """States of one run's root: the last one, and those that it leaves; *warnings* list unreadable ones."""

    def __init__(self, request: HistoryOptions, inputs: Inputs, batch: Batch | None, lateness_ns: int) -> None:
        self._request = request
        self._inputs = inputs
        self._batch = batch
        self._lateness_ns = lateness_ns
        self._surveys: dict[tuple[bool, int], list[CaptureFile]] = {}
        self.warnings: list[Caveat] = []

    def last(self, run: Run) -> FoldState | None:
        """The state that the last fold of the snapshot of *run* left, if it holds the beginning of the inputs."""
        rows = run.read(history.REPLAY_STATE, where=f"part = '{CAPTURE_PART}'", staged=False)
        row = next(iter(rows), None)
        if row is None or self._request.restart:
            return None
        if row["version"] != STATE_VERSION:
            self.warnings.append(UNREADABLE)
            return None
        state = FoldState(json.loads(row["options"]), bytes(row["state"]), row["settled_by"], row["messages"])
        has_same_options = {name: state.options.get(name) for name in self._options()} == self._options()
        if self._batch is not None:
            self._check_stream(state, has_same_options)
            return state
        return state if has_same_options and self._continues(state) else None

    def _check_stream(self, state: FoldState, has_same_options: bool) -> None:
        """Raise InputError where a stream cannot continue from *state*."""
        request = self._request
        if not has_same_options:
            raise InputError(
                f"{request.root}: {request.snapshot} was followed with other options; use the same ones, or another --root"
            )
        if state.options["batch"][0] != self._batch_id()[0]:
            raise InputError(
                f"{request.root}: {request.snapshot} is followed by a follower with other --clusters or another --landing, or the checkpoint was"
                " deleted; use disjoint --clusters, or another --root"
            )

    def _continues(self, state: FoldState) -> bool:
        """Whether all old files are here unchanged, and the new captures are younger."""
        sizes = self._inputs.sizes()
        if any(sizes.get(path) != size for path, size in state.options["files"].items()):
            return False
        if self._inputs.recorded:
            return True
        new = self.new_captures(state)
        return all(file.from_ns > state.options["last_ns"] - OVERLAP_NS for file in new)

    def new_captures(self, state: FoldState | None) -> list[CaptureFile]:
        """The captures that *state* does not hold, in their order."""
        known = state.options["files"] if state is not None else {}
        new = [file for file in self._inputs.captures if file.path not in known]
        alone = state is None or not new
        if (alone, len(new)) not in self._surveys:
            self._surveys[alone, len(new)] = survey(new, alone=alone)
        return self._surveys[alone, len(new)]

    def of_processes(self, spark: SparkSession, run: Run, beside: int) -> DataFrame:
        """The states of processes but the first *beside*, as pieces of evidence that come before all others."""
        return spark_frame(
            spark, run.query(f"{PROCESSES} OFFSET {beside}", history.REPLAY_STATE, staged=False)
        ).selectExpr(*PIECE)

    def of_processes_here(self, run: Run, count: int) -> dict[str, bytes]:
        """The states of the first *count* processes by their names."""
        rows = run.query(f"{PROCESSES} LIMIT {count}", history.REPLAY_STATE, staged=False)
        return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def of_headers(self, run: Run, state: FoldState | None) -> HeaderStates:
        """Return states of headers before this fold; none were kept while the node timeout was uncertain."""
        if state is None or not state.settled_by:
            return NO_STATES
        is_headers = f"part LIKE '{HEADERS_PART}%'"
        rows = run.read(history.REPLAY_STATE, where=is_headers, staged=False)
        kept = {row["part"].removeprefix(HEADERS_PART): bytes(row["state"]) for row in rows}
        return HeaderStates(state.messages, -1, kept)

    def table(self, read: Rows, replayed_rows: Rows, headers: dict[str, bytes], facts: dict[str, Any]) -> pa.Table:
        """The states of this fold; none is kept of the processes while the node timeout is not certain."""
        files = self._inputs.sizes() if self._batch is None or self._request.restart else {}  # a batch has new ones
        reached = {name: facts[name] for name in ("last_ns", "has_captures")}
        options = self._options() | {"files": files, "batch": self._batch_id(), **reached}
        common = {
            "version": STATE_VERSION,
            "settled_by": facts["settled_by"],
            "messages": facts["settled_messages"],
            "options": json.dumps(options),
        }
        capture = [(CAPTURE_PART, blob) for _, blob in blobs_of(of_kind(read, captured.STATE))]
        processes = blobs_of(of_kind(replayed_rows, replayed.SAVED))
        nodes = [(f"{HEADERS_PART}{node}", blob) for node, blob in headers.items()]
        rows = [{"part": part, "state": blob, **common} for part, blob in (*capture, *processes, *nodes)]
        return as_table(history.REPLAY_STATE, rows)

    def _options(self) -> dict[str, Any]:
        """Return the options that a state depends on."""
        request = self._request
        return {
            "node_timeout_ms": request.node_timeout_ms,
            "profile": request.profile,
            "zone": request.log_zone,
            "log_node": list(request.log_node),
            "permissive": request.permissive,
            "lateness_ns": self._lateness_ns if self._inputs.recorded else 0,
        }

    def _batch_id(self) -> tuple[str, int]:
        return self._batch or ("", 0)
