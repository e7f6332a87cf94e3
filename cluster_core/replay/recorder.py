"""The machine of one observer with its records: views, ledger, disagreements."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.gossip.causes import Cause, Field
from cluster_core.gossip.events import Changed, Effect, Event, NodeAdded, NodeRemoved, NodeRenamed, ReplyPong
from cluster_core.gossip.flags import PFAIL
from cluster_core.gossip.node import ClusterNode
from cluster_core.gossip.prefilter import Prefilter
from cluster_core.gossip.view import View
from cluster_core.replay.ledger import Ledger
from cluster_core.replay.rows import DisagreementRow, ReplayRow
from cluster_core.replay.view_log import CauseSeen, ViewLog

UNBOUNDED: Final = frozenset(
    (Cause.OWN_GOSSIP, Cause.OWN_UPDATE, Cause.OWN_STATE, Cause.INFERRED, Cause.FIRST_HEADER, Cause.ASSUMED_NEW)
)
"""Causes that show a view some time after it began."""


OUTSIDE: Final = frozenset((Cause.POLL, Cause.LOG))
"""Causes from outside the machine's rules."""


class Correction(NamedTuple):
    """One difference: node, field, machine's value, other source's value."""

    node: str
    field: Field
    machine: str
    source: str


Comparison = tuple[list[Effect], list[Correction]]
"""Changes of the view, and differences."""


class Recorder:
    """Applies events to the machine at `now_ns` and records changes; the owner drains `rows`."""

    def __init__(self, node: ClusterNode, start_ns: int) -> None:
        self.node = node
        self.view: View = node.view
        self._filter = Prefilter(node)
        self.now_ns = start_ns
        self.rows: list[ReplayRow] = []
        self.log = ViewLog(self.view.myself.id)
        self.ledger = Ledger(self.view.myself.id)
        self.touched_ns: dict[str, int] = {}
        self.pfail_ns: dict[str, int] = {}
        self.own_changed_ns = 0
        self.header_ns = self.polled_ns = 0
        """Time of the observer's last header, and of its last poll request."""

    @property
    def now_ms(self) -> int:
        """Return the time in ms."""
        return self.now_ns // 1_000_000

    def apply(self, event: Event, cause: CauseSeen) -> list[Effect]:
        """Apply an event and record its effects."""
        effects = self._filter.handle(event, self.now_ms)
        if effects and (len(effects) > 1 or type(effects[0]) is not ReplyPong):
            self.note(effects, cause)
        return effects

    def note(self, effects: list[Effect], cause: CauseSeen) -> None:
        """Record changes by effects."""
        view, now_ns = self.view, self.now_ns
        view.version += 1
        touched: dict[str, Cause] = {}
        for effect in effects:
            if isinstance(effect, Changed):
                touched[effect.node] = effect.cause
                if effect.what in (Field.CONFIG_EPOCH, Field.ROLE):
                    for replica in view.replicas_of(effect.node):
                        touched.setdefault(replica.id, effect.cause)
            elif isinstance(effect, NodeAdded | NodeRemoved):
                touched[effect.node] = effect.cause
            elif isinstance(effect, NodeRenamed):
                touched[effect.old] = touched[effect.new] = (
                    cause.cause if cause.cause is Cause.RESET else Cause.HANDSHAKE_ANSWERED
                )
        mine = (view.myself.id, view.myself.replicaof)
        for node_id, why in touched.items():
            self.touched_ns[node_id] = now_ns
            if node_id in mine:
                self.own_changed_ns = now_ns
            peer = view.nodes.get(node_id)
            if peer is not None and peer.flags & PFAIL:
                self.pfail_ns.setdefault(node_id, now_ns)
            else:
                self.pfail_ns.pop(node_id, None)
            self.look(node_id, now_ns, CauseSeen(cause.cause if cause.cause in OUTSIDE else why, cause.ref))
        self.rows += self.ledger.note_effects(effects, now_ns, cause.ref)

    def look(self, node_id: str, ts_ns: int, cause: CauseSeen) -> None:
        """Compare one node with its open row."""
        self.rows += self.log.note(self.view, node_id, ts_ns, cause, self._earliest_ns(ts_ns, cause.cause))

    def _earliest_ns(self, ts_ns: int, cause: Cause) -> int | None:
        """Return the earliest start of a view shown at *ts_ns*; None if unbounded."""
        if cause is Cause.POLL:
            return self.polled_ns or None
        if cause is Cause.OWN_HEADER:
            return self.header_ns or None
        return None if cause in UNBOUNDED else ts_ns

    def correct(self, comparison: Comparison, source: Cause, ref: int) -> None:
        """Record changes by another source, and each difference as a disagreement."""
        effects, corrections = comparison
        observer = self.view.myself.id
        for node, field, machine, reported in corrections:
            self.rows.append(DisagreementRow(observer, node, self.now_ns, field, machine, source, reported, ref))
        if effects:
            self.note(effects, CauseSeen(source, ref))

    def confirm_pfail(self, node_id: str, from_ns: int, since_ns: int | None = None) -> None:
        """Record that the observer marks a node PFAIL: not before *from_ns*, by *since_ns* at the latest."""
        if node_id in self.log.unsure:
            self.pfail_ns[node_id] = self.now_ns
            self.rows += self.log.confirm(node_id, from_ns, since_ns)

    def rename(self, observer: str, ts_ns: int) -> None:
        """Close all rows and reopen them under the observer's new id at *ts_ns*."""
        self.rows += self.log.close(ts_ns)
        self.rows += self.ledger.finish()
        self.log, self.ledger = ViewLog(observer), Ledger(observer)
        self.pfail_ns.clear()

    def finish(self) -> None:
        """Return all open rows; valid ones have no end."""
        self.rows += self.log.close(None)
        self.rows += self.ledger.finish()
