"""The tables of a replay as values of the core: rows, and what the messages of each node come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from cluster_core.columns import Column, Kind, columns_of
from cluster_core.incidents import logged_rows
from cluster_core.incidents.checks.connections import Breach, ConnectionChecks
from cluster_core.incidents.finders.failovers import ATTEMPTS
from cluster_core.incidents.gaps import GapSeen
from cluster_core.incidents.history import History, OffsetSeen
from cluster_core.incidents.logged_rows import LoggedLine, with_logs
from cluster_core.incidents.speech import Said, Speech, SpeechFolder
from cluster_core.incidents.thresholds import Thresholds
from cluster_core.incidents.traffic import Cost
from cluster_core.kinds import EventKind, FindingCode
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, NodeViewRow, ReplayRow, VoteRow
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.nodes_text import NODE_ID
from schemas.history import (
    BUS_MESSAGES,
    EPOCHS,
    EVENTS,
    FAILURE_REPORTS,
    GAPS,
    LINKS,
    LOG_EVENTS,
    NODE_POLLS,
    NODE_VIEWS,
    SLOT_BITMAPS,
    VOTES,
)
from schemas.replication import REPLICATION_OFFSETS, RESYNCS
from schemas.table import Table
from slotscope.runtime import tables

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 2**63 - 1
"""Epochs and offsets have 64 bits without sign on the wire; a greater one counts as this."""
NOTE = StructType(
    [
        StructField("what", StringType()),
        StructField("words", ArrayType(StringType())),
        StructField("numbers", ArrayType(LongType())),
    ]
)
"""One row of any kind on its way to the core: its texts and its numbers."""
Notes = dict[str, list[tuple[list[str], list[int]]]]
"""Notes by kind."""


class Basis(NamedTuple):
    """What a replay used: the node timeout, and the times of its first and last evidence."""

    node_timeout_ms: int
    first_ns: int
    last_ns: int


def message_notes(messages: DataFrame, basis: Basis) -> DataFrame:
    """Spans of speech and broken invariants of every node, from rows of bronze/bus_messages; columns of `NOTE`."""
    whole = "NOT light AND node_flags IS NOT NULL AND state IS NOT NULL AND bitmap_id IS NOT NULL"
    headers = messages.where(F.expr(whole) & F.col("sender").rlike(f"^(?:{NODE_ID.pattern})$")).select(
        "sender",
        "ts_ns",
        F.col("message_id").alias("ref"),
        F.col("node_flags").cast("bigint").alias("flags"),
        F.coalesce("replicaof", F.lit("")).alias("replicaof"),
        *(_signed(name).alias(name) for name in ("current_epoch", "config_epoch")),
        F.col("bitmap_id").alias("slots"),
        F.col("state").cast("bigint").alias("state"),
        _signed("repl_offset").alias("offset"),
        F.coalesce("shard_id", F.lit("")).alias("shard"),
        (F.col("connection") * 2 + F.coalesce(F.col("from_opener"), F.lit(False)).cast("bigint")).alias("way"),
    )

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _read_nodes(batches, basis)

    by_node = headers.repartition("sender").sortWithinPartitions("sender", "ref")
    return by_node.mapInArrow(read, NOTE)


def _signed(name: str) -> Any:
    """A column of unsigned 64 bits as bigint."""
    return F.least(F.coalesce(F.col(name), F.lit(Decimal(0))), F.lit(Decimal(LARGEST))).cast("bigint")


def _read_nodes(batches: Iterator[pa.RecordBatch], basis: Basis) -> Iterator[pa.RecordBatch]:
    """Fold the headers of one node after the other."""
    thresholds = Thresholds(basis.node_timeout_ms * 1_000_000)
    node: str | None = None
    folder, checks = SpeechFolder("", thresholds), ConnectionChecks("")
    for batch in batches:
        names = ("sender", "way", "ts_ns", "ref", "flags", "replicaof", "current_epoch", "config_epoch")
        columns = [batch.column(name).to_pylist() for name in (*names, "slots", "state", "offset", "shard")]
        spans: list[Speech] = []
        broken: list[Breach] = []
        for sender, way, *values in zip(*columns, strict=True):
            if sender != node:
                spans += _closed(folder, basis)
                broken += checks.finish()
                node, folder, checks = sender, SpeechFolder(sender, thresholds), ConnectionChecks(sender)
            said = Said(*values)
            ended = folder.feed(said)
            if ended is not None:
                spans.append(ended)
            checks.feed(way, said)
        yield _notes_batch(spans, broken)
    yield _notes_batch(_closed(folder, basis), checks.finish())


def _closed(folder: SpeechFolder, basis: Basis) -> list[Speech]:
    span = folder.finish(basis.last_ns)
    return [] if span is None else [span]


def _notes_batch(spans: list[Speech], broken: list[Breach]) -> pa.RecordBatch:
    import pyarrow as pa

    notes: list[tuple[str, list[str], list[int]]] = []
    for span in spans:
        texts = [span.node, span.replicaof, span.shard]
        numbers = [int(value) for value in span if not isinstance(value, str)]
        notes.append(("speech", texts, numbers))
    for breach in broken:
        notes.append(("breach", [breach.code, breach.node], [value for value in breach if isinstance(value, int)]))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([note[0] for note in notes], pa.string()),
            pa.array([note[1] for note in notes], pa.list_(pa.string())),
            pa.array([note[2] for note in notes], pa.list_(pa.int64())),
        ],
        names=["what", "words", "numbers"],
    )


def _speech(words: list[str], numbers: list[int]) -> Speech:
    """The opposite of `_notes_batch` for one span."""
    node, replicaof, shard = words
    from_ns, to_ns, first_ref, last_ref, messages, flags, *claims, silent_after = numbers
    current, config, slots, state, first_offset, last_offset, mark_ns, mark_offset = claims
    return Speech(
        node, from_ns, to_ns, first_ref, last_ref, messages, flags, replicaof, current, config, slots, state,
        first_offset, last_offset, mark_ns, mark_offset, shard, bool(silent_after),
    )  # fmt: skip


# -- rows of the replay ------------------------------------------------------------------------------------------------

ROWS: dict[str, tuple[Table, type]] = {
    "view": (NODE_VIEWS, NodeViewRow),
    "event": (EVENTS, EventRow),
    "vote": (VOTES, VoteRow),
    "epoch": (EPOCHS, EpochRow),
    "report": (FAILURE_REPORTS, FailureReportRow),
}
"""Kinds of notes that are rows of a replay: the table, and the row."""
OTHERS: dict[str, tuple[Table, tuple[str, ...], tuple[str, ...]]] = {
    "gap": (GAPS, ("source_id", "target_id"), ("valid_from_ns", "valid_to_ns")),
    "bitmap": (SLOT_BITMAPS, ("slots",), ("bitmap_id",)),
}
"""Other kinds: the table, its columns of text and its columns of numbers."""
UNSIGNED = ("epoch", "config_epoch")
LOGGED = (*ATTEMPTS, "vote-refused", "manual-failover-forced")
"""Lines of logs that tell what the bus does not show."""


def collect_notes(spark: SparkSession, root: str, snapshot_id: str, basis: Basis) -> Notes:
    """All rows that the core needs, in one Spark job, by kind."""
    parts = []
    kinds = {what: (table, *_words_and_numbers(row)) for what, (table, row) in ROWS.items()} | OTHERS
    for what, (table, words, numbers) in kinds.items():
        if tables.exists(spark, table, root):
            rows = tables.read_snapshot(spark, table, root, snapshot_id)
            parts.append(_as_notes(rows, what, words, numbers))
    if tables.exists(spark, LOG_EVENTS, root):
        lines = tables.read_snapshot(spark, LOG_EVENTS, root, snapshot_id)
        parts += [_log_notes(lines), _resync_notes(lines), _line_notes(lines)]
    for table, notes in ((NODE_POLLS, _poll_notes), (REPLICATION_OFFSETS, _stream_notes), (RESYNCS, _asked_notes)):
        if tables.exists(spark, table, root):
            parts.append(notes(tables.read_snapshot(spark, table, root, snapshot_id)))
    if tables.exists(spark, LINKS, root):
        parts.append(_cost_notes(tables.read_snapshot(spark, LINKS, root, snapshot_id)))
    if tables.exists(spark, BUS_MESSAGES, root):
        parts.append(message_notes(tables.read_snapshot(spark, BUS_MESSAGES, root, snapshot_id), basis))
    found: Notes = {}
    if parts:
        for row in reduce(DataFrame.unionByName, parts).toArrow().to_pylist():
            found.setdefault(row["what"], []).append((row["words"], row["numbers"]))
    return found


def _words_and_numbers(row: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a row that are text, and the others."""
    columns = columns_of(row)
    words = tuple(column.name for column in columns if issubclass(column.type, str))
    return words, tuple(column.name for column in columns if column.name not in words)


