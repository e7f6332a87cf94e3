"""Open files as forward streams of their plain bytes, compressed or not, and the bytes of a stream that comes once, held until they are used."""

from __future__ import annotations

import io
import mmap
import os
from importlib import import_module
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from cluster_core.errors import DecodeError
from slotscope.runtime import stores
from slotscope.runtime.errors import PlaceError

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES: Final = 1 << 20


class ByteStream(Protocol):
    """Interface of an open file for the readers."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill *buffer* from the current position; 0 at the end."""

    def skip(self, count: int) -> int:
        """Move forward, not beyond the end; return by how many bytes."""

    def close(self) -> None:
        """Release the file."""


class FileStream(ByteStream, Protocol):
    """One of a file, and not of a live server."""

    def stored_bytes(self) -> int:
        """Return the number of stored bytes that were read so far."""


def read_past(stream: ByteStream, count: int) -> int:
    """Read and drop *count* bytes, to the end at most; return how many."""
    room = memoryview(bytearray(min(count, CHUNK_BYTES)))
    left = count
    while left and (read := stream.readinto(room[: min(left, len(room))])):
        left -= read
    return count - left


class StoredFile(io.RawIOBase):
    """An open object: raises `PlaceError` where its store fails, so that nothing takes the object for a damaged file."""

    def __init__(self, uri: str, opened: Any) -> None:
        self._uri, self._opened = uri, opened

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place, without a request."""
        return int(self._opened.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer*; 0 at the end."""
        try:
            return int(self._opened.readinto(buffer))
        except OSError as error:
            raise PlaceError(f"{self._uri}: cannot be read: {stores.reason(error)}") from error

    def close(self) -> None:
        """Release it."""
        self._opened.close()
        super().close()


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
            raise DecodeError(stores.reason(error), offset=self._raw.tell(), source=self._path) from error

    def skip(self, count: int) -> int:
        """Seek forward, not beyond the end: a length in a damaged file may exceed it."""
        at = self._raw.tell()
        passed: int = max(0, min(count, self._raw.seek(0, os.SEEK_END) - at))
        self._raw.seek(at + passed)
        return passed

    def stored_bytes(self) -> int:
        """How much of the file was read so far."""
        return int(self._raw.tell())

    def close(self) -> None:
        """Release the file."""
        self._raw.close()


class InflatedStream:
    """A gzip or zstd file (also several members in a row), decompressed with bounded memory."""

    def __init__(self, raw: Any, path: str, compression: str) -> None:
        self._path = path
        self._compression = compression
        self._offset = 0
        self._raw = raw
        self._stream, self._faults = _inflating(raw, compression)

    def readinto(self, buffer: memoryview) -> int:
        """Fill *buffer*; raises DecodeError with the offset in the plain bytes if the data is damaged or cut short."""
        try:
            count = int(self._stream.readinto(buffer))
        except self._faults as error:
            reason = f"{self._compression} data is damaged or cut short ({stores.reason(error)})"
            raise DecodeError(reason, offset=self._offset, source=self._path) from error
        self._offset += count
        return count

    def skip(self, count: int) -> int:
        """Read and drop, to the end at most."""
        return read_past(self, count)

    def stored_bytes(self) -> int:
        """How much of the compressed file was read so far."""
        return int(self._raw.tell())

    def close(self) -> None:
        """Release the file."""
        self._stream.close()
        self._raw.close()


def _inflating(raw: Any, compression: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return *raw* decompressed, and the errors that damage raises; ISA-L inflates gzip in less than half the time of zlib."""
    if compression == "gzip" and find_spec("isal") is not None:  # which has no wheels for some machines
        igzip: Any = import_module("isal.igzip")
        return igzip.IGzipFile(fileobj=raw, mode="rb"), (OSError, EOFError, igzip.igzip_lib.IsalError)
    import pyarrow as pa

    return pa.CompressedInputStream(as_arrow(raw), compression), (OSError,)


def as_arrow(raw: Any) -> pa.NativeFile:
    """Return an open file as pyarrow's readers take it."""
    import pyarrow as pa  # a twentieth of a second that plain files do not pay

    return raw if isinstance(raw, pa.NativeFile) else pa.PythonFile(raw, mode="r")


HELD_BYTES = 64 << 20
"""Held bytes at which keys are handed on."""
HELD_BYTES_MAX = 1 << 30
"""A larger record is not held: it must be in a file."""
_ADDRESSES = 1 << 44
"""Addresses that are asked for; memory is taken where bytes are written, and given back by `HeldBytes.release`."""
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on


class HeldBytes:
    """A forward stream that keeps bytes until they are released, as *data* of a mapped file."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._room = mmap.mmap(-1, _ADDRESSES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except OSError as error:
            reason = f"no memory for records of a live dump ({error.strerror}); save it to a file first"
            raise DecodeError(reason, offset=0, source=path) from error
        self.data = np.frombuffer(self._room, np.uint8)
        self._stream: ByteStream | None = None
        self._begin = self._end = 0

    def following(self, stream: ByteStream) -> HeldBytes:
        """Hold the bytes of *stream* from now on."""
        self._stream = stream
        return self

    @property
    def is_full(self) -> bool:
        """Whether held bytes should be released."""
        return self._end - self._begin >= HELD_BYTES

    def readinto(self, buffer: memoryview) -> int:
        """Fill *buffer*; raises DecodeError where a record is larger than may be held."""
        assert self._stream is not None
        count = self._stream.readinto(buffer)
        self.data[self._end : self._end + count] = np.frombuffer(buffer[:count], np.uint8)
        self._end += count
        if self._end - self._begin > HELD_BYTES_MAX:
            reason = f"a record of a live dump exceeds {HELD_BYTES_MAX >> 20:,} MB; save the dump to a file first"
            raise DecodeError(reason, offset=self._begin, source=self._path)
        return count

    def skip(self, count: int) -> int:
        """Read on, to the end at most."""
        return read_past(self, count)

    def read(self, start: int, count: int) -> bytes:
        """Return the *count* bytes from *start* on."""
        return self.data[start : start + count].tobytes()

    def release(self, end: int) -> None:
        """Release the memory of bytes before *end*."""
        first, last = (at // mmap.PAGESIZE * mmap.PAGESIZE for at in (self._begin, end))
        if last > first:
            self._room.madvise(mmap.MADV_DONTNEED, first, last - first)
        self._begin = end

    def close(self) -> None:
        """Close the stream; held bytes stay readable."""
        if self._stream is not None:
            self._stream.close()
