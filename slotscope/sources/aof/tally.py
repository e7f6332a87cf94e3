"""The task of an append-only log's load: read a unit where Python runs, return sums (`schemas.interim.PARTIAL`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.aof.command_keys import known_commands
from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import NO_TIME
from cluster_core.formats.rdb.facts import SplitError
from cluster_core.kernels.aof.command_batch import CommandBatch
from cluster_core.kernels.group_tally import GroupTally
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.key_slots import key_slots
from schemas.interim import BAD, LOG_COMMAND, LOG_KEY, LOG_PREFIX, LOG_SLOT, UNIT
from slotscope.sources.aof.files import BASE, AofUnit, AofUnitReader
from slotscope.sources.unread_facts import rest_of, unread_facts

SLOT_COUNT = 16384
_MINUTE_S, _HOUR_S = 60, 3600
Record = Callable[..., pa.RecordBatch]


class TimedSums:
    """Counts and bytes by a code and by spans of *span_s* seconds; memory grows with the spans that are met."""

    def __init__(self, codes: int, span_s: int) -> None:
        self._codes = codes
        self._span_s = span_s
        self._sums: dict[int, NDArray[np.int64]] = {}

    def add(self, codes: NDArray[Any], size: NDArray[np.int64], time_s: NDArray[np.int64]) -> None:
        """Count one event a row; times rise within a file, so a batch meets few spans."""
        if not len(codes):
            return
        spans = time_s // self._span_s  # NO_TIME, -1, stays below all others
        present = [int(spans[0])] if spans[0] == spans[-1] == spans.max() == spans.min() else np.unique(spans).tolist()
        for span in present:
            chosen = slice(None) if len(present) == 1 else spans == span
            here, sizes = codes[chosen], size[chosen]
            if span not in self._sums:
                self._sums[span] = np.zeros((self._codes, 2), np.int64)
            self._sums[span][:, 0] += np.bincount(here, minlength=self._codes)
            np.add.at(self._sums[span][:, 1], here, sizes)

    def rows(self) -> NDArray[np.int64]:
        """Return int64[rows, 4]: begin of the span (epoch in s, -1 without times), code, count, bytes; rows without count left out."""
        found = [np.zeros((0, 4), np.int64)]
        for span in sorted(self._sums):
            sums = self._sums[span]
            present = np.flatnonzero(sums[:, 0])
            begin = np.full(len(present), NO_TIME if span < 0 else span * self._span_s)
            found.append(np.column_stack([begin, present, sums[present]]))
        return np.concatenate(found)


class AofTally:
    """The sums of one unit of a log; *record* makes partial rows of it."""

    def __init__(self, unit: AofUnit, options: Any, record: Record) -> None:
        self.unit = unit
        self.options = options
        self._record = record
        self.facts: dict[str, str] = {}
        self.bad: list[DecodeError] = []
        self.skipped_bytes: int | None = None
        self.commands = 0
        self.slots = TimedSums(SLOT_COUNT, _HOUR_S)
        self.base_slots = TimedSums(SLOT_COUNT, _HOUR_S)
        self.names = TimedSums(1 << 13, _MINUTE_S)
        self.hot = GroupTally(options.groups_max)
        self.prefixes = GroupTally(options.groups_max)
        self._is_base = unit.role == BASE
        self._seconds: dict[int, int] = {}
        self._listed: list[bytes] = [b""]

    def run(self) -> Iterator[pa.RecordBatch]:
        """Read, tally and yield the rows; raises DecodeError in strict mode."""
        reader = AofUnitReader(self.unit, load_truncated=self.options.load_truncated, check_crc=self.options.check_crc)
        try:
            for keys in reader.preamble():
                self._add_preamble(keys)
            for batch in reader:
                self._add(batch)
        except SplitError as error:
            self.facts["split_failed"] = error.reason
        except DecodeError as error:
            if not self.options.permissive:
                raise
            self.bad.append(error)
            self.skipped_bytes = rest_of(self.unit.path, self.unit.end or self.unit.size, error)
            self.facts |= unread_facts(self.bad, self.skipped_bytes)
        self._listed = reader.names
        self._note(reader)
        yield from self._rows()

    def _note(self, reader: AofUnitReader) -> None:
        walker = reader.walker
        self.commands = walker.commands if walker else 0
        self.facts |= {f"dump_{name}": value for name, value in reader.dump_facts.items()}
        self.facts |= {"role": self.unit.role, "file": self.unit.path, "commands": str(self.commands)}
        if reader.cut is not None:
            self.facts["cut"] = reader.cut.reason()
            self.facts["loaded_end"] = str(reader.cut.loaded_end)
        if self._seconds:
            self.facts["first_s"], self.facts["last_s"] = str(min(self._seconds)), str(max(self._seconds))
            self.facts["second_bytes_max"] = str(max(self._seconds.values()))

    def _add_preamble(self, keys: KeyBatch) -> None:
        none = np.full(len(keys), NO_TIME, np.int64)
        self.base_slots.add(keys.slot, keys.serialized_bytes, none)
        self.prefixes.add_prefixes(keys, self.options.separators, self.options.prefix_depth)

    def _add(self, batch: CommandBatch) -> None:
        keys = batch.keys
        slots = self.base_slots if self._is_base else self.slots
        slots.add(keys.slot, keys.serialized_bytes, batch.per_key(batch.time_s))
        self.prefixes.add_prefixes(keys, self.options.separators, self.options.prefix_depth)
        if self._is_base:
            return
        self.names.add(batch.command, batch.size, batch.time_s)
        whole = dataclasses.replace(keys, tag_start=np.zeros(len(keys), np.int32), tag_length=np.diff(keys.key_offsets))
        self.hot.add_tags(whole)
        timed = batch.time_s != NO_TIME
        if timed.any():
            seconds, places = np.unique(batch.time_s[timed], return_inverse=True)
            sums = np.bincount(places, weights=batch.size[timed])
            for second, size in zip(seconds.tolist(), sums.tolist(), strict=True):
                self._seconds[second] = self._seconds.get(second, 0) + int(size)

    # rows

    def _rows(self) -> Iterator[pa.RecordBatch]:
        yield self._unit_row()
        if self.bad:
            yield self._record(
                BAD, len(self.bad), source=pa.array([error.source for error in self.bad]),
                offset=pa.array([error.offset for error in self.bad], pa.int64()),
                text=pa.array([error.reason for error in self.bad]),
                serialized_bytes=pa.array([self.skipped_bytes] * len(self.bad), pa.int64()),
            )  # fmt: skip
        yield self._slot_rows(self.slots, is_base=False)
        yield self._slot_rows(self.base_slots, is_base=True)
        yield self._command_rows()
        yield self._group_rows(LOG_KEY, self.hot)
        yield self._group_rows(LOG_PREFIX, self.prefixes)

    def _unit_row(self) -> pa.RecordBatch:
        facts = self.facts | {
            "knows_ops": "true",
            "missed_log_keys": str(self.hot.missed_keys), "missed_log_bytes": str(self.hot.missed_bytes),
            "missed_log_prefix_bytes": str(self.prefixes.missed_bytes),
        }  # fmt: skip
        return self._record(
            UNIT, 1, keys=pa.array([0]), name=pa.array([self.unit.log.encode("utf-8", "surrogateescape")], pa.binary()), serialized_bytes=pa.array([self.unit.size if self.unit.part == 0 else 0]),
            text=pa.array(["aof"]), facts=pa.array([list(facts.items())], pa.map_(pa.string(), pa.string())),
        )  # fmt: skip

    def _slot_rows(self, sums: TimedSums, *, is_base: bool) -> pa.RecordBatch:
        """Bytes by slot and hour; what stands in a base is no write."""
        begin, slot, ops, size = sums.rows().T
        return self._record(
            LOG_SLOT, len(slot), slot=pa.array(slot), ops=pa.array(np.zeros_like(ops) if is_base else ops),
            serialized_bytes=pa.array(size), offset=_time(begin), number=pa.array(np.full(len(slot), int(is_base))),
        )  # fmt: skip

    def _command_rows(self) -> pa.RecordBatch:
        begin, code, count, size = self.names.rows().T
        names = [self._listed[number].decode("utf-8", "backslashreplace") for number in code.tolist()]
        known = known_commands()
        return self._record(
            LOG_COMMAND, len(code), text=pa.array(names, pa.string()), ops=pa.array(count), serialized_bytes=pa.array(size),
            offset=_time(begin), number=pa.array([int(name in known) for name in names], pa.int32()),
        )  # fmt: skip

    def _group_rows(self, kind: int, tally: GroupTally) -> pa.RecordBatch:
        ops, sizes, _, ops_error, bytes_error, depth = tally.counts().T
        names = tally.names()
        slots = {"slot": pa.array(key_slots(names).astype(np.int64))} if kind == LOG_KEY else {}
        return self._record(
            kind, len(names), name=names, ops=pa.array(ops), serialized_bytes=pa.array(sizes),
            keys_error=pa.array(ops_error), bytes_error=pa.array(bytes_error), number=pa.array(depth), **slots,
        )  # fmt: skip


def _time(begin: NDArray[np.int64]) -> pa.Array:
    return pa.array(begin, pa.int64(), mask=begin == NO_TIME)
