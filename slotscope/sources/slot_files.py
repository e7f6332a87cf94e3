"""Files that say what slots do: SLOT-STATS polls, MONITOR logs, counts of keys.  Read where Python runs, a file or a piece a task.

A MONITOR log leaves a task as counts per window and slot, never a row a command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.formats.slot_stats import (
    COUNTERS,
    LINE_BYTES_MAX,
    MonitorLine,
    read_count_line,
    read_monitor_line,
    read_plain_line,
    read_slot_stats,
    read_slot_stats_line,
)
from cluster_core.load.windows import Reading, combine, counter_deltas, rates
from cluster_core.routing.key_positions import TABLES, CommandTable, KeySpec, key_positions, table_of
from cluster_core.slots.key_slot import key_slot
from schemas.activity import BAD, SAMPLE, SLOT_SAMPLES
from slotscope.sources.files import InputFile, compression_of, expand, open_stream

KINDS = ("slot-stats", "monitor", "counts")
OPS = "ops"
REPLY_BYTES_MAX = 64 << 20
_BLOCK_BYTES = 4 << 20
_PART_BYTES = 64 << 20
_ROWS_PER_BATCH = 1 << 16
_BAD_MAX = 10_000
_UNSURE = frozenset(("incomplete",))

COMBINED_FIELDS = "metric string, slot int, value double, windows int, restarted int"


@dataclass(frozen=True, slots=True)
class ActivityUnit:
    """A file, or the piece of a MONITOR log from *start* to *end*; *number* orders files without times."""

    path: str
    kind: str
    number: int
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class ActivityOptions:
    """*window_ns* is the length of a window of MONITOR; lines of *left_out* nodes (replicas) do not count."""

    window_ns: int
    permissive: bool = False
    left_out: frozenset[str] = frozenset()


def plan_units(slot_stats_files: Sequence[str], monitor: Sequence[str], counts: Sequence[str]) -> list[ActivityUnit]:
    """Return the units of work; raises DecodeError for files that are not there."""
    units = []
    for kind, patterns in zip(KINDS, (slot_stats_files, monitor, counts), strict=True):
        for number, file in enumerate(expand(list(patterns)) if patterns else []):
            units += _cut(file, kind, number)
    return units


def _cut(file: InputFile, kind: str, number: int) -> list[ActivityUnit]:
    if kind != "monitor" or file.size <= _PART_BYTES or compression_of(file.path):
        return [ActivityUnit(file.path, kind, number)]
    starts = range(0, file.size, _PART_BYTES)
    return [ActivityUnit(file.path, kind, number, at, min(at + _PART_BYTES, file.size)) for at in starts]


def read_samples(
    batches: Iterator[pa.RecordBatch], units: Sequence[ActivityUnit], options: ActivityOptions
) -> Iterator[pa.RecordBatch]:
    """Return rows of `SLOT_SAMPLES` of the units whose numbers *batches* hold; DecodeError for bad input unless permissive."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            rows = _UnitReader(units[number], options).rows()
            yield from _as_batches(rows)


