"""Files by path, glob or URI: expanded on the driver, opened in the Python worker.

Local paths are opened directly, URIs (``s3://…``, ``hdfs://…``, ``file:///…``) through pyarrow's file systems.  gzip and zstd are
recognised by their first bytes, not by their name, and decompressed while reading.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Protocol

import pyarrow as pa
from pyarrow import fs

from cluster_core.errors import DecodeError, MissingInputError

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that exists: its path or URI and its size as stored."""

    path: str
    size: int


class ByteStream(Protocol):
    """What the readers need of an open file."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill *buffer* from the current position; 0 at the end."""

    def skip(self, count: int) -> int:
        """Move forward, not beyond the end; return by how many bytes."""

    def close(self) -> None:
        """Release the file."""


def is_uri(path: str) -> bool:
    """Say whether *path* names a file system (``scheme://``)."""
    return "://" in path


def is_named(words: str, path: str) -> bool:
    """Say whether a user's *words*, a path or the last part of one, mean *path*."""
    return path == words or path.rpartition("/")[2] == words or path.endswith("/" + words.lstrip("./"))


def expand(patterns: list[str]) -> list[InputFile]:
    """Return the files that *patterns* (paths, globs, directories, URIs) name, each once, ordered by path.

    Raises DecodeError, with the pattern as source, for a missing file, a glob without match and a directory that cannot be read.
    """
    found: dict[str, InputFile] = {}
    for pattern in patterns:
        for file in _expand_uri(pattern) if is_uri(pattern) else _expand_local(pattern):
            found[file.path] = file
    return [found[path] for path in sorted(found)]


def exists(path: str) -> bool:
    """Whether there is such a file now."""
    try:
        return bool(expand([path]))
    except MissingInputError:
        return False


def _expand_local(pattern: str) -> list[InputFile]:
    if os.path.lexists(pattern) or not glob.has_magic(pattern):
        paths = [pattern]
    else:
        paths = sorted(glob.glob(pattern, recursive=True))
        if not paths:
            raise MissingInputError("no file matches this pattern", source=pattern)
    files: list[InputFile] = []
    for path in paths:
        files += _list_local(path)
    return files


def _list_local(path: str) -> list[InputFile]:
    try:
        if not os.path.isdir(path):
            return [InputFile(os.path.abspath(path), os.stat(path).st_size)]
        names = sorted(name for name in os.listdir(path) if not name.startswith((".", "_")))
    except OSError as error:
        raise MissingInputError(_os_reason(error), source=path) from error
    inside = [os.path.join(path, name) for name in names]
    files = [InputFile(os.path.abspath(file), os.stat(file).st_size) for file in inside if os.path.isfile(file)]
    if not files:
        raise MissingInputError("the directory holds no files", source=path)
    return files


def _expand_uri(uri: str) -> list[InputFile]:
    try:
        stem, _, pattern = uri.rpartition("/")
        if glob.has_magic(pattern):
            system, base = fs.FileSystem.from_uri(stem)
            infos = system.get_file_info(fs.FileSelector(base))
            infos = [info for info in infos if fnmatch.fnmatch(info.base_name, pattern)]
            if not infos:
                raise MissingInputError("no file matches this pattern", source=uri)
            scheme = uri.split("://", 1)[0]
            return [InputFile(f"{scheme}://{info.path}", info.size) for info in infos if info.type == fs.FileType.File]
        system, base = fs.FileSystem.from_uri(uri)
        info = system.get_file_info(base)
    except (OSError, ValueError) as error:
        raise MissingInputError(_os_reason(error), source=uri) from error
    if info.type == fs.FileType.Directory:
        return _expand_uri(uri.rstrip("/") + "/*")
    if info.type != fs.FileType.File:
        raise MissingInputError("no such file", source=uri)
    return [InputFile(uri, info.size)]


def _os_reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
    return getattr(error, "strerror", None) or str(error).splitlines()[0]


