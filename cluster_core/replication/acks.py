"""What a master makes of the offsets that its replicas acknowledge: lag, WAIT, and whether it may still take writes (P10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The last acknowledgement of a replica: *offset*, when it came, and whether the replica is online."""

    offset: int
    ack_ms: int
    is_online: bool = True


def lag_s(replica: Acknowledged, now_ms: int) -> int:
    """Whole seconds since a replica was last heard, as INFO says (``lag=``)."""
    return max(0, now_ms // 1000 - replica.ack_ms // 1000)


def behind_bytes(replica: Acknowledged, offset: int) -> int:
    """How many bytes of the stream, which has come to *offset*, a replica has not acknowledged."""
    return max(0, offset - replica.offset)


def count_good(replicas: Iterable[Acknowledged], *, lag_max_s: int, now_ms: int) -> int:
    """Replicas that are online and were heard in time (`refreshGoodReplicasCount`)."""
    return sum(replica.is_online and lag_s(replica, now_ms) <= lag_max_s for replica in replicas)


def may_write(replicas: Iterable[Acknowledged], *, needed: int, lag_max_s: int, now_ms: int) -> bool:
    """Whether a master takes writes: min-replicas-to-write of them must be good.

    With either setting 0 the rule is off; a master that may not write answers -NOREPLICAS (`checkGoodReplicasStatus`).
    """
    if needed <= 0 or lag_max_s <= 0:
        return True
    return count_good(replicas, lag_max_s=lag_max_s, now_ms=now_ms) >= needed


def count_acknowledged(replicas: Iterable[Acknowledged], offset: int) -> int:
    """What WAIT answers: online replicas that have *offset* (`replicationCountAcksByOffset`)."""
    return sum(replica.is_online and replica.offset >= offset for replica in replicas)
