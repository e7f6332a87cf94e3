"""What ``rebalance-plan`` is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to plan with and for; see `jobs.rebalance_plan.command` for the words."""

    root: str
    snapshots: Sequence[str] = ()
    topology: str | None = None
    slot_stats: Sequence[str] = ()
    monitor: Sequence[str] = ()
    counts: Sequence[str] = ()
    combine: str = "last"
    smoothing: float = 0.3
    window_s: float = 60.0
    resources: Sequence[str] = ()
    cost: str | None = None
    tolerance: Sequence[str] = ()
    placement: str | None = None
    gain_min: float = 0.0
    defragment: bool = False
    slot_cost: float | None = None
    range_cost: float | None = None
    seed: int | None = None
    iterations: int = 0
    tolerances: Sequence[float] | None = None
    jobs: int = 1
    zone_jobs: int = 0
    job_slots: int = 0
    bytes_per_s: float | None = None
    permissive: bool = False
    allow_partial: bool = False

    @property
    def needs_spark(self) -> bool:
        """Whether there are files to read that may be large."""
        return bool(self.slot_stats or self.monitor or self.counts)