def open_raw(path: str) -> IO[bytes]:
    """Open a file for reading bytes; raises DecodeError if that is refused."""
    try:
        if is_uri(path):
            system, base = fs.FileSystem.from_uri(path)
            opened: IO[bytes] = system.open_input_file(base)
            return opened
        return open(path, "rb", buffering=0)
    except (OSError, ValueError) as error:
        raise DecodeError(_os_reason(error), offset=0, source=path) from error


def as_arrow(raw: Any) -> pa.NativeFile:
    """Return an open file as pyarrow's readers take it."""
    return raw if isinstance(raw, pa.NativeFile) else pa.PythonFile(raw, mode="r")


def write_text(path: str, text: str) -> None:
    """Write a small file as a whole: never half of it under its name; folders are made.  Raises DecodeError if refused."""
    data = text.encode("utf-8", "surrogateescape")
    try:
        if is_uri(path):
            system, base = fs.FileSystem.from_uri(path)
            system.create_dir(base.rpartition("/")[0], recursive=True)
            with system.open_output_stream(base) as remote:
                remote.write(data)
            return
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        partial = f"{path}.partial"
        with open(partial, "wb") as local:
            local.write(data)
        os.replace(partial, path)
    except (OSError, ValueError) as error:
        raise DecodeError(_os_reason(error), offset=0, source=path) from error


def compression_of(path: str) -> str | None:
    """Return ``gzip``, ``zstd`` or None, by the file's first bytes."""
    with open_raw(path) as raw:
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
            step = _CHUNK_BYTES
    return count


def open_stream(path: str, *, start: int = 0) -> ByteStream:
    """Open a file for forward reading of its plain bytes from *start*, decompressing as needed."""
    compression = compression_of(path)
    if compression is None:
        raw = open_raw(path)
        raw.seek(start)
        return PlainStream(raw, path)
    stream = InflatedStream(path, compression)
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
    for piece in read_pieces(path, _CHUNK_BYTES):
        *whole, rest = (rest + piece).split(b"\n")
        for raw in whole:
            number += 1
            if raw.strip():
                yield number, raw
        if len(rest) > longest:
            raise DecodeError(f"a line longer than {longest} bytes", offset=number + 1, source=path)
    if rest.strip():
        yield number + 1, rest


class PlainStream:
    """An uncompressed file."""

    def __init__(self, raw: IO[bytes], path: str) -> None:
        self._raw: Any = raw
        self._path = path

    def readinto(self, buffer: memoryview) -> int:
        """Fill *buffer*; raises DecodeError where the medium fails."""
        try:
            return int(self._raw.readinto(buffer) or 0)
        except OSError as error:
            raise DecodeError(_os_reason(error), offset=self._raw.tell(), source=self._path) from error

    def skip(self, count: int) -> int:
        """Seek forward, not beyond the end: what a file says that follows need not be there."""
        at = self._raw.tell()
        passed: int = max(0, min(count, self._raw.seek(0, os.SEEK_END) - at))
        self._raw.seek(at + passed)
        return passed

    def close(self) -> None:
        """Release the file."""
        self._raw.close()


class InflatedStream:
    """A gzip or zstd file (also several members in a row), decompressed with bounded memory."""

    def __init__(self, path: str, compression: str) -> None:
        self._path = path
        self._compression = compression
        self._offset = 0
        raw: Any = open_raw(path)
        self._stream = pa.CompressedInputStream(as_arrow(raw), compression)

    def readinto(self, buffer: memoryview) -> int:
        """Fill *buffer*; raises DecodeError with the offset in the plain bytes if the data is damaged or cut short."""
        try:
            count = int(self._stream.readinto(buffer))
        except OSError as error:
            reason = f"{self._compression} data is damaged or cut short ({_os_reason(error)})"
            raise DecodeError(reason, offset=self._offset, source=self._path) from error
        self._offset += count
        return count

    def skip(self, count: int) -> int:
        """Read and drop, to the end at most."""
        room = memoryview(bytearray(min(count, _CHUNK_BYTES)))
        left = count
        while left and (read := self.readinto(room[: min(left, len(room))])):
            left -= read
        return count - left

    def close(self) -> None:
        """Release the file."""
        self._stream.close()
