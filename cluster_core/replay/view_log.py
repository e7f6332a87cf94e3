"""View periods (SCD type 2): one open row per node, closed when its CLUSTER NODES line changes."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from cluster_core.gossip.causes import Cause
from cluster_core.gossip.flags import FAILURES, HANDSHAKE, PFAIL
from cluster_core.gossip.view import View, row_of
from cluster_core.kinds import Source
from cluster_core.replay.rows import NodeViewRow
from cluster_core.slots.node_flags import NodeFlags, write_flags
from cluster_core.slots.slot_set import slots_text


class CauseSeen(NamedTuple):
    """Cause of a row, and the message that showed it (-1 for none)."""

    cause: Cause
    ref: int


class OpenRow(NamedTuple):
    """A row without an end."""

    values: tuple[int, str, int, int, str, int, int, str]
    from_ns: int
    cause: CauseSeen
    min_ns: int | None = None
    """Earliest start; None if unbounded."""


@cache
def _flags_text(flags: int) -> str:
    return write_flags(NodeFlags(flags))


CORRECTIONS: Final = (Cause.OWN_GOSSIP, Cause.POLL, Cause.LOG)
"""Sources more precise than the machine's time."""
EVIDENCE: Final = {
    Cause.POLL: Source.POLL,
    Cause.LOG: Source.LOG,
    Cause.TIME: Source.RULE,
    Cause.SILENCE: Source.RULE,
    Cause.ASSUMED_NEW: Source.RULE,
}
"""Kind of evidence by cause; a message for others."""


class ViewLog:
    """Compares the view with open rows and returns ended rows.

    A PFAIL from time alone is *unsure*: the previous row is kept until the observer confirms or withdraws PFAIL.
    """

    def __init__(self, observer: str) -> None:
        self.observer = observer
        self.open: dict[str, OpenRow] = {}
        self.unsure: dict[str, OpenRow] = {}

    def note(
        self, view: View, node_id: str, ts_ns: int, cause: CauseSeen, min_ns: int | None = None
    ) -> list[NodeViewRow]:
        """Compare one node; return the ended row if it changed, not before *min_ns*."""
        peer = view.nodes.get(node_id)
        values = row_of(view, peer) if peer is not None and not peer.flags & HANDSHAKE else None
        old = self.open.get(node_id)
        if old is None:
            if values is not None:
                self.open[node_id] = OpenRow(values, ts_ns, cause, min_ns)
            return []
        if values == old.values:
            return []
        ts_ns = max(ts_ns, old.from_ns)  # changes spread between headers cannot precede certain ones
        rows: list[NodeViewRow] = []
        if node_id in self.unsure:
            if values is not None and not values[0] & FAILURES and cause.cause in CORRECTIONS:
                old = self.open[node_id] = self.unsure.pop(node_id)
                if values == old.values:
                    return []
            else:
                rows = self.confirm(node_id, old.from_ns)
        if values is None:
            del self.open[node_id]
        else:
            self.open[node_id] = OpenRow(values, ts_ns, cause, None if min_ns is None else min(min_ns, ts_ns))
            if cause.cause == Cause.SILENCE and values[0] & PFAIL and not old.values[0] & FAILURES:
                self.unsure[node_id] = old
                return rows
        return [*rows, self._row(node_id, old, ts_ns)] if ts_ns > old.from_ns else rows

    def confirm(self, node_id: str, from_ns: int, since_ns: int | None = None) -> list[NodeViewRow]:
        """Record that the observer had PFAIL, not before *from_ns* but at *since_ns*; return the ended row."""
        before, now = self.unsure.pop(node_id, None), self.open.get(node_id)
        if before is None or now is None:
            return []
        began_ns = now.from_ns if since_ns is None else min(now.from_ns, since_ns)
        from_ns = max(from_ns, began_ns, before.from_ns)
        self.open[node_id] = now._replace(from_ns=from_ns)
        return [self._row(node_id, before, from_ns)] if from_ns > before.from_ns else []

    def close(self, ts_ns: int | None) -> list[NodeViewRow]:
        """End every open row, or with None return them as still valid."""
        rows = [row for node_id in list(self.unsure) for row in self.confirm(node_id, 0)]
        rows += [
            self._row(node_id, row, ts_ns) for node_id, row in self.open.items() if ts_ns is None or row.from_ns < ts_ns
        ]
        self.open = {}
        return rows

    def _row(self, node_id: str, row: OpenRow, to_ns: int | None) -> NodeViewRow:
        flags, master, epoch, slots, ip, port, cport, hostname = row.values
        return NodeViewRow(
            self.observer, node_id, ip, port, cport, hostname, _flags_text(flags), master, epoch, slots_text(slots), bool(ip),
            row.from_ns, to_ns, row.cause.cause, row.cause.ref, row.min_ns, EVIDENCE.get(row.cause.cause, Source.CAPTURE),
        )  # fmt: skip
