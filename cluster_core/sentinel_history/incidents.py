"""Incidents of monitored masters: failovers and failures.

A failover lasts from the first S_DOWN of the old master to the switch of every sentinel and the old master's return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster_core.incidents.incident import Incident, Step, milliseconds
from cluster_core.incidents.story import name_of, plural, seconds
from cluster_core.kinds import EventKind, IncidentKind, Source
from cluster_core.sentinel.instance import FailoverState, leading_number
from cluster_core.sentinel_history.announcements import Announcement, read_announcement
from cluster_core.sentinel_history.history import SentinelHistory
from cluster_core.sentinel_history.rows import SentinelEventRow, SentinelViewRow

Names = Mapping[str, str]

OBSTACLES: Final[dict[str, str]] = {
    "quorum": "fewer sentinels than the quorum marked it down",
    EventKind.DELAYED: "the last attempt or vote was less than two failover timeouts ago",
    "not started": "no sentinel started a failover",
    "not elected": "no sentinel was elected",
    "no replica": "no replica could be promoted",
    "not finished": "it was not finished",
}


def _name(node: str, names: Names) -> str:
    return node if ":" in node else name_of(node, names)


def summary_of(incident: Incident, names: Names) -> str:
    """Summarize the incident in one sentence."""
    return _SUMMARIES[incident.kind](incident, names)


def _tell_failover(incident: Incident, names: Names) -> str:
    leader = next((step.actor for step in reversed(incident.steps) if step.kind in ("promoted", "won")), "")
    by = f" by sentinel {_name(leader, names)}" if leader else ""
    if incident.variant == "manual":
        text = (
            f"{incident.winner} took over from {incident.subject} in a manual failover{by}, with epoch {incident.epoch}"
        )
        return f"{text}; every sentinel knew it {seconds(incident.adoption_ms)} later"
    text = f"{incident.winner} was promoted in place of {incident.subject}{by}, with epoch {incident.epoch}"
    if incident.votes is not None:
        text += f", with {plural(incident.votes, 'vote')}"
    return text


def _tell_failure(incident: Incident, names: Names) -> str:
    reason = next((step for step in reversed(incident.steps) if step.kind == EventKind.NO_FAILOVER), None)
    text = f"{incident.subject} was marked down by {plural(len(incident.nodes), 'sentinel')}"
    if reason is not None:
        text += f". No failover: {OBSTACLES[reason.detail]}"
    if incident.ended_ns is None:
        return f"{text}; it was still down at the end"
    return f"{text}; back after {seconds((incident.ended_ns - incident.started_ns) // 1_000_000)}"


def _tell_tilt(incident: Incident, names: Names) -> str:
    length = (
        "" if incident.ended_ns is None else f" for {seconds((incident.ended_ns - incident.started_ns) // 1_000_000)}"
    )
    return f"sentinel {_name(incident.subject, names)} took no action{length} (TILT): its timer stood still"


_SUMMARIES: Final[dict[str, Callable[[Incident, Names], str]]] = {
    IncidentKind.FAILOVER: _tell_failover,
    IncidentKind.FAILURE: _tell_failure,
    IncidentKind.TILT: _tell_tilt,
}

_STEPS: Final[dict[str, str]] = {
    EventKind.S_DOWN: "{actor} marks {subject} S_DOWN",
    EventKind.S_DOWN_CLEARED: "{actor} clears S_DOWN of {subject}",
    EventKind.O_DOWN: "{actor} marks {subject} O_DOWN: {detail}",
    EventKind.O_DOWN_CLEARED: "{actor} clears O_DOWN of {subject}",
    EventKind.ELECTION_STARTED: "{actor} starts a failover of {subject} in epoch {epoch}",
    EventKind.VOTE: "{actor} votes for {subject} in epoch {epoch}",
    EventKind.NO_VOTE: "{actor} does not vote for {subject} in epoch {epoch}{had}",
    EventKind.WON: "{actor} leads the failover",
    EventKind.CHOSEN: "{actor} chooses {subject}",
    EventKind.PROMOTION_ORDERED: "{actor} orders {subject} to be a master",
    EventKind.PROMOTED: "{actor} sees that {subject} is a master: the new configuration has epoch {epoch}",
    EventKind.RECONFIGURING: "{actor} sends {subject} to the new master",
    EventKind.RECONFIGURED: "{actor} sees {subject} in sync with the new master",
    EventKind.FAILOVER_DONE: "{actor} ends the failover",
    EventKind.NOT_ELECTED: "{actor} gives up: it was not elected in time",
    EventKind.NO_REPLICA: "{actor} gives up: no replica can be promoted",
    EventKind.REPLICA_TIMED_OUT: "{actor} gives up: the replica was not promoted in time",
    EventKind.MASTER_TIMED_OUT: "{actor} gives up: the master did not hand over in time",
    EventKind.SWITCHED: "{actor} switches to master {subject}",
    EventKind.DELAYED: "{actor} may not try a failover before {detail}",
    EventKind.CONVERTED: "{actor} makes {subject} a replica again",
    EventKind.ROLE_CHANGED: "{subject} reports the role {role} to {actor}",
    EventKind.TILT: "{actor} enters TILT: its timer stood still",
    EventKind.TILT_ENDED: "{actor} leaves TILT",
    EventKind.NO_FAILOVER: "no failover: {obstacle}",
}
ROLES: Final = {"master": "master", "slave": "replica"}


def step_text(step: Step, names: Names) -> str:
    """Describe one step; unknown kinds are shown as is."""
    pattern = _STEPS.get(step.kind)
    actor, subject = _name(step.actor, names), _name(step.subject, names) if step.subject else ""
    if pattern is None:
        return f"{actor} {step.kind} {subject}".rstrip()
    had = ""
    if step.kind == EventKind.NO_VOTE and " " in step.detail:
        voted, _, epoch = step.detail.partition(" ")
        had = f": it has voted for {_name(voted, names)} in epoch {epoch}"
    return pattern.format(
        actor=actor,
        subject=subject,
        epoch="?" if step.epoch is None else step.epoch,
        detail=step.detail,
        role=ROLES.get(step.detail, step.detail),
        obstacle=OBSTACLES.get(step.detail, step.detail),
        had=had,
    )


_KINDS: Final[dict[str, EventKind]] = {
    "+sdown": EventKind.S_DOWN,
    "-sdown": EventKind.S_DOWN_CLEARED,
    "+odown": EventKind.O_DOWN,
    "-odown": EventKind.O_DOWN_CLEARED,
    "+try-failover": EventKind.ELECTION_STARTED,
    "+elected-leader": EventKind.WON,
    "+selected-slave": EventKind.CHOSEN,
    "+failover-state-wait-promotion": EventKind.PROMOTION_ORDERED,
    "+promoted-slave": EventKind.PROMOTED,
    "+slave-reconf-sent": EventKind.RECONFIGURING,
    "+slave-reconf-sent-be": EventKind.RECONFIGURING,
    "+slave-reconf-done": EventKind.RECONFIGURED,
    "+failover-end": EventKind.FAILOVER_DONE,
    "-failover-abort-not-elected": EventKind.NOT_ELECTED,
    "-failover-abort-no-good-slave": EventKind.NO_REPLICA,
    "-failover-abort-slave-timeout": EventKind.REPLICA_TIMED_OUT,
    "-failover-abort-master-timeout": EventKind.MASTER_TIMED_OUT,
    "+convert-to-slave": EventKind.CONVERTED,
    "-role-change": EventKind.ROLE_CHANGED,
    "+role-change": EventKind.ROLE_CHANGED,
}
"""Kinds of steps by event."""
_OF_OTHERS: Final = frozenset({"+sdown", "-sdown", "-role-change", "+role-change", "+convert-to-slave"})
"""Events that are steps only for the old or new master."""


def steps_between(
    history: SentinelHistory,
    name: str,
    addresses: set[str],
    from_ns: int,
    to_ns: int,
    *,
    failed: SdownPeriod | None = None,
) -> tuple[Step, ...]:
    """Return the steps of the sentinels of master *name* from *from_ns* to *to_ns* in time order.

    *addresses* limits state changes to these instances; *failed* adds obstacles to a failover.
    """
    steps: list[Step] = []
    epochs: dict[str, int] = {}
    for row in history.events:
        if row.channel == "+new-epoch":
            epochs[row.observer] = leading_number(row.text)
        if from_ns <= row.ts_ns <= to_ns:
            steps += _of_event(row, name, addresses, epochs)
    steps += _votes(history, name, from_ns, to_ns)
    if failed is not None:
        steps += _obstacles(steps, to_ns, is_agreed=failed.agreed_ns is not None)
    return tuple(sorted(steps, key=lambda step: step.ts_ns))


def _of_event(row: SentinelEventRow, name: str, addresses: set[str], epochs: dict[str, int]) -> Iterable[Step]:
    subject = row.subject or ""
    if row.channel == "+switch-master" and row.master == name:
        yield Step(row.ts_ns, EventKind.SWITCHED, row.observer, subject, epochs.get(row.observer))
    if row.channel == "failover-delayed":
        yield Step(row.ts_ns, EventKind.DELAYED, row.observer, "", detail=row.text)
    kind = _KINDS.get(row.channel)
    if kind is None or row.master != name or (row.channel in _OF_OTHERS and subject not in addresses):
        return
    epoch = (
        epochs.get(row.observer)
        if kind in (EventKind.ELECTION_STARTED, EventKind.WON, EventKind.PROMOTED, EventKind.NOT_ELECTED)
        else None
    )
    detail, amount = _detail(kind, read_announcement(row.text))
    yield Step(row.ts_ns, kind, row.observer, subject, epoch, amount, detail)


def _detail(kind: EventKind, announcement: Announcement) -> tuple[str, int | None]:
    if kind == EventKind.O_DOWN:
        quorum = announcement.rest.removeprefix("#quorum ")
        return f"{quorum.replace('/', ' of ')} needed", leading_number(quorum)
    if kind == EventKind.ROLE_CHANGED:
        return announcement.rest.rpartition(" is ")[2], None
    return "", None


def _votes(history: SentinelHistory, name: str, from_ns: int, to_ns: int) -> Iterable[Step]:
    """Yield each vote once: the voter's log and the candidate's show it."""
    counted: set[tuple[str, str, int]] = set()
    for vote in history.votes:
        key = (vote.voter, vote.candidate, vote.epoch)
        if vote.master == name and from_ns <= vote.ts_ns <= to_ns and key not in counted:
            counted.add(key)
            kind = EventKind.VOTE if vote.granted else EventKind.NO_VOTE
            detail = "" if vote.granted else f"{vote.voted_for} {vote.voted_epoch}"
            yield Step(vote.ts_ns, kind, vote.voter, vote.candidate, vote.epoch, detail=detail)


def _obstacles(steps: list[Step], to_ns: int, *, is_agreed: bool) -> Iterable[Step]:
    """Yield the first unmet condition of a failover, as far as logs show it; polls alone show the agreement only."""
    kinds = {step.kind for step in steps}
    if is_agreed and EventKind.O_DOWN not in kinds:
        return
    if not is_agreed:
        agreeing = {step.actor for step in steps if step.kind == EventKind.S_DOWN}
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", amount=len(agreeing), detail="quorum")
    elif EventKind.ELECTION_STARTED not in kinds:
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", detail="delayed" if "delayed" in kinds else "not started")
    elif "won" not in kinds:
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", detail="not elected")
    elif EventKind.NO_REPLICA in kinds:
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", detail="no replica")
    else:
        yield Step(to_ns, EventKind.NO_FAILOVER, "", "", detail="not finished")


TOGETHER_NS: Final = 180_000_000_000
"""Maximum time between switches of sentinels to the same new master."""
GAP_NS: Final = 1_500_000_000
"""Maximum gap between S_DOWN periods of one failure."""
SETTLING_NS: Final = 120_000_000_000
"""A later return of the old master is not part of the failover."""


@dataclass(slots=True)
class SdownPeriod:
    """A period of S_DOWN of the master at *address*: start and end by sentinel (None: until the end)."""

    name: str
    address: str
    from_ns: int
    to_ns: int | None
    observers: set[str] = field(default_factory=set)
    agreed_ns: int | None = None


@dataclass(slots=True)
class Switch:
    """A switch from the master at *old* to *new*: time by sentinel, and epoch."""

    name: str
    old: str
    new: str
    epoch: int | None
    adopted_ns: dict[str, int] = field(default_factory=dict)
    is_exact: bool = False
    """Whether *epoch* is that of the leader or of a reply; others may know a later one, of another master."""

    @property
    def first_ns(self) -> int:
        """Return the time of the first switch: the leader's, or one by an earlier hello."""
        return min(self.adopted_ns.values())

    @property
    def last_ns(self) -> int:
        """Return the time of the last switch."""
        return max(self.adopted_ns.values())


