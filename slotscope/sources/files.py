"""Files by path, glob or URI: expanded on the driver, opened in the Python worker.

Local paths are opened directly, URIs (``s3://…``, ``hdfs://…``, ``file:///…``) through pyarrow's file systems, as `runtime.stores` sets them
up.  ``*``, ``?``, ``[…]`` and ``**`` may stand in any part below a bucket.  gzip and zstd are recognised by their first bytes, not by their
name, and decompressed while reading.
"""

from __future__ import annotations

import fnmatch
import glob
import heapq
import io
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

from cluster_core.errors import DecodeError, MissingInputError
from slotscope.runtime import stores
from slotscope.runtime.errors import PlaceError
from slotscope.sources.byte_streams import CHUNK_BYTES, FileStream, InflatedStream, PlainStream, StoredFile

if TYPE_CHECKING:
    from pyarrow import fs

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
LOOKERS = 16
"""Files of a folder that are examined at a time, as stores answer slowly."""


TASK_BYTES = 256 << 20
TASKS_PER_CORE_MAX = 4
FILE_BYTES = 1 << 16
"""Bytes that can be read in the time of opening a file."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that exists: its path or URI and its size as stored."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file to find: its *noun* ("RDB dumps"), and *fits*, the test of files in a named folder."""

    noun: str
    fits: Callable[[str], bool]


def is_uri(path: str) -> bool:
    """Return whether *path* is a URI (``scheme://``)."""
    return "://" in path


def is_named(name: str, path: str) -> bool:
    """Return whether a user's *name*, a path or the last part of one, means *path*."""
    name = stores.plain(name)
    return path == name or path.rpartition("/")[2] == name or path.endswith("/" + name.lstrip("./"))


def expand(patterns: list[str], kind: Kind | None = None) -> list[InputFile]:
    """Return the files that *patterns* (paths, globs, directories, URIs) name, each once, ordered by path.

    Of a directory those that are of *kind*.  Raises DecodeError, with the pattern as source, for a missing file, a glob without match and a
    directory that cannot be read or holds none.
    """
    files: dict[str, InputFile] = {}
    for pattern in list(map(stores.plain, patterns)):
        for file in _expand(pattern, kind):
            files[file.path] = file
    return [files[path] for path in sorted(files)]


def _expand(pattern: str, kind: Kind | None) -> list[InputFile]:
    """A live server is one dump; its size is known after the transfer."""
    if stores.is_live(pattern):
        return [InputFile(pattern, 0)]
    if not is_uri(pattern):
        return _expand_local(pattern, kind)
    return _expand_uri(pattern, kind)


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def exists(path: str) -> bool:
    """Whether there is such a file now."""
    try:
        return bool(expand([path]))
    except MissingInputError:
        return False


def _expand_local(pattern: str, kind: Kind | None) -> list[InputFile]:
    if os.path.lexists(pattern) or not glob.has_magic(pattern):
        paths = [pattern]
    else:
        paths = sorted(glob.glob(pattern, recursive=True))
        if not paths:
            raise MissingInputError("no file matches this pattern", source=pattern)
    files: list[InputFile] = []
    for path in paths:
        files += _list_local(path, kind)
    return files


def _list_local(path: str, kind: Kind | None) -> list[InputFile]:
    def list_inside(is_deep: bool) -> list[InputFile]:
        return [InputFile(os.path.abspath(file), os.stat(file).st_size) for file in walk_files(path, is_deep=is_deep)]

    try:
        if not os.path.isdir(path):
            return [InputFile(os.path.abspath(path), os.stat(path).st_size)]
        os.scandir(path).close()  # os.walk hides why a folder cannot be read
        return _of_kind(list_inside, kind, path)
    except OSError as error:
        raise MissingInputError(stores.reason(error), source=path) from error


def walk_files(folder: str, *, is_deep: bool = True) -> Iterator[str]:
    """Yield the files in a local *folder*, and where *is_deep* in those below it, in order; hidden ones are left out."""
    for home, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if is_deep and not _is_hidden(name))
        paths = [os.path.join(home, name) for name in sorted(names) if not _is_hidden(name)]
        yield from filter(os.path.isfile, paths)