def _as_batches(rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    pending: list[dict[str, Any]] = []
    for row in rows:
        pending.append(row)
        if len(pending) >= _ROWS_PER_BATCH:
            yield pa.RecordBatch.from_pylist(pending, schema=SLOT_SAMPLES)
            pending = []
    if pending:
        yield pa.RecordBatch.from_pylist(pending, schema=SLOT_SAMPLES)


class _UnitReader:
    """One unit: its samples, then what was bad in it."""

    def __init__(self, unit: ActivityUnit, options: ActivityOptions) -> None:
        self.unit, self.options = unit, options
        self.bad: list[DecodeError] = []
        self.bad_count = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        read = {"slot-stats": self._slot_stats, "monitor": self._monitor, "counts": self._counts}[self.unit.kind]
        yield from read()
        for error in self.bad:
            yield {"kind": BAD, "source": error.source, "offset": error.offset, "reason": error.reason}
        if self.bad_count > len(self.bad):
            reason = f"{self.bad_count - len(self.bad)} more bad records in this file"
            yield {"kind": BAD, "source": self.unit.path, "offset": self.bad[-1].offset, "reason": reason}

    def _sample(self, metric: str, slot: int, ts_ns: int | None, node: str, value: int) -> dict[str, Any]:
        ts_ns = self.unit.number if ts_ns is None else ts_ns
        return {"kind": SAMPLE, "metric": metric, "slot": slot, "ts_ns": ts_ns, "node": node, "value": value}

    def _slot_stats(self) -> Iterator[dict[str, Any]]:
        for line, _, raw in self._lines(LINE_BYTES_MAX):
            if line == 1 and not raw.lstrip().startswith(b'{"'):
                yield from self._one_reply()
                return
            try:
                samples = read_slot_stats_line(raw, line=line, source=self.unit.path)
            except DecodeError as error:
                self._refuse(error)
                continue
            for sample in samples:
                if sample.node not in self.options.left_out:
                    yield self._sample(sample.metric, sample.slot, sample.ts_ns, sample.node, sample.value)

    def _one_reply(self) -> Iterator[dict[str, Any]]:
        data = b"".join(raw + b"\n" for _, _, raw in self._lines(REPLY_BYTES_MAX))
        try:
            samples = read_slot_stats(data, source=self.unit.path)
        except DecodeError as error:
            self._refuse(error)
            return
        for sample in samples:
            yield self._sample(sample.metric, sample.slot, None, "", sample.value)

    def _counts(self) -> Iterator[dict[str, Any]]:
        for line, _, raw in self._lines(LINE_BYTES_MAX):
            try:
                sample = read_count_line(raw, line=line, source=self.unit.path)
            except DecodeError as error:
                self._refuse(error)
                continue
            yield self._sample(sample.metric, sample.slot, None, "", sample.value)

    def _monitor(self) -> Iterator[dict[str, Any]]:
        window_ns = self.options.window_ns
        counted: Counter[tuple[int, int]] = Counter()
        for _, offset, raw in self._lines(LINE_BYTES_MAX):
            plain = read_plain_line(raw)
            if plain is not None and _takes_one_key(plain.name):
                counted[(plain.ts_ns - plain.ts_ns % window_ns, _slot_of(plain.first))] += 1
                continue
            try:
                said = read_monitor_line(raw, offset=offset, source=self.unit.path)
            except DecodeError as error:
                self._refuse(error)
                continue
            if said is not None:
                start = said.ts_ns - said.ts_ns % window_ns
                counted.update((start, slot) for slot in _slots_of(said))
                counted[(start, -1)] += 0  # a window without keys is a window
        for (start, slot), count in sorted(counted.items()):
            yield self._sample(OPS, slot, start, "", count)

    def _refuse(self, error: DecodeError) -> None:
        if not self.options.permissive:
            raise error
        self.bad_count += 1
        if len(self.bad) < _BAD_MAX:
            self.bad.append(error)

    def _lines(self, longest: int) -> Iterator[tuple[int, int, bytes]]:
        """Number, offset and bytes of the lines that begin in the unit; blank ones are left out."""
        unit = self.unit
        stream = open_stream(unit.path, start=max(unit.start - 1, 0))
        buffer, rest, offset, number = bytearray(_BLOCK_BYTES), b"", max(unit.start - 1, 0), 0
        skip = unit.start > 0
        try:
            while size := stream.readinto(memoryview(buffer)):
                *whole, rest = (rest + bytes(buffer[:size])).split(b"\n")
                for raw in whole:
                    number += 1
                    at, offset = offset, offset + len(raw) + 1
                    if skip:
                        skip = False
                        continue
                    if unit.end is not None and at >= unit.end:
                        return
                    if raw.strip():
                        yield number, at, raw
                if len(rest) > longest:
                    raise DecodeError(f"a line longer than {longest} bytes", offset=offset, source=unit.path)
            if rest.strip() and not skip and (unit.end is None or offset < unit.end):
                yield number + 1, offset, rest
        finally:
            stream.close()


def _slots_of(said: MonitorLine) -> set[int]:
    """Slots that a command touches: one operation each, however many keys of it are named."""
    for table in _tables():
        info = table.find(said.words)
        if info is not None:
            return {key_slot(said.words[at]) for at in key_positions(said.words, info)}
    return set()


@cache
def _tables() -> list[CommandTable]:
    return [table_of(name) for name in reversed(TABLES)]


@cache
def _takes_one_key(name: bytes) -> bool:
    """Whether the command *name* has one key, its first word, whatever else it is given; there are few names."""
    info = next((found for found in (table.find([name]) for table in _tables()) if found), None)
    return info is not None and "|" not in info.name and bool(info.key_specs) and _is_first(info.key_specs)


def _is_first(specs: Sequence[KeySpec]) -> bool:
    (spec, *more) = specs
    return not more and spec.begin == ("index", 1) and spec.find[:3] == ("range", 0, 1) and not spec.flags & _UNSURE


@lru_cache(maxsize=1 << 18)
def _slot_of(key: bytes) -> int:
    return key_slot(key)


def combine_samples(
    batches: Iterator[pa.RecordBatch], *, how: str, ops_windows: Sequence[int], window_s: float
) -> Iterator[pa.RecordBatch]:
    """Return one row a metric and slot (`COMBINED_FIELDS`) from samples ordered by metric, slot and time.

    *ops_windows* are the whole windows of MONITOR, in which a slot without commands has 0.
    """
    key: tuple[str, int] | None = None
    held: list[Reading] = []
    rows: list[tuple[str, int, float, int, int]] = []
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("metric", "slot", "ts_ns", "node", "value")]
        for metric, slot, ts_ns, node, value in zip(*columns, strict=True):
            if (metric, slot) != key:
                if key is not None:
                    rows.append(_combined(key, held, how, ops_windows, window_s))
                key, held = (metric, slot), []
            held.append(Reading(ts_ns, node, value))
    if key is not None:
        rows.append(_combined(key, held, how, ops_windows, window_s))
    made = [row for row in rows if row[3]]
    names = ("metric", "slot", "value", "windows", "restarted")
    kinds = (pa.string(), pa.int32(), pa.float64(), pa.int32(), pa.int32())
    arrays = [pa.array([row[at] for row in made], kind) for at, kind in enumerate(kinds)]
    yield pa.RecordBatch.from_arrays(arrays, list(names))


def _combined(
    key: tuple[str, int], held: list[Reading], how: str, ops_windows: Sequence[int], window_s: float
) -> tuple[str, int, float, int, int]:
    metric, slot = key
    restarted = 0
    if metric == OPS:
        counts: Counter[int] = Counter()
        for reading in held:
            counts[reading.ts_ns] += reading.value
        values = [counts[start] / window_s for start in ops_windows]
    elif metric in COUNTERS:
        grown = counter_deltas(held)
        restarted = sum(growth.restarted for growth in grown)
        values = rates(grown)
    else:
        values = [float(reading.value) for reading in held]
    return metric, slot, combine(values, how) if values else 0.0, len(values), restarted
