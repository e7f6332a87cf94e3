"""A plan as it is stored: with what it was made from, its batches, and the state of the cluster it is for."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_core.load.unread import WHOLE, Unread
from cluster_core.rebalance.goal.problem import Problem
from cluster_core.rebalance.ordering import Batch
from cluster_core.rebalance.plan import Plan


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A master as the plan knows it: *address* is ``host:port``."""

    id: str
    address: str
    zone: str
    config_epoch: int


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan and everything that checking, executing and auditing it need; *nodes* in the order of the problem's masters.

    *unread* is what of its inputs could not be read: what it says of loads holds without that.
    """

    plan_id: str
    snapshot_id: str
    problem: Problem
    plan: Plan
    batches: tuple[Batch, ...]
    nodes: tuple[PlannedNode, ...]
    state_hash: str
    created_at_ms: int
    unread: Unread = WHOLE

    def node(self, node_id: str) -> PlannedNode:
        """Return the master of that id; KeyError for one that the plan does not name."""
        return {node.id: node for node in self.nodes}[node_id]
