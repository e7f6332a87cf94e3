"""How true replays of recordings are: ``python -m benchmarks.fidelity FOLDER``.

For every recording under a folder: the share of (sample, node) rows of CLUSTER NODES that the replayed view shows as recorded, by field, from
the capture alone and with polls or logs as further input; events of the logs one to one.

A recording is a folder with ``bus.pcap`` (or ``bus.pcap.gz``, several if rotated), ``truth.jsonl`` (``.gz``: lines of t, t2, port, id, kind; of
kind ``cluster`` also nodes, the text of CLUSTER NODES) and ``logs/PORT.log`` (``.gz``).  It is replayed by the tasks of
``history``, in this process.  A row is right when the view at some instant close to the answer shows the same; the observer's own row may be
late by more, as only its next message shows what an operator changed on it.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.log_clock import PAIRED_KINDS, SourceEvent
from cluster_core.replay.observer import ObserverReplay
from cluster_core.replay.rows import EventRow, NodeViewRow, ReplayRow
from slotscope.options import Paths, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.sources.bus import captured
from slotscope.sources.bus.blobs import EvidenceReader
from slotscope.sources.bus.evidence import PRELUDE_NS, CaptureOptions, CaptureTask
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from slotscope.sources.server_logs import LogOptions, ServerLog

SLACK_NS: Final = 250_000_000
"""How far from the answer the view may show the same."""
EVENT_SLACK_NS: Final = 150_000_000
"""A log line and its message are at most so far apart (one cron tick and a half)."""
OWN_SLACK_NS: Final = 1_100_000_000
"""The same for the observer's own row: the longest time between two of its messages."""
FIELDS: Final = ("known", "role", "master", "config_epoch", "slots", "pfail", "fail")


class SampleRow(NamedTuple):
    """One line of a CLUSTER NODES answer, reduced to what is compared."""

    node_id: str
    role: str
    master: str
    config_epoch: int
    slots: str
    pfail: bool
    fail: bool


class Sample(NamedTuple):
    """One CLUSTER NODES answer, asked at *from_ns* and answered by *to_ns*."""

    observer: str
    from_ns: int
    to_ns: int
    rows: tuple[SampleRow, ...]


class Verdict(NamedTuple):
    """One (sample, node) row: *wrong* names the fields that no instant nearby shows as recorded; empty when right."""

    observer: str
    ts_ns: int
    node_id: str
    wrong: tuple[str, ...]
    expected: SampleRow | None
    got: SampleRow | None


def read_sample(observer: str, from_ns: int, to_ns: int, text: str) -> Sample | None:
    """Read a CLUSTER NODES answer (R128); None when it lists a handshake or has a line that is none."""
    rows = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 8 or not fields[6].isdigit():
            return None
        flags = fields[2].split(",")
        if "handshake" in flags:
            return None
        slots = " ".join(word for word in fields[8:] if not word.startswith("["))
        master = "" if fields[3] == "-" else fields[3]
        rows.append(_row(fields[0], flags, master, int(fields[6]), slots))
    return Sample(observer, from_ns, to_ns, tuple(rows))


def sample_row_of(view: NodeViewRow) -> SampleRow:
    """Reduce a view row to what is compared."""
    return _row(view.node_id, view.flags.split(","), view.master_id, view.config_epoch, view.slots)


def _row(node_id: str, flags: list[str], master: str, config_epoch: int, slots: str) -> SampleRow:
    role = "slave" if "slave" in flags else "master" if "master" in flags else ""
    return SampleRow(node_id, role, master, config_epoch, slots, "fail?" in flags, "fail" in flags)


def compare_views(views: Iterable[NodeViewRow], samples: Iterable[Sample]) -> list[Verdict]:
    """Judge every row of every sample against the intervals of its observer."""
    by_observer: dict[str, dict[str, list[NodeViewRow]]] = {}
    for view in views:
        by_observer.setdefault(view.observer, {}).setdefault(view.node_id, []).append(view)
    return [verdict for sample in samples for verdict in _judge(sample, by_observer.get(sample.observer, {}))]


