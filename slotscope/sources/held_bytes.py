"""The bytes of a stream that comes once, each at its own offset in an array, held until nobody needs them any more."""

from __future__ import annotations

import mmap

import numpy as np

from cluster_core.errors import DecodeError
from slotscope.sources.byte_streams import ByteStream, read_past

HELD_BYTES = 64 << 20
"""Keys are handed on as soon as so much is held."""
HELD_BYTES_MAX = 1 << 30
"""A larger record is not held: it must be in a file."""
_ADDRESSES = 1 << 44
"""Addresses that are asked for; memory is taken where bytes are written, and given back by `HeldBytes.release`."""
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on


class HeldBytes:
    """A forward stream whose *data* stay at hand: what was read and not yet released is as in a file that is mapped."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._room = mmap.mmap(-1, _ADDRESSES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except OSError as error:
            reason = f"no room for records of a dump on its way ({error.strerror}): save it to a file first"
            raise DecodeError(reason, offset=0, source=path) from error
        self.data = np.frombuffer(self._room, np.uint8)
        self._stream: ByteStream | None = None
        self._begin = self._end = 0

    def following(self, stream: ByteStream) -> HeldBytes:
        """Hold what is read of *stream* from now on."""
        self._stream = stream
        return self

    @property
    def is_full(self) -> bool:
        """Whether so much is held that something should be released."""
        return self._end - self._begin >= HELD_BYTES

    def readinto(self, buffer: memoryview) -> int:
        """Fill *buffer*; raises DecodeError where a record is larger than may be held."""
        assert self._stream is not None
        count = self._stream.readinto(buffer)
        self.data[self._end : self._end + count] = np.frombuffer(buffer[:count], np.uint8)
        self._end += count
        if self._end - self._begin > HELD_BYTES_MAX:
            reason = f"a record of more than {HELD_BYTES_MAX >> 20:,} MB is not held on its way: save the dump to a file first"
            raise DecodeError(reason, offset=self._begin, source=self._path)
        return count

    def skip(self, count: int) -> int:
        """Read on, to the end at most."""
        return read_past(self, count)

    def read(self, start: int, count: int) -> bytes:
        """Return the *count* bytes from *start* on."""
        return self.data[start : start + count].tobytes()

    def release(self, end: int) -> None:
        """Give the memory of what stands before *end* back."""
        first, last = (at // mmap.PAGESIZE * mmap.PAGESIZE for at in (self._begin, end))
        if last > first:
            self._room.madvise(mmap.MADV_DONTNEED, first, last - first)
        self._begin = end

    def close(self) -> None:
        """Release the stream; what is held stays at hand."""
        if self._stream is not None:
            self._stream.close()
