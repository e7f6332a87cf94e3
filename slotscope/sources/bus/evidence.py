"""The first task of a replay: captures, polls and logs in, columns of messages and evidence for every process out.

Captures are read in one task, because TCP connections go across files; later steps are spread by process.
Evidence leaves as blobs, many messages of one process each, so that bulk bytes cross to the JVM only packed: without
slot bitmaps and compressed.  Rows that a later capture may revise (an incomplete message, a connection without a known
owner) are *provisional*: the state is saved before them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial as bind
from statistics import mode
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cluster_core.formats.landing import Kind
from cluster_core.gossip.profile_signs import ProfileSigns, shown
from cluster_core.gossip.view import NODES_MAX
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.columns import message_columns
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.known_links import OrderedMessages, SeenMessages
from cluster_core.kernels.bus.link_meter import LinkMeter
from cluster_core.kernels.bus.pong_ages import DEFAULT_NODE_TIMEOUT_MS, SETTLED_AGES, SETTLED_NS, PongAges, timeout_of
from cluster_core.replay.dispatch import NEVER_NS, BusSighting, Dispatcher, OrderedEvidence, deliveries
from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.known_links import KnownLinks
from cluster_core.replay.saving import STATE_SOURCE, load, save
from cluster_core.slots.slot_set import SlotSet
from schemas.bronze import BAD_RECORDS
from schemas.caveats import Caveat
from schemas.history import GAPS, LINKS, LOG_EVENTS, METRIC_SAMPLES, NODE_POLLS, SLOT_BITMAPS, UNRECORDED
from schemas.table import Table
from slotscope.runtime.priority import step_back
from slotscope.sources.bus import captured
from slotscope.sources.bus.blobs import EvidenceCollector, packed_table
from slotscope.sources.bus.captured import MessageRows, MessageTable, SideWork, ahead, blob_row, link_rows
from slotscope.sources.bus.files import READERS, CaptureFile, RecordedInput, measure_clocks, unknown_clock
from slotscope.sources.bus.point_series import CLOCK, GONE, LATE, LATENESS_NS, LateFile, PointSeries, SeriesState
from slotscope.sources.bus.polls_and_logs import (
    FileEvidence,
    MetricRows,
    PollsAndLogs,
    UnrecordedGaps,
    keep_shortest,
    read_polls_and_logs,
    times,
)
from slotscope.sources.bus.sightings import (
    BAD_ROWS_MAX,
    BadRows,
    BatchTexts,
    BitmapNumbers,
    MessageColumns,
    columns_of,
    files_of,
    note_signs,
    sighting_at,
)
from slotscope.sources.files import exists
from slotscope.sources.server_logs import LogOwner

JOB = "history"
"""Name of the job in bronze/bad_records."""
FIELDS: Final = {Kind.POLLS: "polls", Kind.LOGS: "logs", Kind.METRICS: "metrics"}
"""Fields of `PollsAndLogs` by kind of recorded files."""
SETTLED, PROVISIONAL = 0, 1
FLUSH_BYTES: Final = 32 << 20
"""Bytes of evidence that are handed out together; the first batch leaves as soon as the initial state of machines is known."""
ALONE_NS: Final = 600_000_000_000
"""Recorded time without captures after which the default node timeout is kept, and polls and logs become final."""
CLOCK_NS_MAX: Final = 600_000_000_000
"""Largest error of a clock: a point with an unmeasured clock further off is left out, and a file further in the future."""
PRELUDE_NS: Final = 60_000_000_000
"""Time before the first evidence for which a node's first header is assumed to hold."""


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """Inputs and settings of the capture task; *state* is that of the last fold, None to begin.

    *recorded* are files of a landing; their times may overlap with earlier ones by *lateness_ns*.  Without a landing the inputs are
    *files* and *statements*.  *now_ns* is the time of reading, 0 if unknown.  Rows of many messages go to *messages*.  *meter* is the file of a `slotscope.sources.bus.point_series.ReplayProgress`.
    """

    files: tuple[CaptureFile, ...]
    statements: PollsAndLogs
    node_timeout_ms: int | None = None
    permissive: bool = False
    state: bytes | None = None
    recorded: tuple[RecordedInput, ...] = ()
    lateness_ns: int = LATENESS_NS
    meter: str = ""
    now_ns: int = 0
    messages: MessageTable | None = None


