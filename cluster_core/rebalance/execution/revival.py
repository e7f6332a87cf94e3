"""Masters that became replicas when they gave away their last slot: making them empty masters again.

CLUSTER RESET SOFT makes a replica a master that knows nobody, keeps its id and drops its copy of the data; CLUSTER MEET from another master
brings it back (redis 4592, 9223 are about how it came to be a replica).  Only nodes that this plan emptied, by its journal, are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from cluster_core.rebalance.execution.cluster_now import ClusterSight, NodeSight
from cluster_core.rebalance.execution.effects import Steps
from cluster_core.rebalance.execution.journal import Journal, Step, StepKind
from cluster_core.rebalance.execution.reshard import Refused, Send
from cluster_core.rebalance.execution.run_state import StuckError, Work
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.key_slot import SLOT_COUNT

MEETINGS_MAX = 3
MEETING_S = 20.0


def emptied(sight: ClusterSight, journal: Journal, nodes: Sequence[str]) -> tuple[str, ...]:
    """Return those of *nodes* that the plan emptied and that are replicas now, or alone after a revival that was cut off."""
    found = []
    for name in nodes:
        node = sight.nodes.get(name)
        if node is not None and name in journal.givers and not node.own and (not node.is_master or is_alone(node)):
            found.append(name)
    return tuple(found)


def is_alone(node: NodeSight) -> bool:
    """Return whether *node* knows no owner of any slot."""
    return not node.owners


def as_revived(stored: StoredPlan, sight: ClusterSight, nodes: Sequence[str]) -> ClusterSight:
    """Return *sight* as it will be when *nodes* are empty masters again."""
    others = [node for name, node in sight.nodes.items() if name not in nodes]
    if not nodes or not others:
        return sight
    epochs = {planned.id: planned.config_epoch for planned in stored.nodes}
    seen = {node.id: replace(node, doubted=tuple(n for n in node.doubted if n not in nodes)) for node in others}
    for name in nodes:
        seen[name] = replace(
            sight.nodes[name], is_master=True, cluster_ok=True, slots_ok=SLOT_COUNT, doubted=(), owners=others[0].owners,
            epochs=others[0].epochs, config_epoch=epochs[name],
        )  # fmt: skip
    return ClusterSight({name: seen[name] for name in sight.nodes}, sight.lost)


def revive(work: Work, sight: ClusterSight, nodes: Sequence[str]) -> Steps[ClusterSight]:
    """Make *nodes* empty masters again, one after another, and return what all say then; StuckError when that does not work."""
    for name in nodes:
        host = next(
            node for node in sight.nodes.values() if node.is_master and not is_alone(node) and node.id not in nodes
        )
        place, _, port = host.addresses.get(name, "").rpartition(":")
        if not port.isdigit() or not place:
            raise StuckError(f"{work.name(host.id)} does not know where {work.name(name)} is")
        yield from work.note(Step(StepKind.REVIVED, target=name, detail="CLUSTER RESET SOFT, CLUSTER MEET"))
        if not is_alone(sight.nodes[name]):
            yield from _say(work, name, "CLUSTER", "RESET", "SOFT")
        bus_port = host.bus_ports.get(name)
        for meeting in range(1, MEETINGS_MAX + 1):
            yield from _say(work, host.id, "CLUSTER", "MEET", place, port, *([str(bus_port)] if bus_port else []))
            try:
                sight = yield from work.look_until(partial(_unmet, work, name), MEETING_S)
                break
            except StuckError:
                if meeting == MEETINGS_MAX:
                    raise
    return sight


def _say(work: Work, node: str, *words: str) -> Steps[None]:
    replies = yield from work.ask([Send(node, words)])
    if isinstance(replies[0], Refused):
        raise StuckError(f"{work.name(node)} refuses {' '.join(words)}: {replies[0].text}")


def _unmet(work: Work, name: str, sight: ClusterSight) -> str:
    """Return what is still to be heard of before *name* is a master like the others."""
    for node in sight.nodes.values():
        if name not in node.epochs:
            return f"{work.name(node.id)} does not say that {work.name(name)} is a master"
        if not node.cluster_ok or is_alone(node):
            return f"{work.name(node.id)} says that the cluster is not ok (cluster_state)"
    if sight.disputed():
        return f"{work.name(name)} does not know all owners yet"
    return ""