def find_sentinel_incidents(history: SentinelHistory) -> list[Incident]:
    """Return all incidents in time order."""
    incidents = []
    for name in sorted({row.master for row in history.views}):
        views = [row for row in history.views if row.master == name]
        troubles, switches = find_troubles(views), find_switches(views)
        starts = [item.from_ns for item in troubles] + [item.first_ns for item in switches]
        starts = sorted([*starts, *(row.ts_ns for row in _ordered(history, name, troubles))])
        taken: set[int] = set()
        for switch in switches:
            trouble = _behind(switch, troubles)
            if trouble is not None:
                taken.add(id(trouble))
            following = next((ns for ns in starts if ns > switch.last_ns), history.last_ns + 1)
            incidents.append(_failover(history, switch, trouble, following))
        for trouble in troubles:
            if id(trouble) not in taken:
                incidents.append(_failure(history, trouble))
    incidents += _tilts(history)
    return sorted(incidents, key=lambda incident: (incident.started_ns, incident.kind, incident.subject))


def find_troubles(views: Sequence[SentinelViewRow]) -> list[SdownPeriod]:
    """Return periods of S_DOWN, merged over all sentinels."""
    troubles: list[SdownPeriod] = []
    for row in views:
        flags = row.flags.split(",")
        if "s_down" not in flags or "force_failover" in flags or "coordinated_failover" in flags:
            continue  # Valkey 9 also sets S_DOWN for an ordered failover
        address = f"{row.ip}:{row.port}"
        open_ = next((trouble for trouble in troubles if trouble.address == address and _touches(trouble, row)), None)
        if open_ is None:
            open_ = SdownPeriod(row.master, address, row.valid_from_ns, row.valid_to_ns)
            troubles.append(open_)
        elif open_.to_ns is not None:
            open_.to_ns = None if row.valid_to_ns is None else max(open_.to_ns, row.valid_to_ns)
        open_.observers.add(row.observer)
        if "o_down" in flags:
            open_.agreed_ns = min(open_.agreed_ns or row.valid_from_ns, row.valid_from_ns)
    return troubles


