"""The files that a URI names: those below a bucket, or of any file system that pyarrow knows."""

from __future__ import annotations

import fnmatch
import glob
from typing import Any

from pyarrow import fs

from cluster_core.errors import MissingInputError
from slotscope.runtime.errors import PlaceError
from slotscope.runtime.storage import stores


def list_uri(uri: str) -> list[tuple[str, int, list[tuple[str, int]] | None]]:
    """Paths and sizes of what a URI in its plain spelling names; of a folder those of the files in it, too.  Raises MissingInputError and PlaceError."""
    try:
        system, path = stores.file_system(uri)
        prefix = uri.removesuffix(path)
        info = system.get_file_info(path)
        if info.type == fs.FileType.NotFound and glob.has_magic(path):
            at = next(place for place, part in enumerate(path.split("/")) if glob.has_magic(part))
            parts = path.split("/")
            infos = _matches(system, "/".join(parts[:at]), parts[at:])
            if not infos:
                _say_missing_bucket(system, path, uri)
                raise MissingInputError("no file matches this pattern", source=uri)
        elif info.type == fs.FileType.NotFound:
            _say_missing_bucket(system, path, uri)
            raise MissingInputError("no such file", source=uri)
        else:
            infos = [info]
        found: list[tuple[str, int, list[tuple[str, int]] | None]] = []
        for info in infos:
            inside = None
            if info.type == fs.FileType.Directory:
                lying = [one for one in _listed(system, info.path) if one.type == fs.FileType.File]
                inside = [(f"{prefix}{one.path}", one.size) for one in lying]
            found.append((f"{prefix}{info.path}", info.size, inside))
        return found
    except (OSError, ValueError) as error:
        if stores.is_store(uri) and isinstance(error, OSError):
            raise PlaceError(f"{uri}: cannot be read: {stores.reason(error)}") from error
        raise MissingInputError(stores.reason(error), source=uri) from error


def _say_missing_bucket(system: fs.FileSystem, path: str, uri: str) -> None:
    bucket = path.partition("/")[0]
    if stores.is_store(uri) and system.get_file_info(bucket).type == fs.FileType.NotFound:
        raise MissingInputError("no such bucket", source=uri)


def _listed(system: fs.FileSystem, folder: str, *, recursive: bool = False) -> list[Any]:
    """What lies in *folder* and is not hidden."""
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=recursive)
    start = len(folder) + 1 if folder else 0
    return [
        info for info in system.get_file_info(selector) if not any(map(stores.is_hidden, info.path[start:].split("/")))
    ]


def _matches(system: fs.FileSystem, folder: str, parts: list[str]) -> list[Any]:
    """What *parts* of a pattern name below *folder*; ``**`` is any number of folders."""
    part, *rest = parts
    if part == "**":
        homes = [one.path for one in _listed(system, folder, recursive=True) if one.type == fs.FileType.Directory]
        if not rest:
            return [one for one in _listed(system, folder, recursive=True) if one.type == fs.FileType.File]
        return [info for home in (folder, *homes) for info in _matches(system, home, rest)]
    if not glob.has_magic(part):
        whole = f"{folder}/{part}"
        if rest:
            return _matches(system, whole, rest)
        info = system.get_file_info(whole)
        return [] if info.type == fs.FileType.NotFound else [info]
    found = [info for info in _listed(system, folder) if fnmatch.fnmatchcase(info.base_name, part)]
    if not rest:
        return found
    homes = [info.path for info in found if info.type == fs.FileType.Directory]
    return [info for home in homes for info in _matches(system, home, rest)]
