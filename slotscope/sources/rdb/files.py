"""RDB files as units of work, and the loop that pushes their bytes through the skim.

A unit is a file, or a range of one between two keys; ranges decode alone, in parallel, and the last one checks the CRC64 of all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.memory.model import MemorySettings
from cluster_core.rdb.crc64 import combine_crc64, crc64
from cluster_core.rdb.head import RdbHead, SplitError
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.splits import find_splits
from slotscope.runtime.stores import is_live
from slotscope.sources.byte_streams import ByteStream, HeldBytes
from slotscope.sources.files import InputFile, compression_of, open_raw, open_stream, units_of_tasks, zeros_at_end

if TYPE_CHECKING:
    from slotscope.servers.dump_link import DumpOptions

PART_BYTES_MIN = 64 << 20
"""Smaller ranges than this are not worth a task of their own."""

HEAD_BYTES = 1 << 16
HEADS_AT_ONCE = 8
ZEROS_MAX = 16
"""Zero bytes that a dump may end with: a checksum that was not made, and a little that looks like it."""

_WINDOW_BYTES = 4 << 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RdbUnit:
    """Bytes *start* to *end* (None: to the end) of one file, range number *part* of *parts*.

    The bounds of a range are proved by the ranges before it only: where one of them meets a fault, this one's keys are none.
    """

    path: str
    size: int
    start: int = 0
    end: int | None = None
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class RdbTask:
    """Units that one task reads one after the other, in the order of their paths."""

    units: tuple[RdbUnit, ...]


def plan_tasks(files: list[InputFile], *, parallelism: int, split: bool) -> list[RdbTask]:
    """Cut *files* into units, and let whole ones share tasks."""
    units = plan_units(files, parallelism=parallelism, split=split)
    alone = [RdbTask((unit,)) for unit in units if unit.parts > 1]
    whole = [unit for unit in units if unit.parts == 1]
    return [*alone, *map(RdbTask, units_of_tasks(whole, parallelism))]


def plan_units(
    files: list[InputFile], *, parallelism: int, split: bool, unit_bytes_min: int | None = None
) -> list[RdbUnit]:
    """Cut *files* into units while there are fewer files than *parallelism*.

    A dump of several databases is read whole when a range meets the second one.  No unit has less than *unit_bytes_min*, by default the size that
    is worth a task.
    """
    least = PART_BYTES_MIN if unit_bytes_min is None else unit_bytes_min
    wanted = max(1, -(-parallelism // max(1, len(files)))) if split else 1
    units: list[RdbUnit] = []
    for file in files:
        units += _cut(file, min(wanted, file.size // least))
    return sorted(units, key=lambda unit: (unit.start - (unit.end or unit.size), unit.path, unit.part))


def _cut(file: InputFile, parts: int) -> list[RdbUnit]:
    if parts < 2 or compression_of(file.path):
        return [RdbUnit(file.path, file.size)]
    with open_raw(file.path) as raw:

        def read_at(offset: int, count: int) -> bytes:
            raw.seek(offset)
            return raw.read(count) or b""

        cuts = find_splits(read_at, file.size, parts)
    bounds = enumerate(zip([0, *cuts], [*cuts, None], strict=True))
    return [RdbUnit(file.path, file.size, start, end, part, len(cuts) + 1) for part, (start, end) in bounds]


def read_facts(path: str) -> tuple[RdbHead, dict[str, str]]:
    """Return the head and the aux fields of a file from its first bytes; raises DecodeError if it is no RDB."""
    skimmer = RdbSkimmer(path, check_crc=False)
    stream = open_stream(path)
    try:
        left = HEAD_BYTES
        while left and not skimmer.done:
            room = skimmer.room()[:left]
            read = stream.readinto(room)
            skimmer.filled(read)
            left -= read
            for _ in skimmer.batches():
                return skimmer.head, dict(skimmer.aux)
            if not read:
                break
    finally:
        stream.close()
    return skimmer.head, dict(skimmer.aux)


def newest_dumps(files: Sequence[InputFile]) -> tuple[list[InputFile], dict[str, str]]:
    """Return the newest dump of each data set, and the paths of older dumps, each with the newest one of its data set.

    Dumps with one ``repl-id`` are of one data set, which a master and its replicas share; their order is that of ``repl-offset``.  Files that are no RDB are left to their reader.
    """

    def replication_of(file: InputFile) -> tuple[str, int, str] | None:
        with suppress(DecodeError, ValueError):
            aux = read_facts(file.path)[1]
            replid, offset = aux.get("repl-id", ""), int(aux.get("repl-offset", "-1"))
            return (replid, offset, file.path) if replid.strip("0") else None
        return None

    rereadable = [file for file in files if file.size and not is_live(file.path)]
    if len(rereadable) < 2:
        return list(files), {}
    with ThreadPoolExecutor(HEADS_AT_ONCE) as readers:
        dumps = sorted(filter(None, readers.map(replication_of, rereadable)))
    newest = {replid: path for replid, _, path in dumps}
    older = dict(sorted((path, newest[replid]) for replid, _, path in dumps if path != newest[replid]))
    return [file for file in files if file.path not in older], older


class RangeReader:
    """Reads ranges of a file in rising order, decompressing as needed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream = open_stream(path)
        self._at = 0

    def read(self, start: int, count: int) -> bytes:
        """Return the *count* bytes from *start* on; DecodeError if the file has become shorter, or goes backwards."""
        if start < self._at:
            raise ValueError(f"range {start} lies before {self._at}")
        self._stream.skip(start - self._at)
        data = bytearray(count)
        room, filled = memoryview(data), 0
        while filled < count:
            read = self._stream.readinto(room[filled:])
            if not read:
                raise DecodeError(
                    "the file changed during reading; read it again", offset=start + filled, source=self._path
                )
            filled += read
        self._at = start + count
        return bytes(data)

    def close(self) -> None:
        """Release the file."""
        self._stream.close()