_Withheld = tuple[BusBatch, int, tuple[Any, ...], list[str], list[str]]
"""A batch, the number of its first message, its `MessageColumns`, node ids and addresses: the arguments of `CaptureTask._follow`."""


def capture_task(batches: Iterator[pa.RecordBatch], options: CaptureOptions) -> Iterator[pa.RecordBatch]:
    """Read everything that *options* name and yield rows of `CAPTURED`; the input is one row that starts it.

    Raises DecodeError at the first bad input unless permissive.
    """
    if sum(batch.num_rows for batch in batches):
        yield from CaptureTask(options).run()


class CaptureTask:
    """One fold of captures into evidence."""

    def __init__(self, options: CaptureOptions) -> None:
        self._options = options
        self._decoder = BusDecoder(keep_packed=True)
        self._dispatcher = Dispatcher()
        self._ages = PongAges(SETTLED_AGES, SETTLED_NS)
        self._links: LinkMeter | None = None
        self._withheld: list[_Withheld] = []
        self._bitmaps = BitmapNumbers()
        self._processes: dict[Endpoint, None] = {}
        self._gaps: list[tuple[Endpoint | None, Endpoint | None, int, int, int]] = []
        self._bad = BadRows(strict=not options.permissive)
        self._messages = self._known_messages = 0
        self._timeout_ms = options.node_timeout_ms or 0
        self._times = self._statements = (0, 0)
        self._signs: dict[str, ProfileSigns] = {}
        self._is_late = False
        self._turns, self._ahead_ns = SeriesState(), dict[str, int]()
        self._polled_versions: dict[str, str] = {}
        self._polled_timeouts_ms: dict[str, int] = {}
        self._log_owners: dict[str, LogOwner] = {}
        self._point_notes: list[Caveat] = []
        self._unknown_clocks: list[Caveat] = []
        self._log_notes: list[Caveat] = []
        self._metrics = MetricRows()
        self._late: list[LateFile] = []
        self._unrecorded = UnrecordedGaps()
        self._restore()
        self._is_landing = bool(options.recorded) or self._turns.newest_ns > 0
        self._recorded: list[RecordedInput] = []
        self._texts = BatchTexts()
        self._outbox = EvidenceCollector(self._processes)
        self._known_links: KnownLinks | None = None
        self._is_begun = False
        if self._timeout_ms and self._links is None:
            self._links = LinkMeter(self._timeout_ms * 1_000_000)

    # -- state -----------------------------------------------------------------------------------------------------

    _KEPT = (
        "_decoder", "_dispatcher", "_ages", "_links", "_withheld", "_processes", "_messages", "_timeout_ms",
        "_times", "_statements", "_signs", "_gaps", "_ahead_ns", "_polled_versions", "_polled_timeouts_ms",
    )  # fmt: skip

    def _restore(self) -> None:
        if self._options.state is None:
            return
        kept = load(self._options.state, source=STATE_SOURCE)
        for name in self._KEPT:
            setattr(self, name, kept[name])
        self._known_messages = self._messages
        self._bad.restore(kept["bad"])
        self._bitmaps = BitmapNumbers(kept["bitmaps"])
        self._turns = SeriesState(*kept["turns"])
        self._point_notes = [Caveat.of(*note) for note in kept["point_notes"]]
        self._unrecorded = UnrecordedGaps(kept["unrecorded"])
        self._log_owners = {source: LogOwner(*owner) for source, owner in kept.get("log_owners", {}).items()}
        self._metrics = MetricRows(*kept.get("metrics", ()))

    def _state(self) -> bytes:
        if self._known_links is not None:
            self._known_links.settle()
        kept = {name: getattr(self, name) for name in self._KEPT}
        kept |= {"turns": self._turns.kept(), "point_notes": [note.columns() for note in self._point_notes]}
        kept["unrecorded"] = self._unrecorded.known
        kept["log_owners"] = {source: tuple(owner) for source, owner in self._log_owners.items()}
        kept["metrics"] = self._metrics.kept()
        kept |= {"bad": self._bad.kept(), "bitmaps": self._bitmaps.numbers}
        return save(kept)

    @property
    def _meter(self) -> LinkMeter:
        assert self._links is not None, "nothing is followed before the node timeout is settled"
        return self._links

    # -- the way through -------------------------------------------------------------------------------------------

    def run(self) -> Iterator[pa.RecordBatch]:
        """Read the inputs and yield settled rows, the state, provisional rows, and facts about all of them."""
        with SideWork(READERS) as self._side:
            self._rows = MessageRows(self._options.messages, self._side)
            yield from self._run()

    def _run(self) -> Iterator[pa.RecordBatch]:
        self._series = self._begin_landing() if self._is_landing else self._begin_files()
        yield from self._tell()
        if self._is_late:
            yield blob_row(captured.META, SETTLED, json.dumps({"late": True}).encode())
            return
        bitmap_rows: list[dict[str, Any]] = []
        for batch in ahead(self._series.settled(self._decoder), prepare=step_back):
            self._take(batch, bitmap_rows)
            self._flush(SETTLED, FLUSH_BYTES)
            yield from self._side.done()
        if not self._options.files and not self._messages:
            self._advance_alone()
        self._flush(SETTLED)
        facts = self._facts()
        yield blob_row(captured.STATE, SETTLED, self._state(), number=facts["settled_by"])
        yield from self._finish(bitmap_rows)
        self._rows.finish()
        yield from self._side.rest()
        if bitmap_rows:
            yield self._table(captured.BITMAPS, SLOT_BITMAPS, bitmap_rows)
        yield self._table(captured.BAD, BAD_RECORDS, [{"job": JOB, **row} for row in self._bad.rows()])
        facts |= self._final_facts()
        yield from self._rows.notes(facts)
        yield blob_row(captured.META, SETTLED, json.dumps(facts).encode())

    def _begin_files(self) -> PointSeries:
        """Measure clocks that are new."""
        files, ahead_ns = self._options.files, self._ahead_ns
        unknown = measure_clocks(files, ahead_ns, self._point_notes, is_all=True)
        for file in {file.series: file for file in reversed(files) if file.series in unknown}.values():
            if any(
                file.from_ns < other.to_ns and other.from_ns < file.to_ns
                for other in files
                if other.series != file.series
            ):
                self._point_notes.append(unknown_clock(file))
        return PointSeries(files, self._turns, ahead_ns, meter=self._options.meter)

    def _begin_landing(self) -> PointSeries:
        """Measure clocks that are new, and find out up to when all has its turn."""
        options, ahead_ns = self._options, self._ahead_ns
        self._unrecorded.read(options.recorded)
        captures = [file for file in options.recorded if file.place.kind is Kind.BUS]
        unknown = measure_clocks(captures, ahead_ns, self._point_notes)
        first = {file.series: file for file in reversed(captures)}
        self._unknown_clocks = [unknown_clock(first[series]) for series in sorted(unknown)]
        self._recorded, to_come = self._recorded_by_now()
        ends = {file: file.to_ns for file in self._recorded}
        certain = [end - ahead_ns[file.series] for file, end in ends.items() if file.series in ahead_ns]
        newest_ns = max(certain or ends.values(), default=0)
        newest_ns = max([newest_ns, *(end for end in ends.values() if abs(end - newest_ns) <= CLOCK_NS_MAX)])
        is_lost = {file: file.series in unknown and abs(end - newest_ns) > CLOCK_NS_MAX for file, end in ends.items()}
        if certain:
            self._recorded = [file for file in self._recorded if not is_lost[file]]
            to_come += [file for file in ends if is_lost[file]]
        self._late += [LateFile(file.path, CLOCK, 0, 0, self._turns.watermark_ns) for file in to_come]
        files = [file for file in self._recorded if file.place.kind is Kind.BUS]
        before_ns = self._turns.watermark_ns
        self._turns.reach(self._recorded, ahead_ns, newest_ns, options.lateness_ns)
        return PointSeries(files, self._turns, ahead_ns, before_ns, options.meter)

    def _recorded_by_now(self) -> tuple[list[RecordedInput], list[RecordedInput]]:
        """The files that can have been recorded by now, and those of a time to come, which would make all others late for good.

        Where most points say so, or one alone from the beginning, it is our own clock that is wrong.
        """
        ends = {file: file.to_ns - self._ahead_ns.get(file.series, 0) for file in self._options.recorded}
        limit_ns = (self._options.now_ns or max(ends.values(), default=0)) + CLOCK_NS_MAX
        to_come = [file for file, end in ends.items() if end > limit_ns]
        points = {file.series for file in ends}
        is_most = 2 * len({file.series for file in to_come}) > len(points) > 1
        if is_most or self._turns.newest_ns > limit_ns or not (len(to_come) < len(ends) or self._turns.newest_ns):
            return list(ends), []
        return [file for file, end in ends.items() if end <= limit_ns], to_come

    def _read_statements(self) -> FileEvidence:
        """Polls, logs and metrics; of recorded ones that are late only the rows."""
        options = self._options
        if not self._is_landing:
            return read_polls_and_logs(options.statements, permissive=options.permissive)
        evidence = FileEvidence(polled_versions=self._polled_versions, log_owners=self._log_owners)
        before_ns = self._series.before_ns
        for file in sorted(
            self._recorded, key=lambda input_file: (input_file.place.kind, input_file.from_ns, input_file.path)
        ):
            kind = file.place.kind
            if kind not in FIELDS:
                continue
            evidence.ahead_ns = self._ahead_ns.get(file.series, 0)
            count, bad = len(evidence.statements), len(evidence.bad)
            paths: dict[str, Any] = {FIELDS[kind]: (file.path,)}
            inputs = replace(options.statements, **paths)
            read_polls_and_logs(inputs, permissive=True, evidence=evidence)
            fresh = evidence.statements[count:]
            evidence.statements[count:] = [statement for statement in fresh if statement.ts_ns > before_ns]
            late = count + len(fresh) - len(evidence.statements)
            if late:
                self._late.append(LateFile(file.path, LATE, late, len(fresh) - late, before_ns))
            if len(evidence.bad) > bad and not exists(file.path):
                del evidence.bad[bad:]
                self._late.append(LateFile(file.path, GONE, 0, 0, before_ns))
        if evidence.bad and not options.permissive:
            raise evidence.bad[0]
        return evidence

    def _tell(self) -> Iterator[pa.RecordBatch]:
        evidence = self._read_statements()
        for error in evidence.bad:
            self._bad.add(error.source, error.offset, error.reason, None)
        self._log_notes = evidence.notes()
        for node, timeout_ms in evidence.node_timeouts_ms.items():
            keep_shortest(self._polled_timeouts_ms, node, timeout_ms)
        if self._polled_timeouts_ms and self._links is None:
            self._settle_timeout()
        self._statements = (self._statements[0] + len(evidence.polls), self._statements[1] + len(evidence.logs))
        if not self._dispatcher.tell(evidence.statements, evidence.homes):
            self._is_late = True
            return
        for node, version in evidence.versions:
            if node in self._signs or len(self._signs) < NODES_MAX:
                self._signs.setdefault(node, ProfileSigns()).note_version(version)
        if evidence.polls:
            yield self._table(captured.POLLS, NODE_POLLS, evidence.polls)
        if evidence.logs:
            yield self._table(captured.LOGS, LOG_EVENTS, evidence.logs)
        if evidence.metrics:
            yield self._table(captured.METRICS, METRIC_SAMPLES, list(self._metrics.of(evidence.metrics)))

    def _take(self, batch: BusBatch, bitmap_rows: list[dict[str, Any]], *, is_end: bool = False) -> None:
        """Number the messages of a batch, hand out their rows and pass their sightings on."""
        place = self._series.place
        self._bad.take(place, batch, self._messages, is_end=is_end)
        if not len(batch) and not len(batch.events):
            return
        nodes, texts, addresses = self._texts.of(batch)
        note_signs(batch, nodes, self._signs)
        ids, new = self._bitmaps.of(batch)
        for number, row in new:
            slots = SlotSet.from_wire(self._bitmaps.contents[number])
            bitmap_row = {"bitmap_id": number, "slots": str(slots), "slot_count": len(slots)}
            bitmap_rows.append(bitmap_row | {"message_id": self._messages + row})
        first_id = self._messages
        self._messages += len(batch)
        if len(batch):
            columns = message_columns(
                batch,
                first_id=first_id,
                bitmap_ids=ids,
                file=files_of(batch, place),
                nodes=nodes,
                texts=texts,
                addresses=addresses,
            )
            self._rows.add(columns, len(batch))
        asked = columns_of(batch, ids)
        if self._links is not None:
            self._follow(batch, first_id, asked, nodes, addresses)
            return
        self._ages.note(batch, np.where(asked.full, asked.senders, -1), asked.order, nodes)
        self._withheld.append((_needed(batch), first_id, tuple(asked), nodes, addresses))
        if self._ages.is_over:
            self._settle_timeout()

    def _settle_timeout(self) -> None:
        """The node timeout is known as well as it will be: follow the messages that were withheld."""
        polled_ms = self._polled_timeouts_ms.values()
        self._timeout_ms = (mode(polled_ms) if polled_ms else timeout_of(self._ages.ages)) or DEFAULT_NODE_TIMEOUT_MS
        self._links = LinkMeter(self._timeout_ms * 1_000_000)
        withheld, self._withheld = self._withheld, []
        for batch, first_id, asked, nodes, addresses in withheld:
            self._follow(batch, first_id, MessageColumns(*asked), nodes, addresses)

    def _follow(
        self, batch: BusBatch, first_id: int, asked: MessageColumns, nodes: list[str], addresses: list[str]
    ) -> None:
        """Pass the sightings of a batch on, but for messages that change nothing."""
        seen = SeenMessages(batch.messages, asked.senders, nodes, asked.order)
        take = bind(self._take_passing, batch, first_id, asked)
        if self._known_links is None:
            self._known_links = KnownLinks(self._dispatcher, self._meter, self._outbox.number_of)
        at = 0
        while (at := self._known_links.pass_on(seen, at, take)) < len(seen):
            sighting = sighting_at(batch, at, first_id, asked, nodes, addresses)
            at += 1
            if sighting is None:
                continue
            if sighting.kind == "gap":
                self._known_links.settle(sighting.connection)
            self._pass_on(self._dispatcher.feed(sighting))

    def _take_passing(
        self, batch: BusBatch, first_id: int, asked: MessageColumns, first_number: int, passing: OrderedMessages
    ) -> None:
        self._times = (self._times[0] or int(passing.ts_ns[0]), int(passing.ts_ns[-1]))
        self._outbox.put_passing(batch, first_id, asked.bitmaps, first_number, passing)

    def _advance_alone(self) -> None:
        """Pass polls and logs on where no captures came; of a landing those up to the watermark."""
        turns = self._turns
        if self._is_landing and self._links is None and turns.watermark_ns > turns.first_ns + ALONE_NS:
            self._settle_timeout()
        if self._links is not None:
            self._pass_on(self._dispatcher.advance(turns.watermark_ns if self._is_landing else NEVER_NS))

    # -- evidence --------------------------------------------------------------------------------------------------

    def _pass_on(self, evidence: list[OrderedEvidence]) -> None:
        for ordered in evidence:
            if not self._times[0]:
                self._times = (ordered.ts_ns, ordered.ts_ns)
            self._times = (self._times[0], ordered.ts_ns)
            self._deliver(ordered)

    def _deliver(self, ordered: OrderedEvidence) -> None:
        sighting = ordered.item
        if isinstance(sighting, BusSighting) and sighting.kind == "gap" and len(self._gaps) < BAD_ROWS_MAX:
            ways = (ordered.opener, ordered.acceptor) if sighting.from_opener else (ordered.acceptor, ordered.opener)
            self._gaps.append((*ways, ordered.since_ns, ordered.ts_ns, sighting.total_bytes))
        if isinstance(sighting, BusSighting) and sighting.kind == "message":
            ends = [self._dispatcher.id_of(ordered.opener), self._dispatcher.id_of(ordered.acceptor)]
            source, target = ends if sighting.from_opener else ends[::-1]
            self._meter.note(
                sighting.sender or source,
                target,
                sighting.connection,
                sighting.type,
                sighting.total_bytes,
                ordered.ts_ns,
            )
        for delivery in deliveries(ordered):
            self._outbox.put(delivery)

    def _flush(self, phase: int, bytes_min: int = 0) -> None:
        """Hand out evidence when enough is there; the initial state of machines goes first."""
        if self._outbox.is_empty or (self._is_begun and self._outbox.size_bytes < bytes_min):
            return
        if not self._is_begun:
            self._is_begun = True
            begin = {"node_timeout_ms": self._timeout_ms, "start_ns": start_of(self._times[0])}
            self._side.give(bind(iter, [blob_row(captured.BEGIN, phase, json.dumps(begin).encode())]))
        self._side.give(bind(_packed_evidence, phase, self._outbox.flush(self._bitmaps.contents)))

    def _finish(self, bitmap_rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that later captures may revise."""
        for batch in ahead(self._series.provisional(self._decoder), prepare=step_back):
            self._take(batch, bitmap_rows)
            self._flush(PROVISIONAL, FLUSH_BYTES // 4)  # machines have nothing else to do
            yield from self._side.done()
        self._take(self._decoder.end_packets(), bitmap_rows)
        self._take(self._decoder.finish(), bitmap_rows, is_end=self._is_landing)
        if self._links is None:
            self._settle_timeout()
        self._pass_on(self._dispatcher.finish())
        self._flush(PROVISIONAL)
        yield self._table(captured.LINK_ROWS, LINKS, link_rows(self._meter, self._times[1]))
        yield self._table(captured.GAP_ROWS, GAPS, list(self._gap_rows()))
        if self._is_landing:
            yield self._table(captured.UNRECORDED_ROWS, UNRECORDED, list(self._unrecorded.rows(self._ahead_ns)))

    def _gap_rows(self) -> Iterator[dict[str, Any]]:
        for number, (source, target, from_ns, to_ns, count) in enumerate(self._gaps, 1):
            ends = {"source_id": self._dispatcher.id_of(source), "target_id": self._dispatcher.id_of(target)}
            yield {"gap": number, **ends, **times("valid_from", from_ns), **times("valid_to", to_ns), "bytes": count}

    # -- facts and caveats -----------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        number = self._dispatcher.number if self._links is not None else 0
        return {"settled_messages": self._messages, "settled_by": number}

    def _final_facts(self) -> dict[str, Any]:
        given = self._options.node_timeout_ms is not None or self._polled_timeouts_ms
        estimated = timeout_of(self._ages.ages) is not None
        return {
            "messages": self._messages,
            "fresh_messages": self._messages - self._known_messages,
            "first_ns": min(filter(None, (self._times[0], self._metrics.first_ns)), default=0),
            "last_ns": max(self._times[1], self._metrics.last_ns),
            "node_timeout_ms": self._timeout_ms,
            "node_timeout_from": "given" if given else "estimated" if estimated else "default",
            "processes": [[p.ip, p.port, node] for p, node in self._dispatcher.processes().items()],
            "machines": len(self._processes),
            "polls": self._statements[0],
            "log_events": self._statements[1],
            "metrics_before": self._metrics.before,
            "scrapes": self._metrics.scrapes,
            "repeated_bytes": self._decoder.repeated_bytes,
            "clock_steps": len(self._dispatcher.clock_steps),
            "bad_records": self._bad.count,
            "notes": [
                *self._unrecorded.notes(*self._times, self._ahead_ns),
                *self._point_notes,
                *self._log_notes,
                *self._unknown_clocks,
                *self._bad.notes(),
            ],
            "watermark_ns": self._turns.watermark_ns,
            "left_out": [*self._late, *self._series.late],
            "profiles": sorted({signs.profile.name for signs in self._signs.values()}),
            "fitting": sorted({shown(signs.fitting) for signs in self._signs.values() if len(signs.fitting) > 1}),
        }

    def _table(self, kind: int, table: Table, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return blob_row(kind, SETTLED, packed_table(pa.Table.from_pylist(rows, schema=table.unlabelled)))


def start_of(first_ns: int) -> int:
    """When machines begin, given the time of the first evidence, 0 for none."""
    return first_ns - PRELUDE_NS if first_ns else 0


def _needed(batch: BusBatch) -> BusBatch:
    """Columns of a batch that the dispatcher needs."""
    nothing = np.zeros(0, np.uint8)
    rest: dict[str, Any] = dict.fromkeys(
        ("channel_data", "extension_data", "nodes", "texts", "bitmaps", "addresses"), nothing
    )
    rest |= {name: getattr(batch, name)[:0].copy() for name in ("gossip", "extensions")}
    return replace(batch, rows=[], **rest)


def _packed_evidence(phase: int, blobs: Iterator[tuple[str, int, bytes]]) -> Iterator[pa.RecordBatch]:
    for part, number, blob in blobs:
        yield blob_row(captured.EVIDENCE, phase, blob, part, number)
