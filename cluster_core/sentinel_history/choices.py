"""Why a replica was promoted, and why the others were not (S13), in words."""

from __future__ import annotations

from cluster_core.sentinel.instance import Instance
from cluster_core.sentinel.replica_choice import choice_key, why_not
from cluster_core.sentinel.settings import Periods


def explain_choice(
    master: Instance, chosen: Instance | None, periods: Periods, now_ms: int
) -> tuple[str, tuple[str, ...]]:
    """What decided for *chosen* (None: no replica could be promoted) at *now_ms*, and what spoke against each other one."""
    against = []
    fit = []
    for replica in sorted(master.replicas.values(), key=choice_key):
        if replica is chosen:
            continue
        reason = why_not(replica, master, periods, now_ms)
        if reason or chosen is None:
            against.append(f"{replica.address}: {reason or 'it could have been promoted'}")
        else:
            fit.append(replica)
            against.append(f"{replica.address}: {_worse(replica, chosen)}")
    if chosen is None:
        return "no replica can be promoted", tuple(against)
    return _best(chosen, fit), tuple(against)


def _best(chosen: Instance, others: list[Instance]) -> str:
    if not others:
        return "it is the only one that can be promoted"
    if all(other.priority > chosen.priority for other in others):
        return f"it has the lowest priority number, {chosen.priority}"
    rivals = [other for other in others if other.priority == chosen.priority]
    if all(other.offset < chosen.offset for other in rivals):
        return f"it has the most data, offset {chosen.offset}"
    return f"its run id comes first among those with priority {chosen.priority} and offset {chosen.offset}"


def _worse(other: Instance, chosen: Instance) -> str:
    if other.priority != chosen.priority:
        return f"priority {other.priority}"
    if other.offset != chosen.offset:
        return f"offset {other.offset}"
    return "a later run id"
