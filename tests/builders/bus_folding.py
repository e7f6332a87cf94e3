"""Replays of captures that are cut into files at any packet, without Spark, in a form that can be compared."""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from cluster_core.replay.rows import ReplayRow
from slotscope.sources.bus import captured
from slotscope.sources.bus.blobs import unpacked_table
from slotscope.sources.bus.evidence import CaptureOptions, CaptureTask, start_of
from slotscope.sources.bus.files import find_captures, recorded_inputs, survey
from slotscope.sources.bus.observers import STATE_PHASE, ProcessBlob, ReplayOptions, RowCollector, replay_process
from slotscope.sources.bus.polls_and_logs import PollsAndLogs

FILE_HEADER_BYTES = 24


@dataclass
class Fold:
    """What the tables would hold after a fold, and the states."""

    capture: bytes = b""
    observers: dict[str, bytes] = field(default_factory=dict)
    settled_by: int = -1
    settled_messages: int = 0
    rows: list[tuple[ReplayRow, int | None]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    bitmaps: list[dict[str, Any]] = field(default_factory=list)
    bad: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    gaps: list[dict[str, Any]] = field(default_factory=list)
    unrecorded: list[dict[str, Any]] = field(default_factory=list)
    polls: list[dict[str, Any]] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def comparable(self) -> dict[str, Any]:
        """All of it but where in which file a thing stood."""
        return {
            "rows": sorted(map(repr, self.rows)),
            "messages": [{k: v for k, v in m.items() if k not in ("file", "offset")} for m in self.messages],
            "bitmaps": self.bitmaps,
            "bad": [(row["reason"], row["skipped_bytes"]) for row in self.bad],
            "links": self.links,
            "gaps": self.gaps,
            "facts": {name: value for name, value in self.facts.items() if name != "fresh_messages"},
        }


class Kept(RowCollector):
    def __init__(self, *, keeps_states: bool) -> None:
        super().__init__(keeps_states=keeps_states)
        self.blobs: dict[str, bytes] = {}
        self.rows: list[tuple[ReplayRow, int | None]] = []

    def add(self, rows: list[ReplayRow], settled_by: int | None) -> None:
        self.rows += [(row, settled_by) for row in rows]

    def add_state(self, part: str, blob: bytes) -> None:
        self.blobs[part] = blob


def fold(
    files: Sequence[Path],
    before: Fold | None = None,
    *,
    permissive: bool = False,
    statements: PollsAndLogs | None = None,
    **options: Any,
) -> Fold:
    """Fold *files*, and polls and logs, into what *before* holds."""
    survey_ = survey(find_captures([str(path) for path in files]), alone=before is None)
    what = CaptureOptions(tuple(survey_), statements or PollsAndLogs(), permissive=permissive, **options)
    return _folded(what, before)


def fold_recorded(files: Sequence[Path], before: Fold | None = None, **options: Any) -> Fold:
    """Fold files of a landing into what *before* holds."""
    inputs = recorded_inputs((str(path), 0) for path in files)
    return _folded(CaptureOptions((), PollsAndLogs(), permissive=True, recorded=tuple(inputs), **options), before)


def _folded(options: CaptureOptions, before: Fold | None) -> Fold:
    state = before.capture if before is not None else None
    after, blobs = Fold(), {}
    for batch in CaptureTask(replace(options, state=state)).run():
        for row in batch.to_pylist():
            _take(after, blobs, row)
    before = before or Fold()
    facts = after.facts
    after.settled_by, after.settled_messages = facts["settled_by"], facts["settled_messages"]
    after.rows = [(row, by) for row, by in before.rows if by is not None and by <= before.settled_by]
    after.messages = [m for m in before.messages if m["message_id"] < before.settled_messages] + after.messages
    after.bitmaps = [b for b in before.bitmaps if b["message_id"] < before.settled_messages] + after.bitmaps
    settled = facts["settled_by"] > 0
    replay_options = ReplayOptions(facts["node_timeout_ms"], start_of(facts["first_ns"]), None, settled)
    kept = Kept(keeps_states=settled)
    for part in sorted({*blobs, *before.observers}):
        pieces = sorted(blobs.get(part, []), key=lambda piece: piece[1:3])
        if part in before.observers:
            pieces.insert(0, ProcessBlob(part, STATE_PHASE, 0, before.observers[part]))
        deque(replay_process(part, pieces, replay_options, kept), maxlen=0)
    after.rows += kept.rows
    after.observers = kept.blobs
    return after


def _take(after: Fold, blobs: dict[str, list[ProcessBlob]], row: dict[str, Any]) -> None:
    kind, blob = row["row_kind"], row["blob"]
    if kind == captured.EVIDENCE:
        blobs.setdefault(row["part"], []).append(ProcessBlob(row["part"], row["phase"], row["number"], blob))
    elif kind == captured.META:
        after.facts = json.loads(blob)
    elif kind == captured.STATE:
        after.capture = blob
    elif kind not in (captured.BEGIN, captured.STORED):
        rows = unpacked_table(blob).to_pylist()
        lists = {captured.BITMAPS: after.bitmaps, captured.BAD: after.bad, captured.LINK_ROWS: after.links}
        lists |= {captured.MESSAGE: after.messages, captured.POLLS: after.polls, captured.LOGS: after.logs}
        lists |= {
            captured.GAP_ROWS: after.gaps,
            captured.UNRECORDED_ROWS: after.unrecorded,
            captured.METRICS: after.metrics,
        }
        lists[kind].extend(rows)


def packet_ends(raw: bytes) -> list[int]:
    """Where each packet of a little-endian pcap ends."""
    at, ends = FILE_HEADER_BYTES, []
    while at + 16 <= len(raw):
        at += 16 + struct.unpack_from("<I", raw, at + 8)[0]
        ends.append(at)
    return ends


def cut(raw: bytes, at: Sequence[int], folder: Path) -> list[Path]:
    """Write the capture as several files, cut at the byte positions *at*."""
    edges = [FILE_HEADER_BYTES, *sorted(at), len(raw)]
    paths = []
    for index, (start, end) in enumerate(pairwise(edges)):
        path = folder / f"part-{index:03d}.pcap"
        path.write_bytes(raw[:FILE_HEADER_BYTES] + raw[start:end])
        paths.append(path)
    return paths
