"""Which commands read the files that were recognised, as a person would write them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.aof.manifest import MANIFEST_BYTES_MAX, read_manifest
from slotscope.sources.files import read_pieces
from slotscope.sources.recognition import FileKind, RecognisedFile


class Recipe(NamedTuple):
    """One command: it runs where there is a file of *needs*, and takes files by option; *snapshot* is added to the snapshot's name where
    others write tables of the same kind: of keys, or of history."""

    job: str
    needs: tuple[FileKind, ...]
    options: Mapping[str, tuple[FileKind, ...]]
    snapshot: str
    more: tuple[str, ...] = ()


KEY_TABLES: Final = "key-slots"
RECIPES: Final = (
    Recipe(KEY_TABLES, (FileKind.RDB,), {"--rdb": (FileKind.RDB,)}, "dumps"),
    Recipe(KEY_TABLES, (FileKind.AOF_MANIFEST, FileKind.AOF), {"--aof": (FileKind.AOF_MANIFEST, FileKind.AOF)}, "logs"),
    *(
        Recipe(KEY_TABLES, (kind,), {"--keys": (kind,)}, f"keys-{form}", ("--key-format", form))
        for kind, form in (
            (FileKind.KEYS_PARQUET, "parquet"),
            (FileKind.KEYS_JSONL, "jsonl"),
            (FileKind.KEYS_CSV, "csv"),
            (FileKind.KEYS_TEXT, "text"),
        )
    ),
    Recipe(
        "history",
        (FileKind.BUS_CAPTURE, FileKind.SERVER_LOG, FileKind.NODE_POLLS, FileKind.METRICS),
        {
            "--pcap": (FileKind.BUS_CAPTURE,),
            "--log": (FileKind.SERVER_LOG,),
            "--polls": (FileKind.NODE_POLLS,),
            "--prometheus": (FileKind.METRICS,),
        },
        "history",
    ),
    Recipe(
        "lab sentinel-replay",
        (FileKind.SENTINEL_LOG, FileKind.SENTINEL_POLLS),
        {
            "--log": (FileKind.SENTINEL_LOG,),
            "--polls": (FileKind.SENTINEL_POLLS,),
        },
        "sentinels",
    ),
)
"""Every command that may fit, in the order in which they run."""

ALONE: Final = {
    FileKind.MONITOR: "commands for a plan: slotscope plan make --monitor",
    FileKind.TOPOLOGY: "owners of slots: name dumps or key lists with it",
    FileKind.INFO: "INFO replies without CLUSTER NODES: no command reads them",
}
"""Files that no command reads by themselves."""


class FittingJob(NamedTuple):
    """A command with its arguments, without the program's name."""

    job: str
    arguments: tuple[str, ...]


def fitting_jobs(recognised: Sequence[RecognisedFile], root: str, snapshot: str) -> tuple[list[FittingJob], list[str]]:
    """The commands that read *recognised* into the snapshot *snapshot* of *root*, and a line for each file that none of them reads."""
    by_kind: dict[FileKind, list[str]] = {}
    owned = _files_of_logs(recognised)
    for entry in recognised:
        if entry.path not in owned:
            by_kind.setdefault(entry.kind, []).append(entry.path)
    topology, passed_over = _newest_topology(by_kind.get(FileKind.TOPOLOGY, []))
    fitting = [recipe for recipe in RECIPES if any(by_kind.get(kind) for kind in recipe.needs)]
    tables = Counter(recipe.job == KEY_TABLES for recipe in fitting)
    jobs = []
    used = {kind for recipe in fitting for kinds in recipe.options.values() for kind in kinds}
    for recipe in fitting:
        arguments = [
            word
            for flag, kinds in recipe.options.items()
            if (paths := [path for kind in kinds for path in by_kind.get(kind, ())])
            for word in (flag, *paths)
        ]
        if recipe.job == KEY_TABLES:
            arguments += [*recipe.more, *(["--topology", topology] if topology else [])]
        name = f"{snapshot}-{recipe.snapshot}" if tables[recipe.job == KEY_TABLES] > 1 else snapshot
        jobs.append(FittingJob(recipe.job, (*arguments, "--snapshot", name, "--root", root)))
    if topology and tables[True]:
        used.add(FileKind.TOPOLOGY)
    left = [
        f"{path}: {ALONE[kind]}"
        for kind, paths in by_kind.items()
        if kind in ALONE and kind not in used
        for path in paths
    ]
    return jobs, [*left, *(passed_over if tables[True] else [])]


def _files_of_logs(recognised: Iterable[RecognisedFile]) -> set[str]:
    """Files that manifests among *recognised* name: they are read with these."""
    owned: set[str] = set()
    for entry in recognised:
        if entry.kind is FileKind.AOF_MANIFEST:
            with suppress(DecodeError):
                manifest = read_manifest(b"".join(read_pieces(entry.path, MANIFEST_BYTES_MAX)), source=entry.path)
                home = entry.path[: len(entry.path) - len(entry.path.rpartition("/")[2])]
                owned |= {home + part.name for part in (*manifest.parts(), *manifest.history)}
    return owned


def _newest_topology(paths: Sequence[str]) -> tuple[str, list[str]]:
    """The newest of several topology files by time of the file, and a line about the choice."""
    newest = max(paths, key=lambda path: (_written(path), path), default="")
    line = f"{newest}: used for slot owners, the newest of {len(paths)} topologies by time of the file"
    return newest, [line] if len(paths) > 1 else []


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
