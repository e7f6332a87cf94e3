"""What happened to the masters that sentinels watch, as incidents of the shape that those of a cluster have.

A failover is told from the last sign of life of the old master to its adoption by every sentinel, and on to the return
of the old master; a failure without one is told with what stood in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster_core.incidents.incident import Incident, Step, milliseconds
from cluster_core.kinds import EventKind, IncidentKind
from cluster_core.sentinel_history.beliefs import Span
from cluster_core.sentinel_history.history import SentinelHistory
from cluster_core.sentinel_history.incident_steps import steps_between
from cluster_core.sentinel_history.rows import EventRow

TOGETHER_NS: Final = 180_000_000_000
"""Sentinels adopt a new master within this time, or it is another switch."""
GAP_NS: Final = 1_500_000_000
"""Doubts that follow one another this soon are one failure."""
SETTLING_NS: Final = 120_000_000_000
"""An old master that returns later than this after the switch is no part of the failover any more."""


@dataclass(slots=True)
class Trouble:
    """A time in which sentinels held the master at *address* for down: from when to when each (None: to the end)."""

    name: str
    address: str
    from_ns: int
    to_ns: int | None
    observers: set[str] = field(default_factory=set)
    agreed_ns: int | None = None


@dataclass(slots=True)
class Switch:
    """The sentinels go over from the master at *old* to that at *new*: when each did, and its epoch."""

    name: str
    old: str
    new: str
    epoch: int | None
    adopted_ns: dict[str, int] = field(default_factory=dict)

    @property
    def first_ns(self) -> int:
        """When the first one did: the leader, or who heard of it before the leader was done."""
        return min(self.adopted_ns.values())

    @property
    def last_ns(self) -> int:
        """When the last one did."""
        return max(self.adopted_ns.values())


def find_sentinel_incidents(history: SentinelHistory) -> list[Incident]:
    """All incidents, in order of time."""
    found = []
    for name in sorted({span.belief.master for span in history.spans}):
        spans = [span for span in history.spans if span.belief.kind == "master" and span.belief.name == name]
        troubles, switches = find_troubles(spans), find_switches(spans)
        starts = [one.from_ns for one in troubles] + [one.first_ns for one in switches]
        starts = sorted([*starts, *(row.ts_ns for row in _ordered(history, name, troubles))])
        taken: set[int] = set()
        for switch in switches:
            trouble = _behind(switch, troubles)
            if trouble is not None:
                taken.add(id(trouble))
            following = next((ns for ns in starts if ns > switch.last_ns), history.last_ns + 1)
            found.append(_failover(history, switch, trouble, following))
        for trouble in troubles:
            if id(trouble) not in taken:
                found.append(_failure(history, trouble))
        found += _vain_orders(history, name, troubles, switches)
    found += _tilts(history)
    return sorted(found, key=lambda one: (one.started_ns, one.kind, one.subject))


def find_troubles(spans: Sequence[Span]) -> list[Trouble]:
    """Times in which a master was held for down, put together over all sentinels."""
    doubts = [span for span in spans if _is_doubt(span.belief.flags.split(","))]
    doubts.sort(key=lambda span: span.from_ns)
    found: list[Trouble] = []
    for span in doubts:
        address = f"{span.belief.ip}:{span.belief.port}"
        open_ = next((one for one in found if one.address == address and _touches(one, span)), None)
        if open_ is None:
            open_ = Trouble(span.belief.name, address, span.from_ns, span.to_ns)
            found.append(open_)
        elif open_.to_ns is not None:
            open_.to_ns = None if span.to_ns is None else max(open_.to_ns, span.to_ns)
        open_.observers.add(span.observer)
        if "o_down" in span.belief.flags.split(","):
            open_.agreed_ns = min(open_.agreed_ns or span.from_ns, span.from_ns)
    return found


def _is_doubt(flags: list[str]) -> bool:
    """S_DOWN, but for that which an order to fail over brings with it in Valkey 9."""
    return "s_down" in flags and not {"force_failover", "coordinated_failover"} & set(flags)


def _touches(trouble: Trouble, span: Span) -> bool:
    return trouble.to_ns is None or span.from_ns <= trouble.to_ns + GAP_NS


def find_switches(spans: Sequence[Span]) -> list[Switch]:
    """Changes of the master's address, put together over all sentinels."""
    last: dict[str, Span] = {}
    found: list[Switch] = []
    for span in sorted(spans, key=lambda span: span.from_ns):
        before = last.get(span.observer)
        last[span.observer] = span
        new = f"{span.belief.ip}:{span.belief.port}"
        old = f"{before.belief.ip}:{before.belief.port}" if before is not None else new
        if old == new:
            continue
        switch = next(
            (one for one in reversed(found) if (one.old, one.new) == (old, new) and _is_same(one, span)), None
        )
        if switch is None:
            switch = Switch(span.belief.name, old, new, span.belief.config_epoch)
            found.append(switch)
        switch.adopted_ns[span.observer] = span.from_ns
        switch.epoch = max(switch.epoch or 0, span.belief.config_epoch or 0) or None
    return found


