"""One unit of a dump, written out as one part: chosen keys with their values."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import NONE, KeyBatch
from cluster_core.kernels.keys.filter import KeyFilter
from cluster_core.rdb.export import Release, ValueWriter, command_of
from cluster_core.rdb.grammar import OP_FUNCTION2
from cluster_core.rdb.head import SplitError
from cluster_core.rdb.skim import RecordSkimmer
from cluster_core.rdb.strings import string_at
from cluster_core.rdb.value_state import JSON, RESP
from slotscope.runtime.stores import is_live
from slotscope.sources.files import compression_of, is_uri, read_pieces
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader

if TYPE_CHECKING:
    from slotscope.servers.dump_link import DumpOptions

STYLES = {"json": JSON, "resp": RESP}
_HEAD_PIECE_BYTES = 1 << 16
"""Bytes that are read at a time, also of the keys behind function libraries."""
_PIECE_BYTES = 4 << 20


@dataclass(slots=True)
class PartFacts:
    """Counts of one part: *left_out* counts values by type and reason, *hollow* keys without elements.

    *functions* are libraries in the dump, *libraries* those that were written.
    """

    source: str
    keys: int = 0
    seen: int = 0
    not_text: int = 0
    hollow: int = 0
    functions: int = 0
    libraries: int = 0
    idle_known: int = 0
    freq_known: int = 0
    bytes: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    bad: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Settings of an export: at most *keys_max* of the keys that *filter* chooses, commands for a server of *release*, with or without function *libraries*; *live* are settings for servers."""

    filter: KeyFilter
    style: int
    release: Release
    permissive: bool = False
    keys_max: int | None = None
    libraries: bool = False
    live: DumpOptions | None = None


class PartReader:
    """Iterate over (bytes of the file, batch, chosen rows) of a *dump*, which stands for *source*; *facts* grow meanwhile.

    Raises DecodeError with path, offset and reason at the first byte that is wrong, unless the request is permissive; UnrecordedError where the dump lacks a field of a condition.
    """

    def __init__(self, source: str, dump: RdbUnit, wanted: ExportSettings) -> None:
        self.facts = PartFacts(source)
        self.reader = RdbUnitReader(dump, live=wanted.live)
        self._start = dump.start
        self._wanted = wanted
        self._is_live = is_live(dump.path)
        self._data = self.reader.hold().data if self._is_live else mapped_bytes(dump.path)

    def libraries(self) -> list[bytes]:
        """The commands of the function libraries that belong to this part, where any are wanted; to be asked at the first batch, or behind the last."""
        wanted = self._wanted.libraries and not self._start
        result = libraries_before_keys(self._data, source=self.facts.source) if wanted else []
        self.facts.libraries = len(result)
        return [command_of(b"FUNCTION", b"LOAD", b"REPLACE", code) for code in result]

    def __iter__(self) -> Iterator[tuple[NDArray[np.uint8], KeyBatch, NDArray[np.int64]]]:
        facts, wanted = self.facts, self._wanted
        left = wanted.keys_max
        try:
            for batch in self.reader:
                facts.seen += len(batch)
                facts.idle_known += int((batch.idle_s != NONE).sum())
                facts.freq_known += int((batch.freq != NONE).sum())
                rows = wanted.filter.rows(batch, self.reader.taken_at_ms, facts.source)
                hollow = batch.hollow()[rows]
                facts.hollow += int(hollow.sum())
                rows = rows[~hollow][:left]
                left = None if left is None else left - len(rows)
                yield self._data, batch, rows
                if left == 0:
                    break
        except DecodeError as error:
            if not wanted.permissive or isinstance(error, SplitError) or self._is_live:
                raise
            facts.bad = {"offset": error.offset, "reason": error.reason}
        facts.functions = self.reader.skimmer.function_count


@contextmanager
def local_dump(unit: RdbUnit, folder: str | None) -> Iterator[RdbUnit]:
    """Give *unit* as a local dump; a copy in *folder* is removed afterwards."""
    if is_live(unit.path):
        yield unit
    else:
        with local_file(unit.path, folder) as path:
            yield replace(unit, path=path)


def write_part(unit: RdbUnit, wanted: ExportSettings, out: IO[bytes], *, folder: str | None = None) -> PartFacts:
    """Write the wanted keys of *unit* to *out* as text or commands; *folder* is for copies of remote dumps.

    Raises DecodeError, EncodeError and UnrecordedError.
    """
    with local_dump(unit, folder) as dump:
        parts = PartReader(unit.path, dump, wanted)
        writer: ValueWriter | None = None
        for data, batch, rows in parts:
            if writer is None:
                parts.facts.bytes += sum(map(out.write, parts.libraries()))
                writer = ValueWriter(
                    parts.reader.skimmer.head,
                    wanted.style,
                    source=unit.path,
                    release=wanted.release,
                    permissive=wanted.permissive,
                )
            for piece in writer.pieces(data, batch, rows):
                parts.facts.bytes += len(piece)
                out.write(piece)
        if writer is None:
            parts.facts.bytes += sum(map(out.write, parts.libraries()))
    facts = parts.facts
    if writer is not None:
        facts.keys, facts.not_text = writer.keys, writer.not_text
        facts.left_out = dict(writer.left_out)
    return facts


def libraries_before_keys(data: NDArray[np.uint8], *, source: str) -> list[bytes]:
    """Return the code of the function libraries that stand before the first key of a file with the bytes *data*, up to its first error."""
    skimmer = RecordSkimmer(source, check_crc=False)
    result: list[bytes] = []
    while not skimmer.done:
        skimmer.feed(lambda at, count: data[at : at + count].data, _HEAD_PIECE_BYTES)
        try:
            for part in skimmer.parts():
                if isinstance(part, KeyBatch):
                    return result
                if part.op == OP_FUNCTION2:
                    result.append(string_at(data[part.begin : part.end].tobytes(), 1)[0])
        except DecodeError:
            break
    return result


@contextmanager
def local_file(path: str, folder: str | None = None) -> Iterator[str]:
    """Give the path of a local, uncompressed file with the bytes of *path*: itself, or a copy in *folder* that is removed afterwards."""
    if not is_uri(path) and compression_of(path) is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="slotscope-", dir=folder) as made:
        copy = os.path.join(made, "plain")
        with open(copy, "wb") as out:
            for piece in read_pieces(path, _PIECE_BYTES):
                out.write(piece)
        try:
            yield copy
        except DecodeError as error:
            if error.source != copy:
                raise
            raise type(error)(error.reason, offset=error.offset, source=path) from error


def mapped_bytes(path: str) -> NDArray[np.uint8]:
    """Return the bytes of a local file; they are read when they are looked at."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return np.empty(0, np.uint8)
        # a copy of one's own, so that kernels take it for an array like any other; none of it is written to
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
