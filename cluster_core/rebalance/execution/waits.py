"""How long is waited for what: nothing longer than the user's patience, and MIGRATE so short that a waiting source is not taken for dead."""

from __future__ import annotations

from typing import Final

from cluster_core.rebalance.execution.cluster_now import ClusterSight
from cluster_core.rebalance.execution.refusals import name_of
from cluster_core.rebalance.stored_plan import StoredPlan

NODE_TIMEOUT_DEFAULT_MS: Final = 15_000
"""cluster-node-timeout where it is not told: the servers' default."""
ANSWER_S: Final = 5.0
"""For one look at one node; it is repeated until patience ends."""
ANSWER_S_MIN: Final = 1.0
"""What a node has to answer with the least patience."""
MIGRATE_MS_MAX: Final = 60_000


def answer_s(left_s: float) -> float:
    """Return how long one look may take when *left_s* of the patience is left."""
    return min(ANSWER_S, max(ANSWER_S_MIN, left_s))


def migrate_ms(sight: ClusterSight, patience_s: float) -> int:
    """Return MIGRATE's timeout: half of the shortest cluster-node-timeout, and of the patience.

    A source waits for its target inside MIGRATE and answers nobody meanwhile (`migrateCommand`): after a node timeout its replica would
    be voted in its place, because another node hangs.
    """
    told = [node.node_timeout_ms or NODE_TIMEOUT_DEFAULT_MS for node in sight.nodes.values()]
    shortest = min(told, default=NODE_TIMEOUT_DEFAULT_MS)
    return max(1, int(min(shortest / 2, max(patience_s, ANSWER_S_MIN) * 500, MIGRATE_MS_MAX)))


def migrate_notes(stored: StoredPlan, sight: ClusterSight, timeout_ms: int) -> list[str]:
    """Return the assumption behind MIGRATE's timeout, where a master does not report its cluster-node-timeout."""
    silent = [name_of(stored, node.id) for node in sight.nodes.values() if not node.node_timeout_ms]
    if not silent:
        return []
    who = silent[0] + (f" and {len(silent) - 1} more do" if len(silent) > 1 else " does")
    return [
        f"{who} not report cluster-node-timeout (CONFIG GET): the default, {NODE_TIMEOUT_DEFAULT_MS / 1000:g} s, is assumed, "
        f"and MIGRATE gives up after {timeout_ms / 1000:g} s"
    ]