class RdbUnitReader:
    """Iterate over the `KeyBatch`es of a unit; *skimmer* holds the facts that were met so far.

    A fault of any kind in a range is a SplitError: read the file whole.  Zeros at the file's end, which read as keys without name or value, are not read as such.
    With *memory* each key's size in the server's memory is estimated.  Raises DecodeError with path, offset and reason at the first
    byte that is wrong, after the keys before it.  A live server sends its dump as *live* says.
    """

    def __init__(
        self,
        unit: RdbUnit,
        *,
        check_crc: bool = True,
        memory: MemorySettings | None = None,
        live: DumpOptions | None = None,
    ) -> None:
        self.unit = unit
        self._live = live
        self._held: HeldBytes | None = None
        self.facts: dict[str, str] = {}
        self.trailing_bytes = 0
        self._fed = 0
        self._left, self._zeros = _written(unit)
        head = None
        if unit.start:
            head, self.facts = read_facts(unit.path)
        self._check_parts = check_crc and unit.parts > 1 and unit.end is None
        self.skimmer = RdbSkimmer(
            unit.path,
            start=unit.start,
            end=unit.end,
            head=head,
            check_crc=check_crc and (unit.parts == 1 or self._check_parts),
            memory=memory,
        )

    def hold(self) -> HeldBytes:
        """Hold the records of a live server's dump from now on, each until its batch was used."""
        if self._held is None:
            self._held = HeldBytes(self.unit.path)
        return self._held

    def __iter__(self) -> Iterator[KeyBatch]:
        try:
            yield from self._decoded()
        except DecodeError as error:
            if self.unit.parts == 1:
                raise
            raise SplitError(error.reason, offset=error.offset, source=error.source) from error

    def _decoded(self) -> Iterator[KeyBatch]:
        skimmer = self.skimmer
        stream = self._open()
        try:
            while not skimmer.done:
                ahead = skimmer.skippable()
                if ahead:
                    self._passed(stream.skip(ahead))
                    skimmer.skipped(ahead)
                skimmer.filled(self._feed(stream))
                yield from self._skimmed()
            while self.unit.end is None and self._feed(stream):
                self.trailing_bytes += self._fed
        except TruncatedError as error:
            if not self._zeros:
                raise
            reason = f"{error.reason}; {self._zeros} zero bytes follow"
            raise TruncatedError(reason, offset=error.offset, source=error.source) from error
        finally:
            stream.close()
            self.facts |= skimmer.aux
        self.trailing_bytes += skimmer.trailing_bytes + self._zeros
        if self._check_parts:
            self._check_whole()

    def _skimmed(self) -> Iterator[KeyBatch]:
        """Yield the batches of the skim; records are held until their batch was used."""
        held = self._held
        for batch in self.skimmer.batches(at_once=held is not None and held.is_full):
            yield batch
            if held is not None:
                held.release(int(batch.offset[-1] + batch.serialized_bytes[-1]))

    def _open(self) -> ByteStream:
        if not is_live(self.unit.path):
            return open_stream(self.unit.path, start=self.unit.start)
        from slotscope.servers.dump_link import DumpOptions, LiveDump  # connects to servers: imported only for one

        dump = LiveDump(self.unit.path, self._live or DumpOptions())
        return dump if self._held is None else self._held.following(dump)

    def _feed(self, stream: ByteStream) -> int:
        room = self.skimmer.room()
        self._fed = stream.readinto(room if self._left is None else room[: self._left])
        self._passed(self._fed)
        return self._fed

    def _passed(self, count: int) -> None:
        if self._left is not None:
            self._left = max(self._left - count, 0)

    @property
    def head(self) -> RdbHead | None:
        """Dialect and version, or None if the file failed before they were read."""
        try:
            return self.skimmer.head
        except ValueError:
            return None

    def _check_whole(self) -> None:
        """Check the CRC64 of a file that is read in ranges: the last range adds the bytes before it."""
        skimmer, start = self.skimmer, self.unit.start
        if not skimmer.stored_crc:
            return
        crc = combine_crc64(_prefix_crc(self.unit.path, start), skimmer.crc, skimmer.position - start)
        if crc != skimmer.stored_crc:
            raise DecodeError(
                f"the file's CRC64 is {skimmer.stored_crc:016x}, its bytes give {crc:016x}",
                offset=skimmer.position,
                source=self.unit.path,
            )

    @property
    def taken_at_ms(self) -> int | None:
        """When the dump was begun, by its writer's clock (aux field ``ctime``)."""
        return _milliseconds(self.skimmer.aux.get("ctime", self.facts.get("ctime")))


