"""Files of CLUSTER NODES polls (lines of `cluster_core.formats.poll_lines`), plain or compressed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import LINE_BYTES_MAX, NodeInfo, Poll, read_node_info, read_poll
from cluster_core.topology.node import Topology
from slotscope.sources.files import read_lines


def newest_topology(paths: Sequence[str]) -> Topology | None:
    """Return the topology of the newest poll of *paths*; each file grows in order of time.  None without a poll."""
    newest: Poll | None = None
    for path in paths:
        for poll in PollFile(path, permissive=True):
            newest = poll if newest is None or poll.ts_ns > newest.ts_ns else newest
    return newest.topology if newest is not None else None


def newest_infos(paths: Sequence[str], names: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the fields *names* of INFO by node id, from the newest poll of *paths* that holds all of them; other lines are skipped."""
    newest: dict[str, NodeInfo] = {}
    mark = next(iter(names)).encode()
    for path in paths:
        for line, raw in read_lines(path, LINE_BYTES_MAX):
            if mark not in raw:  # few polls hold INFO
                continue
            with suppress(DecodeError):
                info = read_node_info(raw, line=line, source=path)
                if info is None or not info.fields.keys() >= set(names):
                    continue
                if info.node not in newest or info.ts_ns > newest[info.node].ts_ns:
                    newest[info.node] = info._replace(fields={name: info.fields[name] for name in names})
    return {node: dict(info.fields) for node, info in newest.items()}


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
        before: dict[str, Poll] = {}
        while True:
            try:
                line, raw = next(lines)
                poll = read_poll(raw, line=line, source=self.path, before=before)
            except StopIteration:
                return
            except DecodeError as error:
                if not self._permissive:
                    raise
                self.bad.append(error)
                continue
            yield poll