def _judge(sample: Sample, known: dict[str, list[NodeViewRow]]) -> list[Verdict]:
    recorded = {row.node_id: row for row in sample.rows}
    verdicts = []
    for node_id in dict.fromkeys([*recorded, *known]):
        slack_ns = OWN_SLACK_NS if node_id == sample.observer else SLACK_NS
        start_ns, end_ns = sample.from_ns - slack_ns, sample.to_ns + slack_ns
        intervals = known.get(node_id, [])
        near = [
            v for v in intervals if v.valid_from_ns <= end_ns and (v.valid_to_ns is None or v.valid_to_ns >= start_ns)
        ]
        expected = recorded.get(node_id)
        if expected is None:
            if near and _covers(near, start_ns, end_ns):
                verdicts.append(_verdict(sample, node_id, ("known",), None, sample_row_of(near[0])))
            continue
        candidates = [sample_row_of(view) for view in near]
        verdicts.append(
            _verdict(
                sample, node_id, _wrong_fields(expected, candidates), expected, candidates[0] if candidates else None
            )
        )
    return verdicts


def _covers(near: list[NodeViewRow], start_ns: int, end_ns: int) -> bool:
    """Whether the intervals leave no instant of the window free."""
    at = start_ns
    for view in sorted(near, key=lambda view: view.valid_from_ns):
        if view.valid_from_ns > at:
            return False
        if view.valid_to_ns is None:
            return True
        at = max(at, view.valid_to_ns)
    return at >= end_ns


def _wrong_fields(expected: SampleRow, candidates: list[SampleRow]) -> tuple[str, ...]:
    """The fewest fields in which a candidate differs."""
    if not candidates:
        return ("known",)
    differences = [
        tuple(field for field in FIELDS[1:] if getattr(expected, field) != getattr(row, field)) for row in candidates
    ]
    return min(differences, key=len)


def _verdict(
    sample: Sample, node_id: str, wrong: tuple[str, ...], expected: SampleRow | None, got: SampleRow | None
) -> Verdict:
    return Verdict(sample.observer, sample.from_ns, node_id, wrong, expected, got)


class Score(NamedTuple):
    """Rows judged, rows right, and wrong rows by field."""

    rows: int
    right: int
    wrong: dict[str, int]

    @property
    def percent(self) -> float:
        """The share of right rows."""
        return 100.0 * self.right / self.rows if self.rows else 100.0


def score(verdicts: Iterable[Verdict]) -> Score:
    """Sum up verdicts."""
    rows = right = 0
    wrong = dict.fromkeys(FIELDS, 0)
    for verdict in verdicts:
        rows += 1
        right += not verdict.wrong
        for name in verdict.wrong:
            wrong[name] += 1
    return Score(rows, right, wrong)


TRUTH: Final = ("truth.jsonl", "truth.jsonl.gz")


@dataclass(slots=True)
class Replayed:
    """What a replay of a recording gave: rows, and the events of every process."""

    node_timeout_ms: int
    timeout_from: str
    messages: int
    rows: list[ReplayRow] = field(default_factory=list)
    events: dict[Endpoint, list[SourceEvent]] = field(default_factory=dict)

    @property
    def views(self) -> list[NodeViewRow]:
        """The intervals of belief."""
        return [row for row in self.rows if isinstance(row, NodeViewRow)]