def _as_notes(rows: DataFrame, what: str, words: Iterable[str], numbers: Iterable[str]) -> DataFrame:
    amounts = [_signed(name) if name in UNSIGNED else F.col(name).cast("bigint") for name in numbers]
    return rows.select(F.lit(what).alias("what"), F.array(*words).alias("words"), F.array(*amounts).alias("numbers"))


def _log_notes(lines: DataFrame) -> DataFrame:
    """What logs add to the events."""
    told = lines.where(F.col("observer").isNotNull() & F.col("kind").isin(*LOGGED)).select(
        "observer",
        "kind",
        F.coalesce("subject", F.lit("")).alias("subject"),
        F.col("text").alias("detail"),
        "ts_ns",
        "epoch",
        F.lit(None).cast("bigint").alias("message_id"),
    )
    return _as_notes(told, "event", *_words_and_numbers(EventRow))


# Offsets of replication streams that no header shows: node id or address; time, offset, whether it is the last.


def _resync_notes(lines: DataFrame) -> DataFrame:
    """A master that was deposed asks for the byte behind its own stream."""
    asked = F.regexp_extract("text", r":(\d{1,18})\)", 1).cast("bigint")
    told = lines.where((F.col("kind") == "resync-asked") & F.col("observer").isNotNull())
    return _offset_notes(told.withColumn("offset", asked - 1), "observer", is_last=True)


