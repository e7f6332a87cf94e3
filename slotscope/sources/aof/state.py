"""The living keys of a log as batches: its files are replayed in order, in one task a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cluster_core.aof.keyspace import Keyspace, LiveKey
from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import CommandReader, Tail
from cluster_core.kernels.aof.walker import batch_of_live
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.export import ValueWriter
from cluster_core.rdb.grammar import ARRAY
from cluster_core.rdb.value_state import RESP
from schemas.interim import UnitFacts
from slotscope.sources.aof.files import AofLog, is_rdb
from slotscope.sources.files import read_pieces
from slotscope.sources.keys.partial_rows import rest_of
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
        """What names the log."""
        return self.log.path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self.log.size


class AofStateReader:
    """Replays a log; iterate over the living keys.  *uncertain* are those of which the log does not tell all.  *taken_at_ms* is
    the latest time that the log knows: of its timestamps, or when its base was begun; None without either.

    Raises DecodeError with file, offset and reason where a server would not load the log; a last file that a crash has cut
    ends there.
    """

    def __init__(self, unit: AofStateUnit) -> None:
        self.unit = unit
        self.keyspace = Keyspace()
        self.uncertain: list[LiveKey] = []
        self.head = ""
        self.taken_at_ms: int | None = None

    def note(self, facts: UnitFacts) -> None:
        """Say what the replay met, once it is done and the keys were read."""
        keyspace = self.keyspace
        facts.role = "state"
        facts.ctime = None if self.taken_at_ms is None else self.taken_at_ms // 1000
        facts.replayed, facts.refused, facts.base = keyspace.commands, keyspace.refused, self.head
        facts.uncertain_keys = len(self.uncertain)
        facts.not_modelled = ", ".join(f"{name} ({count})" for name, count in keyspace.unknown.most_common(20))

    def replay(self) -> None:
        """Read all files; what stands before an error stays."""
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
                apply(command.words)
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
