"""The second task of a replay: the evidence of each process through its machine, rows of belief out.

Machines run in tasks of their own (`replay_task`), or beside the task that reads captures (`replay_beside`).
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cluster_core.columns import MESSAGE_COLUMN, columns_of
from cluster_core.gossip.profile import PROFILES
from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.observer import ObserverReplay
from cluster_core.replay.rows import (
    DisagreementRow,
    EpochRow,
    EventRow,
    FailureReportRow,
    NodeViewRow,
    ReplayRow,
    VoteRow,
)
from cluster_core.replay.saving import STATE_SOURCE, load, save
from schemas.table import BYTES, INTEGER, LONG, TEXT, side_by_side
from slotscope.sources.bus.blobs import EvidenceReader, packed_table, unpacked_table
from slotscope.sources.bus.captured import BEGIN, BELIEFS, BULK, EVIDENCE, STATE, ahead, blob_row

VIEW, DISAGREEMENT, REPORT, VOTE, EPOCH_RAISED, EVENT, SAVED = range(7)
"""Kinds of rows of `REPLAYED`."""
STATE_PHASE: Final = -1
"""The phase of a row that holds a state: it comes before all evidence."""
ROWS_PER_BATCH: Final = 10_000
EPOCH_MAX: Final = 2**64 - 1

ROW_KINDS: Final[dict[type, int]] = {
    NodeViewRow: VIEW,
    DisagreementRow: DISAGREEMENT,
    FailureReportRow: REPORT,
    VoteRow: VOTE,
    EpochRow: EPOCH_RAISED,
    EventRow: EVENT,
}
REPLAYED = pa.schema(
    [
        pa.field("row_kind", INTEGER, nullable=False),
        *side_by_side(ROW_KINDS),
        pa.field("settled_by", LONG),
        pa.field("part", TEXT),
        pa.field("blob", BYTES),
    ]
)
"""Rows that machines return: the columns of all tables side by side."""
_NAMES: Final = {row: tuple(column.name for column in columns_of(row)) for row in ROW_KINDS}
_EPOCHS: Final = ("config_epoch", "epoch")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How machines run; *settled* when the node timeout is certain, so that states may be kept."""

    node_timeout_ms: int
    start_ns: int
    profile: str | None = None
    settled: bool = True


class ProcessBlob(NamedTuple):
    """A blob of one process: its state (`STATE_PHASE`) or evidence."""

    part: str
    phase: int
    number: int
    blob: bytes


def replay_task(batches: Iterator[pa.RecordBatch], options: ReplayOptions) -> Iterator[pa.RecordBatch]:
    """Replay every process in *batches* (columns of `ProcessBlob`, in that order); yield rows of `BELIEFS`."""
    gathered = RowCollector(keeps_states=options.settled)
    with _rare_collections():
        for part, pieces in groupby(_pieces(batches), key=lambda piece: piece.part):
            for _ in replay_process(part, pieces, options, gathered):
                if gathered.count >= ROWS_PER_BATCH:
                    yield gathered.batch()
    if gathered.count:
        yield gathered.batch()


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[ProcessBlob]:
    for batch in batches:
        parts, phases, numbers = (batch.column(name).to_pylist() for name in ProcessBlob._fields[:3])
        blobs = batch.column("blob")
        for row, part in enumerate(parts):
            yield ProcessBlob(part, phases[row], numbers[row], blobs[row].as_py())


def replay_process(
    part: str, pieces: Iterable[ProcessBlob], options: ReplayOptions, gathered: RowCollector
) -> Iterator[ProcessBlob]:
    """Replay one process; yield each piece after *gathered* has its rows."""
    process: Process | None = None
    for piece in pieces:
        if piece.phase == STATE_PHASE:
            process = Process(part, options, gathered, piece.blob)
            continue
        process = process or Process(part, options, gathered)
        process.take(piece.phase, piece.blob)
        yield piece
    if process is not None:
        process.finish()


class Process:
    """The machine of one process, continued from *state*; its rows and its own state go to *gathered*."""

    def __init__(self, part: str, options: ReplayOptions, gathered: RowCollector, state: bytes | None = None) -> None:
        self._part = part
        self._gathered = gathered
        if state is not None:
            self._replay: ObserverReplay = load(state, source=f"{STATE_SOURCE} of {part}")
        else:
            ip, _, port = part.rpartition("|")
            self._replay = ObserverReplay(
                Endpoint(ip, int(port)),
                node_timeout_ms=options.node_timeout_ms,
                profile=PROFILES[options.profile] if options.profile else None,
                start_ns=options.start_ns or None,
            )
        self._reader = EvidenceReader()
        self._is_settled = True

    def take(self, phase: int, blob: bytes) -> None:
        """Apply a piece of evidence; settled ones (phase 0) come first."""
        if phase and self._is_settled:
            self._settle()
        for number, evidence in self._reader.read(blob):
            rows = self._replay.feed(evidence)
            if rows:
                self._gathered.add(rows, number if self._is_settled else None)

    def finish(self) -> None:
        """No more comes."""
        if self._is_settled:
            self._settle()
        self._gathered.add(self._replay.finish(), None)

    def _settle(self) -> None:
        """End the settled evidence: a later replay continues from here."""
        if self._gathered.keeps_states:
            self._gathered.add_state(self._part, save(self._replay))
        self._is_settled = False