def _poll_notes(polls: DataFrame) -> DataFrame:
    told = polls.where("master_offset IS NOT NULL AND observer IS NOT NULL")
    return _offset_notes(told.withColumnRenamed("master_offset", "offset"), "observer", is_last=False)


def _stream_notes(marks: DataFrame) -> DataFrame:
    return _offset_notes(marks.withColumnRenamed("sent_offset", "offset"), "master", is_last=False)


def _asked_notes(resyncs: DataFrame) -> DataFrame:
    told = resyncs.where("asked_offset > 0").drop("offset").withColumn("offset", F.col("asked_offset") - 1)
    return _offset_notes(told, "replica", is_last=True)


def _offset_notes(rows: DataFrame, node: str, *, is_last: bool) -> DataFrame:
    told = rows.where("offset IS NOT NULL").withColumn("is_last", F.lit(is_last))
    return _as_notes(told, "offset", (node,), ("ts_ns", "offset", "is_last"))


def _line_notes(lines: DataFrame) -> DataFrame:
    """All that logs tell, for processes of which no capture tells."""
    told = lines.where(F.col("observer").isNotNull() & F.col("kind").isin(*logged_rows.KINDS)).select(
        "observer",
        F.coalesce("address", F.lit("")).alias("address"),
        "kind",
        F.coalesce("subject", F.lit("")).alias("subject"),
        "text",
        "ts_ns",
        "epoch",
    )
    return _as_notes(told, "line", ("observer", "address", "kind", "subject", "text"), ("ts_ns", "epoch"))


def _cost_notes(links: DataFrame) -> DataFrame:
    """Messages and bytes by sender and type (R172)."""
    by_type = links.select("source_id", "messages_by_type", F.explode("bytes_by_type").alias("kind", "bytes"))
    sums = by_type.groupBy("source_id", "kind").agg(
        F.sum(F.element_at("messages_by_type", F.col("kind"))).alias("messages"), F.sum("bytes").alias("bytes")
    )
    return _as_notes(sums, "cost", ("source_id", "kind"), ("messages", "bytes"))


def history_of(notes: Notes, basis: Basis) -> History:
    """The index that the core asks."""
    slots_of = {numbers[0]: _slot_bits(words[0]) for words, numbers in notes.get("bitmap", [])}
    lines = [_logged_line(words, numbers) for words, numbers in notes.get("line", [])]
    times = [] if notes.get("view") else [line.ts_ns for line in lines]
    return History(
        with_logs(_replay_rows(notes), lines),
        [_speech(words, numbers) for words, numbers in notes.get("speech", [])],
        slots_of,
        node_timeout_ms=basis.node_timeout_ms,
        first_ns=min([basis.first_ns or LARGEST, *times]),
        last_ns=max([basis.last_ns, *times]),
        offsets=_offsets(notes),
        gaps=[GapSeen(words[0], words[1], *numbers) for words, numbers in notes.get("gap", [])],
    )


def _offsets(notes: Notes) -> Iterator[OffsetSeen]:
    """Offsets with the node ids of their addresses, as the views tell them."""
    views = notes.get("view", [])
    ids = {f"{words[2]}:{numbers[0]}": words[1] for words, numbers in sorted(views, key=lambda view: view[1][4])}
    for (node,), (ts_ns, offset, is_last) in notes.get("offset", []):
        yield OffsetSeen(ids.get(node, node), ts_ns, offset, bool(is_last))


def _logged_line(words: list[str], numbers: list[int]) -> LoggedLine:
    observer, address, kind, subject, text = words
    ip, _, port = address.rpartition(":")
    return LoggedLine(
        observer, ip, int(port) if port.isdigit() else 0, numbers[0], EventKind(kind), subject, numbers[1], text
    )


def _slot_bits(text: str) -> int:
    return int.from_bytes(SlotSet.parse(text).to_wire(), "little") if text else 0


def _replay_rows(notes: Notes) -> Iterator[ReplayRow]:
    for what, (_, row) in ROWS.items():
        readers = [_reader(column) for column in columns_of(row)]
        is_word = [issubclass(column.type, str) for column in columns_of(row)]
        for words, numbers in notes.get(what, []):
            word, number = iter(words), iter(numbers)
            values = (next(word) if told else next(number) for told in is_word)
            yield row(*(read(value) for read, value in zip(readers, values, strict=True)))


def _reader(column: Column) -> Callable[[Any], Any]:
    """How a column comes back: as the enum or the truth value that it was; a message that is not there as -1."""
    if column.kind is Kind.MESSAGE:
        return lambda value: -1 if value is None else value
    return (lambda value: value) if column.type in (str, int) else column.type


def breaches_of(notes: Notes) -> list[Breach]:
    """Invariants that messages broke."""
    return sorted(Breach(FindingCode(words[0]), words[1], *numbers) for words, numbers in notes.get("breach", []))


def costs_of(notes: Notes) -> list[Cost]:
    """What each node sent, by type."""
    return sorted(Cost(words[0], words[1], *numbers) for words, numbers in notes.get("cost", []))
