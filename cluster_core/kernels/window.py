"""The window of a file for a compiled walk: room for the next bytes, fed bytes, skippable bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WINDOW_BYTES = 1 << 20
"""Size of a window, within a core's second-level cache."""
_ROOM_BYTES_MIN = 4096

# Positions in the state array of every walk.
(
    POS,  # start of the next atom, in the window
    STOP,  # end of the filled part of the window
    BASE,  # offset in the file of the window's first byte
    WANT,  # bytes that the next atom needs, a lower bound
    SKIP,  # bytes to skip
) = range(1, 6)


class Window:
    """Current bytes of one file, or of its range [*start*, *end*); *state* is the walk's progress."""

    def __init__(self, state: NDArray[np.int64], start: int, end: int | None) -> None:
        self.data: NDArray[np.uint8] = np.empty(WINDOW_BYTES, dtype=np.uint8)
        self.at_eof = False
        self._state = state
        self._end = end
        state[BASE] = start

    @property
    def fed(self) -> int:
        """Return the offset after the last fed byte."""
        return int(self._state[BASE] + self._state[STOP])

    def room(self) -> memoryview:
        """Return writable space for the next bytes of the file, never past *end*; decoded bytes are dropped."""
        st = self._state
        pos, stop = int(st[POS]), int(st[STOP])
        kept = stop - pos
        size = max(WINDOW_BYTES, kept + _ROOM_BYTES_MIN, int(st[WANT]) + _ROOM_BYTES_MIN)
        if size != len(self.data):
            data: NDArray[np.uint8] = np.empty(size, dtype=np.uint8)
            data[:kept] = self.data[pos:stop]
            self.data = data
        elif pos:
            self.data[:kept] = self.data[pos:stop].copy()
        st[BASE] += pos
        st[POS] = 0
        st[STOP] = kept
        limit = size if self._end is None else min(size, self._end - int(st[BASE]))
        return memoryview(self.data.data)[kept:limit]

    def filled(self, count: int) -> None:
        """Report *count* bytes written to `room`; 0 is the end of the input."""
        if count < 0 or count > len(self.data) - int(self._state[STOP]):
            raise ValueError(f"{count} bytes were not asked for")
        self._state[STOP] += count
        self.at_eof |= count == 0 or self.fed == self._end

    def skippable(self, seen: int) -> int:
        """Return how many bytes may be skipped instead of read; the last *seen* of them must be read."""
        st = self._state
        if st[POS] != st[STOP]:
            return 0
        skip = max(int(st[SKIP]) - seen, 0)
        return skip if self._end is None else min(skip, self._end - self.fed)

    def skipped(self, count: int, skippable: int) -> None:
        """Report *count* of the *skippable* bytes as skipped."""
        if not 0 <= count <= skippable:
            raise ValueError(f"{count} bytes may not be skipped")
        self._state[SKIP] -= count
        self._state[BASE] += count
        self.at_eof |= self.fed == self._end
