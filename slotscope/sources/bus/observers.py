"""The second task of a replay: the evidence of one process after the other through its machine, rows of belief out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from cluster_core.gossip.profile import PROFILES
from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.observer import ObserverReplay
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
from schemas.history import EPOCH
from slotscope.sources.bus.blobs import unpack_evidence

VIEW, DISAGREEMENT, REPORT, VOTE, EPOCH_RAISED, EVENT, IGNORED, SAVED = range(8)
"""Kinds of rows of `REPLAYED`."""
STATE_PHASE: Final = -1
"""The phase of a row that holds a state: it comes before all evidence."""
ROWS_PER_BATCH: Final = 10_000
EPOCH_MAX: Final = 2**64 - 1

_TEXT = (
    "observer", "node_id", "ip", "hostname", "flags", "master_id", "slots", "cause", "field", "machine", "source",
    "source_says", "reporter", "subject", "end", "voter", "candidate", "reason", "mechanism", "kind", "detail",
)  # fmt: skip
_LONG = (
    "valid_from_ns", "valid_to_ns", "ts_ns", "asked_ns", "answered_ns", "times", "message_id", "settled_by",
)  # fmt: skip
_EPOCHS = ("config_epoch", "epoch")

REPLAYED = StructType(
    [
        StructField("row_kind", IntegerType(), nullable=False),
        *(StructField(name, StringType()) for name in _TEXT),
        *(StructField(name, LongType()) for name in _LONG),
        *(StructField(name, EPOCH) for name in _EPOCHS),
        StructField("port", IntegerType()),
        StructField("cport", IntegerType()),
        StructField("link_known", BooleanType()),
        StructField("granted", BooleanType()),
        StructField("part", StringType()),
        StructField("blob", BinaryType()),
    ]
)
"""What the task returns: the columns of all its tables side by side."""

_COLUMNS: Final[dict[type, tuple[int, tuple[str, ...]]]] = {
    NodeViewRow: (
        VIEW,
        (
            "observer", "node_id", "ip", "port", "cport", "hostname", "flags", "master_id", "config_epoch", "slots",
            "link_known", "valid_from_ns", "valid_to_ns", "cause", "message_id",
        ),
    ),
    DisagreementRow: (
        DISAGREEMENT,
        ("observer", "node_id", "ts_ns", "field", "machine", "source", "source_says", "message_id"),
    ),
    FailureReportRow: (
        REPORT,
        ("observer", "reporter", "subject", "valid_from_ns", "valid_to_ns", "end", "message_id"),
    ),
    VoteRow: (
        VOTE,
        ("voter", "candidate", "epoch", "asked_ns", "answered_ns", "granted", "reason", "message_id"),
    ),
    EpochRow: (EPOCH_RAISED, ("node_id", "epoch", "ts_ns", "mechanism", "message_id")),
    EventRow: (EVENT, ("observer", "ts_ns", "kind", "subject", "epoch", "detail", "message_id")),
    IgnoredRow: (IGNORED, ("observer", "reason", "times")),
}  # fmt: skip
"""Rows of a replay by the columns of `REPLAYED` that their fields go to."""


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
        for number, evidence in unpack_evidence(piece.blob for piece in same):
            rows = replay.feed(evidence)
            if rows:
                yield rows, None if phase else number
    if replay is not None:
        if not is_saved:
            gathered.add_state(part, save(replay))
        yield replay.finish(), None


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
            kind, names = _COLUMNS[type(row)]
            told: dict[str, Any] = dict(zip(names, row, strict=True))
            if told.get("message_id", -1) < 0:
                told.pop("message_id", None)
            for name in _EPOCHS:
                if name in told:
                    told[name] = min(max(told[name], 0), EPOCH_MAX)
            told["row_kind"], told["settled_by"] = kind, settled_by
            self._rows.append(told)

    def add_state(self, part: str, blob: bytes) -> None:
        """Add the state of a process."""
        self._rows.append({"row_kind": SAVED, "part": part, "blob": blob})

    def batch(self) -> pa.RecordBatch:
        """All rows that wait, which then do not wait any more."""
        rows, self._rows = self._rows, []
        schema = _replayed_arrow()
        arrays = []
        for column in schema:
            values = [row.get(column.name) for row in rows]
            if column.name in _EPOCHS:
                arrays.append(pa.array(values, pa.uint64()).cast(column.type))
            else:
                arrays.append(pa.array(values, column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


@cache
def _replayed_arrow() -> pa.Schema:
    return to_arrow_schema(REPLAYED)
