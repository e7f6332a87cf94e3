"""What a report on a fleet says, as plain values: one `ClusterState` a cluster, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slotscope.runtime import text

UNEVEN: Final = 1.25
"""A fullest master above this much of the mean is trouble."""
OLD_MS: Final = 2 * 24 * 3_600_000
"""Dumps that are older tell of another day."""
UNNAMED: Final = "(no cluster named)"


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that failed after the last one of its job that did not."""

    job: str
    ended_at_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One cluster, by its newest snapshot of the key space, its newest history, and its last runs; None is not known.

    *skew* is the fullest master over the mean of all, by *skew_by*.
    """

    cluster: str
    snapshot: str | None = None
    taken_at_ms: int | None = None
    is_partial: bool = False
    doubts: int = 0
    """Errors and warnings of the snapshot."""
    masters: int | None = None
    keys: int | None = None
    serialized_bytes: int | None = None
    memory_bytes: int | None = None
    skew: float | None = None
    skew_by: str = ""
    history: str | None = None
    recorded_until_ms: int | None = None
    incidents: int = 0
    open_incidents: int = 0
    open_summary: str = ""
    """Of the newest open incident."""
    failed: tuple[Failed, ...] = ()

    @property
    def size_bytes(self) -> int | None:
        """In memory where that is known, else in the dumps."""
        return self.memory_bytes if self.memory_bytes is not None else self.serialized_bytes


@dataclass(frozen=True, slots=True)
class FleetReport:
    """All clusters, the worst first; *pages* are the addresses of the pages of snapshots and histories, from the page of the fleet."""

    now_ms: int
    clusters: Sequence[ClusterState]
    pages: dict[str, str]

    @property
    def verdict(self) -> str:
        """How many clusters have which trouble, and which is the most uneven, in one sentence."""
        if not self.clusters:
            return "No cluster has a finished or a failed run."
        counts = (
            (sum(bool(one.open_incidents) for one in self.clusters), "with open incidents"),
            (sum(bool(one.failed) for one in self.clusters), "whose last run failed"),
            (sum(one.is_partial for one in self.clusters), "read in part"),
            (sum((one.skew or 0) > UNEVEN for one in self.clusters), f"with a master above {UNEVEN}× the mean"),
            (sum(is_old(one.taken_at_ms, self.now_ms) for one in self.clusters), "with dumps older than two days"),
        )
        told = [f"{text.count(number)} {words}" for number, words in counts if number]
        whole = text.plural(len(self.clusters), "cluster")
        worst = max(self.clusters, key=lambda one: one.skew or 0)
        uneven = (
            ""
            if worst.skew is None
            else f"; the most uneven is {text.printable(worst.cluster, 60)} with {worst.skew:.2f}× the mean {worst.skew_by}"
        )
        return f"{whole}: {', '.join(told) or 'no trouble'}{uneven}."


def is_old(at_ms: int | None, now_ms: int) -> bool:
    """Whether dumps of *at_ms* are old."""
    return at_ms is not None and now_ms - at_ms > OLD_MS


def rank(one: ClusterState) -> tuple[bool | float | str, ...]:
    """What puts worse clusters before others: open incidents, a failed last run, what was read in part, then skew, then age."""
    return (
        -one.open_incidents, not one.failed, not one.is_partial, -(one.skew or 0), one.taken_at_ms or 0, one.cluster,
    )  # fmt: skip


def troubles(one: ClusterState, now_ms: int) -> list[str]:
    """What is wrong with a cluster, a few words each."""
    return [
        *([f"{text.count(one.open_incidents)} open: {one.open_summary}"] if one.open_incidents else []),
        *(f"{failed.job} failed {age(failed.ended_at_ms, now_ms)} ago: {failed.reason}" for failed in one.failed),
        *(["read in part"] if one.is_partial else []),
        *([f"fullest master {one.skew:.2f}× the mean {one.skew_by}"] if one.skew and one.skew > UNEVEN else []),
        *([f"dumps are {age(one.taken_at_ms, now_ms)} old"] if is_old(one.taken_at_ms, now_ms) else []),
        *([f"{text.plural(one.doubts, 'warning')} of its snapshot"] if one.doubts else []),
    ]


def age(at_ms: int | None, now_ms: int) -> str:
    """How long ago *at_ms* was."""
    return text.span(None if at_ms is None else max(now_ms - at_ms, 0) // 1000)
