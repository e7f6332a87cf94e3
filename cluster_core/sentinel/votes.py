"""Votes for a leader: one an epoch, and what a leader needs (S9, S11)."""

from __future__ import annotations

from collections.abc import Iterable

from cluster_core.sentinel.instance import Instance
from cluster_core.sentinel.state import EPOCH_MAX, SentinelState


def vote(state: SentinelState, master: Instance, epoch: int, candidate: str) -> tuple[str, int]:
    """Vote for *candidate* in *epoch* unless we have voted, and return our vote and its epoch (sentinelVoteLeader).

    A greater epoch is taken for the current one; who votes for another waits before it stands itself.
    """
    if epoch > EPOCH_MAX:
        return master.leader, master.leader_epoch
    if epoch > state.current_epoch:
        state.raise_epoch(epoch)
    if master.leader_epoch < epoch and state.current_epoch <= epoch:
        master.leader, master.leader_epoch = candidate, state.current_epoch
        state.save()
        state.tell("#", "+vote-for-leader", f"{candidate} {master.leader_epoch}")
        if candidate.lower() != state.my_id:
            master.failover_start_ms = state.now_ms + state.desync_ms()
    return master.leader, master.leader_epoch


def count_votes(votes: Iterable[str]) -> dict[str, int]:
    """How many each has; the first one named stands first."""
    counts: dict[str, int] = {}
    for leader in votes:
        counts[leader] = counts.get(leader, 0) + 1
    return counts


def votes_needed(voters: int, quorum: int) -> int:
    """How many votes make a leader: more than half of all known sentinels, and *quorum* at least.

    >>> votes_needed(5, 2), votes_needed(5, 4)
    (3, 4)
    """
    return max(voters // 2 + 1, quorum)


def find_leader(state: SentinelState, master: Instance, epoch: int) -> str:
    """Return who leads the failover of *master* in *epoch*, or nothing while nobody does (sentinelGetLeader).

    Counts what the others have told, and our own vote: cast now if it has not been, for whom most are, or for us.
    """
    others = master.sentinels.values()
    counts = count_votes(s.leader for s in others if s.leader and s.leader_epoch == state.current_epoch)
    first = max(counts, key=lambda runid: counts[runid], default="")
    mine, mine_epoch = vote(state, master, epoch, first or state.my_id)
    if mine and mine_epoch == epoch:
        counts[mine] = counts.get(mine, 0) + 1
        if counts[mine] > counts.get(first, 0) or not first:
            first = mine
    enough = votes_needed(len(others) + 1, master.quorum)
    return first if first and counts[first] >= enough else ""
