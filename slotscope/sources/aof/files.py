"""Append-only logs as units of work, and the loop that pushes their bytes through the walk.

A log is a folder with a manifest (a server's ``appendonlydir``, or the folder that holds it), a manifest, or one file.  A unit is
one of its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from cluster_core.errors import DecodeError
from cluster_core.formats.aof.framing import Tail
from cluster_core.formats.aof.manifest import MANIFEST_BYTES_MAX, Manifest, read_manifest
from cluster_core.kernels.aof.walker import AofWalker, CommandBatch
from cluster_core.kernels.key_batch import KeyBatch
from slotscope.runtime import stores
from slotscope.sources.files import InputFile, exists, expand, is_uri, open_raw, open_stream
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader

RDB_MAGICS = (b"REDIS", b"VALKEY")
BASE, INCREMENT, WHOLE = "base", "increment", "whole"
"""Role of a file in its log; a *whole* file is the entire log, as servers before 7.0 wrote it."""


@dataclass(frozen=True, slots=True)
class AofLog:
    """One log: *path* is its manifest, folder or single file; *files* are in the order in which a server loads them."""

    path: str
    files: tuple[InputFile, ...]
    roles: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class AofUnit:
    """One file of the log *log*; *is_last*: a server would append to it."""

    path: str
    size: int
    log: str
    role: str
    is_last: bool


def find_logs(paths: list[str]) -> list[AofLog]:
    """Return the log of each of *paths*; raises DecodeError for missing files and invalid manifests."""
    return [_find_log(path) for path in dict.fromkeys(paths)]


def _find_log(path: str) -> AofLog:
    home = stores.plain(path).rstrip("/") or path
    if exists(f"{home}/appendonlydir"):
        home = f"{home}/appendonlydir"
    files = expand([home])
    named = home if is_uri(home) else os.path.abspath(home)
    if len(files) == 1 and files[0].path == named and not named.endswith(".manifest"):
        return AofLog(named, (files[0],), (WHOLE,))
    if len(files) == 1 and files[0].path == named:
        files = expand([named.rpartition("/")[0] or "/"])
    manifests = [file for file in files if _is_manifest(file)]
    if named.endswith(".manifest"):
        manifests = [file for file in manifests if file.path == named]
    if len(manifests) != 1:
        reason = (
            f"{len(manifests)} manifests in this folder; a log has one" if manifests else "no manifest in this folder"
        )
        raise DecodeError(reason, offset=0, source=path)
    return _log_of(named, manifests[0], files)


def _is_manifest(file: InputFile) -> bool:
    """Whether a file is a manifest; ``temp-…`` is one that a server had not finished."""
    name = file.path.rpartition("/")[2]
    return name.endswith(".manifest") and not name.startswith("temp-")


def _log_of(named: str, listing: InputFile, files: list[InputFile]) -> AofLog:
    if listing.size > MANIFEST_BYTES_MAX:
        raise DecodeError(f"{listing.size} bytes are too many for a manifest", offset=0, source=listing.path)
    with open_raw(listing.path) as raw:
        manifest: Manifest = read_manifest(raw.read(MANIFEST_BYTES_MAX) or b"", source=listing.path)
    by_name = {file.path.rpartition("/")[2]: file for file in files}
    missing = next((part.name for part in manifest.parts() if part.name not in by_name), None)
    if missing is not None:
        raise DecodeError(f"the manifest names {missing!r}, which is not there", offset=0, source=listing.path)
    roles = (*((BASE,) if manifest.base else ()), *(INCREMENT for _ in manifest.increments))
    return AofLog(named, tuple(by_name[part.name] for part in manifest.parts()), roles)


def is_rdb(path: str) -> bool:
    """Whether a file begins as a dump, by the magic of either server (`loadSingleAppendOnlyFile`)."""
    stream = open_stream(path)
    try:
        room = bytearray(6)
        count = stream.readinto(memoryview(room))
    finally:
        stream.close()
    return bytes(room[:count]).startswith(RDB_MAGICS)


def plan_units(logs: list[AofLog]) -> list[AofUnit]:
    """Return the files of *logs*."""
    return [
        AofUnit(file.path, file.size, log.path, role, is_last=file is log.files[-1])
        for log in logs
        for file, role in zip(log.files, log.roles, strict=True)
    ]


class AofUnitReader:
    """Iterate over the `CommandBatch`es of a unit; `preamble` gives the keys of a dump that stands before them.

    Raises DecodeError with path, offset and reason at the first byte that is wrong, after the commands before it.  A file
    that is cut (`Tail.is_cut`) is an error unless it is the log's last and *load_truncated*; then `cut` says how it ends.
    """

    def __init__(self, unit: AofUnit, *, load_truncated: bool = True) -> None:
        self.unit = unit
        self.cut: Tail | None = None
        self.commands_at = 0
        self.dump_facts: dict[str, str] = {}
        self._accepts_cut = load_truncated and unit.is_last
        self.walker: AofWalker | None = None

    @property
    def names(self) -> list[bytes]:
        """Names of the commands, by code."""
        return self.walker.names if self.walker is not None else [b""]

    def preamble(self) -> Iterator[KeyBatch]:
        """Yield the keys of the dump that the file begins with, if it does; raises DecodeError."""
        unit = self.unit
        if not is_rdb(unit.path):
            return
        reader = RdbUnitReader(RdbUnit(unit.path, unit.size))
        yield from reader
        self.dump_facts = reader.facts
        skimmer = reader.skimmer
        self.commands_at = skimmer.position + (8 if skimmer.stored_crc is not None else 0)

    def __iter__(self) -> Iterator[CommandBatch]:
        unit = self.unit
        walker = self.walker = AofWalker(unit.path, start=self.commands_at)
        stream = open_stream(unit.path, start=self.commands_at)
        try:
            while not walker.done:
                ahead = walker.skippable()
                if ahead:
                    walker.skipped(stream.skip(ahead))
                walker.filled(stream.readinto(walker.room()))
                yield from walker.batches()
        finally:
            stream.close()
        if walker.tail.is_cut:
            if not self._accepts_cut:
                raise walker.tail.error(unit.path)
            self.cut = walker.tail