class RowCollector:
    """Rows of all kinds on their way to Arrow; states are kept of machines with a certain node timeout."""

    def __init__(self, *, keeps_states: bool) -> None:
        self.keeps_states = keeps_states
        self._rows: list[dict[str, Any]] = []

    @property
    def count(self) -> int:
        """How many rows wait."""
        return len(self._rows)

    def add(self, rows: list[ReplayRow], settled_by: int | None) -> None:
        """Add rows of a replay."""
        for row in rows:
            record: dict[str, Any] = dict(zip(_NAMES[type(row)], row, strict=True))
            if record.get(MESSAGE_COLUMN, -1) < 0:
                record.pop(MESSAGE_COLUMN, None)
            for name in _EPOCHS:
                if name in record:
                    record[name] = min(max(record[name], 0), EPOCH_MAX)
            record |= {"row_kind": ROW_KINDS[type(row)], "settled_by": settled_by}
            self._rows.append(record)

    def add_state(self, part: str, blob: bytes) -> None:
        """Add the state of a process."""
        self._rows.append({"row_kind": SAVED, "part": part, "blob": blob})

    def batch(self) -> pa.RecordBatch:
        """All rows that wait, which then do not wait any more, as one row of `CAPTURED`."""
        rows, self._rows = self._rows, []
        schema = REPLAYED
        arrays = []
        for column in schema:
            values = [row.get(column.name) for row in rows]
            if column.name in _EPOCHS:
                arrays.append(pa.array(values, pa.uint64()).cast(column.type))
            else:
                arrays.append(pa.array(values, column.type))
        packed = packed_table(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return blob_row(BELIEFS, 0, packed, number=len(rows))


def unpack_beliefs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows (`REPLAYED`) of blobs, which *batches* have in their column of that name."""
    for batch in batches:
        for blob in batch.column("blob"):
            yield from unpacked_table(blob.as_py()).to_batches()


MACHINES_BESIDE: Final = 24
"""Machines of one process that run while another reads: of a hundred nodes these are ready as the reading ends; all cores run the rest."""
BATCHES_AHEAD: Final = 256
"""Number of batches, of about a megabyte each, that may wait for the machines, and behind them, so that neither side waits for the JVM."""
_COLLECTED_AFTER: Final = (20_000, 20, 20)


def replay_beside(
    batches: Iterator[pa.RecordBatch],
    profile: str | None,
    states: Mapping[str, bytes],
    machines_max: int = MACHINES_BESIDE,
    batches_ahead: int = BATCHES_AHEAD,
) -> Iterator[pa.RecordBatch]:
    """Replay the batches of a `capture_task` as they come; yield beliefs (`BELIEFS`) and pass other batches on.

    *states* are those of processes that were met before.  Evidence of processes beyond *machines_max* is handed on.
    """
    with _rare_collections():
        replayed = _replay(ahead(batches, batches_ahead), ReplayOptions(0, 0, profile), states, machines_max)
        yield from ahead(replayed, batches_ahead)


def _replay(
    batches: Iterator[pa.RecordBatch], options: ReplayOptions, states: Mapping[str, bytes], machines_max: int
) -> Iterator[pa.RecordBatch]:
    gathered = RowCollector(keeps_states=False)
    held: list[pa.RecordBatch] = []
    machines = {part: Process(part, options, gathered, state) for part, state in states.items()}
    for batch in batches:
        kinds, phases, parts, numbers = (batch.column(at).to_pylist() for at in range(4))
        passed = []
        for row, (kind, phase, part, number) in enumerate(zip(kinds, phases, parts, numbers, strict=True)):
            if kind == BEGIN:
                options = replace(options, **json.loads(batch.column("blob")[row].as_py()))
            elif kind == EVIDENCE and (part in machines or len(machines) < machines_max):
                if part not in machines:
                    machines[part] = Process(part, options, gathered)
                machines[part].take(phase, batch.column("blob")[row].as_py())
            elif kind in BULK:
                passed.append(row)
            else:
                held.append(batch.slice(row, 1))
                if kind == STATE:
                    gathered.keeps_states = number > 0
        if passed:
            yield batch.take(pa.array(passed))
        if gathered.count >= ROWS_PER_BATCH:
            yield gathered.batch()
    yield from held  # a large row would wait, and the machines with it, until the JVM comes back from who reads
    for machine in machines.values():
        machine.finish()
    if gathered.count:
        yield gathered.batch()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: objects of machines live as long as the machines, and frequent collections take a tenth of their time."""
    before = gc.get_threshold()
    gc.set_threshold(*_COLLECTED_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
