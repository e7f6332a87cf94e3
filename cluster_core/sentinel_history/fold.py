"""Reconstruct one sentinel's view: the machine's tables, updated from its log and poll replies.

The only derived change: other sentinels' opinions on a master expire after five seconds (S8).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from cluster_core.kinds import Source
from cluster_core.sentinel.directory import (
    add_master,
    add_replica,
    add_sentinel,
    move_master,
    propagate_down_after,
    remove_master,
    remove_sentinel,
    reset_master,
)
from cluster_core.sentinel.instance import (
    STATE_BY_WORD,
    Address,
    FailoverState,
    Flag,
    Instance,
    new_instance,
    parse_flags,
)
from cluster_core.sentinel.state import SentinelSettings, SentinelState
from cluster_core.sentinel.text import leading_number
from cluster_core.sentinel_history.announcements import Announcement, read_announcement, read_switch
from cluster_core.sentinel_history.beliefs import Belief, BeliefLog, Span, belief_of, shown_family
from cluster_core.sentinel_history.evidence import Assumed, Evidence, Opined, Polled, Started, Told
from cluster_core.sentinel_history.rows import EventRow, OpinionRow, VoteRow

MS_NS: Final = 1_000_000
OPINION_MS: Final = 5000
"""Another sentinel's opinion expires after this time (S8)."""
HALF_TICK_NS: Final = 50_000_000
"""Average delay until the timer notices it."""
KEEPS_OPINIONS: Final = (9, 1)
"""From this version on Valkey expires opinions only while the master is down; Redis always."""
ORDERS_FROM_DOWN: Final = (9, 0)
"""From this version on an ordered failover sets S_DOWN until the next timer."""
MASTERS_MAX: Final = 1000
"""Maximum masters of a sentinel, against forged evidence: the oldest are dropped."""
_CURRENT: Final = frozenset({"+sdown", "+odown", "+try-failover", "+monitor"})
"""Events of a master that give its current address."""
_RUNID: Final = 40
_OF_ALL: Final = frozenset({"+sentinel-invalid-addr"})
"""Events that also affect other masters."""
_NOT_RECONF: Final = ~(Flag.RECONF_SENT | Flag.RECONF_INPROG | Flag.RECONF_DONE)
WITHOUT_BELIEFS: Final = ("+new-epoch", "+vote-for-leader", "+tilt", "-tilt", "failover-delayed")
"""Events without a visible change of an instance."""


