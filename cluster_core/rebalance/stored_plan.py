"""A stored plan: with its inputs, its batches, and the state of the cluster that it is for."""

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
    """A plan with everything that its check, execution and audit need; *nodes* in the order of the problem's masters.

    *unread* are the inputs that could not be read in full; loads are without them.
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
