"""Activity of slots from files: CLUSTER SLOT-STATS and MONITOR, combined into one figure a slot and metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.slot_stats import (
    COUNTERS,
    LINE_BYTES_MAX,
    SlotSample,
    read_monitor_line,
    read_slot_stats,
    read_slot_stats_line,
)
from cluster_core.load.windows import CounterSample, combine, counter_deltas, rates
from cluster_core.routing.key_positions import TABLES, CommandTable, key_positions, table_of
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from slotscope.runtime.errors import InputError
from slotscope.sources.files import expand, read_lines

OPS = "ops"
REPLY_BYTES_MAX = 64 << 20
EDGES_KEPT_BELOW = 3
"""The first and the last window of MONITOR logs are cut somewhere; with as many windows as this they are left out."""
BAD_LISTED_MAX = 10_000


class BadRecord(NamedTuple):
    """Unreadable records of the files."""

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
    """All figures, and the unreadable records."""

    figures: list[SlotFigure] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)

    def metrics(self) -> list[str]:
        """Return the metrics that were measured, in order of name."""
        return sorted({figure.metric for figure in self.figures})

    def loads(self, metric: str) -> list[float]:
        """Return one load a slot; 0 for a slot without a figure."""
        sums = [0.0] * SLOT_COUNT
        for figure in self.figures:
            if figure.metric == metric:
                sums[figure.slot] = figure.value
        return sums


def read_activity(
    slot_stats: Sequence[str],
    monitor: Sequence[str] = (),
    *,
    how: str,
    window_s: float = 60.0,
    left_out: Collection[str] = (),
    permissive: bool = False,
) -> Activity:
    """Return the figures of every slot; polls of *left_out* nodes (replicas) do not count.

    Commands of MONITOR logs count in windows of *window_s*.

    Raises DecodeError for missing files, and for bad input unless *permissive*; InputError for too few polls.
    """
    activity = Activity()
    readings: dict[tuple[str, int], list[CounterSample]] = {}
    for number, file in enumerate(expand(list(slot_stats)) if slot_stats else []):
        for sample in _read_polls(file.path, activity.bad if permissive else None):
            if sample.node not in left_out:
                reading = CounterSample(number if sample.ts_ns is None else sample.ts_ns, sample.node, sample.value)
                readings.setdefault((sample.metric, sample.slot), []).append(reading)
    activity.figures = [
        figure for key, held in sorted(readings.items()) if (figure := _combined(key, sorted(held), how))
    ]
    activity.figures += _operations(monitor, window_s, how, activity.bad if permissive else None)
    if {metric for metric, _ in readings} & COUNTERS and not set(activity.metrics()) & COUNTERS:
        raise InputError("one poll of SLOT-STATS has no rates: give two or more, taken some time apart")
    return activity


def _combined(key: tuple[str, int], held: Sequence[CounterSample], how: str) -> SlotFigure | None:
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


def _operations(
    patterns: Sequence[str], window_s: float, how: str, bad: list[BadRecord] | None
) -> Iterator[SlotFigure]:
    """Commands a second of each slot: a command counts once for each slot of its keys, a window without one as 0."""
    counted: Counter[tuple[int, int]] = Counter()
    windows: set[int] = set()
    for file in expand(list(patterns)) if patterns else []:
        for number, raw in read_lines(file.path, LINE_BYTES_MAX):
            try:
                line = read_monitor_line(raw, offset=number, source=file.path)
            except DecodeError as error:
                _note(error, bad)
                line = None
            if line is not None:
                window = line.ts_ns // round(window_s * 1e9)
                windows.add(window)
                counted.update((slot, window) for slot in _slots_of(line.arguments))
    whole = sorted(windows)[1:-1] if len(windows) >= EDGES_KEPT_BELOW else sorted(windows)
    for slot in sorted({slot for slot, _ in counted}):
        yield SlotFigure(OPS, slot, combine([counted[slot, window] / window_s for window in whole], how), len(whole), 0)


def _slots_of(arguments: Sequence[bytes]) -> set[int]:
    info = next((info for table in _tables() if (info := table.find(arguments)) is not None), None)
    return set() if info is None else {key_slot(arguments[at]) for at in key_positions(arguments, info)}


@cache
def _tables() -> list[CommandTable]:
    return [table_of(name) for name in reversed(TABLES)]


def _note(error: DecodeError, bad: list[BadRecord] | None) -> None:
    if bad is None:
        raise error
    if len(bad) < BAD_LISTED_MAX:
        bad.append(BadRecord(error.source, error.offset, error.reason))