def _is_same(switch: Switch, span: Span) -> bool:
    return span.observer not in switch.adopted_ns and span.from_ns - switch.first_ns <= TOGETHER_NS


def _behind(switch: Switch, troubles: Sequence[Trouble]) -> Trouble | None:
    """The failure that led to the switch."""
    return next(
        (
            one
            for one in reversed(troubles)
            if one.address == switch.old
            and one.from_ns <= switch.first_ns
            and (one.to_ns is None or one.to_ns + GAP_NS >= switch.first_ns)
            and one.agreed_ns is not None
        ),
        None,
    )


def _ordered(history: SentinelHistory, name: str, troubles: Sequence[Trouble]) -> Iterable[EventRow]:
    """Beginnings of failovers while the master was up: those that were ordered."""
    for row in history.events:
        is_down = any(one.from_ns <= row.ts_ns <= (one.to_ns or history.last_ns) for one in troubles)
        if row.channel == "+try-failover" and name in row.text.split(" ") and not is_down:
            yield row


# -- kinds -------------------------------------------------------------------------------------------------------------


def _events(history: SentinelHistory, channel: str, name: str, from_ns: int, to_ns: int) -> list[EventRow]:
    return [
        row
        for row in history.events
        if row.channel == channel and from_ns <= row.ts_ns <= to_ns and name in row.text.split(" ")
    ]


def _failover(history: SentinelHistory, switch: Switch, trouble: Trouble | None, following_ns: int) -> Incident:
    """A failover, automatic after a failure that was agreed upon, or by order."""
    last_sign = _last_sign(history, switch.old, trouble)
    floor_ns = trouble.from_ns if trouble is not None else switch.first_ns - TOGETHER_NS
    won = [row for row in history.events if row.channel == "+promoted-slave" and _is_of(row, switch, floor_ns)]
    leader = won[-1].observer if won else ""
    tries = _tries(history, switch, floor_ns, leader)
    try_ns = tries[-1].ts_ns if tries else None
    started_ns = last_sign or (trouble.from_ns if trouble is not None else try_ns or switch.first_ns)
    win_ns = won[-1].ts_ns if won else switch.first_ns
    elected = [
        row.ts_ns
        for row in _events(history, "+elected-leader", switch.name, try_ns or started_ns, win_ns)
        if not leader or row.observer == leader
    ]
    votes = {
        row.voter
        for row in history.votes
        if row.granted_to == leader and row.granted_epoch == switch.epoch and row.master == switch.name
    }
    refusals = {
        row.voter
        for row in history.votes
        if row.candidate == leader and row.epoch == switch.epoch and not row.is_granted
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
        silence_to_pfail_ms=milliseconds(last_sign, trouble.from_ns if trouble else None),
        silence_to_fail_ms=milliseconds(last_sign, trouble.agreed_ns if trouble else None),
        fail_to_election_ms=milliseconds(trouble.agreed_ns if trouble else None, try_ns),
        election_ms=milliseconds(try_ns, elected[-1] if elected else None),
        outage_ms=milliseconds(last_sign, win_ns),
        adoption_ms=milliseconds(win_ns, switch.last_ns),
        votes=len(votes) if leader and automatic else None,
        refusals=len(refusals) if leader and automatic else None,
        steps=steps_between(history, switch.name, {switch.old, switch.new}, started_ns, end_ns, last_sign, switch.old),
    )


