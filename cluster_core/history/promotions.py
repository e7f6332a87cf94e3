"""Promotions of replicas, from all evidence.

Elections on the bus, log lines, polls and metrics give *sightings* with a time interval. Sightings with the same winner,
and same epoch or overlapping times, are merged; the promotion lies in the intersection of their intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from cluster_core.history.statements import LINE_NS, Lines, LoggedLine, is_role
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import NodeViewRow
from cluster_core.slots.slot_set import SlotSet

S: Final = 1_000_000_000
NEWS_NS: Final = 150_000_000
"""Maximum time until a reachable node learns of a promotion, which is broadcast (R95)."""
ORDER_NS: Final = 10 * S
"""Maximum time between a failover order and the promotion (R97: 5 s, and slack)."""
FOLLOW_NS: Final = 60 * S
"""Maximum time until the old master and other replicas follow the winner."""
CLOSE_NS: Final = 1_500_000_000
"""Maximum distance of the winner's log lines on one promotion."""
HOLE: Final = 1.5
"""Pause between polls, relative to the usual one, above which the observer may have stalled."""
Views = Mapping[tuple[str, str], Sequence[NodeViewRow]]


class Sighting(NamedTuple):
    """*winner* replaced *old* after *min_ns* and by *max_ns*, according to *source*.

    *first_hand*: reported by the winner. *slots* as in CLUSTER NODES. Unknown: *epoch* 0, *old* and *slots* empty.
    """

    winner: str
    old: str
    epoch: int
    slots: str
    min_ns: int
    max_ns: int
    source: Source
    first_hand: bool
    ref: int = -1
    order: str = ""


@dataclass(frozen=True, slots=True)
class Promoted:
    """One promotion with its evidence; *skew_ns* is the minimum clock skew between its sources."""

    winner: str
    old: str
    epoch: int
    slots: str
    min_ns: int
    max_ns: int
    sightings: tuple[Sighting, ...]
    skew_ns: int = 0

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return the kinds of evidence."""
        return tuple(dict.fromkeys(sighting.source for sighting in self.sightings))

    @property
    def ref(self) -> int:
        """Return a message that shows it, -1 if none."""
        return next((sighting.ref for sighting in self.sightings if sighting.ref >= 0), -1)

    @property
    def header_ns(self) -> int:
        """Return the time of the winner's header that shows it; the maximum time if none."""
        return next((sighting.max_ns for sighting in self.sightings if sighting.source is Source.CAPTURE), self.max_ns)

    @property
    def order(self) -> str:
        """Return manual, forced or takeover if a log shows an order; automatic if the winner's log shows none."""
        return next((sighting.order for sighting in self.sightings if sighting.order), "")


def merge_sightings(sightings: Iterable[Sighting]) -> list[Promoted]:
    """Merge the sightings of each promotion; promotions are in time order."""
    groups: list[list[Sighting]] = []
    for sighting in sorted(
        sightings, key=lambda sighting: (sighting.winner, sighting.max_ns, sighting.min_ns, sighting.source)
    ):
        mine = [group for group in groups if group[0].winner == sighting.winner]
        group = next(
            (group for is_same in (_is_same, _is_renumbered) for group in mine if is_same(group, sighting)), None
        )
        if group is None:
            groups.append([sighting])
        else:
            group.append(sighting)
    return sorted((_merged(group) for group in groups), key=lambda promoted: (promoted.max_ns, promoted.winner))


def _is_same(group: Sequence[Sighting], sighting: Sighting) -> bool:
    epochs = {other.epoch for other in group if other.epoch}
    if sighting.epoch and epochs:
        return sighting.epoch in epochs
    return _overlaps(group, sighting)


def _overlaps(group: Sequence[Sighting], sighting: Sighting) -> bool:
    return any(
        sighting.min_ns <= other.max_ns + NEWS_NS and other.min_ns <= sighting.max_ns + NEWS_NS for other in group
    )


def _is_renumbered(group: Sequence[Sighting], sighting: Sighting) -> bool:
    """Return whether another source shows the promotion with a later epoch: the first one collided (R80)."""
    return _overlaps(group, sighting) and all(other.source != sighting.source for other in group)


