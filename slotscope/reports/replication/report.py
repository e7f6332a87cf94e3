"""What a report on replication says, as plain values read from its tables: who followed whom, every resync, how far the streams had come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.replication import REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS
from slotscope.reports.records import record
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import read_rows

SHOWN_MAX = 1_000
"""Resyncs and pieces of links that are told; the tables hold all."""
OFFSETS_MAX = 5_000
FULL = "full"
LOST = ("connect", "lost")


@dataclass(frozen=True, slots=True)
class Resync:
    """One request to go on, or for everything; *as_foreseen* is None where no answer was captured."""

    resync_id: int
    ts_ns: int
    replica: str
    master: str
    asked: str
    answered: str | None
    as_foreseen: bool | None
    why: str
    dump_bytes: int
    bytes: int
    duration_ms: float | None
    outcome: str


@dataclass(frozen=True, slots=True)
class LinkPiece:
    """Who followed whom while the link was in one state; *valid_to_ns* is None while it holds."""

    link_id: int
    replica: str
    master: str
    state: str
    link_status: str
    valid_from_ns: int
    valid_to_ns: int | None
    offset: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """How far a master had sent a stream; *lag_bytes* are those not yet acknowledged, where the replica acknowledged."""

    ts_ns: int
    replica: str
    master: str
    sent_offset: int
    lag_bytes: int | None


@dataclass(frozen=True, slots=True)
class ReplicationReport:
    """Everything that a report shows, each list in order of time or of link."""

    snapshot_id: str
    resyncs: Sequence[Resync]
    pieces: Sequence[LinkPiece]
    offsets: Sequence[OffsetMark]

    @property
    def first_ns(self) -> int:
        """When the first of it was."""
        return min(self._times(), default=0)

    @property
    def last_ns(self) -> int:
        """When the last of it was."""
        return max(self._times(), default=0)

    def _times(self) -> list[int]:
        asked = [(one.ts_ns + round((one.duration_ms or 0) * 1_000_000)) for one in self.resyncs]
        held = [at for one in self.pieces for at in (one.valid_from_ns, one.valid_to_ns) if at is not None]
        return [*(one.ts_ns for one in self.resyncs), *asked, *held, *(one.ts_ns for one in self.offsets)]

    @property
    def replicas(self) -> list[str]:
        """Who followed anybody, in order of address."""
        return sorted({one.replica for one in self.pieces} | {one.replica for one in self.resyncs})

    @property
    def last_pieces(self) -> list[LinkPiece]:
        """The links that hold at the end."""
        return [one for one in self.pieces if one.valid_to_ns is None]

    @property
    def verdict(self) -> str:
        """How often replicas were sent everything, and whether that was to be expected, in one sentence."""
        if not self.resyncs and not self.pieces:
            return "No replication in these captures."
        full = [one for one in self.resyncs if one.answered == FULL]
        kinds = Counter(one.answered or "unanswered" for one in self.resyncs)
        counts = ", ".join(f"{text.count(count)} {kind}" for kind, count in kinds.items())
        sent = f", {text.size(sum(one.dump_bytes for one in full))} of dumps" if full else ""
        other = sum(one.as_foreseen is False for one in self.resyncs)
        unforeseen = f"; {text.count(other)} not as the traffic before let expect" if other else ""
        down = sum(one.link_status != "up" for one in self.last_pieces)
        end = f"{text.plural(len(self.last_pieces), 'link')} at the end" + (
            f", {text.count(down)} of them down" if down else ""
        )
        return (
            f"{text.plural(len(self.resyncs), 'resync')}"
            + (f" ({counts}{sent})" if counts else "")
            + f"{unforeseen}; {end}."
        )


def load_replication(root: str, snapshot: str) -> ReplicationReport:
    """What the tables hold of *snapshot*; raises InputError where they are not there."""
    resyncs = read_rows(root, RESYNCS, order_by="resync_id", limit=SHOWN_MAX, snapshot_id=snapshot)
    links = read_rows(root, REPLICATION_LINKS, order_by="link_id, piece", limit=SHOWN_MAX, snapshot_id=snapshot)
    offsets = read_rows(root, REPLICATION_OFFSETS, order_by="ts_ns", limit=OFFSETS_MAX, snapshot_id=snapshot)
    return ReplicationReport(
        snapshot,
        [record(Resync, row) for row in resyncs],
        [record(LinkPiece, row) for row in links],
        [record(OffsetMark, row) for row in offsets],
    )