def _touches(trouble: SdownPeriod, row: SentinelViewRow) -> bool:
    return trouble.to_ns is None or row.valid_from_ns <= trouble.to_ns + GAP_NS


def find_switches(views: Sequence[SentinelViewRow]) -> list[Switch]:
    """Return changes of the master's address, merged over all sentinels."""
    last: dict[str, SentinelViewRow] = {}
    switches: list[Switch] = []
    for row in views:
        before = last.get(row.observer, row)
        last[row.observer] = row
        old, new = f"{before.ip}:{before.port}", f"{row.ip}:{row.port}"
        if old == new:
            continue
        switch = next(
            (known for known in reversed(switches) if (known.old, known.new) == (old, new) and _is_same(known, row)),
            None,
        )
        if switch is None:
            switch = Switch(row.master, old, new, row.config_epoch)
            switches.append(switch)
        switch.adopted_ns[row.observer] = row.valid_from_ns
        is_exact = before.failover_state not in ("", FailoverState.WAIT_START.word) or row.source is Source.POLL
        if is_exact or not switch.is_exact:
            switch.epoch = (row.config_epoch if is_exact else max(switch.epoch or 0, row.config_epoch)) or None
            switch.is_exact = is_exact
    return switches


def _is_same(switch: Switch, row: SentinelViewRow) -> bool:
    return row.observer not in switch.adopted_ns and row.valid_from_ns - switch.first_ns <= TOGETHER_NS