TRUST: Final = (Source.CAPTURE, Source.LOG, Source.POLL, Source.METRICS)
"""Sources by descending precedence for conflicting nodes."""


def _merged(group: list[Sighting]) -> Promoted:
    ranked = sorted(
        group,
        key=lambda sighting: (not sighting.first_hand, TRUST.index(sighting.source), sighting.max_ns - sighting.min_ns),
    )
    first = [sighting for sighting in ranked if sighting.first_hand] or ranked
    low, high = max(sighting.min_ns for sighting in first), min(sighting.max_ns for sighting in first)
    skew_ns = max(0, low - high)
    if skew_ns:
        low, high = first[0].min_ns, first[0].max_ns
    for sighting in ranked:
        if low <= sighting.max_ns < high:
            high = sighting.max_ns
        if low < sighting.min_ns <= high:
            low = sighting.min_ns
    return Promoted(
        ranked[0].winner,
        next((sighting.old for sighting in ranked if sighting.old), ""),
        next((sighting.epoch for sighting in ranked if sighting.epoch), 0),
        next((sighting.slots for sighting in ranked if sighting.slots), ""),
        low,
        high,
        tuple(ranked),
        skew_ns,
    )


# -- polls and metrics ------------------------------------------------------------------------------------------------


def seen_in_views(views: Views, polled_ns: Mapping[str, Sequence[int]]) -> Iterator[Sighting]:
    """Yield promotions between two polls or scrapes: a replica turns master with its master's slots.

    Headers of the winner date it better than messages about other nodes; *polled_ns* are the request times per observer.
    """
    for (observer, node), rows in views.items():
        for at in range(1, len(rows)):
            before, after = rows[at - 1], rows[at]
            is_polled = after.evidence in (Source.POLL, Source.METRICS)
            if not (is_polled or (observer in polled_ns and observer != node)) or (
                before.valid_to_ns != after.valid_from_ns
                or not is_role(before, "slave")
                or not is_role(after, "master")
            ):
                continue
            settled = _settled(rows, at)
            if not _takes_over(views, observer, before, settled):
                continue
            yield Sighting(
                node,
                before.master_id,
                settled.config_epoch,
                settled.slots,
                _earliest_ns(views, before, after, polled_ns.get(observer, ())),
                after.valid_from_ns,
                after.evidence if is_polled else Source.POLL,
                observer == node,
                after.ref,
            )


def _settled(rows: Sequence[NodeViewRow], at: int) -> NodeViewRow:
    """Return the view of a new master with its slots: a message may change role and slots separately."""
    settled = rows[at]
    for row in rows[at:]:
        if not is_role(row, "master") or row.valid_from_ns - rows[at].valid_from_ns > S:
            break
        settled = row
        if row.slots:
            break
    return settled


def _takes_over(views: Views, observer: str, before: NodeViewRow, after: NodeViewRow) -> bool:
    """Return whether a new master has slots of its old one or, without slots, the greatest epoch (R93)."""
    views_of_observer = [rows for (node, _), rows in views.items() if node == observer]
    if after.slots:
        mine = SlotSet.parse(after.slots)
        old = views.get((observer, before.master_id), ())
        held = [row.slots for row in old if row.valid_from_ns < after.valid_from_ns and row.slots]
        return not held or bool(mine & SlotSet.parse(held[-1]))
    known = max(
        (row.config_epoch for rows in views_of_observer for row in rows if row.valid_from_ns < after.valid_from_ns),
        default=0,
    )
    if after.evidence is Source.METRICS:  # slots are missing, and epochs may be
        return not after.config_epoch or after.config_epoch > known
    return after.config_epoch > known > 0