class SentinelFold:
    """Applies evidence on one sentinel in time order; `finish` returns its views."""

    def __init__(self, observer: str) -> None:
        self.observer = observer
        self.state = SentinelState(SentinelSettings(), cast(Any, None), 0)  # nothing here is random
        self.state.my_id = observer
        self.log = BeliefLog(observer)
        self.events: list[EventRow] = []
        self.votes: list[VoteRow] = []
        self.opinions: list[OpinionRow] = []
        self.now_ns = 0
        self.version: tuple[int, ...] = ()
        """Valkey's version; Redis and unknown versions are empty and so compare as older."""
        self._touched: set[str] = set()

    def handle(self, item: Evidence) -> None:
        """Apply one piece of evidence."""
        self._forget_until(item.ts_ns)
        self._at(item.ts_ns)
        self._touched = set()
        cause, source = self._take(item)
        if cause:
            self.note(cause, source, self._touched or None)
        self.state.out.clear()

    def finish(self, ts_ns: int) -> list[Span]:
        """The evidence ends at *ts_ns*."""
        self._forget_until(ts_ns)
        return self.log.finish()

    def note(self, cause: str, source: Source, names: Iterable[str] | None = None) -> None:
        """Record the current views of the masters *names* and related instances, or of all."""
        for name in [*self.state.masters, *self.log.masters] if names is None else names:
            master = self.state.masters.get(name)
            beliefs: Iterable[Belief] = () if master is None else map(belief_of, shown_family(master))
            self.log.note(self.now_ns, name, beliefs, cause, source)

    def touch(self, *masters: Instance | None) -> None:
        """Limit the next record to these masters and related instances."""
        self._touched.update(one.name for one in masters if one is not None)

    def monitor(self, name: str, address: Address, quorum: int = 0) -> Instance:
        """Start to monitor a master."""
        while len(self.state.masters) >= MASTERS_MAX:
            oldest = next(iter(self.state.masters.values()))
            remove_master(self.state, oldest)
            self.log.note(self.now_ns, oldest.name, (), "too many", Source.LOG)
        return add_master(self.state, name, address, quorum)

    def forget_opinions(self, master: Instance) -> None:
        """Expire other sentinels' opinions on *master* (S8); Valkey 9.1 does so only while it is down."""
        for sentinel in self._opinionated(master):
            if self.state.now_ms - sentinel.master_down_reply_ms > OPINION_MS:
                sentinel.flags &= ~Flag.MASTER_DOWN
                sentinel.leader = ""

    def mark_down(self, instance: Instance, is_down: bool) -> None:
        """Set or clear S_DOWN of *instance*."""
        if is_down and not instance.flags & Flag.S_DOWN:
            instance.flags |= Flag.S_DOWN
            instance.s_down_since_ms = self.state.now_ms
            self.forget_opinions(instance)
        elif not is_down:
            instance.flags &= ~(Flag.S_DOWN | Flag.SCRIPT_KILL_SENT)

    def _at(self, ts_ns: int) -> None:
        """Advance the time; it never goes back."""
        self.now_ns = max(self.now_ns, ts_ns)
        self.state.now_ms = self.now_ns // MS_NS

    def _opinionated(self, master: Instance) -> list[Instance]:
        """Return the sentinels with an opinion on *master* that will expire."""
        if self.version >= KEEPS_OPINIONS and (not master.flags & Flag.S_DOWN or master.flags & Flag.FORCE_FAILOVER):
            return []
        return [one for one in master.sentinels.values() if one.leader or one.flags & Flag.MASTER_DOWN]

    def _forget_until(self, ts_ns: int) -> None:
        while True:
            spoken = [one for master in self.state.masters.values() for one in self._opinionated(master)]
            replied_ms = min((one.master_down_reply_ms for one in spoken), default=None)
            if replied_ms is None or (due_ns := (replied_ms + OPINION_MS) * MS_NS + HALF_TICK_NS) > ts_ns:
                return
            self._at(due_ns)
            for master in self.state.masters.values():
                self.forget_opinions(master)
            self.note("time", Source.RULE)

    # -- evidence --------------------------------------------------------------------------------------------------

    def _take(self, item: Evidence) -> tuple[str, Source]:
        """Apply one piece of evidence; return cause and source of changed views, or nothing."""
        match item:
            case Told():
                self.events.append(EventRow(item.ts_ns, self.observer, item.channel, item.text))
                take_told(self, item)
                is_silent = item.channel in WITHOUT_BELIEFS
                return ("", Source.NONE) if is_silent else (f"event {item.channel}", Source.LOG)
            case Assumed():
                for master in self.state.masters.values():
                    for one in (master, *master.replicas.values(), *master.sentinels.values()):
                        if one.address == item.address:
                            self.touch(master)
                            one.link.disconnected = not item.is_linked
                return "conclusion", Source.LOG
            case Opined():
                return self._on_opined(item)
            case Started():
                self.version = item.version or self.version
                begin_again(self)
                return "started", Source.LOG
            case Polled():
                take_poll(self, item)
                return "poll", Source.POLL

    def _on_opined(self, item: Opined) -> tuple[str, Source]:
        """Apply another sentinel's opinion on the master, and its vote if any."""
        master = self.state.masters.get(item.master)
        sentinel = master.sentinels.get(item.sentinel) if master is not None else None
        if master is None or sentinel is None:
            return "", Source.NONE
        self.touch(master)
        sentinel.master_down_reply_ms = self.state.now_ms
        if item.says_down is not bool(sentinel.flags & Flag.MASTER_DOWN):
            self.opinions.append(OpinionRow(self.now_ns, self.observer, sentinel.name, master.name, item.says_down))
        sentinel.flags = sentinel.flags | Flag.MASTER_DOWN if item.says_down else sentinel.flags & ~Flag.MASTER_DOWN
        if item.leader and item.leader_epoch == sentinel.leader_epoch:  # the log has a line for a new vote
            sentinel.leader = item.leader
        return "conclusion", Source.LOG


def take_told(fold: SentinelFold, told: Told) -> None:
    """Apply a logged event; unknown events change nothing."""
    match told.channel:
        case "+new-epoch":
            fold.state.current_epoch = max(fold.state.current_epoch, leading_number(told.text))
        case "+vote-for-leader":
            _vote(fold, told)
        case "voted":
            _voted(fold, told)
        case "+switch-master":
            _switch(fold, told)
        case _:
            _take_titled(fold, told)


