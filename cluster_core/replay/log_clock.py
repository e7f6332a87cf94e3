"""Compare the clocks of logs and packets by events of one observer in both.

Events are paired by content (kind, subject, epoch), so errors of hours are found.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median_low
from typing import Final, NamedTuple

from cluster_core.kinds import EventKind

TOLERATED_NS: Final = 500_000_000
"""Smaller differences do not affect a replay."""
QUARTER_NS: Final = 15 * 60 * 1_000_000_000
"""Time zones differ by multiples of this."""
PAIRED_KINDS: Final = (
    EventKind.FAIL_DECIDED,
    EventKind.ELECTION_STARTED,
    "vote",
    EventKind.ELECTION_WON,
    EventKind.MANUAL_FAILOVER_MFSTART,
)
"""Events present in both."""


class SourceEvent(NamedTuple):
    """An event in one source."""

    ts_ns: int
    kind: EventKind
    subject: str = ""
    epoch: int = 0


class ClockDifference(NamedTuple):
    """Lead of log times over packet times: median of *pairs* events, with a spread of *spread_ns*."""

    pairs: int
    ahead_ns: int
    spread_ns: int

    @property
    def warning(self) -> str:
        """Return a warning for the user; empty if the clocks agree."""
        if abs(self.ahead_ns) <= TOLERATED_NS:
            return ""
        what = f"log times are {abs(self.ahead_ns) / 1e9:.3f} s {'ahead of' if self.ahead_ns > 0 else 'behind'} packets"
        quarters = round(self.ahead_ns / QUARTER_NS)
        if quarters and abs(self.ahead_ns - quarters * QUARTER_NS) <= TOLERATED_NS + self.spread_ns:
            minutes = abs(quarters) * 15
            what += f": the logs are in time zone {'+' if quarters > 0 else '-'}{minutes // 60:02}:{minutes % 60:02}"
            what += " relative to the one given"
        return f"{what} ({self.pairs} events compared)"


def compare_clocks(logged: Iterable[SourceEvent], captured: Iterable[SourceEvent]) -> ClockDifference | None:
    """Compare the times of one observer's events, paired in order if equally many; None without a common event."""
    ours, theirs = _by_content(logged), _by_content(captured)
    ahead = sorted(
        log_ns - bus_ns
        for content, log_times in ours.items()
        if len(log_times) == len(theirs.get(content, ()))
        for log_ns, bus_ns in zip(log_times, theirs[content], strict=True)
    )
    return ClockDifference(len(ahead), median_low(ahead), ahead[-1] - ahead[0]) if ahead else None


def _by_content(events: Iterable[SourceEvent]) -> dict[tuple[str, str, int], list[int]]:
    """Return times by content; the subject only if both sources name the same."""
    times: dict[tuple[str, str, int], list[int]] = {}
    for event in sorted(events):
        if event.kind not in PAIRED_KINDS:
            continue
        subject = event.subject if event.kind in (EventKind.FAIL_DECIDED, "vote") else ""
        epoch = event.epoch if event.kind in (EventKind.ELECTION_STARTED, "vote") else 0
        times.setdefault((event.kind, subject, epoch), []).append(event.ts_ns)
    return times
