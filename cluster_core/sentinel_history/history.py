"""History of all sentinels: events and votes in their logs, and each sentinel's state of every master (S1 to S16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster_core.kinds import Source
from cluster_core.sentinel.instance import (
    STATE_BY_WORD,
    Address,
    FailoverState,
    Flag,
    flag_text,
    leading_number,
    parse_flags,
)
from cluster_core.sentinel_history.announcements import NOWHERE, Announcement, read_announcement, read_switch
from cluster_core.sentinel_history.evidence import Evidence, LoggedEvent, SentinelReplies, SentinelStarted
from cluster_core.sentinel_history.rows import SentinelEventRow, SentinelViewRow, SentinelVoteRow

ORDERS_FROM_DOWN: Final = (9, 0)
"""From this Valkey version on an ordered failover sets S_DOWN until the next timer."""
MASTERS_MAX: Final = 1000
"""Maximum masters of a sentinel, against forged evidence."""
ORDERED: Final = Flag.FORCE_FAILOVER | Flag.COORDINATED_FAILOVER
CURRENT: Final = frozenset({"+sdown", "+odown", "+try-failover", "+monitor"})
"""Events of a master that give its current address."""
STATES: Final = {
    "+elected-leader": FailoverState.SELECT_SLAVE,
    "+failover-state-select-slave": FailoverState.SELECT_SLAVE,
    "+failover-state-send-slaveof-noone": FailoverState.SEND_SLAVEOF_NOONE,
    "+failover-state-wait-promotion": FailoverState.WAIT_PROMOTION,
    "+failover-state-reconf-slaves": FailoverState.RECONF_SLAVES,
    "+failover-end": FailoverState.UPDATE_CONFIG,
}
"""Events that give the failover state; some name the chosen replica."""


@dataclass(slots=True)
class SentinelHistory:
    """Views, events and votes of all sentinels; *last_ns* is the end of the evidence."""

    views: list[SentinelViewRow] = field(default_factory=list)
    events: list[SentinelEventRow] = field(default_factory=list)
    votes: list[SentinelVoteRow] = field(default_factory=list)
    observers: list[str] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    """Address of each sentinel, as other sentinels name it."""
    first_ns: int = 0
    last_ns: int = 0
    down_after_ms: int = 0
    """``down-after-milliseconds`` from polls, else estimated; 0 if unknown."""


@dataclass(slots=True)
class Master:
    """A sentinel's state of one master."""

    address: Address
    flags: int = Flag.MASTER
    config_epoch: int = 0
    quorum: int = 0
    state: FailoverState = FailoverState.NONE
    failover_epoch: int = 0
    promoted: Address = NOWHERE

    def move(self, address: Address) -> None:
        """Take a new address, without flags and failover (S4)."""
        self.address, self.promoted = address, NOWHERE
        self.begin_again()

    def begin_again(self) -> None:
        """Clear the state that a sentinel does not save in its configuration file."""
        self.flags, self.state = Flag.MASTER, FailoverState.NONE


def fold_history(evidence: Mapping[str, Sequence[Evidence]]) -> SentinelHistory:
    """Build the history from each sentinel's *evidence*: logs, polls or both."""
    history = SentinelHistory(down_after_ms=_down_after_ms(evidence))
    for observer in sorted(evidence):
        items = sorted(evidence[observer], key=lambda item: item.ts_ns)
        if items:
            fold = _Fold(observer, history)
            for item in items:
                fold.handle(item)
            fold.finish()
            history.observers.append(observer)
            history.first_ns = min(history.first_ns or items[0].ts_ns, items[0].ts_ns)
            history.last_ns = max(history.last_ns, items[-1].ts_ns)
    history.views.sort(key=lambda row: (row.valid_from_ns, row.observer, row.master))
    history.events.sort(key=lambda row: row.ts_ns)
    history.events = [row._replace(event_id=number) for number, row in enumerate(history.events)]
    history.votes.sort(key=lambda row: row.ts_ns)
    tries = dict(_tries(history.events))
    history.votes = [
        row._replace(vote_id=number, master=tries.get((row.candidate, row.epoch), row.master))
        for number, row in enumerate(history.votes)
    ]
    return history