def _take_titled(fold: SentinelFold, told: Told) -> None:
    """Apply an event that starts with the title of an instance."""
    said = read_announcement(told.text)
    if not said.role:
        return
    master = _master_of(fold, said)
    if master is not None and said.role == "master" and told.channel in _CURRENT and master.address != said.address:
        move_master(fold.state, master, said.address)  # its switch was not logged
    subject = _subject(fold, said, master) if master is not None else None
    if told.channel not in _OF_ALL:
        fold.touch(master)
    if subject is not None and subject.flags & _ROLES.get(told.channel, Flag.MASTER):
        _change(fold, told.channel, subject, said)


def _master_of(fold: SentinelFold, said: Announcement) -> Instance | None:
    master = fold.state.masters.get(said.master)
    if master is None and said.master_address.port:
        master = fold.monitor(said.master, said.master_address)
    if master is not None and said.rest.startswith("quorum "):
        master.quorum = leading_number(said.rest[7:])
    return master


def _subject(fold: SentinelFold, said: Announcement, master: Instance) -> Instance | None:
    """Return the instance named by the event, added if unknown."""
    if said.role == "master":
        return master
    if said.role == "slave" and said.address == master.address:
        return None  # from before the switch
    if said.role == "slave":
        known = master.replicas.get(said.name) or add_replica(fold.state, master, *said.address)
        return known or master.replicas.get(str(said.address))
    if len(said.name) != _RUNID:
        return None
    known = master.sentinels.get(said.name)
    if known is not None and known.address != said.address:
        remove_sentinel(fold.state, master, said.name)
        known = None
    return known or add_sentinel(fold.state, master, *said.address, said.name)


def _vote(fold: SentinelFold, told: Told) -> None:
    """Apply ``RUNID EPOCH``: its own vote, for the master that is down."""
    candidate, _, epoch = told.text.partition(" ")
    masters = list(fold.state.masters.values())
    master = next((one for one in masters if one.flags & Flag.O_DOWN), masters[0] if masters else None)
    if master is None:
        return
    master.leader, master.leader_epoch = candidate, leading_number(epoch)
    fold.votes.append(
        VoteRow(told.ts_ns, fold.observer, candidate, master.name, master.leader_epoch, candidate, master.leader_epoch)
    )


def _voted(fold: SentinelFold, told: Told) -> None:
    """Apply ``NAME voted for RUNID EPOCH``: another sentinel's vote on request."""
    name, leader, epoch = (*told.text.split(" ", 2), "", "")[:3]
    for master in fold.state.masters.values():
        sentinel = master.sentinels.get(name)
        if sentinel is not None:
            fold.touch(master)
            if leader == fold.observer and master.flags & Flag.FORCE_FAILOVER:  # a forced failover requests no votes
                master.flags = master.flags & ~Flag.FORCE_FAILOVER | Flag.COORDINATED_FAILOVER
            sentinel.leader, sentinel.leader_epoch = leader, leading_number(epoch)
            fold.votes.append(
                VoteRow(
                    told.ts_ns, name, fold.observer, master.name, sentinel.leader_epoch, leader, sentinel.leader_epoch
                )
            )


def _switch(fold: SentinelFold, told: Told) -> None:
    switch = read_switch(told.text)
    if switch is None:
        return
    master = fold.state.masters.get(switch.master) or fold.monitor(switch.master, switch.before)
    fold.touch(master)
    if master.address == switch.after:
        return
    promoted = master.promoted
    if promoted is None or promoted.address != switch.after:
        master.config_epoch = max(master.config_epoch, fold.state.current_epoch)
    move_master(fold.state, master, switch.after)


