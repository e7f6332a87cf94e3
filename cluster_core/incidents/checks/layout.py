"""Findings on the final layout: hosts with a loss that leaves shards without a master (R84, R93, R107)."""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Finding, short
from cluster_core.kinds import FindingCode, Severity


class Placed(NamedTuple):
    """A node in the layout: *master* is empty for a master; *votes*: a master with slots."""

    node: str
    host: str
    master: str
    votes: bool


def check_layout(history: History) -> list[Finding]:
    """Check the final layout in the majority's view."""
    return layout_findings(last_layout(history), history.last_ns)


def last_layout(history: History) -> list[Placed]:
    """Return each live node in the majority's final view, by id."""
    placed = []
    for node in history.nodes:
        rows = [
            row
            for observer in history.observers
            if (row := history.view_at(observer, node, history.last_ns)) is not None
            and "fail" not in row.flags.split(",")
        ]
        votes: dict[Placed, int] = {}
        for row in rows:
            one = Placed(node, row.ip, row.master_id, "master" in row.flags and bool(row.slots))
            votes[one] = votes.get(one, 0) + 1
        if votes:
            placed.append(max(votes, key=lambda one: (votes[one], one)))
    return placed


def layout_findings(placed: list[Placed], ts_ns: int) -> list[Finding]:
    """Return the effect of losing each host.

    An election needs a quorum of *all* voting masters, failed ones included (R93), so losing that many with one host
    prevents elections.
    """
    voters = [one for one in placed if one.votes]
    if not voters:
        return []
    hosts = sorted({one.host for one in placed})
    quorum = quorum_of(len(voters))
    if len(voters) - 1 < quorum:
        text = f"{len(voters)} voting masters need {quorum} votes: if one dies, nobody can be elected in its place"
        few = Finding(Severity.WARNING, FindingCode.QUORUM_IMPOSSIBLE, "", "", None, ts_ns, 1, quorum, text)
    else:
        few = None
    found = [few] if few is not None else []
    if len(hosts) < 2:
        text = f"all {len(placed)} nodes are on the host {hosts[0] or 'of no known address'}: if it dies, all is down"
        return [*found, Finding(Severity.NOTE, FindingCode.ONE_HOST, "", "", None, ts_ns, 1, len(placed), text)]
    for host in hosts:
        found += _loss_of(host, placed, voters, quorum, ts_ns)
    return found


def _loss_of(host: str, placed: list[Placed], voters: list[Placed], quorum: int, ts_ns: int) -> list[Finding]:
    lost = [one for one in voters if one.host == host]
    left = len(voters) - len(lost)
    if not lost:
        return []
    if left < quorum:
        text = (
            f"host {host} holds {len(lost)} of {len(voters)} voting masters: if it dies, {left} are left,"
            f" {quorum} votes are needed, and nobody can be elected"
        )
        node = lost[0].node if len(lost) == 1 else ""
        return [Finding(Severity.WARNING, FindingCode.QUORUM_IMPOSSIBLE, node, host, None, ts_ns, 1, quorum, text)]
    stuck = [one for one in lost if not any(other.master == one.node and other.host != host for other in placed)]
    return [
        Finding(Severity.WARNING, FindingCode.SHARD_ON_ONE_HOST, one.node, host, None, ts_ns, 1, None,
                f"the shard of {short(one.node)} has no replica outside host {host}: if it dies, its slots are down")
        for one in stuck
    ]  # fmt: skip
