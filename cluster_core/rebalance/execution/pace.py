"""How fast slots move: at most so many bytes a second, so that clients do not wait longer than they may, while the cluster is well.

Slots move in pieces: a group of slots key by key, a part of a job of the servers.  After each comes what is due: a rest that keeps to the
bytes, and where clients waited too long smaller pieces and longer rests, which grow and shrink by half (additive growth would
take minutes to find what a link can bear).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from cluster_core.rebalance.execution.cluster_now import ClusterSight
from cluster_core.rebalance.execution.refusals import HEADROOM, name_of
from cluster_core.rebalance.ordering import Job
from cluster_core.rebalance.stored_plan import StoredPlan

PIECE_S: Final = 1.0
"""A piece is what a limit of bytes lets through in so long."""
PIECE_BYTES_MAX: Final = 16 << 20
"""The first piece where clients' waiting is limited."""
SHARE_MIN: Final = 1 / 64
REST_S_MIN: Final = 0.05
REST_S_MAX: Final = 5.0
"""Longer than waits of clients are remembered (`slotscope.servers.latency`): after such a rest they are of when nothing moved."""
CALM_S: Final = 1.5
"""So long waits of clients are measured before the first piece."""
SIZES: Final = ("serialized_bytes", "memory_bytes")
"""Resources that count as bytes, the first that a plan knows."""


@dataclass(slots=True)
class Pace:
    """What is allowed, and how it goes: pieces are *share* of the usual, *rest_s* follows each; the bytes so far were due until *due_s*."""

    bytes_per_s_max: float | None = None
    latency_ms_max: float | None = None
    share: float = 1.0
    rest_s: float = 0.0
    due_s: float = 0.0

    def count(self, usual: int) -> int:
        """How many of *usual* things a piece has."""
        return max(1, round(usual * self.share))

    @property
    def piece_bytes(self) -> float | None:
        """How many bytes a piece may have; None for any."""
        if self.bytes_per_s_max is None and self.latency_ms_max is None:
            return None
        limit = float(PIECE_BYTES_MAX) if self.bytes_per_s_max is None else self.bytes_per_s_max * PIECE_S
        return limit if self.latency_ms_max is None else min(limit, PIECE_BYTES_MAX * self.share)

    @property
    def is_least(self) -> bool:
        """Whether pieces cannot be smaller, nor rests longer."""
        return self.share == SHARE_MIN and self.rest_s == REST_S_MAX

    def heed(self, latency_ms: float) -> None:
        """Move less, and rest longer, after clients waited longer than they may; more after they did not."""
        if self.latency_ms_max is None:
            return
        if latency_ms > self.latency_ms_max:
            self.share = max(self.share / 2, SHARE_MIN)
            self.rest_s = min(max(self.rest_s * 2, REST_S_MIN), REST_S_MAX)
        else:
            self.share = min(self.share * 2, 1.0)
            self.rest_s = self.rest_s / 2 if self.rest_s > REST_S_MIN else 0.0

    def pause_s(self, moved: float, begun_s: float, now_s: float) -> float:
        """How long to rest now that *moved* bytes have moved since *begun_s*; what was not used before is not made up for."""
        if self.bytes_per_s_max is not None:
            self.due_s = max(self.due_s, begun_s) + moved / self.bytes_per_s_max
        return max(self.rest_s, self.due_s - now_s, 0.0)


def sizes_of(stored: StoredPlan) -> Sequence[float]:
    """Bytes of each slot as the plan has them; nothing where it knows none."""
    loads = stored.problem.loads
    return next(([float(value) for value in loads[name]] for name in SIZES if name in loads), [])


def cut(jobs: Sequence[Job], piece_bytes: float | None, sizes: Sequence[float]) -> tuple[list[Job], list[Job]]:
    """Return the part of *jobs* that together has *piece_bytes* at most, one slot of each at least, and the rest."""
    if piece_bytes is None or not sizes:
        return list(jobs), []
    now, later = [], []
    for job in jobs:
        room, taken = piece_bytes / len(jobs), 0
        while taken < len(job.slots) and (not taken or room >= sizes[job.slots[taken]]):
            room -= sizes[job.slots[taken]]
            taken += 1
        now.append(job._replace(slots=job.slots[:taken]))
        if taken < len(job.slots):
            later.append(job._replace(slots=job.slots[taken:]))
    return now, later


def unwell(stored: StoredPlan, sight: ClusterSight, before: ClusterSight, receivers: Collection[str]) -> str:
    """What is wrong with the cluster that was not so *before* the run, in a sentence; empty if nothing is.

    A *receiver* whose memory is near its limit is wrong, too.
    """
    known = {name for node in before.nodes.values() for name in node.doubted}
    for node in sight.nodes.values():
        if not node.cluster_ok:
            return f"{name_of(stored, node.id)} says that the cluster is not ok (cluster_state)"
        for name in node.doubted:
            if name not in known:
                return f"{name_of(stored, node.id)} does not reach {node.addresses.get(name, '')} ({name[:8]})"
        if node.memory_max and node.id in receivers and node.used_memory > HEADROOM * node.memory_max:
            return f"{name_of(stored, node.id)} uses more than {HEADROOM:.0%} of its maxmemory of {node.memory_max:,} bytes"
    there, were = (sum(node.replicas_online for node in one.nodes.values()) for one in (sight, before))
    if there < were:
        return f"{were - there} of {were} replicas have lost their master (INFO replication)"
    return ""