def _written(unit: RdbUnit) -> tuple[int | None, int]:
    """Bytes of *unit* before the zeros that its file ends with, and how many zeros that are; (None, 0) if it may end so."""
    if unit.end is not None or is_live(unit.path) or (zeros := zeros_at_end(unit.path)) <= ZEROS_MAX:
        return None, 0
    with open_raw(unit.path) as raw:
        end = raw.seek(0, os.SEEK_END) - zeros
        raw.seek(max(end - 9, 0))
        tail = raw.read(min(end, 9)) or b""
    kept = min(zeros, 9 - len(tail) + tail.rindex(b"\xff")) if b"\xff" in tail else 0  # the checksum after an end mark
    return max(end + kept - unit.start, 0), zeros - kept


def _milliseconds(ctime: str | None) -> int | None:
    if ctime is None or not ctime.isascii() or not ctime.isdigit() or len(ctime) > 12:
        return None
    return int(ctime) * 1000


def _prefix_crc(path: str, count: int) -> int:
    """Return the CRC64 of the first *count* bytes of an uncompressed file."""
    stream = open_stream(path)
    room = memoryview(bytearray(_WINDOW_BYTES))
    window = np.frombuffer(room, np.uint8)
    crc = 0
    try:
        while count:
            read = stream.readinto(room[: min(count, len(room))])
            if not read:
                raise DecodeError("the file became shorter during reading; read it again", offset=count, source=path)
            crc = crc64(window[:read], crc)
            count -= read
    finally:
        stream.close()
    return crc
