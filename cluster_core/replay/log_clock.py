"""Do logs and packets tell the same, at the same time?  Events of one observer from both sides, paired.

Events that leave a message and a log line are paired by what they say (kind, subject, epoch), so that a clock or a time
zone that is wrong by hours is found; one that is right leaves less than a cron tick between the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_low
from typing import Final, NamedTuple

from cluster_core.kinds import EventKind

TOLERATED_NS: Final = 500_000_000
"""Clocks that differ by less do not disturb a replay."""
QUARTER_NS: Final = 15 * 60 * 1_000_000_000
"""Time zones differ by quarters of an hour."""
PAIRED_KINDS: Final = (
    EventKind.FAIL_DECIDED,
    EventKind.ELECTION_STARTED,
    "vote",
    EventKind.ELECTION_WON,
    EventKind.MANUAL_FAILOVER_MFSTART,
)
"""Events that both sides always tell."""


class Told(NamedTuple):
    """An event as one side tells it."""

    ts_ns: int
    kind: EventKind
    subject: str = ""
    epoch: int = 0


class ClockDifference(NamedTuple):
    """How far log times are ahead of packet times: the median of *pairs* events, which differ by *spread_ns*."""

    pairs: int
    ahead_ns: int
    spread_ns: int

    @property
    def warning(self) -> str:
        """What to tell a person; empty when the clocks agree."""
        if abs(self.ahead_ns) <= TOLERATED_NS:
            return ""
        what = f"log times are {abs(self.ahead_ns) / 1e9:.3f} s {'ahead of' if self.ahead_ns > 0 else 'behind'} packets"
        quarters = round(self.ahead_ns / QUARTER_NS)
        if quarters and abs(self.ahead_ns - quarters * QUARTER_NS) <= TOLERATED_NS + self.spread_ns:
            minutes = abs(quarters) * 15
            what += f": the logs are in time zone {'+' if quarters > 0 else '-'}{minutes // 60:02}:{minutes % 60:02}"
            what += " relative to the one given"
        return f"{what} ({self.pairs} events compared)"


def compare_clocks(logged: Iterable[Told], captured: Iterable[Told]) -> ClockDifference | None:
    """Compare the times of one observer's events; None when no event is told by both sides.

    Events that say the same are paired in their order, and only where both sides tell it equally often.
    """
    ours, theirs = _by_content(logged), _by_content(captured)
    ahead = sorted(
        log_ns - bus_ns
        for content, log_times in ours.items()
        if len(log_times) == len(theirs.get(content, ()))
        for log_ns, bus_ns in zip(log_times, theirs[content], strict=True)
    )
    return ClockDifference(len(ahead), median_low(ahead), ahead[-1] - ahead[0]) if ahead else None


def _by_content(events: Iterable[Told]) -> dict[tuple[str, str, int], list[int]]:
    """Times by what an event says; the subject only where both sides name the same one."""
    times: dict[tuple[str, str, int], list[int]] = {}
    for told in sorted(events):
        if told.kind not in PAIRED_KINDS:
            continue
        subject = told.subject if told.kind in (EventKind.FAIL_DECIDED, "vote") else ""
        epoch = told.epoch if told.kind in (EventKind.ELECTION_STARTED, "vote") else 0
        times.setdefault((told.kind, subject, epoch), []).append(told.ts_ns)
    return times
