"""What slots do, from files: polls of CLUSTER SLOT-STATS and counts of keys, combined into one figure a slot and metric."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.slot_stats import (
    COUNTERS,
    LINE_BYTES_MAX,
    SlotSample,
    read_count_line,
    read_slot_stats,
    read_slot_stats_line,
)
from cluster_core.load.windows import Reading, combine, counter_deltas, rates
from cluster_core.slots.key_slot import SLOT_COUNT
from slotscope.runtime.errors import InputError
from slotscope.sources.files import expand, read_lines

REPLY_BYTES_MAX = 64 << 20
BAD_LISTED_MAX = 10_000


class BadRecord(NamedTuple):
    """What could not be read."""

    source: str
    offset: int
    reason: str


class SlotFigure(NamedTuple):
    """One metric of one slot, combined over its windows."""

    metric: str
    slot: int
    value: float
    windows: int
    restarted: int


@dataclass(slots=True)
class Activity:
    """All figures, and what could not be read."""

    figures: list[SlotFigure] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)

    def metrics(self) -> list[str]:
        """Return the metrics that were measured, in order of name."""
        return sorted({figure.metric for figure in self.figures})

    def loads(self, metric: str) -> list[float]:
        """Return one load a slot; 0 for a slot without a figure."""
        found = [0.0] * SLOT_COUNT
        for figure in self.figures:
            if figure.metric == metric:
                found[figure.slot] = figure.value
        return found


def read_activity(
    slot_stats: Sequence[str],
    counts: Sequence[str],
    *,
    how: str,
    left_out: Collection[str] = (),
    permissive: bool = False,
) -> Activity:
    """Return what the files say of every slot; polls of *left_out* nodes (replicas) do not count.

    Raises DecodeError for missing files, and for bad input unless *permissive*; InputError for too few polls.
    """
    found = Activity()
    readings: dict[tuple[str, int], list[Reading]] = {}
    for patterns, read in ((slot_stats, _read_polls), (counts, _read_counts)):
        for number, file in enumerate(expand(list(patterns)) if patterns else []):
            for sample in read(file.path, found.bad if permissive else None):
                if sample.node not in left_out:
                    ts_ns = number if sample.ts_ns is None else sample.ts_ns
                    readings.setdefault((sample.metric, sample.slot), []).append(
                        Reading(ts_ns, sample.node, sample.value)
                    )
    found.figures = [figure for key, held in sorted(readings.items()) if (figure := _combined(key, sorted(held), how))]
    if {metric for metric, _ in readings} & COUNTERS and not set(found.metrics()) & COUNTERS:
        raise InputError("one poll of SLOT-STATS has no rates: give two or more, taken some time apart")
    return found


def _combined(key: tuple[str, int], held: Sequence[Reading], how: str) -> SlotFigure | None:
    """One figure of a slot; None for a counter that was read once."""
    metric, slot = key
    if metric not in COUNTERS:
        return SlotFigure(metric, slot, combine([float(reading.value) for reading in held], how), len(held), 0)
    grown = counter_deltas(held)
    values = rates(grown)
    if not values:
        return None
    return SlotFigure(metric, slot, combine(values, how), len(values), sum(growth.restarted for growth in grown))


def _read_polls(path: str, bad: list[BadRecord] | None) -> Iterator[SlotSample]:
    """Samples of JSON lines, or of a file that is one reply."""
    for line, raw in read_lines(path, LINE_BYTES_MAX):
        try:
            if line == 1 and not raw.lstrip().startswith(b'{"'):
                whole = b"\n".join(each for _, each in read_lines(path, REPLY_BYTES_MAX))
                yield from read_slot_stats(whole, source=path)
                return
            yield from read_slot_stats_line(raw, line=line, source=path)
        except DecodeError as error:
            _note(error, bad)
            if line == 1 and not raw.lstrip().startswith(b'{"'):
                return


def _read_counts(path: str, bad: list[BadRecord] | None) -> Iterator[SlotSample]:
    for line, raw in read_lines(path, LINE_BYTES_MAX):
        try:
            yield read_count_line(raw, line=line, source=path)
        except DecodeError as error:
            _note(error, bad)


def _note(error: DecodeError, bad: list[BadRecord] | None) -> None:
    if bad is None:
        raise error
    if len(bad) < BAD_LISTED_MAX:
        bad.append(BadRecord(error.source, error.offset, error.reason))
