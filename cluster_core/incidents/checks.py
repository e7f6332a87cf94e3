"""Findings on a history: contradicting claims, replicas far behind, and hosts that must not fail."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from cluster_core.gossip.failure_detection import quorum_of
from cluster_core.incidents.grouping import runs
from cluster_core.incidents.header_claims import ClaimSpan
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Finding, short
from cluster_core.kinds import FindingCode, Severity, Source
from cluster_core.slots.slot_set import slots_text

LAG_BYTES_MAX: Final = 10 << 20
"""Minimum replication lag to report, in bytes; a busy master writes this in seconds."""

# -- claims ------------------------------------------------------------------------------------------------------------


class Overlap(NamedTuple):
    """Two masters claimed the slots *bits* from *from_ns* to *to_ns*, the second one since message *ref*."""

    from_ns: int
    to_ns: int
    bits: int
    ref: int


def check_claims(history: History) -> list[Finding]:
    """Check R166: two masters claim one slot; the lower epoch must give way, which takes about half a node timeout."""
    findings = []
    silence_ns = history.thresholds.silence_ns
    for (low, high), parts in sorted(_common_claims(history).items()):
        for run in runs(parts, silence_ns, lambda part: part.from_ns, lambda part: part.to_ns):
            from_ns, to_ns = run[0].from_ns, max(part.to_ns for part in run)
            length_ms = (to_ns - from_ns) // 1_000_000
            if to_ns - from_ns <= history.thresholds.lasting_ns:
                continue
            bits = 0
            for part in run:
                bits |= part.bits
            open_end = history.last_ns - to_ns < silence_ns
            ending = "until the evidence ends" if open_end else f"for {length_ms} ms"
            is_grave = open_end or to_ns - from_ns > history.thresholds.grave_ns
            text = f"{short(low)} and {short(high)} both claimed {bits.bit_count()} slots {ending}: {slots_text(bits)}"
            findings.append(
                Finding(
                    Severity.ERROR if is_grave else Severity.WARNING,
                    FindingCode.SPLIT_CLAIM, low, high, from_ns, to_ns, 1, length_ms, text, (run[0].ref, run[-1].ref),
                )
            )  # fmt: skip
    return findings


def _common_claims(history: History) -> dict[tuple[str, str], list[Overlap]]:
    """Return periods in which two masters claimed a slot, by pair of nodes."""
    spans = [span for spans in history.header_claims.values() for span in spans if history.own_slots(span)]
    live: list[ClaimSpan] = []
    pairs: dict[tuple[str, str], list[Overlap]] = {}
    for span in sorted(spans, key=lambda span: (span.from_ns, span.node)):
        live = [old for old in live if old.to_ns > span.from_ns and old.node != span.node]
        for old in live:
            bits = history.own_slots(old) & history.own_slots(span)
            if bits:
                low, high = sorted((old.node, span.node))
                overlap = Overlap(span.from_ns, min(old.to_ns, span.to_ns), bits, span.first_ref)
                pairs.setdefault((low, high), []).append(overlap)
        live.append(span)
    return pairs


# -- layout ------------------------------------------------------------------------------------------------------------


class PlacedNode(NamedTuple):
    """A node in the layout: *master* is empty for a master; *votes*: a master with slots."""

    node: str
    host: str
    master: str
    votes: bool


def check_layout(history: History) -> list[Finding]:
    """Check the final layout in the majority's view."""
    return layout_findings(last_layout(history), history.last_ns)


def last_layout(history: History) -> list[PlacedNode]:
    """Return each live node in the majority's final view, by id."""
    placed = []
    for node in history.nodes:
        rows = [
            row
            for observer in history.observers
            if (row := history.view_at(observer, node, history.last_ns)) is not None
            and "fail" not in row.flags.split(",")
        ]
        votes: dict[PlacedNode, int] = {}
        for row in rows:
            member = PlacedNode(node, row.ip, row.master_id, "master" in row.flags and bool(row.slots))
            votes[member] = votes.get(member, 0) + 1
        if votes:
            placed.append(max(votes, key=lambda candidate: (votes[candidate], candidate)))
    return placed


