"""A sentinel's process begins again: what its configuration file keeps, and what begins anew (rewriteConfigSentinelOption)."""

from __future__ import annotations

from cluster_core.sentinel.instance import Flag, Instance, new_instance
from cluster_core.sentinel_history.fold.state import FoldState

ROLE = Flag.MASTER | Flag.REPLICA | Flag.SENTINEL


def begin_again(fold: FoldState) -> None:
    """A process begins: what the configuration file keeps is known, all else begins anew."""
    fold.is_running = True
    fold.links.clear()
    fold.state.connections.clear()
    fold.state.tilt = False
    for name, master in list(fold.state.masters.items()):
        fold.state.masters[name] = _as_loaded(master, fold.state.now_ms)


def _as_loaded(master: Instance, now_ms: int) -> Instance:
    fresh = new_instance(master.flags & ROLE, master.name, master.address, now_ms)
    for kept in ("quorum", "config_epoch", "leader_epoch", "down_after_ms", "failover_timeout_ms"):
        setattr(fresh, kept, getattr(master, kept))
    for name, replica in master.replicas.items():
        fresh.replicas[name] = new_instance(replica.flags & ROLE, name, replica.address, now_ms, master=fresh)
    for name, sentinel in master.sentinels.items():
        one = new_instance(sentinel.flags & ROLE, name, sentinel.address, now_ms, master=fresh)
        one.runid = sentinel.runid
        fresh.sentinels[name] = one
    return fresh