def _behind(switch: Switch, troubles: Sequence[SdownPeriod]) -> SdownPeriod | None:
    """Return the failure that led to the switch."""
    return next(
        (
            trouble
            for trouble in reversed(troubles)
            if trouble.address == switch.old
            and trouble.from_ns <= switch.first_ns
            and (trouble.to_ns is None or trouble.to_ns + GAP_NS >= switch.first_ns)
            and trouble.agreed_ns is not None
        ),
        None,
    )


def _ordered(history: SentinelHistory, name: str, troubles: Sequence[SdownPeriod]) -> Iterable[SentinelEventRow]:
    """Yield starts of failovers of a healthy master, which were ordered."""
    for row in history.events:
        is_down = any(trouble.from_ns <= row.ts_ns <= (trouble.to_ns or history.last_ns) for trouble in troubles)
        if row.channel == "+try-failover" and row.master == name and not is_down:
            yield row


# -- kinds -------------------------------------------------------------------------------------------------------------


def _events(history: SentinelHistory, channel: str, name: str, from_ns: int, to_ns: int) -> list[SentinelEventRow]:
    return [
        row for row in history.events if row.channel == channel and from_ns <= row.ts_ns <= to_ns and row.master == name
    ]


def _failover(history: SentinelHistory, switch: Switch, trouble: SdownPeriod | None, following_ns: int) -> Incident:
    """Return a failover, automatic after O_DOWN or ordered."""
    floor_ns = trouble.from_ns if trouble is not None else switch.first_ns - TOGETHER_NS
    promoted = _events(history, "+promoted-slave", switch.name, floor_ns, switch.last_ns)
    won = [row for row in promoted if row.subject == switch.new]
    leader = won[-1].observer if won else ""
    tries = _tries(history, switch, floor_ns, leader)
    try_ns = tries[-1].ts_ns if tries else None
    started_ns = trouble.from_ns if trouble is not None else try_ns or switch.first_ns
    win_ns = won[-1].ts_ns if won else switch.first_ns
    elected = [
        row.ts_ns
        for row in _events(history, "+elected-leader", switch.name, try_ns or started_ns, win_ns)
        if not leader or row.observer == leader
    ]
    votes = {
        row.voter
        for row in history.votes
        if row.voted_for == leader and row.voted_epoch == switch.epoch and row.master == switch.name
    }
    refusals = {
        row.voter for row in history.votes if row.candidate == leader and row.epoch == switch.epoch and not row.granted
    }
    end_ns = min(following_ns - 1, switch.last_ns + SETTLING_NS)
    automatic = trouble is not None
    return Incident(
        kind=IncidentKind.FAILOVER,
        variant="automatic" if automatic else "manual",
        subject=switch.old,
        winner=switch.new,
        started_ns=started_ns,
        ended_ns=switch.last_ns,
        nodes=tuple(sorted(switch.adopted_ns)),
        epoch=switch.epoch,
        fail_to_election_ms=milliseconds(trouble.agreed_ns if trouble else None, try_ns),
        election_ms=milliseconds(try_ns, elected[-1] if elected else None),
        adoption_ms=milliseconds(win_ns, switch.last_ns),
        votes=len(votes) if leader and automatic else None,
        refusals=len(refusals) if leader and automatic else None,
        steps=steps_between(history, switch.name, {switch.old, switch.new}, started_ns, end_ns),
    )


