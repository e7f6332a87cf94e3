"""The second task of a replay: the evidence of one process after the other through its machine, rows of belief out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cluster_core.columns import MESSAGE_COLUMN, columns_of
from cluster_core.gossip.profile import PROFILES
from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.observer import ObserverReplay
from cluster_core.replay.quiet_runs import QuietRuns
from cluster_core.replay.rows import (
    DisagreementRow,
    EpochRow,
    EventRow,
    FailureReportRow,
    IgnoredRow,
    NodeViewRow,
    ReplayRow,
    VoteRow,
)
from cluster_core.replay.saving import STATE_SOURCE, load, save
from schemas.table import BYTES, INTEGER, LONG, TEXT, side_by_side
from slotscope.sources.bus.blobs import EvidenceRows

VIEW, DISAGREEMENT, REPORT, VOTE, EPOCH_RAISED, EVENT, IGNORED, SAVED = range(8)
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
    IgnoredRow: IGNORED,
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
"""What the task returns: the columns of all its tables side by side."""
_NAMES: Final = {row: tuple(column.name for column in columns_of(row)) for row in ROW_KINDS}
_EPOCHS: Final = ("config_epoch", "epoch")


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How machines run; *settled* when the node timeout is certain, so that states may be kept."""

    node_timeout_ms: int
    start_ns: int
    profile: str | None = None
    settled: bool = True


class Piece(NamedTuple):
    """A blob of one process: its state (`STATE_PHASE`) or evidence."""

    part: str
    phase: int
    number: int
    blob: bytes


def replay_task(batches: Iterator[pa.RecordBatch], options: ReplayOptions) -> Iterator[pa.RecordBatch]:
    """Replay every process whose pieces are in *batches* (columns of `Piece`, in that order); yield `REPLAYED`."""
    gathered = Gathered()
    for part, pieces in groupby(_pieces(batches), key=lambda piece: piece.part):
        for rows, settled_by in replay_process(part, pieces, options, gathered):
            gathered.add(rows, settled_by)
            if gathered.count >= ROWS_PER_BATCH:
                yield gathered.batch()
    if gathered.count:
        yield gathered.batch()


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[Piece]:
    for batch in batches:
        parts, phases, numbers = (batch.column(index).to_pylist() for index in range(3))
        blobs = batch.column(3)
        for row, part in enumerate(parts):
            yield Piece(part, phases[row], numbers[row], blobs[row].as_py())


def replay_process(
    part: str, pieces: Iterable[Piece], options: ReplayOptions, gathered: Gathered
) -> Iterator[tuple[list[ReplayRow], int | None]]:
    """Replay one process: rows and the number of the evidence that settled them, None for provisional ones."""
    ip, _, port = part.rpartition("|")
    replay: ObserverReplay | None = None
    is_saved = not options.settled
    for phase, same in groupby(pieces, key=lambda piece: piece.phase):
        if phase == STATE_PHASE:
            replay = load(next(iter(same)).blob, source=f"{STATE_SOURCE} of {part}")
            continue
        replay = replay or _new(Endpoint(ip, int(port)), options)
        if phase and not is_saved:
            gathered.add_state(part, save(replay))
            is_saved = True
        for row, told in replay_rows(replay, (piece.blob for piece in same)):
            yield told, None if phase else row
    if replay is not None:
        if not is_saved:
            gathered.add_state(part, save(replay))
        yield replay.finish(), None


def replay_rows(replay: ObserverReplay, blobs: Iterable[bytes]) -> Iterator[tuple[int, list[ReplayRow]]]:
    """What *replay* makes of the evidence in *blobs*, and the number of the piece that settled it."""
    rows, runs = EvidenceRows(), QuietRuns(replay)
    unread = iter(blobs)
    blob, first = next(unread, None), 0
    while blob is not None:
        rows.take(blob, first)
        blob = next(unread, None)
        for row, told in runs.feed(rows.seen, rows.evidence, runs.fed - first, is_last=blob is None):
            yield int(rows.numbers[row]), told
        first = max(runs.first_open, 0)


def _new(address: Endpoint, options: ReplayOptions) -> ObserverReplay:
    profile = PROFILES[options.profile] if options.profile else None
    return ObserverReplay(
        address, node_timeout_ms=options.node_timeout_ms, profile=profile, start_ns=options.start_ns or None
    )


class Gathered:
    """Rows of all kinds on their way to Arrow."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    @property
    def count(self) -> int:
        """How many rows wait."""
        return len(self._rows)

    def add(self, rows: list[ReplayRow], settled_by: int | None) -> None:
        """Add rows of a replay."""
        for row in rows:
            told: dict[str, Any] = dict(zip(_NAMES[type(row)], row, strict=True))
            if told.get(MESSAGE_COLUMN, -1) < 0:
                told.pop(MESSAGE_COLUMN, None)
            for name in _EPOCHS:
                if name in told:
                    told[name] = min(max(told[name], 0), EPOCH_MAX)
            told["row_kind"], told["settled_by"] = ROW_KINDS[type(row)], settled_by
            self._rows.append(told)

    def add_state(self, part: str, blob: bytes) -> None:
        """Add the state of a process."""
        self._rows.append({"row_kind": SAVED, "part": part, "blob": blob})

    def batch(self) -> pa.RecordBatch:
        """All rows that wait, which then do not wait any more."""
        rows, self._rows = self._rows, []
        schema = REPLAYED
        arrays = []
        for column in schema:
            values = [row.get(column.name) for row in rows]
            if column.name in _EPOCHS:
                arrays.append(pa.array(values, pa.uint64()).cast(column.type))
            else:
                arrays.append(pa.array(values, column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