def _earliest_ns(views: Views, before: NodeViewRow, after: NodeViewRow, polled_ns: Sequence[int]) -> int:
    """Return the lower bound of a promotion time from an observer's views.

    The node's own view is exact. Others learn within `NEWS_NS`, unless they stalled or marked the winner as failing.
    """
    latest_ns = after.valid_from_ns if after.valid_from_min_ns is None else after.valid_from_min_ns
    if before.observer == before.node_id:
        return latest_ns
    asked = [ts_ns for ts_ns in polled_ns if ts_ns <= latest_ns]
    gaps = sorted(second - first for first, second in pairwise(asked))
    usual = gaps[len(gaps) // 2] if gaps else 0
    while len(asked) > 1 and asked[-1] - asked[-2] > HOLE * usual:
        asked.pop()
    earliest_ns = asked[-1] if asked else latest_ns
    for row in reversed(views[before.observer, before.node_id]):
        if row.valid_from_ns <= earliest_ns and "fail" in row.flags.replace("fail?", "fail").split(","):
            earliest_ns = min(earliest_ns, row.valid_from_min_ns or row.valid_from_ns)
        elif row.valid_from_ns <= earliest_ns:
            break
    return earliest_ns - NEWS_NS


# -- logs -------------------------------------------------------------------------------------------------------------


def seen_in_logs(lines: Lines) -> Iterator[Sighting]:
    """Yield promotions in winners' logs, and in other logs if the winner's is missing."""
    logged: dict[tuple[str, int], None] = {}
    for line in lines.of_kinds(0, 1 << 62, EventKind.ELECTION_WON, EventKind.TAKEOVER):
        promoted = _of_winner(lines, line)
        logged[promoted.winner, promoted.epoch] = None
        yield promoted
    for promoted in _of_others(lines):
        if (promoted.winner, promoted.epoch) not in logged or promoted.source is not Source.LOG:
            yield promoted


def _of_winner(lines: Lines, line: LoggedLine) -> Sighting:
    winner, ts_ns = line.observer, line.ts_ns
    near = (ts_ns - CLOSE_NS, ts_ns + CLOSE_NS)
    after = [
        near_line for near_line in lines.between(winner, ts_ns, near[1], EventKind.CONFIG_EPOCH) if near_line.epoch
    ]
    began = [
        near_line
        for near_line in lines.between(winner, ts_ns - FOLLOW_NS, ts_ns, EventKind.ELECTION_STARTED)
        if near_line.epoch
    ]
    epoch = after[0].epoch if after else began[-1].epoch if began else 0
    order = "takeover" if line.kind == EventKind.TAKEOVER else _order(lines, winner, ts_ns)
    return Sighting(
        winner, old_master(lines, winner, ts_ns), epoch, "", ts_ns, ts_ns + LINE_NS, Source.LOG, True, order=order
    )


def _order(lines: Lines, winner: str, ts_ns: int) -> str:
    """Return the kind of order behind an election (R97), from the log before it."""
    ended = (EventKind.MANUAL_FAILOVER_TIMED_OUT,)
    orders = (EventKind.MANUAL_FAILOVER_REQUESTED, EventKind.MANUAL_FAILOVER_FORCED, *ended)
    lately = lines.between(winner, ts_ns - ORDER_NS, ts_ns, *orders)
    last = lately[-1].kind if lately else EventKind.NOTHING
    if last == EventKind.MANUAL_FAILOVER_FORCED:
        return "forced"
    return "manual" if last == EventKind.MANUAL_FAILOVER_REQUESTED else "automatic"


def old_master(lines: Lines, node: str, ts_ns: int) -> str:
    """Return the master that *node* replaced at *ts_ns* according to logs; empty if unknown.

    In this order: the winner's log, its previous master, the node asked to step down, the named loser, its master in
    other logs, the node that served its replication, the failing node at its election.
    """
    named = [
        logged.subject for logged in lines.between(node, ts_ns - CLOSE_NS, ts_ns + CLOSE_NS, EventKind.BECAME_MASTER)
    ]
    followed = master_followed(lines, node, ts_ns)
    asked = [
        logged.observer
        for logged in lines.of_kinds(ts_ns - ORDER_NS, ts_ns, EventKind.MANUAL_FAILOVER_MFSTART)
        if logged.subject == node
    ]
    followers_masters = [
        logged.peer
        for logged in lines.of_kinds(
            ts_ns, ts_ns + FOLLOW_NS, EventKind.FAILOVER_SEEN, EventKind.SLOTS_MOVED, EventKind.UPDATE_SENT
        )
        if logged.subject == node and logged.peer
    ]
    connected = lines.between(node, 0, ts_ns, EventKind.MASTER_CONNECTING)
    since_ns = max(0, connected[-1].ts_ns - CLOSE_NS) if connected else 0
    seen = [logged.peer for logged in lines.of_kinds(since_ns, ts_ns, EventKind.REPLICA_SEEN) if logged.subject == node]
    served = [
        logged.observer
        for logged in lines.of_kinds(since_ns, ts_ns, EventKind.SYNC_ASKED)
        if logged.observer != node and lines.node_at(logged.detail, logged.ts_ns) == node
    ]
    for masters in (named, [followed] if followed else [], asked, followers_masters[:1], seen, served):
        if masters:
            return masters[-1]
    failing = failing_at(lines, ts_ns)
    followers = [
        logged.observer
        for logged in lines.of_kinds(ts_ns, ts_ns + FOLLOW_NS, EventKind.BECAME_REPLICA)
        if logged.subject == node and (logged.role == "M" or (not logged.role and logged.observer in failing))
    ]
    if followers:
        return followers[0]
    return next(iter(failing)) if len(failing) == 1 else ""


def master_followed(lines: Lines, node: str, ts_ns: int) -> str:
    """Return the last master of *node* before *ts_ns* in its own log; empty if not logged, or at an unknown address."""
    unknown = ""
    for line in reversed(lines.of_node.get(node, [])):
        if line.ts_ns > ts_ns:
            continue
        if line.kind == EventKind.BECAME_REPLICA and line.subject:
            return line.subject
        if line.kind == EventKind.MASTER_CONNECTING:
            followed_master = lines.node_at(line.detail, line.ts_ns)
            if unknown and line.detail != unknown:
                return ""  # it has another master since
            if followed_master and followed_master != node:
                return followed_master
            unknown = unknown if followed_master else line.detail
        if line.kind in (EventKind.ELECTION_WON, EventKind.TAKEOVER, EventKind.RESET_ORDERED) and line.ts_ns < ts_ns:
            return ""
    return ""


def failing_at(lines: Lines, ts_ns: int) -> list[str]:
    """Return the nodes marked FAIL in logs at *ts_ns*, in order of the decisions."""
    failing: dict[str, None] = {}
    kinds = (EventKind.FAIL_DECIDED, EventKind.FAIL_LEARNED, EventKind.FAIL_CLEARED)
    for line in lines.of_kinds(0, ts_ns, *kinds):
        if line.kind == EventKind.FAIL_CLEARED:
            failing.pop(line.subject, None)
        else:
            failing[line.subject] = None
    return list(failing)


def _of_others(lines: Lines) -> Iterator[Sighting]:
    """Yield promotions from other nodes' logs if the winner's is missing.

    Evidence: a logged failover in the shard, votes confirmed by the winner's role or the cluster state, a master that
    becomes a replica of its replica, a replica treated as master.
    """
    for line in lines.of_kind.get(EventKind.FAILOVER_SEEN, []):
        if line.subject:
            voted_ns = [
                vote.ts_ns
                for vote in lines.of_kinds(line.ts_ns - FOLLOW_NS, line.ts_ns, EventKind.VOTE)
                if (vote.subject, vote.epoch) == (line.subject, line.epoch)
            ]
            low_ns = min(voted_ns, default=line.ts_ns - FOLLOW_NS)
            yield Sighting(line.subject, line.peer, line.epoch, "", low_ns, line.ts_ns + LINE_NS, Source.LOG, False)
    votes_for: dict[tuple[str, int], list[LoggedLine]] = {}
    for line in lines.of_kind.get(EventKind.VOTE, []):
        votes_for.setdefault((line.subject, line.epoch), []).append(line)
    elected: dict[str, list[int]] = {}
    for (winner, epoch), votes in votes_for.items():
        if _is_covered(lines, winner, votes[0].ts_ns):
            continue  # its own log would show the win
        seen_ns = _confirmed_ns(lines, winner, votes)
        if seen_ns is not None:
            elected.setdefault(winner, []).append(votes[0].ts_ns)
            old = old_master(lines, winner, seen_ns)
            yield Sighting(winner, old, epoch, "", votes[0].ts_ns, seen_ns + LINE_NS, Source.LOG, False)
    for winner, old, low_ns, ts_ns in _without_votes(lines):
        if not _is_covered(lines, winner, ts_ns) and not any(
            low_ns <= elected_ns <= ts_ns for elected_ns in elected.get(winner, ())
        ):
            yield Sighting(winner, old, 0, "", low_ns, ts_ns + LINE_NS, Source.LOG, False)


def _confirmed_ns(lines: Lines, winner: str, votes: Sequence[LoggedLine]) -> int | None:
    """Return when a log first confirms the election of *votes*; None if none does."""
    until_ns = votes[0].ts_ns + FOLLOW_NS
    by_subject = (EventKind.BECAME_REPLICA, EventKind.MASTER_SEEN, EventKind.UPDATE_SENT)
    seen = [
        logged.ts_ns
        for logged in lines.of_kinds(votes[0].ts_ns, until_ns, *by_subject, EventKind.REPLICA_SEEN)
        if winner == (logged.subject if logged.kind in by_subject else logged.peer)
    ]
    for vote in votes:
        after = lines.between(vote.observer, vote.ts_ns, until_ns, *STATES, EventKind.VOTE, EventKind.FAIL_CLEARED)
        end = next((later for later in after if later is not vote), None)
        before = lines.between(vote.observer, 0, vote.ts_ns, *STATES)
        is_down = bool(before) and before[-1].kind == EventKind.STATE_FAIL
        if is_down and end is not None and end.kind == EventKind.STATE_OK:  # its slots have a master again (R107)
            seen.append(end.ts_ns)
    return min(seen, default=None)


STATES: Final = (EventKind.STATE_FAIL, EventKind.STATE_OK)


def _without_votes(lines: Lines) -> Iterator[tuple[str, str, int, int]]:
    """Yield winner, old master and time of promotions without votes (takeover, R97), from old masters' and other logs."""
    for line in lines.of_kind.get(EventKind.BECAME_REPLICA, []):
        if line.role == "M" and line.text.startswith("Configuration change") and _was_its_replica(lines, line):
            yield line.subject, line.observer, _last_replica_ns(lines, line.subject, line.ts_ns), line.ts_ns
    for line in lines.of_kind.get(EventKind.MASTER_SEEN, []):
        winner, ts_ns = line.subject, line.ts_ns
        seen = lines.of_kinds(0, ts_ns, EventKind.REPLICA_SEEN)
        old = next((logged.peer for logged in reversed(seen) if logged.subject == winner), "")
        follows = lines.of_kinds(ts_ns, ts_ns + FOLLOW_NS, EventKind.REPLICA_SEEN, EventKind.BECAME_REPLICA)
        is_followed = any(
            (follow.subject, follow.peer) == (old, winner)
            if follow.kind == EventKind.REPLICA_SEEN
            else (follow.observer, follow.subject) == (old, winner)
            for follow in follows
        )
        if old and (is_followed or old in failing_at(lines, ts_ns)):
            yield winner, old, _last_replica_ns(lines, winner, ts_ns), ts_ns


def _was_its_replica(lines: Lines, line: LoggedLine) -> bool:
    """Return whether a master's new master had requested synchronization from the same address."""
    old, ts_ns = line.observer, line.ts_ns
    named = [logged.subject for logged in lines.between(old, 0, ts_ns, EventKind.REPLICA_SEEN) if logged.peer == old]
    address = next((logged.detail for logged in lines.between(old, ts_ns, ts_ns + S, EventKind.MASTER_CONNECTING)), "")
    asked = [logged.detail for logged in lines.between(old, 0, ts_ns, EventKind.SYNC_ASKED)]
    return line.subject in named or (bool(address) and address in asked)


def _last_replica_ns(lines: Lines, node: str, ts_ns: int) -> int:
    """Return the last time a log shows the node as a replica, at most a minute before the promotion."""
    low_ns = ts_ns - FOLLOW_NS
    for logged in lines.of_kinds(low_ns, ts_ns - 1, EventKind.REPLICA_SEEN, EventKind.BECAME_REPLICA):
        if node == (logged.subject if logged.kind == EventKind.REPLICA_SEEN else logged.observer):
            low_ns = logged.ts_ns
    return low_ns


def _is_covered(lines: Lines, node: str, ts_ns: int) -> bool:
    """Return whether the log of *node* covers *ts_ns*."""
    mine = lines.of_node.get(node, [])
    return bool(mine) and mine[0].ts_ns <= ts_ns <= mine[-1].ts_ns
