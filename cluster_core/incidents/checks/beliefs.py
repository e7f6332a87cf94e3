"""Findings on views of observers: replica chains and loops, disagreement, PFAIL without consequence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import Final

from cluster_core.incidents.finders.failures import find_episodes, is_failure
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Finding, short
from cluster_core.incidents.story import plural
from cluster_core.kinds import NAMES_NO_SLOTS, FindingCode, Severity, Source
from cluster_core.replay.rows import NodeViewRow

MISSED: Final = 3
"""A pause above the usual one by this factor counts as no reply."""
CHAIN_MAX: Final = 16
"""Longer chains are treated as loops."""


def check_beliefs(history: History) -> list[Finding]:
    """Return all findings."""
    return [*_chains(history), *_disagreements(history), *_suspicions(history)]


# -- chains and loops --------------------------------------------------------------------------------------------------


def _chains(history: History) -> list[Finding]:
    """Find replicas of replicas by observer; R66 resolves them, so they must not last."""
    spells: dict[tuple[str, str, str], list[tuple[int, int, int]]] = {}
    for observer in history.observers:
        for kind, node, from_ns, to_ns, ref in _observer_chains(history, observer):
            if to_ns - from_ns > history.thresholds.lasting_ns:
                spells.setdefault((kind, node, observer), []).append((from_ns, to_ns, ref))
    by_node: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for (kind, node, _), found in spells.items():
        by_node.setdefault((kind, node), []).extend(found)
    findings = []
    for (kind, node), found in sorted(by_node.items()):
        from_ns, to_ns = min(one[0] for one in found), max(one[1] for one in found)
        longest = max(one[1] - one[0] for one in found)
        observers = len({observer for k, n, observer in spells if (k, n) == (kind, node)})
        words = "replicates a replica" if kind == "chain" else "is in a loop of replicas"
        severity = Severity.ERROR if kind == "loop" or longest > history.thresholds.grave_ns else Severity.WARNING
        text = (
            f"{short(node)} {words} in the view of {plural(observers, 'observer')}, for up to {longest // 1_000_000} ms"
        )
        findings.append(
            Finding(severity, FindingCode.REPLICA_LOOP if kind == "loop" else FindingCode.REPLICA_CHAIN, node, "", from_ns, to_ns, len(found), longest // 1_000_000,
                    text, tuple(dict.fromkeys(one[2] for one in found if one[2] >= 0)))
        )  # fmt: skip
    return findings


def _observer_chains(history: History, observer: str) -> list[tuple[str, str, int, int, int]]:
    """Return kind, node, from, to and evidence of every chain in one observer's view."""
    changes: list[tuple[int, int, str, NodeViewRow | None]] = []
    for node in history.nodes:
        for belief in history.views.get((observer, node), []):
            changes.append((belief.valid_from_ns, 1, node, belief))
            if belief.valid_to_ns is not None:
                changes.append((belief.valid_to_ns, 0, node, None))
    changes.sort(key=lambda change: change[:3])
    master_of: dict[str, tuple[str, int]] = {}
    replicas_of: dict[str, dict[str, None]] = {}
    live: dict[str, tuple[str, int, int]] = {}
    touched: dict[str, None] = {}
    found = []
    for at, (ts_ns, _, node, row) in enumerate(changes):
        old = master_of.pop(node, ("", -1))[0]
        if old:
            replicas_of[old].pop(node, None)
        if row is not None:
            master_of[node] = (row.master_id, row.ref)
            if row.master_id:
                replicas_of.setdefault(row.master_id, {})[node] = None
        touched[node] = None
        if at + 1 < len(changes) and changes[at + 1][0] == ts_ns:
            continue
        for one in _followers(replicas_of, touched):
            kind = _chain_kind(master_of, one) if one in master_of else ""
            if one in live and live[one][0] != kind:
                was, from_ns, ref = live.pop(one)
                found.append((was, one, from_ns, ts_ns, ref))
            if kind:
                live.setdefault(one, (kind, ts_ns, master_of[one][1]))
        touched = {}
    found += [(kind, one, from_ns, history.last_ns, ref) for one, (kind, from_ns, ref) in live.items()]
    return found


def _followers(replicas_of: dict[str, dict[str, None]], nodes: dict[str, None]) -> dict[str, None]:
    """Return the nodes and all nodes with a chain through them."""
    found = dict(nodes)
    todo = list(nodes)
    while todo:
        for replica in replicas_of.get(todo.pop(), {}):
            if replica not in found:
                found[replica] = None
                todo.append(replica)
    return found


def _chain_kind(master_of: dict[str, tuple[str, int]], node: str) -> str:
    """Return ``chain`` if the node's master is a replica, ``loop`` if that leads back to the node, else empty."""
    seen, current = 0, master_of[node][0]
    while current and seen < CHAIN_MAX:
        if current == node:
            return "loop"
        current = master_of.get(current, ("", -1))[0]
        seen += 1
    return "chain" if seen > 1 else ""


# -- disagreement ------------------------------------------------------------------------------------------------------


def _disagreements(history: History) -> list[Finding]:
    """Find periods in which live observers disagree on a node's role, master, epoch or slots."""
    findings = []
    for node in history.nodes:
        spells = _disagreement_spells(history, node)
        lasting = [one for one in spells if one[1] - one[0] > history.thresholds.lasting_ns]
        if not lasting:
            continue
        longest = max(lasting, key=lambda one: one[1] - one[0])
        length_ns = longest[1] - longest[0]
        total_ms = sum(one[1] - one[0] for one in lasting) // 1_000_000
        severity = Severity.WARNING if length_ns > history.thresholds.grave_ns else Severity.NOTE
        text = (
            f"observers disagreed about role, master, epoch or slots of {short(node)} {plural(len(lasting), 'time')} for longer"
            f" than the node timeout, the longest {length_ns // 1_000_000} ms with {longest[2]} different beliefs"
        )
        findings.append(
            Finding(severity, FindingCode.DISAGREEMENT, node, "", lasting[0][0], lasting[-1][1], len(lasting), total_ms,
                    text, tuple(one[3] for one in lasting[:8] if one[3] >= 0))
        )  # fmt: skip
    return findings