def _change(fold: SentinelFold, channel: str, one: Instance, said: Announcement) -> None:
    """Apply the change of the event on *channel* to its instance; other channels only add the instance."""
    match channel:
        case "+sdown" | "-sdown":
            fold.mark_down(one, channel == "+sdown")
        case "+odown":
            one.flags |= Flag.O_DOWN
            one.o_down_since_ms = fold.state.now_ms
            quorum = leading_number(said.rest.rpartition("/")[2])  # ``#quorum 2/2``: agreeing, required
            one.quorum = quorum if quorum > 0 else one.quorum
        case "-odown":
            one.flags &= ~Flag.O_DOWN
        case "+try-failover":
            _try(fold, one)
        case "+selected-slave":
            if one.master is not None:
                one.master.promoted = one
            one.flags |= Flag.PROMOTED
        case "+promoted-slave" if one.master is not None:
            one.master.config_epoch = max(one.master.config_epoch, one.master.failover_epoch)
        case "+role-change" | "-role-change":
            role = Flag.MASTER if said.rest.endswith("is master") else Flag.REPLICA
            if one.role_reported != role:
                one.role_reported, one.role_reported_ms = role, fold.state.now_ms
        case "+reset-master":
            reset_master(fold.state, one)
        case "-monitor":
            remove_master(fold.state, one)
        case "+sentinel-invalid-addr":
            for master in fold.state.masters.values():
                remove_sentinel(fold.state, master, one.runid)
        case "+sentinel-address-switch" if len(said.words) == 6:  # ``master … ip IP port PORT for RUNID``
            _, ip, _, port, _, runid = said.words
            remove_sentinel(fold.state, one, runid)
            add_sentinel(fold.state, one, ip, leading_number(port), runid)
        case "+set":
            _set(one, said)
        case _ if channel in _STATES:
            master = one.master or one
            if channel != "+failover-end" or master.flags & Flag.FAILOVER_IN_PROGRESS:
                _enter(fold, master, _STATES[channel])
        case _ if channel in _RECONF:
            if not one.flags & Flag.RECONF_DONE or _RECONF[channel] == Flag.RECONF_DONE:
                one.flags = one.flags & _NOT_RECONF | _RECONF[channel]
        case _ if channel.startswith("-failover-abort-"):
            _aborted(fold, one)


def _try(fold: SentinelFold, one: Instance) -> None:
    """Start a failover; without O_DOWN it was ordered (S10, S12)."""
    one.flags |= Flag.FAILOVER_IN_PROGRESS
    if not one.flags & Flag.O_DOWN:
        one.flags |= Flag.FORCE_FAILOVER
        if fold.version >= ORDERS_FROM_DOWN:
            one.flags |= Flag.S_DOWN
            one.s_down_since_ms = fold.state.now_ms
    one.failover_epoch = fold.state.current_epoch
    _enter(fold, one, FailoverState.WAIT_START)


def _enter(fold: SentinelFold, master: Instance, state: FailoverState) -> None:
    master.failover_state = state
    master.failover_changed_ms = fold.state.now_ms


def _aborted(fold: SentinelFold, one: Instance) -> None:
    one.flags &= ~(Flag.FAILOVER_IN_PROGRESS | Flag.FORCE_FAILOVER | Flag.COORDINATED_FAILOVER)
    _enter(fold, one, FailoverState.NONE)
    if one.promoted is not None:
        one.promoted.flags &= ~Flag.PROMOTED
        one.promoted = None


def _set(one: Instance, said: Announcement) -> None:
    """``+set master … OPTION VALUE``."""
    option, value = (*said.words, "", "")[:2]
    number = leading_number(value)
    if number <= 0:
        return
    if option == "quorum":
        one.quorum = number
    elif option == "failover-timeout":
        one.failover_timeout_ms = number
    elif option == "down-after-milliseconds":
        one.down_after_ms = number
        propagate_down_after(one)


_STATES: Final = {
    "+elected-leader": FailoverState.SELECT_SLAVE,
    "+failover-state-select-slave": FailoverState.SELECT_SLAVE,
    "+failover-state-send-slaveof-noone": FailoverState.SEND_SLAVEOF_NOONE,
    "+failover-state-wait-promotion": FailoverState.WAIT_PROMOTION,
    "+failover-state-reconf-slaves": FailoverState.RECONF_SLAVES,
    "+failover-end": FailoverState.UPDATE_CONFIG,
}
"""Events that give the failover state."""
_RECONF: Final = {
    "+slave-reconf-sent": Flag.RECONF_SENT,
    "+slave-reconf-sent-be": Flag.RECONF_SENT,
    "+slave-reconf-inprog": Flag.RECONF_INPROG,
    "+slave-reconf-done": Flag.RECONF_DONE,
    "-slave-reconf-sent-timeout": Flag.RECONF_DONE,
}
"""Events that give a replica's reconfiguration state."""
_OF_REPLICAS: Final = (
    "+selected-slave", "+promoted-slave", "+failover-state-send-slaveof-noone", "+failover-state-wait-promotion",
)  # fmt: skip
_OF_EACH: Final = ("+sdown", "-sdown", "+role-change", "-role-change")
_ROLES: Final[dict[str, int]] = {
    **dict.fromkeys((*_OF_REPLICAS, *_RECONF), Flag.REPLICA),
    **dict.fromkeys(_OF_EACH, Flag.MASTER | Flag.REPLICA | Flag.SENTINEL),
    "+sentinel-invalid-addr": Flag.SENTINEL,
}
"""Kinds of instances of an event, if not a master; ignored for other kinds."""


