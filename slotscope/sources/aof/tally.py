"""The living keys of append-only logs as batches, and the task of their load: sums (`schemas.interim.PARTIAL`) of the units that it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.aof.command_keys import known_commands
from cluster_core.aof.keyspace import Keyspace, LiveKey
from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import NO_TIME, CommandReader, Tail
from cluster_core.kernels.aof.walker import CommandBatch, batch_of_live
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.key_slots import key_slots
from cluster_core.kernels.keys.group_tally import GroupTally
from cluster_core.rdb.export import ValueWriter
from cluster_core.rdb.grammar import ARRAY
from cluster_core.rdb.value_state import RESP
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import LOG_COMMAND, LOG_KEY, LOG_SLOT, LOG_UNCERTAIN, UnitFacts
from slotscope.sources.aof.files import BASE, AofLog, AofUnit, AofUnitReader, is_rdb
from slotscope.sources.files import read_pieces
from slotscope.sources.keys.partial_rows import PartialRows, TallyOptions, note_unread, rest_of
from slotscope.sources.keys.sums import KeySums, KnownLoads
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader
from slotscope.sources.values.part import local_file, mapped_bytes

BATCH_KEYS = 65_536
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AofStateUnit:
    """All files of one log, to be replayed."""

    log: AofLog

    @property
    def path(self) -> str:
        """Path of the log."""
        return self.log.path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self.log.size


class AofStateReader:
    """Replays a log; iterate over the living keys.

    *uncertain* are keys with incomplete values in the log.  *taken_at_ms* is the latest timestamp in the log, else
    the start of its base; None without either.  Raises DecodeError with file, offset and reason where a server would
    not load the log; a crash may cut the last file.
    """

    def __init__(self, unit: AofStateUnit) -> None:
        self.unit = unit
        self.keyspace = Keyspace()
        self.uncertain: list[LiveKey] = []
        self.head = ""
        self.taken_at_ms: int | None = None

    def note(self, facts: UnitFacts) -> None:
        """Fill *facts* with counts of the replay; call it after the keys were read."""
        keyspace = self.keyspace
        facts.role = "state"
        facts.ctime = None if self.taken_at_ms is None else self.taken_at_ms // 1000
        facts.replayed, facts.refused, facts.base = keyspace.commands, keyspace.refused, self.head
        facts.uncertain_keys = len(self.uncertain)
        facts.not_modelled = ", ".join(f"{name} ({count})" for name, count in keyspace.unknown.most_common(20))

    def replay(self) -> None:
        """Replay all files; commands before an error stay applied."""
        files = self.unit.log.files
        for file in files:
            self.keyspace.begin_file()
            start = self._add_base(file.path) if is_rdb(file.path) else 0
            tail = self._run(file.path, start)
            if tail.is_cut and file is not files[-1]:
                raise tail.error(file.path)

    def rest_after(self, error: DecodeError) -> int | None:
        """Return the bytes of the log from where *error* ended the replay; None if that is not known."""
        files = self.unit.log.files
        at = next((at for at, file in enumerate(files) if file.path == error.source), None)
        if at is None:
            return None
        rest = rest_of(files[at].path, files[at].size, error)
        return None if rest is None else rest + sum(file.size for file in files[at + 1 :])

    def _add_base(self, path: str) -> int:
        """Add the keys of the dump that a file begins with; return where its commands begin."""
        reader = RdbUnitReader(RdbUnit(path, 0), check_crc=False)
        with local_file(path) as local:
            data = mapped_bytes(local)
        for batch in reader:
            arrays = np.flatnonzero(batch.type == ARRAY)
            if len(arrays):
                reason = "an array of Redis 8.8 in a log's base is not replayed (--no-replay reads the rest)"
                raise DecodeError(reason, offset=int(batch.offset[arrays[0]]), source=path)
            writer = ValueWriter(reader.skimmer.head, RESP, source=path)
            self.keyspace.add_base(writer.pieces(data, batch, np.arange(len(batch))))
        self._note_time(reader.taken_at_ms)
        head = reader.head
        self.head = f"{head.dialect} {head.version}" if head else ""
        return reader.skimmer.position + (8 if reader.skimmer.stored_crc is not None else 0)

    def _run(self, path: str, start: int) -> Tail:
        reader = CommandReader(path, start=start)
        apply = self.keyspace.apply
        skipped = 0
        fed = start
        for piece in read_pieces(path, _PIECE_BYTES):
            if skipped < start:
                cut = min(start - skipped, len(piece))
                skipped += cut
                piece = piece[cut:]
            fed += len(piece)
            reader.feed(piece)
            for command in reader.commands():
                apply(command.arguments)
        self._note_time(reader.time_s * 1000 if reader.time_s >= 0 else None)
        return Tail(reader.valid_end, fed, reader.open_transaction)

    def _note_time(self, time_ms: int | None) -> None:
        if time_ms is not None:
            self.taken_at_ms = max(time_ms, self.taken_at_ms or 0)

    def __iter__(self) -> Iterator[KeyBatch]:
        held: list[LiveKey] = []
        first = 0
        for row in self.keyspace.rows():
            if row.type is None:
                self.uncertain.append(row)
                continue
            held.append(row)
            if len(held) == BATCH_KEYS:
                yield batch_of_live(held, first)
                first += len(held)
                held = []
        if held:
            yield batch_of_live(held, first)


_MINUTE_S, _HOUR_S = 60, 3600
COMMAND_NAMES_MAX = 1 << 13
"""Names of commands that one unit tells apart."""


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
        result = [np.zeros((0, 4), np.int64)]
        for span in sorted(self._sums):
            sums = self._sums[span]
            present = np.flatnonzero(sums[:, 0])
            begin = np.full(len(present), NO_TIME if span < 0 else span * self._span_s)
            result.append(np.column_stack([begin, present, sums[present]]))
        return np.concatenate(result)


class _Writes:
    """The sums of the commands of one file: by slot and hour, by command and minute, and the keys written most."""

    def __init__(self, options: TallyOptions) -> None:
        self.slots = TimedSums(SLOT_COUNT, _HOUR_S)
        self.names = TimedSums(COMMAND_NAMES_MAX, _MINUTE_S)
        self.hot = GroupTally(options.groups_max)
        self.last_s: int | None = None

    def add(self, batch: CommandBatch) -> None:
        """Count the commands of *batch*."""
        keys = batch.keys
        self.slots.add(keys.slot, keys.serialized_bytes, batch.per_key(batch.time_s))
        self.names.add(batch.command, batch.size, batch.time_s)
        whole = dataclasses.replace(keys, tag_start=np.zeros(len(keys), np.int32), tag_length=np.diff(keys.key_offsets))
        self.hot.add_tags(whole)
        last_s = int(batch.time_s.max(initial=NO_TIME))
        if last_s != NO_TIME:
            self.last_s = max(last_s, self.last_s or 0)

    def rows(self, rows: PartialRows, names: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        """Yield the sums; *names* are those of the commands by code."""
        begin, slot, ops, size = self.slots.rows().T
        yield rows.of(
            LOG_SLOT, len(slot), slot=pa.array(slot), ops=pa.array(ops), serialized_bytes=pa.array(size), offset=_time(begin)
        )  # fmt: skip
        begin, code, count, size = self.names.rows().T
        texts = [names[number].decode("utf-8", "backslashreplace") for number in code.tolist()]
        known = known_commands()
        yield rows.of(
            LOG_COMMAND, len(code), text=pa.array(texts, pa.string()), ops=pa.array(count), serialized_bytes=pa.array(size),
            offset=_time(begin), number=pa.array([int(name in known) for name in texts], pa.int32()),
        )  # fmt: skip
        yield rows.groups(LOG_KEY, self.hot, "ops", slot=pa.array(key_slots(self.hot.names()).astype(np.int64)))


def _time(begin: NDArray[np.int64]) -> pa.Array:
    return pa.array(begin, pa.int64(), mask=begin == NO_TIME)


def tally_log(unit: AofUnit, part: int, options: TallyOptions) -> Iterator[pa.RecordBatch]:
    """Read one file of a log and yield sums of its writes, none for a base; raises DecodeError in strict mode."""
    reader, writes, bad = AofUnitReader(unit), _Writes(options), list[DecodeError]()
    facts = UnitFacts(kind="aof", file_bytes=unit.size, role=unit.role, file=unit.path, knows_ops=True)
    try:
        for _ in reader.preamble():
            pass
        for batch in reader:
            if unit.role != BASE:
                writes.add(batch)
    except DecodeError as error:
        if not options.permissive:
            raise
        bad.append(error)
        note_unread(facts, bad, rest_of(unit.path, unit.size, error))
    facts.commands = reader.walker.commands if reader.walker else 0
    facts.aux = {f"dump_{name}": value for name, value in reader.dump_facts.items()}
    if reader.cut is not None:
        facts.cut, facts.loaded_end = reader.cut.reason(), reader.cut.loaded_end
    facts.last_s = writes.last_s
    facts.missed_log_keys, facts.missed_log_bytes = int(writes.hot.missed_keys), int(writes.hot.missed_bytes)
    rows = PartialRows(unit.log, part, options)
    yield rows.units(facts)
    if bad:
        yield rows.bad(bad, facts.unread_bytes)
    yield from writes.rows(rows, reader.names)


def tally_state(unit: AofStateUnit, part: int, options: TallyOptions) -> Iterator[pa.RecordBatch]:
    """Replay one log and yield the sums of the keys that it leaves.

    In permissive mode the commands before an error count, and the log's load names the error; in strict mode it is raised.
    """
    reader, facts, rows = AofStateReader(unit), UnitFacts(kind="aof"), PartialRows(unit.path, part, options)
    try:
        reader.replay()
    except DecodeError as error:
        if not options.permissive:
            raise
        facts.replayed_to = f"{error.source}: offset {error.offset}"
        note_unread(facts, [error], reader.rest_after(error))
    sums = KeySums(rows, options)
    keys = sums.begin(unit.path, KnownLoads(sizes=True, expiry=True))
    if reader.taken_at_ms is not None:
        keys.set_time(reader.taken_at_ms)
    keys.ops = np.zeros(SLOT_COUNT, np.int64)
    for batch in reader:
        sums.add(keys, batch)
    reader.note(facts)
    sums.end(keys, facts)
    sums.note_missed(facts)
    uncertain = reader.uncertain
    names = pa.array([row.key for row in uncertain], pa.binary())
    yield rows.of(
        LOG_UNCERTAIN, len(uncertain), name=names, db=pa.array([row.db for row in uncertain], pa.int32()),
        slot=pa.array(key_slots(names).astype(np.int64)), text=pa.array([row.why for row in uncertain], pa.string()),
    )  # fmt: skip
    yield rows.units(facts)
    yield from sums.yield_rows()
