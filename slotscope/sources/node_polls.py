"""Files of CLUSTER NODES polls (`cluster_core.formats.poll_lines` says what a line is), plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import LINE_BYTES_MAX, Poll, read_poll
from slotscope.sources.files import read_pieces

_WINDOW_BYTES = 1 << 20


class PollFile:
    """One file: iterate over its polls in order.

    Raises DecodeError, with the number of the line as offset, at the first line that is no poll, unless *permissive*;
    then it is appended to *bad* and reading goes on.  Blank lines are skipped; a last line that is cut short (the
    collector was killed) is bad like any other.
    """

    def __init__(self, path: str, *, permissive: bool = False) -> None:
        self.path = path
        self.bad: list[DecodeError] = []
        self._permissive = permissive

    def __iter__(self) -> Iterator[Poll]:
        lines = self._lines()
        while True:
            try:
                line, raw = next(lines)
                poll = read_poll(raw, line=line, source=self.path)
            except StopIteration:
                return
            except DecodeError as error:
                if not self._permissive:
                    raise
                self.bad.append(error)
                continue
            yield poll

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of every line that is not blank."""
        line, rest = 0, b""
        for piece in read_pieces(self.path, _WINDOW_BYTES):
            *whole, rest = (rest + piece).split(b"\n")
            for raw in whole:
                line += 1
                if raw.strip():
                    yield line, raw
            if len(rest) > LINE_BYTES_MAX:
                raise DecodeError(f"a line longer than {LINE_BYTES_MAX} bytes", offset=line + 1, source=self.path)
        if rest.strip():
            yield line + 1, rest