def _expand_uri(uri: str, kind: Kind | None) -> list[InputFile]:
    """The files that a URI in its plain spelling names; raises PlaceError where a store fails."""
    from pyarrow import fs  # a twentieth of a second that local paths do not pay

    try:
        system, path = stores.file_system(uri)
        info = system.get_file_info(path)
        is_found = info.type != fs.FileType.NotFound
        parts = path.split("/")
        first = next((place for place, part in enumerate(parts) if glob.has_magic(part)), None)
        infos = [info] if is_found else []
        if not is_found and first is not None:
            infos = _matches(system, "/".join(parts[:first]), parts[first:])
        if not infos:
            raise MissingInputError("no such file" if first is None else "no file matches this pattern", source=uri)
        prefix, files = uri.removesuffix(path), []
        for info in infos:
            if info.type == fs.FileType.Directory:
                files += _of_kind(partial(_list_stored, system, info.path, prefix), kind, f"{prefix}{info.path}")
            else:
                files.append(InputFile(f"{prefix}{info.path}", info.size))
        return files
    except (OSError, ValueError) as error:
        reason = stores.reason(error)
        if stores.is_store(uri) and isinstance(error, OSError) and reason != stores.NO_BUCKET:
            raise PlaceError(f"{uri}: cannot be read: {reason}") from error
        raise MissingInputError(reason, source=uri) from error


def _listed(system: fs.FileSystem, folder: str, *, recursive: bool = False) -> list[fs.FileInfo]:
    """The entries of *folder* that are not hidden."""
    from pyarrow import fs

    start = len(folder) + 1 if folder else 0
    infos = system.get_file_info(fs.FileSelector(folder, allow_not_found=True, recursive=recursive))
    return [info for info in infos if not any(map(_is_hidden, info.path[start:].split("/")))]


def _matches(system: fs.FileSystem, folder: str, parts: list[str]) -> list[fs.FileInfo]:
    """The files and folders below *folder* that match the *parts* of a pattern; ``**`` is any number of folders."""
    from pyarrow import fs

    part, *rest = parts
    if part == "**":
        below = _listed(system, folder, recursive=True)
        homes = [folder, *(info.path for info in below if info.type == fs.FileType.Directory)]
        if not rest:
            return [info for info in below if info.type == fs.FileType.File]
        return [info for home in homes for info in _matches(system, home, rest)]
    if not glob.has_magic(part):
        whole = f"{folder}/{part}"
        if rest:
            return _matches(system, whole, rest)
        info = system.get_file_info(whole)
        return [] if info.type == fs.FileType.NotFound else [info]
    infos = [info for info in _listed(system, folder) if fnmatch.fnmatchcase(info.base_name, part)]
    homes = [info.path for info in infos if info.type == fs.FileType.Directory]
    return [info for home in homes for info in _matches(system, home, rest)] if rest else infos


def _list_stored(system: fs.FileSystem, folder: str, prefix: str, is_deep: bool) -> list[InputFile]:
    from pyarrow import fs

    infos = _listed(system, folder, recursive=is_deep)
    return [InputFile(f"{prefix}{info.path}", info.size) for info in infos if info.type == fs.FileType.File]


def _of_kind(list_files: Callable[[bool], list[InputFile]], kind: Kind | None, folder: str) -> list[InputFile]:
    """Return the files of *kind* that *list_files* finds in *folder*, or where it has none those in the folders below it."""
    files: list[InputFile] = []
    for is_deep in (False, True) if kind else (False,):
        files = list_files(is_deep)
        if kind is None or not files:
            continue
        with ThreadPoolExecutor(LOOKERS) as lookers:
            fits = list(lookers.map(kind.fits, [file.path for file in files]))
        chosen = [file for file, fit in zip(files, fits, strict=True) if fit]
        if chosen:
            return chosen
    if not files:
        raise MissingInputError("the directory holds no files", source=folder)
    if kind is not None:
        raise MissingInputError(f"the directory holds no {kind.noun}", source=folder)
    return files


def open_raw(path: str) -> IO[bytes]:
    """Open a file for reading bytes; raises DecodeError if that is refused, PlaceError where a store fails."""
    if stores.is_live(path):
        raise MissingInputError(
            "the dump of a live server is read once, by key-slots, advise and export alone: save it to a file first",
            source=path,
        )
    try:
        if is_uri(path):
            system, inside = stores.file_system(path)
            opened: IO[bytes] = system.open_input_file(inside)
            return io.BufferedReader(StoredFile(path, opened), CHUNK_BYTES) if stores.is_store(path) else opened
        return open(path, "rb", buffering=0)
    except (OSError, ValueError) as error:
        if stores.is_store(path) and not isinstance(error, FileNotFoundError):
            raise PlaceError(f"{path}: cannot be read: {stores.reason(error)}") from error
        raise DecodeError(stores.reason(error), offset=0, source=path) from error