def _tries(events: Iterable[SentinelEventRow]) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield leader, epoch and master of each attempt; a vote names no master."""
    epochs: dict[str, int] = {}
    for row in events:
        if row.channel == "+new-epoch":
            epochs[row.observer] = leading_number(row.text)
        elif row.channel == "+try-failover" and row.master and row.observer in epochs:
            yield (row.observer, epochs[row.observer]), row.master


class _Fold:
    """Adds the evidence on one sentinel, in time order, to the history."""

    def __init__(self, observer: str, history: SentinelHistory) -> None:
        self.observer, self.history = observer, history
        self.masters: dict[str, Master] = {}
        self.epoch = 0
        self.version: tuple[int, ...] = ()
        """Valkey's version; Redis and unknown versions are empty and so compare as older."""
        self._open: dict[str, SentinelViewRow] = {}

    def handle(self, item: Evidence) -> None:
        """Apply one piece of evidence, and add the views that it changes."""
        match item:
            case LoggedEvent():
                self._take_event(item)
                cause, source = f"event {item.channel}", Source.LOG
            case SentinelStarted():
                self.version = item.version or self.version
                for master in self.masters.values():
                    master.begin_again()
                cause, source = "started", Source.LOG
            case SentinelReplies():
                self._take_poll(item)
                cause, source = "poll", Source.POLL
        for name in self._open.keys() - self.masters.keys():
            self._close(self._open.pop(name), item.ts_ns)
        for name, watched in self.masters.items():
            self._note(name, watched, item.ts_ns, cause, source)

    def finish(self) -> None:
        """Add the views that are still valid."""
        self.history.views += self._open.values()

    def _note(self, name: str, master: Master, ts_ns: int, cause: str, source: Source) -> None:
        state = "" if master.state is FailoverState.NONE else master.state.word
        shown = (
            self.observer, name, master.address.ip, master.address.port, flag_text(master.flags), master.config_epoch, state,
            master.quorum or None,
        )  # fmt: skip
        before = self._open.get(name)
        if before is None or before[: len(shown)] != shown:
            if before is not None:
                self._close(before, ts_ns)
            self._open[name] = SentinelViewRow(*shown, ts_ns, None, cause, source)

    def _close(self, row: SentinelViewRow, ts_ns: int) -> None:
        if ts_ns > row.valid_from_ns:
            self.history.views.append(row._replace(valid_to_ns=ts_ns))

    # -- events --------------------------------------------------------------------------------------------------------

    def _take_event(self, event: LoggedEvent) -> None:
        """Add the event, and apply it; unknown events change nothing."""
        announcement = read_announcement(event.text)
        switch = read_switch(event.text) if event.channel == "+switch-master" else None
        subject = (
            announcement.name
            if announcement.role == "sentinel"
            else str(announcement.address)
            if announcement.role
            else ""
        )
        name = switch.master if switch is not None else announcement.master
        subject = str(switch.after) if switch is not None else subject
        self.history.events.append(
            SentinelEventRow(0, self.observer, event.ts_ns, event.channel, event.text, name or None, subject or None)
        )
        if announcement.role == "sentinel":
            self.history.addresses[announcement.name] = str(announcement.address)
        if event.channel == "+new-epoch":
            self.epoch = max(self.epoch, leading_number(event.text))
        elif event.channel in ("+vote-for-leader", "voted"):
            self._vote(event)
        elif event.channel == "-monitor":
            self.masters.pop(name, None)
        elif switch is not None:
            master = self._master(switch.master, switch.before)
            if master is not None and master.address != switch.after:
                if master.promoted != switch.after:
                    master.config_epoch = max(master.config_epoch, self.epoch)
                master.move(switch.after)
        elif announcement.role and announcement.master_address.port:
            master = self._master(announcement.master, announcement.master_address)
            if master is not None:
                self._change(master, event.channel, announcement)

    def _master(self, name: str, address: Address) -> Master | None:
        if name not in self.masters and len(self.masters) < MASTERS_MAX:
            self.masters[name] = Master(address)
        return self.masters.get(name)

    def _vote(self, event: LoggedEvent) -> None:
        """Apply ``RUNID EPOCH``, its own vote for the master that is down, or ``NAME RUNID EPOCH``, another's on request."""
        *voter, leader, epoch = event.text.split(" ") if event.text.count(" ") in (1, 2) else ("", "")
        name = next((name for name, watched in self.masters.items() if watched.flags & Flag.O_DOWN), None)
        name = name or next(
            (name for name, watched in self.masters.items() if watched.state is not FailoverState.NONE), None
        )
        name = name or next(iter(self.masters), "")
        if not name or not leader:
            return
        master, number = self.masters[name], leading_number(epoch)
        if voter and leader == self.observer and master.flags & Flag.FORCE_FAILOVER:  # no vote requests
            master.flags = master.flags & ~Flag.FORCE_FAILOVER | Flag.COORDINATED_FAILOVER
        by, asked = (voter[0], self.observer) if voter else (self.observer, leader)
        vote = SentinelVoteRow(0, event.ts_ns, by, asked, name, number, leader, number, leader == asked)
        self.history.votes.append(vote)

    def _change(self, watched: Master, channel: str, announcement: Announcement) -> None:
        """Apply an event on a master, or on its replica during a failover."""
        if announcement.role == "master":
            if channel in CURRENT and watched.address != announcement.address:
                watched.move(announcement.address)  # its switch was not logged
            if announcement.rest.startswith("quorum "):
                watched.quorum = leading_number(announcement.rest[7:])
        if channel in STATES and announcement.role != "sentinel":
            if channel != "+failover-end" or watched.flags & Flag.FAILOVER_IN_PROGRESS:
                watched.state = STATES[channel]
        elif channel == "+promoted-slave":
            watched.promoted = announcement.address
            watched.config_epoch = max(watched.config_epoch, watched.failover_epoch)
        elif announcement.role == "master":
            self._change_master(watched, channel, announcement)

    def _change_master(self, watched: Master, channel: str, announcement: Announcement) -> None:
        match channel:
            case "+sdown":
                watched.flags |= Flag.S_DOWN
            case "-sdown":
                watched.flags &= ~Flag.S_DOWN
            case "+odown":
                watched.flags |= Flag.O_DOWN
                quorum = leading_number(announcement.rest.rpartition("/")[2])  # ``#quorum 2/2``: agreeing, required
                watched.quorum = quorum if quorum > 0 else watched.quorum
            case "-odown":
                watched.flags &= ~Flag.O_DOWN
            case "+try-failover":  # without O_DOWN it was ordered (S10, S12)
                if not watched.flags & Flag.O_DOWN:
                    watched.flags |= Flag.FORCE_FAILOVER | (Flag.S_DOWN if self.version >= ORDERS_FROM_DOWN else 0)
                watched.flags |= Flag.FAILOVER_IN_PROGRESS
                watched.failover_epoch, watched.state = self.epoch, FailoverState.WAIT_START
            case "+reset-master":
                watched.begin_again()
            case "+set" if announcement.rest.startswith("quorum "):
                watched.quorum = leading_number(announcement.rest[7:]) or watched.quorum
            case _ if channel.startswith("-failover-abort-"):
                watched.flags &= ~(Flag.FAILOVER_IN_PROGRESS | ORDERED)
                watched.state = FailoverState.NONE

    # -- polls ---------------------------------------------------------------------------------------------------------

    def _take_poll(self, item: SentinelReplies) -> None:
        """Replace all masters by those of a reply."""
        for fields in item.sentinels:
            self.history.addresses[fields.get("runid", "")] = f"{fields.get('ip', '')}:{fields.get('port', '')}"
        polled: dict[str, Master] = {}
        for fields in item.masters[:MASTERS_MAX]:
            name, address = (
                fields.get("name", ""),
                Address(fields.get("ip", ""), leading_number(fields.get("port", ""))),
            )
            master = self.masters.get(name) or Master(address)
            if master.address != address:
                master.move(address)
            master.flags = parse_flags(fields.get("flags", "")) & ~Flag.DISCONNECTED | Flag.MASTER
            master.state = STATE_BY_WORD.get(fields.get("failover-state", ""), FailoverState.NONE)
            master.config_epoch = leading_number(fields.get("config-epoch", str(master.config_epoch)))
            master.quorum = leading_number(fields.get("quorum", str(master.quorum)))
            polled[name] = master
        self.masters = polled


def _down_after_ms(evidence: Mapping[str, Sequence[Evidence]]) -> int:
    """Return the setting in polls, else the time from a switch to the SDOWN of the old master; 0 if neither shows it."""
    polled = (
        leading_number(fields.get("down-after-milliseconds", ""))
        for items in evidence.values()
        for item in items
        if isinstance(item, SentinelReplies)
        for fields in item.masters
    )
    silences = []
    for items in evidence.values():
        switched: dict[Address, int] = {}
        for item in items:
            if not isinstance(item, LoggedEvent):
                continue
            switch = read_switch(item.text) if item.channel == "+switch-master" else None
            if switch is not None:
                switched = {switch.before: item.ts_ns}
            elif item.channel in ("+sdown", "-role-change", "+role-change"):
                since_ns = switched.pop(read_announcement(item.text).address, None)
                if since_ns is not None and item.channel == "+sdown":
                    silences.append((item.ts_ns - since_ns) // 1_000_000)
    return max(polled, default=0) or min(silences, default=0)
