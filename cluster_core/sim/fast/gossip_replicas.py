"""The cron of a replica, in the compiled gossip loop: whether there is anything to do (`gossip_engine`)."""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from cluster_core.gossip.flags import FAIL, MASTER, MIGRATE_TO
from cluster_core.kernels.compiled import borrowing
from cluster_core.sim.fast import gossip_fields as f
from cluster_core.sim.fast.gossip_parts import Arrays


@borrowing()
def replica_acts(g: Arrays, i: int) -> bool:
    """Whether the cron of a replica has anything to do (run_replica_cron)."""
    rows, narrow = g.rows, g.narrow
    master = narrow[i, i, f.MASTER_OF]
    if master < 0 or rows[f.REPLICATING, i] != master or rows[f.CAUSE, i]:
        return True
    if g.flags[i, master] & FAIL and not rows[f.NO_FAILOVER, i]:
        return True
    if not rows[f.MIGRATES, i]:
        return False
    if rows[f.SPARE_VERSION, i] != rows[f.VERSION, i]:
        rows[f.SPARE_VERSION, i] = rows[f.VERSION, i]
        rows[f.SPARE, i] = has_spares(g, i, master)
    return rows[f.SPARE, i] != 0


@borrowing()
def has_spares(g: Arrays, i: int, master: int) -> bool:
    """Whether a master needs a replica and ours could do without one (replication_of, is_spare)."""
    narrow, counts, nodes = g.narrow, g.scratch[f.COUNTS], g.rows.shape[1]
    counts[:nodes] = 0
    for h in range(nodes):
        of = narrow[i, h, f.MASTER_OF]
        if narrow[i, h, f.KNOWN] and of >= 0 and not g.flags[i, h] & FAIL:
            counts[of] += 1
    if counts[master] < 2:
        return False
    for h in range(nodes):
        flags = g.flags[i, h]
        if narrow[i, h, f.KNOWN] and flags & MASTER and flags & MIGRATE_TO and not flags & FAIL and counts[h] == 0:
            return True
    return False
