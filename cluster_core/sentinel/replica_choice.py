"""Which replica is promoted: who is ruled out and why, and who is best of the others (S13, sentinelSelectSlave)."""

from __future__ import annotations

from typing import Final

from cluster_core.sentinel.instance import Flag, Instance
from cluster_core.sentinel.settings import Periods

LINK_DOWN_FACTOR: Final = 10
"""A replica may have lost its master for so many times `down-after-milliseconds` before the master was down."""


def why_not(replica: Instance, master: Instance, periods: Periods, now_ms: int) -> str:
    """Return why *replica* cannot be promoted at *now_ms*, or nothing if it can.

    ``down``, ``disconnected``, ``no ping`` (for five ping periods), ``priority 0``, ``old info`` (five ping periods while
    the master is down, else three info periods), ``link down too long``.
    """
    is_master_down = bool(master.flags & Flag.S_DOWN)
    if replica.flags & (Flag.S_DOWN | Flag.O_DOWN):
        return "down"
    if replica.link.disconnected:
        return "disconnected"
    if now_ms - replica.link.available_ms > periods.ping_ms * 5:
        return "no ping"
    if replica.priority == 0:
        return "priority 0"
    if now_ms - replica.info_ms > (periods.ping_ms * 5 if is_master_down else periods.info_ms * 3):
        return "old info"
    down_ms = now_ms - master.s_down_since_ms if is_master_down else 0
    if replica.master_link_down_ms > down_ms + master.down_after_ms * LINK_DOWN_FACTOR:
        return "link down too long"
    return ""


def choice_key(replica: Instance) -> tuple[int, int, bool, str]:
    """Sorts the better replica first: lower priority, greater offset, smaller run id, one without any last.

    Source: `compareSlavesForPromotion`.
    """
    return replica.priority, -replica.offset, not replica.runid, replica.runid.lower()


def choose_replica(master: Instance, periods: Periods, now_ms: int) -> Instance | None:
    """Return the replica of *master* to promote at *now_ms*, or None if none can be."""
    fit = [replica for replica in master.replicas.values() if not why_not(replica, master, periods, now_ms)]
    return min(fit, key=choice_key, default=None)