def _disagreement_spells(history: History, node: str) -> list[tuple[int, int, int, int]]:
    """Return from, to, maximum number of different views, first evidence; silent observers do not count."""
    changes: list[tuple[int, int, int, tuple[str, ...] | None, str]] = []
    for observer in history.observers:
        rows = [row for row in history.views.get((observer, node), []) if row.evidence not in NAMES_NO_SLOTS]
        for row, after in zip_longest(rows, rows[1:]):
            held = ("slave" if "slave" in row.flags else "", row.master_id, str(row.config_epoch), row.slots)
            end_ns = _certain_end_ns(row, after)
            changes.append((row.valid_from_ns, 1, row.ref, held, observer))
            if end_ns is not None:
                changes.append((end_ns, 0, row.ref, None, observer))
        for from_ns, to_ns in _silences(history, observer):
            changes += [(from_ns, 2, -1, None, observer), (to_ns, 3, -1, None, observer)]
    changes.sort(key=lambda change: (change[0], change[1], change[4]))
    tally = _Beliefs()
    spells: list[tuple[int, int, int, int]] = []
    begun: tuple[int, int, int] | None = None
    for at, (ts_ns, what, ref, belief, observer) in enumerate(changes):
        if what in (2, 3):
            tally.hush(observer, silent=what == 2)
        else:
            tally.hold(observer, belief)
        if at + 1 < len(changes) and changes[at + 1][0] == ts_ns:
            continue
        count = len(tally.counts)
        if count > 1:
            begun = (ts_ns, count, ref) if begun is None else (begun[0], max(begun[1], count), begun[2])
        elif begun is not None:
            spells.append((begun[0], ts_ns, begun[1], begun[2]))
            begun = None
    if begun is not None:
        spells.append((begun[0], history.last_ns, begun[1], begun[2]))
    return spells


def _certain_end_ns(row: NodeViewRow, after: NodeViewRow | None) -> int | None:
    """Return until when *row* certainly held; a view from a poll may start right after the previous reply."""
    if after is None or after.evidence is not Source.POLL or after.valid_from_min_ns is None:
        return row.valid_to_ns
    return max(row.valid_from_ns, after.valid_from_min_ns)


class _Beliefs:
    """Counts of non-silent observers by view."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, ...], int] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        self._silent: set[str] = set()

    def hold(self, observer: str, belief: tuple[str, ...] | None) -> None:
        """Set the view of *observer*, None for none."""
        self._add(observer, -1)
        if belief is None:
            self._held.pop(observer, None)
        else:
            self._held[observer] = belief
        self._add(observer, 1)

    def hush(self, observer: str, *, silent: bool) -> None:
        """Mark *observer* as silent or active."""
        self._add(observer, -1)
        if silent:
            self._silent.add(observer)
        else:
            self._silent.discard(observer)
        self._add(observer, 1)

    def _add(self, observer: str, number: int) -> None:
        belief = self._held.get(observer)
        if belief is None or observer in self._silent:
            return
        count = self.counts.get(belief, 0) + number
        if count:
            self.counts[belief] = count
        else:
            del self.counts[belief]


def _silences(history: History, observer: str) -> list[tuple[int, int]]:
    """Return periods without messages or replies; the node's process may not run then."""
    spans = history.speech.get(observer, [])
    found = [] if spans else _unanswered(history, history.answered_ns.get(observer, ()))
    for at, span in enumerate(spans):
        if span.silent_after:
            found.append((span.to_ns, spans[at + 1].from_ns if at + 1 < len(spans) else history.last_ns + 1))
    return found


def _unanswered(history: History, answered_ns: Sequence[int]) -> list[tuple[int, int]]:
    """Return unusually long periods without replies, and the period after the last one."""
    if len(answered_ns) < 2:
        return []
    usual_ns = sorted(after - before for before, after in pairwise(answered_ns))[len(answered_ns) // 2 - 1]
    times_ns = [*answered_ns, history.last_ns + 1]
    return [(before, after) for before, after in pairwise(times_ns) if after - before > MISSED * usual_ns]


# -- suspicion ---------------------------------------------------------------------------------------------------------


def _suspicions(history: History) -> list[Finding]:
    """Find nodes marked PFAIL by some observers without consequence: slow or badly connected."""
    by_node: dict[str, list[tuple[int, int, int, int]]] = {}
    for one in find_episodes(history):
        if not is_failure(history, one):
            end_ns = history.last_ns if one.to_ns is None else one.to_ns
            doubters = len({spell.observer for spell in one.spells})
            by_node.setdefault(one.subject, []).append((one.from_ns, end_ns, doubters, one.spells[0].ref))
    return [
        Finding(Severity.NOTE, FindingCode.SUSPECTED, node, "", spells[0][0], spells[-1][1], len(spells),
                max(one[1] - one[0] for one in spells) // 1_000_000,
                f"{short(node)} was held to be PFAIL {plural(len(spells), 'time')} by up to {max(one[2] for one in spells)}"
                " observers, and FAIL was not agreed", tuple(one[3] for one in spells if one[3] >= 0))
        for node, spells in by_node.items()
    ]  # fmt: skip
