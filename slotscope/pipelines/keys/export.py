"""Keys of dumps with their values, as files of text or commands: part by part, there only when all are written."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cluster_core.errors import ClusterCoreError
from cluster_core.kernels.keys.filter import CONDITIONS, count_of, key_filter, read_option
from cluster_core.rdb.export import NEWEST, release_of
from cluster_core.rdb.head import SplitError
from cluster_core.rdb.value_state import RESP
from slotscope.pipelines.keys.options import ExportOptions, dump_options
from slotscope.runtime.errors import InputError
from slotscope.runtime.stores import is_live
from slotscope.sources.files import InputFile, expand, is_uri, write_text
from slotscope.sources.folder_kinds import DUMPS
from slotscope.sources.rdb.files import RdbUnit, newest_dumps, plan_units
from slotscope.sources.values.part import STYLES, ExportSettings, PartFacts, write_part

if TYPE_CHECKING:
    from slotscope.servers.dump_link import DumpOptions

MANIFEST = "_export.json"
"""Written last: a folder without it is no export."""
STDOUT = "-"
PARTIAL = ".partial"
RANGE_BYTES_MIN = 8 << 20
"""Least bytes of a dump in one part."""
SUFFIXES = {"json": (".json", ".jsonl", ".ndjson"), "resp": (".resp", ".aof")}
"""Suffixes by which ``--out`` is one file; parts have the first."""
_STDOUT_NUMBER = 1


def export_dumps(request: ExportOptions) -> dict[str, Any]:
    """Write the wanted keys and return the manifest.

    Raises ConditionError for an invalid condition, InputError for unknown fields and unwritable targets, DecodeError for damaged dumps and
    EncodeError for values that the target cannot hold unless the request is permissive.
    """
    wanted = _wanted(request)
    workers = request.parallelism if request.parallelism is not None else os.cpu_count() or 1
    if workers < 1:
        raise InputError("--parallelism is the number of parts written at once: 1 or more")
    files, older = newest_dumps(expand(list(request.rdb), DUMPS))
    is_one = wanted.keys_max is not None or request.out == STDOUT
    units = sorted(
        plan_units(
            files,
            parallelism=1 if is_one else workers,
            split=not (is_one or request.permissive),
            unit_bytes_min=RANGE_BYTES_MIN,
        ),
        key=lambda unit: (unit.path, unit.part),
    )
    if request.out == STDOUT:
        with open(_STDOUT_NUMBER, "wb", closefd=False) as out:
            facts = _in_turn(units, wanted, lambda number, asked: write_part(units[number], asked, out))
        return _manifest(request, units, facts, [], older)
    return _Folder(request, wanted, files, units, older).write(workers)


def _wanted(request: ExportOptions) -> ExportSettings:
    release = NEWEST if request.target is None else read_option("--target", request.target, release_of)
    keys_max = None if request.limit is None else read_option("--limit", request.limit, count_of)
    conditions = {name: given for name in CONDITIONS if (given := getattr(request, name)) not in (None, ())}
    style = STYLES[request.to]
    return ExportSettings(
        key_filter(**conditions),
        style,
        release,
        request.permissive,
        keys_max,
        libraries=style == RESP and release.has_functions and keys_max is None and not conditions,
        live=_live_options(request),
    )


def _live_options(request: ExportOptions) -> DumpOptions | None:
    """How live servers are asked for their dumps, after each was asked whether it may be; None where there are none."""
    if not any(map(is_live, request.rdb)):
        return None
    from slotscope.servers.dump_link import check_lives  # connects to servers: imported only for one

    options = dump_options(request)
    check_lives(request.rdb, options)
    return options


def _in_turn(
    units: Sequence[RdbUnit], wanted: ExportSettings, write: Callable[[int, ExportSettings], PartFacts]
) -> list[PartFacts]:
    """Write *units* one by one, up to the wanted number of keys."""
    parts: list[PartFacts] = []
    for number, unit in enumerate(units):
        left = None if wanted.keys_max is None else wanted.keys_max - sum(facts.keys for facts in parts)
        parts.append(PartFacts(unit.path) if left == 0 else write(number, replace(wanted, keys_max=left)))
    return parts


class _Folder:
    """Parts of an export while they are written, in a folder beside the output."""

    def __init__(
        self,
        request: ExportOptions,
        wanted: ExportSettings,
        files: Sequence[InputFile],
        units: Sequence[RdbUnit],
        older: Mapping[str, str],
    ) -> None:
        self._request = request
        self._wanted = wanted
        self._older = older
        self._done: dict[int, PartFacts] = {}
        self._units = dict(enumerate(units))
        self._out = os.path.abspath(request.out)
        self._work = self._out + PARTIAL
        self._suffix = SUFFIXES[request.to][0]
        self._is_one = request.out.endswith(SUFFIXES[request.to])
        _refuse_place(request.out, self._out, self._is_one, files)

    def write(self, workers: int) -> dict[str, Any]:
        """Write all parts, and put them into their place."""
        if os.path.isdir(self._work):
            shutil.rmtree(self._work)
        os.makedirs(self._work)
        try:
            if self._wanted.keys_max is not None:
                facts = _in_turn(list(self._units.values()), self._wanted, self._part)
            else:
                facts = self._at_once(workers)
            names = [self._name(number) for number in self._units]
            manifest = _manifest(self._request, list(self._units.values()), facts, names, self._older)
            if self._is_one:
                self._join(names)
            else:
                write_text(os.path.join(self._work, MANIFEST), json.dumps(manifest, indent=1) + "\n")
                if os.path.isdir(self._out):
                    shutil.rmtree(self._out)
                os.rename(self._work, self._out)
            return manifest
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    def _at_once(self, workers: int) -> list[PartFacts]:
        """Write the parts, *workers* of them at a time; a dump that cannot be read in ranges becomes one part."""
        while True:
            with ThreadPoolExecutor(min(workers, len(self._units))) as pool:
                futures = {number: pool.submit(self._part, number, self._wanted) for number in self._units}
                wait(futures.values(), return_when=FIRST_EXCEPTION)
                pool.shutdown(cancel_futures=any(map(self._fatal, self._units, futures.values())))
            for error in map(self._fatal, self._units, futures.values()):
                if error is not None:
                    raise error
            failed = {self._units[number].path for number, future in futures.items() if future.exception()}
            if not failed:
                return [future.result() for future in futures.values()]
            for number, unit in list(self._units.items()):
                if unit.path in failed:
                    self._drop(number)
                    if unit.part:
                        del self._units[number]
                    else:
                        self._units[number] = RdbUnit(unit.path, unit.size)

    def _fatal(self, number: int, ended: Future[PartFacts]) -> BaseException | None:
        """Return the error of a part; None for a range, since its file is then written again as a whole."""
        error = ended.exception() if ended.done() and not ended.cancelled() else None
        is_range = self._units[number].parts > 1 and isinstance(error, ClusterCoreError)
        return None if is_range or isinstance(error, SplitError) else error

    def _drop(self, number: int) -> None:
        """Remove the file of a part."""
        self._done.pop(number, None)
        with suppress(FileNotFoundError):
            os.unlink(self._path(number))

    def _name(self, number: int) -> str:
        return f"part-{number:05d}{self._suffix}"

    def _path(self, number: int) -> str:
        return os.path.join(self._work, self._name(number))

    def _part(self, number: int, wanted: ExportSettings) -> PartFacts:
        """Write one part, unless it is written."""
        if number not in self._done:
            with open(self._path(number), "wb") as out:
                self._done[number] = write_part(self._units[number], wanted, out, folder=self._work)
        return self._done[number]

    def _join(self, names: Sequence[str]) -> None:
        """Put the parts behind each other into one file, and that into its place."""
        first, *rest = (os.path.join(self._work, name) for name in names)
        with open(first, "ab") as out:
            for other in rest:
                with open(other, "rb") as piece:
                    shutil.copyfileobj(piece, out, 1 << 20)
        os.replace(first, self._out)


def _refuse_place(shown: str, out: str, is_one: bool, files: Sequence[InputFile]) -> None:
    """Refuse a place with files that are no export."""
    if is_uri(shown):
        raise InputError(f"{shown}: exports are written to local folders and files")
    if any(os.path.abspath(file.path) == out or file.path.startswith(out + os.sep) for file in files):
        raise InputError(f"{shown}: an input dump has this path; choose another one")
    if is_one and os.path.isdir(out):
        raise InputError(f"{shown}: a folder is there, not a file; choose another name")
    if not is_one and os.path.exists(out) and not os.path.exists(os.path.join(out, MANIFEST)):
        if os.path.isdir(out) and not os.listdir(out):
            return
        raise InputError(f"{shown}: the folder has other files; choose another folder")


def _manifest(
    request: ExportOptions,
    units: Sequence[RdbUnit],
    facts: Sequence[PartFacts],
    names: Sequence[str],
    older: Mapping[str, str],
) -> dict[str, Any]:
    left_out: Counter[str] = Counter()
    for part in facts:
        left_out.update(part.left_out)
    return {
        "out": request.out,
        "to": request.to,
        "keys": sum(part.keys for part in facts),
        "seen": sum(part.seen for part in facts),
        "bytes": sum(part.bytes for part in facts),
        "not_text": sum(part.not_text for part in facts),
        "hollow": sum(part.hollow for part in facts),
        "functions": sum(part.functions for part in facts),
        "libraries": sum(part.libraries for part in facts),
        "recorded": {"idle": any(part.idle_known for part in facts), "freq": any(part.freq_known for part in facts)},
        "left_out": dict(sorted(left_out.items())),
        "older": dict(older),
        "damaged": [{"source": unit.path, **part.bad} for unit, part in zip(units, facts, strict=True) if part.bad],
        "parts": [
            {"file": name, "source": unit.path, "keys": part.keys, "bytes": part.bytes}
            for name, unit, part in zip(names, units, facts, strict=bool(names))
        ],
    }


def report_stream(manifest: dict[str, Any]) -> Any:
    """Return the stream of an export's report: the error stream if the data goes to the standard output."""
    return sys.stderr if manifest["out"] == STDOUT else sys.stdout
