"""Findings on views of observers: replica chains and loops, PFAIL without consequence."""

from __future__ import annotations

from typing import Final

from cluster_core.incidents.finders.failures import find_episodes, is_failure
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Finding, short
from cluster_core.incidents.story import plural
from cluster_core.kinds import FindingCode, Severity
from cluster_core.replay.rows import NodeViewRow

CHAIN_MAX: Final = 16
"""Longer chains are treated as loops."""


def check_beliefs(history: History) -> list[Finding]:
    """Return all findings."""
    return [*_chains(history), *_suspicions(history)]


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