def _tries(history: SentinelHistory, switch: Switch, floor_ns: int, leader: str) -> list[SentinelEventRow]:
    attempts = _events(history, "+try-failover", switch.name, floor_ns, switch.last_ns)
    return [row for row in attempts if row.observer == leader] or attempts


def _failure(history: SentinelHistory, trouble: SdownPeriod) -> Incident:
    """Return a failure without failover."""
    end_ns = trouble.to_ns if trouble.to_ns is not None else history.last_ns
    return Incident(
        kind=IncidentKind.FAILURE,
        variant="agreed" if trouble.agreed_ns is not None else "not agreed",
        subject=trouble.address,
        started_ns=trouble.from_ns,
        ended_ns=trouble.to_ns,
        nodes=tuple(sorted(trouble.observers)),
        steps=steps_between(history, trouble.name, {trouble.address}, trouble.from_ns, end_ns, failed=trouble),
    )


def _tilts(history: SentinelHistory) -> Iterable[Incident]:
    """Yield TILT periods, in which a sentinel only monitors after a stall or clock step (S16)."""
    open_: dict[str, int] = {}
    for row in history.events:
        if row.channel == "+tilt":
            open_.setdefault(row.observer, row.ts_ns)
        elif row.channel == "-tilt" and row.observer in open_:
            yield _tilt(row.observer, open_.pop(row.observer), row.ts_ns)
    for observer, from_ns in open_.items():
        yield _tilt(observer, from_ns, None)


def _tilt(observer: str, from_ns: int, to_ns: int | None) -> Incident:
    steps = [Step(from_ns, EventKind.TILT, observer, "")]
    if to_ns is not None:
        steps.append(Step(to_ns, EventKind.TILT_ENDED, observer, ""))
    return Incident(
        kind=IncidentKind.TILT, variant="", subject=observer, started_ns=from_ns, ended_ns=to_ns, nodes=(observer,), steps=tuple(steps)
    )  # fmt: skip