def _is_of(row: EventRow, switch: Switch, floor_ns: int) -> bool:
    words = row.text.split(" ")
    is_new = len(words) >= 4 and f"{words[2]}:{words[3]}" == switch.new
    return is_new and switch.name in words and floor_ns <= row.ts_ns <= switch.last_ns


def _tries(history: SentinelHistory, switch: Switch, floor_ns: int, leader: str) -> list[EventRow]:
    found = _events(history, "+try-failover", switch.name, floor_ns, switch.last_ns)
    return [row for row in found if row.observer == leader] or found


def _last_sign(history: SentinelHistory, address: str, trouble: Trouble | None) -> int | None:
    """When the failed master answered anybody for the last time."""
    if trouble is None:
        return None
    to_ns = trouble.to_ns if trouble.to_ns is not None else history.last_ns
    signs = [
        row.last_ns
        for row in history.signs
        if row.address == address and row.last_ns is not None and trouble.from_ns <= row.ts_ns <= to_ns
    ]
    known = [ns for ns in signs if ns is not None and ns <= trouble.from_ns]
    return max(known, default=None)


def _failure(history: SentinelHistory, trouble: Trouble) -> Incident:
    """A master that was held for down without being replaced."""
    last_sign = _last_sign(history, trouble.address, trouble)
    started_ns = last_sign or trouble.from_ns
    end_ns = trouble.to_ns if trouble.to_ns is not None else history.last_ns
    return Incident(
        kind=IncidentKind.FAILURE,
        variant="agreed" if trouble.agreed_ns is not None else "not agreed",
        subject=trouble.address,
        started_ns=started_ns,
        ended_ns=trouble.to_ns,
        nodes=tuple(sorted(trouble.observers)),
        silence_to_pfail_ms=milliseconds(last_sign, trouble.from_ns),
        silence_to_fail_ms=milliseconds(last_sign, trouble.agreed_ns),
        outage_ms=milliseconds(last_sign, trouble.to_ns),
        steps=steps_between(
            history, trouble.name, {trouble.address}, started_ns, end_ns, last_sign, trouble.address, is_failure=True
        ),
    )


def _vain_orders(
    history: SentinelHistory, name: str, troubles: Sequence[Trouble], switches: Sequence[Switch]
) -> Iterable[Incident]:
    """Failovers that were ordered, and came to nothing, of a master that was up."""
    for row in history.events:
        if not row.channel.startswith("-failover-abort-") or name not in row.text.split(" "):
            continue
        if any(one.from_ns <= row.ts_ns <= (one.to_ns or history.last_ns) for one in troubles):
            continue
        tries = [one for one in _events(history, "+try-failover", name, 0, row.ts_ns) if one.observer == row.observer]
        if not tries or any(tries[-1].ts_ns <= one.first_ns <= row.ts_ns for one in switches):
            continue
        words = row.text.split(" ")
        address = f"{words[2]}:{words[3]}" if len(words) >= 4 else ""
        yield Incident(
            kind=IncidentKind.FAILOVER,
            variant="given up",
            subject=address,
            started_ns=tries[-1].ts_ns,
            ended_ns=row.ts_ns,
            nodes=(row.observer,),
            steps=steps_between(history, name, {address}, tries[-1].ts_ns, row.ts_ns, None, address),
        )


def _tilts(history: SentinelHistory) -> Iterable[Incident]:
    """Times in which a sentinel only watched, because its clock or its process had stood still (S16)."""
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
