"""Replay edited recordings to incidents without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster_core.incidents.catalogue import find_incidents
from cluster_core.incidents.gaps import GapSeen
from cluster_core.incidents.header_claims import ClaimFolder, ClaimSpan, SentHeader
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Incident
from cluster_core.incidents.thresholds import Thresholds
from cluster_core.replay.rows import ReplayRow
from cluster_core.slots.slot_set import slot_bits
from schemas.caveats import Caveat
from slotscope.pipelines.bus.findings import (
    SnapshotEvidence,
    history_of,
    logged_line,
    open_marks,
    polled_samples,
    with_metrics,
)
from slotscope.pipelines.bus.headers import basis_of
from tests.builders.bus_folding import Fold, fold

NS_PER_MS = 1_000_000


@dataclass
class Replayed:
    """What a replay of captures came to."""

    rows: list[ReplayRow]
    history: History
    incidents: list[Incident]
    notes: list[str]
    facts: dict[str, Any] = field(default_factory=dict)

    def stories(self) -> list[tuple[str, str, str, str]]:
        """Kind, variant and nodes of every incident, in order of time."""
        return [(incident.kind, incident.variant, incident.subject, incident.winner) for incident in self.incidents]

    def of_kind(self, kind: type) -> list[Any]:
        """The rows of one kind."""
        return [row for row in self.rows if isinstance(row, kind)]


def replay_captures(*captures: Path, **options: Any) -> Replayed:
    """Replay *captures*, and polls and logs if they are given as *statements*, and find their incidents."""
    folded = fold(captures, permissive=True, **options)
    rows = [row for row, _ in folded.rows]
    facts = folded.facts
    notes = SnapshotEvidence(
        rows=rows,
        lines=[logged_line(row) for row in folded.logs if row["observer"] or row["address"]],
        samples=polled_samples(row for row in folded.polls if row["observer"]),
        header_claims=list(_claim_span(folded)),
        slots_of={row["bitmap_id"]: slot_bits(row["slots"]) for row in folded.bitmaps},
        gaps=[
            GapSeen(row["source_id"], row["target_id"], row["valid_from_ns"], row["valid_to_ns"]) for row in folded.gaps
        ],
        offsets=[],
        open_marks=list(open_marks(row for row in folded.polls if row["observer"])),
    )
    history, _ = history_of(with_metrics(notes, folded.metrics), basis_of(facts))
    return Replayed(rows, history, find_incidents(history), [Caveat.of(*note) for note in facts["notes"]], facts)


def _claim_span(folded: Fold) -> Sequence[ClaimSpan]:
    thresholds = Thresholds(folded.facts["node_timeout_ms"] * NS_PER_MS)
    folders: dict[str, ClaimFolder] = {}
    for row in folded.messages:
        if row["light"] or row["node_flags"] is None or row["bitmap_id"] is None or not row["sender"]:
            continue
        header = SentHeader(
            row["ts_ns"], row["message_id"], row["node_flags"], row["replicaof"] or "", int(row["current_epoch"]),
            int(row["config_epoch"]), row["bitmap_id"], row["state"], int(row["repl_offset"]),
        )  # fmt: skip
        folders.setdefault(row["sender"], ClaimFolder(row["sender"], thresholds)).feed(header)
    return [span for folder in folders.values() for span in folder.finish(folded.facts["last_ns"])]
