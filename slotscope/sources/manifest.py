"""Clusters that one job reads: a TOML file with a table of options for each, or a landing with a folder for each."""

from __future__ import annotations

import glob
import os
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from cluster_core.errors import MissingInputError
from cluster_core.formats.landing import read_path
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError
from slotscope.sources.files import expand, is_uri, open_raw

MANIFEST_BYTES_MAX: Final = 16 << 20
SUFFIX: Final = ".toml"
HOMES: Final = ("*", "*/*")
"""Where in a landing what belongs to a cluster may lie: in its folder, or in one of its points."""
FILES: Final = {"rdb": ("rdb/*",), "aof": ("aof/*.manifest", "aof/*/*.manifest"), "keys": ("keys/*",)}
"""Options, and the files of a home that are meant."""
NAMED: Final = frozenset({"aof"})
"""Options that name these files; others name their folders, in which other files may lie, too."""
TOPOLOGIES: Final = ("nodes.txt", "nodes.conf")
POLLS: Final = "polls/*"
PATHS: Final = frozenset({*FILES, "topology"})
"""Options whose values are paths: in a manifest from where it lies."""

Options = dict[str, Any]


def read_manifest(path: str) -> dict[str, Options]:
    """The clusters that *path* names, and the options of each, by their names with underscores.

    Raises InputError for what is no manifest, DecodeError where it cannot be read.
    """
    path = stores.plain(path)
    clusters = _read_toml(path) if path.endswith(SUFFIX) else _find_clusters(path.rstrip("/"))
    if not clusters:
        raise InputError(f"{path}: no cluster in it: [NAME] and rdb = [...], or NAME/POINT/rdb/*.rdb (docs/fleet.md)")
    return clusters


def _read_toml(path: str) -> dict[str, Options]:
    with open_raw(path) as raw:
        data = raw.read(MANIFEST_BYTES_MAX + 1) or b""
    if len(data) > MANIFEST_BYTES_MAX:
        raise InputError(f"{path}: larger than {MANIFEST_BYTES_MAX} bytes: not a manifest")
    try:
        told = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from error
    home = path.rpartition("/")[0]
    clusters = {}
    for name, options in told.items():
        if not isinstance(options, dict):
            raise InputError(f"{path}: {name}: options stand below the name of their cluster: [NAME]")
        clusters[name] = {option.replace("-", "_"): value for option, value in options.items()}
        for option in clusters[name].keys() & PATHS:
            clusters[name][option] = _from(home, clusters[name][option])
    return clusters


def _from(home: str, value: Any) -> Any:
    """The paths *value*, taken from *home* where they are relative."""
    if isinstance(value, list):
        return [_from(home, one) for one in value]
    if not home or not isinstance(value, str) or is_uri(value) or value.startswith("/"):
        return value
    return f"{home}/{value}"


def _find_clusters(landing: str) -> dict[str, Options]:
    """What lies in *landing* of each cluster of which there are dumps, logs or key lists."""
    clusters: dict[str, Options] = {}
    for option, patterns in FILES.items():
        for cluster, path in _found(landing, *patterns):
            named = path if option in NAMED else path.rpartition("/")[0]
            known = clusters.setdefault(cluster, {}).setdefault(option, [])
            if named not in known:
                known.append(named)
    described = dict(_found(landing, *TOPOLOGIES))
    polled = _newest_polls(landing) if clusters.keys() - described.keys() else {}
    for cluster, options in clusters.items():
        topology = described.get(cluster) or polled.get(cluster)
        if topology is not None:
            options["topology"] = topology
    return dict(sorted(clusters.items()))


def _newest_polls(landing: str) -> dict[str, str]:
    """The file of polls that ended last, by cluster."""
    newest: dict[str, tuple[int, str]] = {}
    for cluster, path in _found(landing, POLLS):
        place = read_path(path)
        if place is not None:
            newest[cluster] = max(newest.get(cluster, (0, "")), (place.file.to_ns or 0, path))
    return {cluster: path for cluster, (_, path) in newest.items()}


def _found(landing: str, *patterns: str) -> Iterator[tuple[str, str]]:
    """Files of *patterns*, each with its cluster."""
    start = len(landing if is_uri(landing) else os.path.abspath(landing)) + 1
    for home in HOMES:
        for pattern in patterns:
            with suppress(MissingInputError):
                for file in expand([f"{glob.escape(landing)}/{home}/{pattern}"]):
                    yield file.path[start:].partition("/")[0], file.path