ROLE: Final = Flag.MASTER | Flag.REPLICA | Flag.SENTINEL


def begin_again(fold: SentinelFold) -> None:
    """Handle a process start: keep what the configuration file stores, reset the rest."""
    for name, master in list(fold.state.masters.items()):
        fold.state.masters[name] = _as_loaded(master, fold.state.now_ms)


def _as_loaded(master: Instance, now_ms: int) -> Instance:
    fresh = new_instance(master.flags & ROLE, master.name, master.address, now_ms)
    for kept in ("quorum", "config_epoch", "leader_epoch", "down_after_ms", "failover_timeout_ms"):
        setattr(fresh, kept, getattr(master, kept))
    for name, replica in master.replicas.items():
        fresh.replicas[name] = new_instance(replica.flags & ROLE, name, replica.address, now_ms, master=fresh)
    for name, sentinel in master.sentinels.items():
        one = new_instance(sentinel.flags & ROLE, name, sentinel.address, now_ms, master=fresh)
        one.runid = sentinel.runid
        fresh.sentinels[name] = one
    return fresh


def take_poll(fold: SentinelFold, item: Polled) -> None:
    """Replace the view by a poll reply."""
    for fields in item.masters:
        address = Address(fields.get("ip", ""), leading_number(fields.get("port", "")))
        name = fields.get("name", "")
        master = fold.state.masters.get(name) or fold.monitor(name, address)
        if master.address != address:
            move_master(fold.state, master, address)
        _take_fields(master, fields)
    known = {fields.get("name", "") for fields in item.masters}
    for name in [name for name in fold.state.masters if name not in known]:
        remove_master(fold.state, fold.state.masters[name])
    master_polled = fold.state.masters.get(item.master)
    if master_polled is None:
        return
    if item.replicas is not None:
        _take_replicas(fold, master_polled, item.replicas)
    if item.sentinels is not None:
        _take_sentinels(fold, master_polled, item.sentinels)


def _take_replicas(fold: SentinelFold, master: Instance, polled: tuple[dict[str, str], ...]) -> None:
    names = {fields.get("name", "") for fields in polled}
    for gone in [one for one in master.replicas.values() if one.name not in names and one.is_announced]:
        del master.replicas[gone.name]
    for fields in polled:
        add_replica(fold.state, master, fields.get("ip", ""), leading_number(fields.get("port", "")))
        replica = master.replicas.get(fields.get("name", ""))
        if replica is not None:
            _take_fields(replica, fields)
            if replica.flags & Flag.PROMOTED:
                master.promoted = replica


def _take_sentinels(fold: SentinelFold, master: Instance, polled: tuple[dict[str, str], ...]) -> None:
    names = {fields.get("name", "") for fields in polled}
    for gone in [name for name in master.sentinels if name not in names]:
        remove_sentinel(fold.state, master, gone)
    for fields in polled:
        runid = fields.get("name", "")
        add_sentinel(fold.state, master, fields.get("ip", ""), leading_number(fields.get("port", "")), runid)
        sentinel = master.sentinels.get(runid)
        if sentinel is not None:
            _take_fields(sentinel, fields)
            sentinel.master_down_reply_ms = fold.state.now_ms


def _take_fields(one: Instance, fields: dict[str, str]) -> None:
    words = fields.get("flags", "")
    one.flags = parse_flags(words) & ((1 << 20) - 1) | one.flags & 7
    one.link.disconnected = "disconnected" in words.split(",")
    one.runid = fields.get("runid", one.runid)
    if "role-reported" in fields:
        one.role_reported = Flag.MASTER if fields["role-reported"] == "master" else Flag.REPLICA
    one.failover_state = STATE_BY_WORD.get(fields.get("failover-state", ""), FailoverState.NONE)
    one.config_epoch = leading_number(fields.get("config-epoch", str(one.config_epoch)))
    one.quorum = leading_number(fields.get("quorum", str(one.quorum)))
    one.down_after_ms = leading_number(fields.get("down-after-milliseconds", str(one.down_after_ms)))
    one.failover_timeout_ms = leading_number(fields.get("failover-timeout", str(one.failover_timeout_ms)))
    if "master-host" in fields:
        host = fields["master-host"]
        one.master_host = "" if host == "?" else host
        one.master_port = leading_number(fields.get("master-port", ""))
        one.is_master_link_up = fields.get("master-link-status") == "ok"
    if "voted-leader" in fields:
        one.leader = "" if fields["voted-leader"] == "?" else fields["voted-leader"]
        one.leader_epoch = leading_number(fields.get("voted-leader-epoch", ""))