def layout_findings(placed: list[PlacedNode], ts_ns: int) -> list[Finding]:
    """Return the effect of losing each host.

    An election needs a quorum of *all* voting masters, failed ones included (R93), so losing that many with one host
    prevents elections.
    """
    voters = [member for member in placed if member.votes]
    if not voters:
        return []
    hosts = sorted({member.host for member in placed})
    quorum = quorum_of(len(voters))
    if len(voters) - 1 < quorum:
        text = f"{len(voters)} voting masters need {quorum} votes: if one is lost, no replica can be elected"
        few = Finding(Severity.WARNING, FindingCode.QUORUM_IMPOSSIBLE, "", "", None, ts_ns, 1, quorum, text)
    else:
        few = None
    findings = [few] if few is not None else []
    if len(hosts) < 2:
        text = (
            f"all {len(placed)} nodes run on one host, {hosts[0] or 'address unknown'}: its loss takes the cluster down"
        )
        return [*findings, Finding(Severity.NOTE, FindingCode.ONE_HOST, "", "", None, ts_ns, 1, len(placed), text)]
    for host in hosts:
        findings += _loss_of(host, placed, voters, quorum, ts_ns)
    return findings


def _loss_of(host: str, placed: list[PlacedNode], voters: list[PlacedNode], quorum: int, ts_ns: int) -> list[Finding]:
    lost = [voter for voter in voters if voter.host == host]
    left = len(voters) - len(lost)
    if not lost:
        return []
    if left < quorum:
        text = (
            f"host {host} holds {len(lost)} of {len(voters)} voting masters: its loss leaves {left},"
            f" {quorum} votes are needed, and no replica can be elected"
        )
        node = lost[0].node if len(lost) == 1 else ""
        return [Finding(Severity.WARNING, FindingCode.QUORUM_IMPOSSIBLE, node, host, None, ts_ns, 1, quorum, text)]
    stuck = [voter for voter in lost if not any(other.master == voter.node and other.host != host for other in placed)]
    return [
        Finding(Severity.WARNING, FindingCode.SHARD_ON_ONE_HOST, voter.node, host, None, ts_ns, 1, None,
                f"the shard of {short(voter.node)} has no replica outside host {host}: the loss of the host takes its slots down")
        for voter in stuck
    ]  # fmt: skip


# -- replication -------------------------------------------------------------------------------------------------------


class ReplicaLag(NamedTuple):
    """*replica* was at least *lag_bytes* behind *master* at *ts_ns*."""

    replica: str
    master: str
    ts_ns: int
    lag_bytes: int


def check_replication(history: History) -> list[Finding]:
    """Return the replicas that were behind by more than `LAG_BYTES_MAX`, each with its largest lag."""
    by_replica: dict[str, list[ReplicaLag]] = {}
    for node, source in history.samples:
        for sampled in lags(history, node, source):
            if sampled.lag_bytes > LAG_BYTES_MAX:
                by_replica.setdefault(node, []).append(sampled)
    return [_finding(lags_of_replica) for _, lags_of_replica in sorted(by_replica.items())]


def lags(history: History, node: str, source: Source) -> Iterator[ReplicaLag]:
    """Yield the lag of *node* at each sample of *source* in which it was a replica.

    The master's offset is that of its previous sample, so the true lag may be larger. Its next offset must not be smaller:
    a restarted master starts at zero.
    """
    for sample in history.samples[node, source]:
        own = history.view_at(node, node, sample.ts_ns)
        if sample.role != "slave" or sample.replica_offset is None or own is None:
            continue
        masters = history.samples.get((own.master_id, source), [])
        at = bisect_right(masters, sample.ts_min_ns, key=lambda sampled: sampled.ts_ns)
        around = [sampled.master_offset for sampled in masters[max(at - 1, 0) : at + 1] if sampled.role == "master"]
        if at and len(around) == 2 and around[0] is not None and around[1] is not None and around[0] <= around[1]:
            yield ReplicaLag(node, own.master_id, sample.ts_ns, around[0] - sample.replica_offset)


def _finding(group: list[ReplicaLag]) -> Finding:
    most = max(group, key=lambda lag: lag.lag_bytes)
    text = f"replica {short(most.replica)} was at least {most.lag_bytes:,} bytes behind its master {short(most.master)}"
    times_ns = [lag.ts_ns for lag in group]
    return Finding(
        Severity.WARNING, FindingCode.REPLICATION_LAG, most.replica, most.master, min(times_ns), max(times_ns), len(group),
        most.lag_bytes, text,
    )  # fmt: skip
