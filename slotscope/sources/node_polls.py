"""Files of CLUSTER NODES polls (`cluster_core.formats.poll_lines` says what a line is), plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import LINE_BYTES_MAX, Poll, read_poll
from slotscope.sources.files import read_lines


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
        lines = read_lines(self.path, LINE_BYTES_MAX)
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