@dataclass(frozen=True, slots=True)
class Recording:
    """A folder that holds one."""

    path: Path

    @property
    def name(self) -> str:
        """Server and scenario, as the folders are called."""
        return f"{self.path.parent.name}/{self.path.name}"

    def captures(self) -> list[str]:
        """The capture files."""
        return [str(path) for path in sorted(self.path.glob("bus.pcap*"))]

    def logs(self) -> list[Path]:
        """The servers' logs, named by their ports."""
        return sorted(self.path.glob("logs/*.log*"))

    def truth(self) -> Iterator[dict[str, Any]]:
        """The lines of kind ``cluster``."""
        for name in TRUTH:
            path = self.path / name
            if path.exists():
                opened = gzip.open if name.endswith(".gz") else open
                with opened(path, "rt", encoding="utf-8") as lines:
                    yield from (record for record in map(json.loads, lines) if record["kind"] == "cluster")
                return

    def samples(self) -> list[Sample]:
        """Every CLUSTER NODES answer that lists no handshake, by the id that it bears itself."""
        parsed = []
        for record in self.truth():
            text = record["nodes"]
            me = next((line.split()[0] for line in text.splitlines() if "myself" in line), record["id"])
            sample = read_sample(me, record["t"], record["t2"], text)
            if sample is not None:
                parsed.append(sample)
        return parsed

    def polls(self, every: int, target: Path) -> str:
        """Write each *every*-th answer as polls to *target*."""
        with open(target, "w", encoding="utf-8") as out:
            for index, record in enumerate(self.truth()):
                if index % every == 0:
                    poll = {
                        "time": record["t2"],
                        "asked": record["t"],
                        "node": record["id"] or "",
                        "text": record["nodes"],
                    }
                    out.write(json.dumps(poll) + "\n")
        return str(target)

    def logged(self, port: int) -> list[SourceEvent] | None:
        """The events in the log of the node at *port* that the bus tells, too; None without a log."""
        path = next((path for path in self.logs() if path.name.split(".")[0] == str(port)), None)
        if path is None:
            return None
        rows = (line.row for line in ServerLog(str(path), LogOptions(permissive=True)))
        return [
            SourceEvent(row.ts_ns, row.kind, row.subject, row.epoch or 0) for row in rows if row.kind in PAIRED_KINDS
        ]

    def replay(self, statements: PollsAndLogs | None = None, *, node_timeout_ms: int | None = None) -> Replayed:
        """Run both tasks of the job."""
        options = CaptureOptions(
            tuple(survey(find_captures(self.captures()))),
            statements or PollsAndLogs(),
            node_timeout_ms=node_timeout_ms,
            permissive=True,
        )
        return replay(options)


def find_recordings(root: str) -> list[Recording]:
    """All recordings under *root* that hold a bus capture and a truth."""
    folders = sorted({path.parent for path in Path(root).glob("**/bus.pcap*")})
    return [Recording(folder) for folder in folders if any((folder / name).exists() for name in TRUTH)]


def replay(options: CaptureOptions) -> Replayed:
    """Run both tasks of the job in this process."""
    blobs: dict[str, list[bytes]] = {}
    facts: dict[str, Any] = {}
    for batch in CaptureTask(options).run():
        kinds = batch.column("row_kind").to_pylist()
        for row, kind in enumerate(kinds):
            if kind == captured.EVIDENCE:
                blobs.setdefault(batch.column("part")[row].as_py(), []).append(batch.column("blob")[row].as_py())
            elif kind == captured.META:
                facts = json.loads(batch.column("blob")[row].as_py())
    replayed_capture = Replayed(facts["node_timeout_ms"], facts["node_timeout_from"], facts["messages"])
    start_ns = facts["first_ns"] - PRELUDE_NS if facts["first_ns"] else None
    for part, pieces in sorted(blobs.items()):
        ip, _, port = part.rpartition("|")
        _replay_process(Endpoint(ip, int(port)), pieces, start_ns, replayed_capture)
    return replayed_capture


def _replay_process(process: Endpoint, pieces: list[bytes], start_ns: int | None, replayed: Replayed) -> None:
    machine = ObserverReplay(process, node_timeout_ms=replayed.node_timeout_ms, start_ns=start_ns)
    rows: list[ReplayRow] = []
    reader = EvidenceReader()
    for blob in pieces:
        for _, evidence in reader.read(blob):
            rows += machine.feed(evidence)
    rows += machine.finish()
    events = (row for row in rows if isinstance(row, EventRow) and row.kind in PAIRED_KINDS)
    replayed.events[process] = [SourceEvent(row.ts_ns, row.kind, row.subject, row.epoch) for row in events]
    replayed.rows += rows


class Agreement(NamedTuple):
    """Events of one kind: told by both sides within the slack, only by the log, only by the packets."""

    both: int
    log_only: tuple[SourceEvent, ...]
    bus_only: tuple[SourceEvent, ...]


