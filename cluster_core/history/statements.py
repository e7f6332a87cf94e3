"""Log lines of all nodes, by node and kind."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from cluster_core.kinds import EventKind
from cluster_core.replay.rows import NodeViewRow

TICK_NS: Final = 105_000_000
"""A cron with its usual lateness (R28)."""
LINE_NS: Final = 1_000_000
"""Log times are truncated to ms: a line was written within its ms."""


class LoggedLine(NamedTuple):
    """A log line of *observer*, with address *ip* and *port* (empty and 0 if unknown)."""

    observer: str
    ip: str
    port: int
    ts_ns: int
    kind: EventKind
    subject: str = ""
    epoch: int = 0
    text: str = ""
    peer: str = ""
    detail: str = ""
    pid: int = 0
    role: str = ""


class Lines:
    """Log lines of all nodes, by node and kind, in time order."""

    def __init__(self, lines: Iterable[LoggedLine], addresses: dict[str, str] | None = None) -> None:
        self.all = sorted(lines, key=lambda line: (line.ts_ns, line.observer))
        self.of_node: dict[str, list[LoggedLine]] = {}
        self.of_kind: dict[str, list[LoggedLine]] = {}
        self._at: dict[str, dict[str, int]] = {}
        self._by_port: dict[str, set[str]] = {}
        for line in self.all:
            self.of_node.setdefault(line.observer, []).append(line)
            self.of_kind.setdefault(line.kind, []).append(line)
            if line.port:
                self._name(f"{line.ip}:{line.port}", line.observer, line.ts_ns)
        for node, address in (addresses or {}).items():
            self._name(address, node, 0 if address not in self._at else 1 << 62)

    def _name(self, address: str, node: str, ts_ns: int) -> None:
        host, _, port = address.rpartition(":")
        if host:
            self._at.setdefault(address, {}).setdefault(node, ts_ns)
        self._by_port.setdefault(port, set()).add(node)

    def node_at(self, address: str, ts_ns: int) -> str:
        """Return the node at ``ip:port`` then, or the first one after; by port alone if it is unique; empty if unknown."""
        known = self._at.get(address, {})
        at_address = [node for node, since_ns in known.items() if since_ns <= ts_ns][-1:] or list(known)[:1]
        if at_address:
            return at_address[0]
        nodes = self._by_port.get(address.rpartition(":")[2], set())
        return next(iter(nodes)) if len(nodes) == 1 else ""

    def between(self, node: str, from_ns: int, to_ns: int, *kinds: EventKind) -> Sequence[LoggedLine]:
        """Return lines of *node* of these kinds from *from_ns* to *to_ns*, inclusive."""
        mine = self.of_node.get(node, [])
        start = bisect_left(mine, from_ns, key=lambda line: line.ts_ns)
        end = bisect_right(mine, to_ns, key=lambda line: line.ts_ns)
        return [line for line in mine[start:end] if line.kind in kinds]

    def of_kinds(self, from_ns: int, to_ns: int, *kinds: EventKind) -> Sequence[LoggedLine]:
        """Return lines of all nodes of these kinds in a period, in order."""
        logged: list[LoggedLine] = []
        for kind in kinds:
            mine = self.of_kind.get(kind, [])
            start = bisect_left(mine, from_ns, key=lambda line: line.ts_ns)
            logged += mine[start : bisect_right(mine, to_ns, key=lambda line: line.ts_ns)]
        return sorted(logged, key=lambda line: (line.ts_ns, line.observer))


def is_role(row: NodeViewRow, role: str) -> bool:
    """Return whether a view shows its node as ``master`` or ``slave``."""
    return role in row.flags.split(",")
