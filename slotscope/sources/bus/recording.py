"""A recorded scenario (capture, what the servers said of themselves, their logs) and its replay in this process.

The replay is the one of the job, task by task, without Spark.  A recording is a folder with ``bus.pcap`` (or
``bus.pcap.gz``, several if rotated), ``truth.jsonl`` (``.gz``: lines of t, t2, port, id, kind; of kind ``cluster`` also
nodes and info, the texts of CLUSTER NODES and CLUSTER INFO) and ``logs/PORT.log`` (``.gz``).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster_core.replay.evidence import Endpoint, MessageSeen
from cluster_core.replay.fidelity import Sample, read_sample
from cluster_core.replay.log_clock import PAIRED_KINDS, Told
from cluster_core.replay.observer import ObserverReplay
from cluster_core.replay.rows import EventRow, NodeViewRow, ReplayRow
from cluster_core.wire.bus import type_name
from slotscope.sources.bus import captured
from slotscope.sources.bus.blobs import unpack_evidence
from slotscope.sources.bus.evidence import PRELUDE_NS, CaptureOptions, CaptureTask
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from slotscope.sources.server_logs import LogOptions, ServerLog

TRUTH: Final = ("truth.jsonl", "truth.jsonl.gz")


class Counted(NamedTuple):
    """A message that a process sent or received."""

    ts_ns: int
    sent: bool
    name: str


class InfoSample(NamedTuple):
    """The message counters of CLUSTER INFO of the process at *port*, asked at *from_ns* and answered by *to_ns*."""

    port: int
    from_ns: int
    to_ns: int
    counters: dict[tuple[str, bool], int]


@dataclass(slots=True)
class Replayed:
    """What a replay of a recording gave: rows, and the messages of every process."""

    node_timeout_ms: int
    timeout_from: str
    messages: int
    rows: list[ReplayRow] = field(default_factory=list)
    counted: dict[Endpoint, list[Counted]] = field(default_factory=dict)
    events: dict[Endpoint, list[Told]] = field(default_factory=dict)

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
                    yield from (told for told in map(json.loads, lines) if told["kind"] == "cluster")
                return

    def samples(self) -> list[Sample]:
        """Every CLUSTER NODES answer that lists no handshake, by the id that it bears itself."""
        found = []
        for told in self.truth():
            text = told["nodes"]
            me = next((line.split()[0] for line in text.splitlines() if "myself" in line), told["id"])
            sample = read_sample(me, told["t"], told["t2"], text)
            if sample is not None:
                found.append(sample)
        return found

    def infos(self) -> list[InfoSample]:
        """Every CLUSTER INFO answer."""
        return [InfoSample(told["port"], told["t"], told["t2"], _counters(told["info"])) for told in self.truth()]

    def polls(self, every: int, target: Path) -> str:
        """Write each *every*-th answer as polls to *target*."""
        with open(target, "w", encoding="utf-8") as out:
            for index, told in enumerate(self.truth()):
                if index % every == 0:
                    poll = {"time": told["t2"], "asked": told["t"], "node": told["id"] or "", "text": told["nodes"]}
                    out.write(json.dumps(poll) + "\n")
        return str(target)

    def logged(self, port: int) -> list[Told] | None:
        """The events in the log of the node at *port* that the bus tells, too; None without a log."""
        path = next((path for path in self.logs() if path.name.split(".")[0] == str(port)), None)
        if path is None:
            return None
        rows = (line.row for line in ServerLog(str(path), LogOptions(permissive=True)))
        return [Told(row.ts_ns, row.kind, row.subject, row.epoch or 0) for row in rows if row.kind in PAIRED_KINDS]

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
    found = Replayed(facts["node_timeout_ms"], facts["node_timeout_from"], facts["messages"])
    start_ns = facts["first_ns"] - PRELUDE_NS if facts["first_ns"] else None
    for part, pieces in sorted(blobs.items()):
        ip, _, port = part.rpartition("|")
        _replay_process(Endpoint(ip, int(port)), pieces, start_ns, found)
    return found


def _replay_process(process: Endpoint, pieces: list[bytes], start_ns: int | None, found: Replayed) -> None:
    machine = ObserverReplay(process, node_timeout_ms=found.node_timeout_ms, start_ns=start_ns)
    counted = found.counted.setdefault(process, [])
    rows: list[ReplayRow] = []
    for evidence in unpack_evidence(pieces):
        if isinstance(evidence, MessageSeen):
            counted.append(Counted(evidence.ts_ns, evidence.sent, type_name(evidence.message.type)))
        rows += machine.feed(evidence)
    rows += machine.finish()
    events = (row for row in rows if isinstance(row, EventRow) and row.kind in PAIRED_KINDS)
    found.events[process] = [Told(row.ts_ns, row.kind, row.subject, row.epoch) for row in events]
    found.rows += rows


def _counters(text: str) -> dict[tuple[str, bool], int]:
    """The counters by message type and direction of CLUSTER INFO."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.strip().partition(":")
        if name.startswith("cluster_stats_messages_") and value.isdigit():
            word, _, way = name.removeprefix("cluster_stats_messages_").rpartition("_")
            if word:
                found[word, way == "sent"] = int(value)
    return found
