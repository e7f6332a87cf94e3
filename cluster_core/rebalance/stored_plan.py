"""A stored plan with its inputs, batches, and cluster state."""

from __future__ import annotations

from dataclasses import dataclass

from cluster_core.load.unread import WHOLE, Unread
from cluster_core.rebalance.goal.problem import Problem
from cluster_core.rebalance.ordering import Batch
from cluster_core.rebalance.plan import Plan


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A master of the plan; *address* is ``host:port``."""

    id: str
    address: str
    zone: str
    config_epoch: int


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan with all inputs of its check, execution and audit; *nodes* in the order of the problem's masters.

    *unread* are unreadable inputs; loads exclude them.
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