def compare_events(
    logged: Iterable[SourceEvent], captured: Iterable[SourceEvent], *, slack_ns: int = EVENT_SLACK_NS
) -> dict[str, Agreement]:
    """Pair one observer's events by kind and time, each with the nearest that is free, and say what is left over."""
    agreements: dict[str, Agreement] = {}
    logs, buses = sorted(logged), sorted(captured)
    for kind in PAIRED_KINDS:
        free = [event for event in buses if event.kind == kind]
        alone: list[SourceEvent] = []
        both = 0
        for event in (event for event in logs if event.kind == kind):
            near = [other for other in free if abs(other.ts_ns - event.ts_ns) <= slack_ns]
            if near:
                free.remove(min(near, key=lambda other: abs(other.ts_ns - event.ts_ns)))
                both += 1
            else:
                alone.append(event)
        agreements[kind] = Agreement(both, tuple(alone), tuple(free))
    return agreements


def judge_events(recording: Recording, replayed: Replayed) -> str:
    """Compare the events of the replay with the logs, one to one."""
    both = 0
    alone: list[str] = []
    for process, events in sorted(replayed.events.items()):
        logged = recording.logged(process.port - 10_000)
        if logged is None:
            continue
        for kind, agreement in compare_events(logged, events).items():
            both += agreement.both
            for side, events in (("log", agreement.log_only), ("bus", agreement.bus_only)):
                alone += [f"{process.port - 10_000} {kind} {side} only at {event.ts_ns}" for event in events]
    return f"events of logs: {both} agree, {len(alone)} do not {'; '.join(alone[:4])}".rstrip()


@options
class Request:
    """Options of `fidelity`."""

    captures: str = field(kw_only=False)
    """Folder with recordings: bus.pcap, truth.jsonl, logs/PORT.log, plain or gzip"""
    scenario: Paths = ()
    """Names of recordings"""
    least: float = 0.0
    """Least percentage; below it the exit code is 3"""


def command(request: Request) -> int | None:
    """Compare replays of recorded clusters with the answers of their servers: from captures alone, with polls, logs and both."""
    recordings = [
        r for r in find_recordings(request.captures) if not request.scenario or r.path.name in request.scenario
    ]
    if not recordings:
        raise InputError(f"{request.captures}: no recordings (folders with bus.pcap and truth.jsonl)")
    lowest = min(_judged(recording) for recording in recordings)
    sys.stdout.write(f"lowest: {lowest:.3f} %\n")
    return cli.PARTIAL if lowest < request.least else None


def _judged(recording: Recording) -> float:
    """Print a line for each set of inputs; return the lowest percentage of right rows."""
    samples, scores = recording.samples(), list[Score]()
    for poll_every, with_logs in ((0, False), (5, False), (0, True), (5, True)):
        replayed = _replay(recording, poll_every, with_logs)
        scores.append(score(compare_views(replayed.views, samples)))
        result = scores[-1]
        label = " ".join(["capture", *(["polls"] if poll_every else []), *(["logs"] if with_logs else [])])
        wrong = ", ".join(f"{name} {count}" for name, count in result.wrong.items() if count) or "none"
        worse = "  WORSE than the capture alone" if result.right < scores[0].right else ""
        sys.stdout.write(
            f"{recording.name} {label}: {result.percent:.3f} %, {result.right}/{result.rows}, wrong: {wrong}"
            f" (T {replayed.node_timeout_ms} ms {replayed.timeout_from}){worse}\n"
        )
        if len(scores) == 1:
            sys.stdout.write(f"{recording.name} {judge_events(recording, replayed)}\n")
    return min(result.percent for result in scores)


def _replay(recording: Recording, poll_every: int, with_logs: bool) -> Replayed:
    with tempfile.TemporaryDirectory(prefix="slotscope-") as folder:
        polls = (recording.polls(poll_every, Path(folder) / "polls.jsonl"),) if poll_every else ()
        logs = tuple(str(path) for path in recording.logs()) if with_logs else ()
        return recording.replay(PollsAndLogs(polls, logs))


if __name__ == "__main__":
    cli.main(command)
