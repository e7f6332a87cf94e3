"""Manifests: the clusters of one application, and the options of each, from a TOML file or a landing."""

from __future__ import annotations

import glob
import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from cluster_core.errors import MissingInputError
from cluster_core.formats.landing import read_path
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError
from slotscope.sources.files import expand, is_uri, open_raw

MANIFEST_BYTES_MAX: Final = 16 << 20
SUFFIX: Final = ".toml"
HOMES: Final = ("*", "*/*")
"""Folders of a cluster in a landing: its own, or that of one of its points."""
FILES: Final = {"rdb": ("rdb/*",), "aof": ("aof/*.manifest", "aof/*/*.manifest"), "keys": ("keys/*",)}
"""Options, and the files of a home that they read."""
NAMED: Final = frozenset({"aof"})
"""Options that name these files; others name their folders, which may have other files, too."""
TOPOLOGIES: Final = ("nodes.txt", "nodes.conf")
POLLS: Final = "polls/*"
PATHS: Final = frozenset({*FILES, "topology", "placement", "slot_stats", "monitor"})
"""Options with paths, which are relative to the manifest."""
PLAN: Final = "plan"
"""Table of a cluster with the options of its plan; the others are those of its snapshot."""

Options = dict[str, Any]
Asked = TypeVar("Asked", bound=Any)


def requests_of(
    request: Asked, manifest: str, parse: Callable[[Sequence[str]], Asked], shared: Collection[str], table: str = ""
) -> list[Asked]:
    """Return a request per cluster of *manifest*: its own options, those of its *table* if one is named, over those of *request*.

    *parse* reads options as a command line does.  Raises InputError for a bad manifest, unknown options, and options in *shared*.
    """
    requests = []
    for cluster, listed in read_manifest(manifest).items():
        where = f"{manifest}: {cluster}{table and '.'}{table}"
        options = listed.get(table, {}) if table else {name: listed[name] for name in listed if name != PLAN}
        for name in options.keys() & shared:
            raise InputError(f"{where}: {name}: cannot be set per cluster")
        asked = _parsed(options, where, parse, {field.name for field in fields(request)})
        own = {name: getattr(asked, name) for name in options}
        requests.append(replace(request, **{"cluster": cluster, "manifest": None, **own}))
    return requests


def _parsed(options: Options, where: str, parse: Callable[[Sequence[str]], Asked], known: Collection[str]) -> Asked:
    arguments = []
    for name, value in options.items():
        if name not in known:
            raise InputError(f"{where}: {name}: no such option (see --help-all)")
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, str | int | float):
                raise InputError(f"{where}: {name}: write a text, a number, true or false, or a list of texts")
            arguments.append(f"--{name.replace('_', '-')}={str(item).lower() if isinstance(item, bool) else item}")
    try:
        return parse(arguments)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def read_manifest(path: str) -> dict[str, Options]:
    """The clusters that *path* names, and the options of each, by their names with underscores.

    Raises InputError for a file that is no manifest, DecodeError where it cannot be read.
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
        tables = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from error
    home = path.rpartition("/")[0]
    for name, options in tables.items():
        if not isinstance(options, dict):
            raise InputError(f"{path}: {name}: move the options of a cluster below its name: [NAME]")
        if not isinstance(options.get(PLAN, {}), dict):
            raise InputError(f"{path}: {name}: move the options of its plan below [{name}.{PLAN}]")
    return {name: _options(options, home) for name, options in tables.items()}


def _options(table: Options, home: str) -> Options:
    """Return the options of a TOML *table* by names with underscores; relative paths start at *home*."""
    options = {name.replace("-", "_"): value for name, value in table.items()}
    paths = {name: _from(home, options[name]) for name in options.keys() & PATHS}
    return options | paths | ({PLAN: _options(options[PLAN], home)} if PLAN in options else {})


def _from(home: str, value: Any) -> Any:
    """The paths *value*, taken from *home* where they are relative."""
    if isinstance(value, list):
        return [_from(home, item) for item in value]
    if not home or not isinstance(value, str) or is_uri(value) or value.startswith("/"):
        return value
    return f"{home}/{value}"


def _find_clusters(landing: str) -> dict[str, Options]:
    """Return the inputs in *landing* by cluster."""
    clusters: dict[str, Options] = {}
    for option, patterns in FILES.items():
        for cluster, path in _files_by_cluster(landing, *patterns):
            named = path if option in NAMED else path.rpartition("/")[0]
            known = clusters.setdefault(cluster, {}).setdefault(option, [])
            if named not in known:
                known.append(named)
    described = dict(_files_by_cluster(landing, *TOPOLOGIES))
    polled = _newest_polls(landing) if clusters.keys() - described.keys() else {}
    for cluster, options in clusters.items():
        topology = described.get(cluster) or polled.get(cluster)
        if topology is not None:
            options["topology"] = topology
    return dict(sorted(clusters.items()))


def _newest_polls(landing: str) -> dict[str, str]:
    """The file of polls that ended last, by cluster."""
    newest: dict[str, tuple[int, str]] = {}
    for cluster, path in _files_by_cluster(landing, POLLS):
        place = read_path(path)
        if place is not None:
            newest[cluster] = max(newest.get(cluster, (0, "")), (place.file.to_ns or 0, path))
    return {cluster: path for cluster, (_, path) in newest.items()}


def _files_by_cluster(landing: str, *patterns: str) -> Iterator[tuple[str, str]]:
    """Files of *patterns*, each with its cluster."""
    start = len(landing if is_uri(landing) else os.path.abspath(landing)) + 1
    for home in HOMES:
        for pattern in patterns:
            with suppress(MissingInputError):
                for file in expand([f"{glob.escape(landing)}/{home}/{pattern}"]):
                    yield file.path[start:].partition("/")[0], file.path
