"""The window of the plain twins: a buffer of its own whose pieces go to a plain reader."""

from __future__ import annotations

from cluster_core.kernels.window import WINDOW_BYTES


class Pieces:
    """Room for the next piece of a file, or of its range up to *end*; `fed` is the offset of the byte after the last one."""

    def __init__(self, start: int, end: int | None) -> None:
        self.fed = start
        self.at_eof = False
        self._end = end
        self._piece = bytearray(WINDOW_BYTES)

    def room(self) -> memoryview:
        """Return writable space, never past the end of the range."""
        limit = len(self._piece) if self._end is None else min(len(self._piece), self._end - self.fed)
        return memoryview(self._piece)[:limit]

    def take(self, count: int) -> bytes:
        """Return the *count* bytes that were written to `room`."""
        if not 0 <= count <= len(self.room()):
            raise ValueError(f"{count} bytes were not asked for")
        self.move(count)
        self.at_eof |= count == 0
        return bytes(self._piece[:count])

    def move(self, count: int) -> None:
        """Note that *count* bytes were fed or passed over."""
        self.fed += count
        self.at_eof |= self.fed == self._end
