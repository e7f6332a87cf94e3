"""When a replica stands for election, and how long it waits: pure decisions (R83 to R89b, R134)."""

from __future__ import annotations

from typing import Final

from cluster_core.gossip.flags import FAIL, MASTER, MY_PRIMARY_FAIL, NOFAILOVER
from cluster_core.gossip.profile import Profile
from cluster_core.gossip.view import View

AUTH_TIMEOUT_MS_MIN: Final = 2000
DELAY_MS: Final = 500
"""The fixed part of the delay, which lets FAIL spread, and the width of the random part (R86)."""
DELAY_SHARE: Final = 30
"""Where the delay is scaled, it is this part of the node timeout, up to `DELAY_MS` (R86)."""
NO_DATA_DELAY_MS: Final = 500


def auth_timeout_ms(node_timeout_ms: int) -> int:
    """How long a request for votes is good for (R83).

    >>> auth_timeout_ms(15000), auth_timeout_ms(500)
    (30000, 2000)
    """
    return max(2 * node_timeout_ms, AUTH_TIMEOUT_MS_MIN)


def auth_retry_ms(node_timeout_ms: int) -> int:
    """How long after an attempt the next one may begin (R83)."""
    return 2 * auth_timeout_ms(node_timeout_ms)


def data_age_ms(now_ms: int, heard_ms: int, node_timeout_ms: int) -> int:
    """How old a replica's data is, in whole seconds of the clock, less the timeout that every failure takes (R85)."""
    age_ms = (now_ms // 1000 - heard_ms // 1000) * 1000
    return age_ms - node_timeout_ms if age_ms > node_timeout_ms else age_ms


def data_is_too_old(age_ms: int, *, node_timeout_ms: int, validity_factor: int, ping_period_s: int) -> bool:
    """R85: no automatic election with data older than the validity factor allows; 0 allows any.

    >>> data_is_too_old(31_000, node_timeout_ms=2000, validity_factor=10, ping_period_s=10)
    True
    """
    return validity_factor != 0 and age_ms > ping_period_s * 1000 + node_timeout_ms * validity_factor


def rank_step_ms(profile: Profile, node_timeout_ms: int) -> int:
    """What each better replica of the same master costs (R86, R88)."""
    return 2 * _share_ms(node_timeout_ms) if profile.delay_scaled else 2 * DELAY_MS


def failed_rank_step_ms(profile: Profile, node_timeout_ms: int) -> int:
    """What each failed master of a smaller shard costs (R86, R89b)."""
    return _share_ms(node_timeout_ms) if profile.delay_scaled else DELAY_MS


def election_delay_ms(
    profile: Profile, node_timeout_ms: int, *, chance: float, rank: int, failed_rank: int, offset: int
) -> int:
    """How long a replica waits before it asks for votes (R86); *chance* is drawn from [0, 1).

    >>> from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1
    >>> election_delay_ms(REDIS_7_0, 15000, chance=0.5, rank=1, failed_rank=0, offset=9)
    1750
    >>> election_delay_ms(VALKEY_9_1, 3000, chance=0.5, rank=1, failed_rank=1, offset=9)
    450
    """
    fixed_ms = _share_ms(node_timeout_ms) if profile.delay_scaled else DELAY_MS
    wait_ms = fixed_ms + int(chance * fixed_ms) + rank * rank_step_ms(profile, node_timeout_ms)
    wait_ms += failed_rank * failed_rank_step_ms(profile, node_timeout_ms)
    return wait_ms + (NO_DATA_DELAY_MS if profile.delay_scaled and not offset else 0)


def _share_ms(node_timeout_ms: int) -> int:
    return min(node_timeout_ms // DELAY_SHARE, DELAY_MS)


def replica_rank(view: View, offset: int) -> int:
    """How many other replicas of our master are better than us at *offset* (R87, clusterGetReplicaRank)."""
    myself = view.myself
    ties = view.profile.rank_ties_by_id
    rank = 0
    for peer in view.nodes.values():
        if peer.replicaof != myself.replicaof or peer is myself or not peer.replicaof or peer.flags & NOFAILOVER:
            continue
        rank += peer.repl_offset > offset or (ties and peer.repl_offset == offset and peer.id < myself.id)
    return rank


def failed_master_rank(view: View, now_ms: int, validity_factor: int) -> int:
    """How many failed masters of smaller shards go first (R89b)."""
    if not view.profile.failed_masters_ranked or view.mf_end_ms:
        return 0
    myself, limit_ms = view.myself, view.node_timeout_ms * validity_factor
    failed = {
        peer.id: peer.shard_id
        for peer in view.nodes.values()
        if peer.flags & FAIL and peer.flags & MASTER and peer.slots and now_ms - peer.fail_time_ms < limit_ms
    }
    if not failed:
        return 0
    followed = {peer.replicaof for peer in view.nodes.values()}
    return sum(node in followed and shard < myself.shard_id for node, shard in failed.items() if shard)


def siblings_agree(view: View) -> bool:
    """Whether every other replica of our master says that it sees the master fail (R134)."""
    myself = view.myself
    return all(
        peer.flags & MY_PRIMARY_FAIL
        for peer in view.nodes.values()
        if peer.replicaof == myself.replicaof and peer is not myself
    )