def write_text(path: str, text: str) -> None:
    """Write a small file atomically; folders are made.  Raises PlaceError if refused."""
    data, path = text.encode("utf-8", "surrogateescape"), stores.folder_of(path)
    try:
        if stores.is_store(path):
            stores.write_object(path, data)
            return
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        partial = f"{path}.partial"
        with open(partial, "wb") as local:
            local.write(data)
        os.replace(partial, path)
    except (OSError, ValueError) as error:
        raise PlaceError(f"{path}: cannot be written: {stores.reason(error)}") from error


def compression_of(path: str) -> str | None:
    """Return ``gzip``, ``zstd`` or None, by the file's first bytes."""
    with open_raw(path) as raw:
        return _compression(raw)


def _compression(raw: IO[bytes]) -> str | None:
    head = raw.read(4) or b""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    return "zstd" if head == ZSTD_MAGIC else None


def zeros_at_end(path: str) -> int:
    """Return how many zero bytes an uncompressed file ends with, as one that was made but not yet written does."""
    if compression_of(path) is not None:
        return 0
    count = 0
    with open_raw(path) as raw:
        at = raw.seek(0, os.SEEK_END)
        step = 4096
        while at:
            size = min(step, at)
            at = raw.seek(at - size)
            block = raw.read(size) or b""
            count += len(block) - len(block.rstrip(b"\0"))
            if len(block) < size or block.rstrip(b"\0"):
                break
            step = CHUNK_BYTES
    return count


def open_stream(path: str, *, start: int = 0) -> FileStream:
    """Open a file for forward reading of its plain bytes from *start*, decompressing as needed."""
    raw = open_raw(path)
    compression = _compression(raw)
    raw.seek(start if compression is None else 0)
    if compression is None:
        return PlainStream(raw, path)
    stream = InflatedStream(raw, path, compression)
    stream.skip(start)
    return stream


def read_pieces(path: str, piece_bytes: int) -> Iterator[bytes]:
    """Yield the plain bytes of a file in pieces of at most *piece_bytes*; raises DecodeError where it is damaged."""
    stream = open_stream(path)
    try:
        room = memoryview(bytearray(piece_bytes))
        while count := stream.readinto(room):
            yield bytes(room[:count])
    finally:
        stream.close()


def read_lines(path: str, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of each line of a file that is not blank; also one at the end that is cut short.

    Raises DecodeError where the file is damaged, and with the line's number as offset for one of more than *longest* bytes.
    """
    number, rest = 0, b""
    for piece in read_pieces(path, CHUNK_BYTES):
        *whole, rest = (rest + piece).split(b"\n")
        for raw in whole:
            number += 1
            if raw.strip():
                yield number, raw
        if len(rest) > longest:
            raise DecodeError(f"a line longer than {longest} bytes", offset=number + 1, source=path)
    if rest.strip():
        yield number + 1, rest


class _Unit(Protocol):
    """A file of *size* bytes, or a piece of it from *start* on."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def start(self) -> int: ...


U = TypeVar("U", bound=_Unit)


def units_of_tasks(units: Sequence[U], parallelism: int) -> list[tuple[U, ...]]:
    """Return the units of each task, in the order of their paths.

    A task gets the largest file that is left while it has the fewest bytes; there are more tasks than cores only where there is much to read.
    """
    turns = sum(unit.size for unit in units) // (parallelism * TASK_BYTES)
    count = min(len(units), parallelism * min(max(turns, 1), TASKS_PER_CORE_MAX))
    loads = [(0, number) for number in range(count)]
    chosen: list[list[U]] = [[] for _ in loads]
    for unit in sorted(units, key=lambda unit: -unit.size):
        held, number = heapq.heappop(loads)
        chosen[number].append(unit)
        heapq.heappush(loads, (held + unit.size + FILE_BYTES, number))
    return [tuple(sorted(mine, key=lambda unit: (unit.path, unit.start))) for mine in chosen]
