"""What one sentinel believed, folded from what is known of it: the tables and rules of the machine, fed with evidence.

The machine's own functions (`cluster_core.sentinel`) take what came in: INFO, hello messages, answers.  What the sentinel
does at its timer and by chance is not guessed where it says so itself: in its events (to a subscriber, or in its log),
in the commands that it sends and in its answers.  Only where no event can be known, S_DOWN and O_DOWN are decided by the
rules, at the times of its timer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from cluster_core.kinds import Source
from cluster_core.sentinel.directory import (
    add_replica,
    add_sentinel,
    move_master,
    propagate_down_after,
    remove_master,
    remove_sentinel,
    reset_master,
    take_hello,
)
from cluster_core.sentinel.down import is_agreed_down, is_down, silent_ms
from cluster_core.sentinel.events import Hello, parse_hello
from cluster_core.sentinel.instance import (
    STATE_BY_WORD,
    Address,
    FailoverState,
    Flag,
    Instance,
    new_instance,
    parse_flags,
)
from cluster_core.sentinel.roles import take_info
from cluster_core.sentinel.text import leading_number
from cluster_core.sentinel_history import evidence as seen
from cluster_core.sentinel_history.announcements import Announcement, read_announcement, read_switch
from cluster_core.sentinel_history.beliefs import Span, family_of
from cluster_core.sentinel_history.evidence import CAPTURE, LOG, NOTHING, POLL, Evidence, Polled, Told
from cluster_core.sentinel_history.fold.conversations import (
    adopt_links,
    mark_lost,
    monitor,
    note_opinion,
    release_link,
    take_asked,
    take_closed,
    take_linked,
    take_opinion,
    take_sent,
)
from cluster_core.sentinel_history.fold.state import FoldState
from cluster_core.sentinel_history.rows import EventRow, VoteRow

ORDERS_FROM_DOWN: Final = (9, 0)
"""From this version on Valkey holds a master for down from the order to fail over until its next timer."""
_CURRENT: Final = frozenset({"+sdown", "+odown", "+try-failover", "+monitor"})
"""Events of a master that name where it is now."""
_RUNID: Final = 40
_OF_ALL: Final = frozenset({"+sentinel-invalid-addr"})
"""Events that change what is believed of other masters, too."""
_NOT_RECONF: Final = ~(Flag.RECONF_SENT | Flag.RECONF_INPROG | Flag.RECONF_DONE)


def take_told(fold: FoldState, told: Told) -> None:
    """Bring what is known of the sentinel to what its event says; an event that is not known here changes nothing."""
    match told.channel:
        case "+new-epoch":
            fold.state.current_epoch = max(fold.state.current_epoch, leading_number(told.text))
        case "+vote-for-leader":
            _vote(fold, told)
        case "voted":
            _voted(fold, told)
        case "+switch-master":
            _switch(fold, told)
        case "+tilt" | "-tilt":
            fold.state.tilt = told.channel == "+tilt"
        case _:
            _take_titled(fold, told)


def _take_titled(fold: FoldState, told: Told) -> None:
    """An event that begins with the title of an instance."""
    said = read_announcement(told.text)
    if not said.role:
        return
    master = _master_of(fold, said)
    if master is not None and said.role == "master" and told.channel in _CURRENT and master.address != said.address:
        move_master(fold.state, master, said.address)  # its switch was not told
    subject = _subject(fold, said, master) if master is not None else None
    if told.channel not in _OF_ALL:
        fold.touch(master)
    if subject is not None and subject.flags & _ROLES.get(told.channel, Flag.MASTER):
        _change(fold, told.channel, subject, said)


def _master_of(fold: FoldState, said: Announcement) -> Instance | None:
    master = fold.state.masters.get(said.master)
    if master is None and said.master_address.port:
        master = monitor(fold, said.master, said.master_address)
    if master is not None and said.rest.startswith("quorum "):
        master.quorum = leading_number(said.rest[7:])
    return master


def _subject(fold: FoldState, said: Announcement, master: Instance) -> Instance | None:
    """The instance that the event names: it is known, or becomes so."""
    if said.role == "master":
        return master
    if said.role == "slave" and said.address == master.address:
        return None  # told of a time before the switch
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


# -- events without an instance ----------------------------------------------------------------------------------------


def _vote(fold: FoldState, told: Told) -> None:
    """``RUNID EPOCH``: its own vote; of several masters the one that is down."""
    candidate, _, epoch = told.text.partition(" ")
    masters = list(fold.state.masters.values())
    master = next((one for one in masters if one.flags & Flag.O_DOWN), masters[0] if masters else None)
    if master is None:
        return
    master.leader, master.leader_epoch = candidate, leading_number(epoch)
    fold.votes.append(
        VoteRow(
            told.ts_ns, fold.observer, candidate, master.name, master.leader_epoch, candidate, master.leader_epoch, None,
            told.source,
        )
    )  # fmt: skip


def _voted(fold: FoldState, told: Told) -> None:
    """``NAME voted for RUNID EPOCH``, as the log has it."""
    name, leader, epoch = (*told.text.split(" ", 2), "", "")[:3]
    for master in fold.state.masters.values():
        sentinel = master.sentinels.get(name)
        if sentinel is not None:
            fold.touch(master)
            if leader == fold.observer and master.flags & Flag.FORCE_FAILOVER:  # nobody is asked in a forced one
                master.flags = master.flags & ~Flag.FORCE_FAILOVER | Flag.COORDINATED_FAILOVER
            sentinel.leader, sentinel.leader_epoch = leader, leading_number(epoch)


def _switch(fold: FoldState, told: Told) -> None:
    switch = read_switch(told.text)
    if switch is None:
        return
    master = fold.state.masters.get(switch.master) or monitor(fold, switch.master, switch.before)
    fold.touch(master)
    if master.address == switch.after:
        return
    promoted = master.promoted
    if promoted is None or promoted.address != switch.after:
        master.config_epoch = max(master.config_epoch, fold.state.current_epoch)
    move_master(fold.state, master, switch.after)


# -- events of an instance ---------------------------------------------------------------------------------------------


def _change(fold: FoldState, channel: str, one: Instance, said: Announcement) -> None:
    """What the event on *channel* changes of the instance that it is about; for others that is known now, and that is all."""
    match channel:
        case "+sdown" | "-sdown":
            fold.mark_down(one, channel == "+sdown")
        case "+odown":
            one.flags |= Flag.O_DOWN
            one.o_down_since_ms = fold.state.now_ms
            quorum = leading_number(said.rest.rpartition("/")[2])  # ``#quorum 2/2``: how many agree, and how many must
            one.quorum = quorum if quorum > 0 else one.quorum
        case "-odown":
            one.flags &= ~Flag.O_DOWN
        case "+try-failover":
            _try(fold, one)
        case "+selected-slave":
            if one.master is not None:
                fold.explain(one.master, one)
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


def _try(fold: FoldState, one: Instance) -> None:
    """A failover begins; without O_DOWN it was ordered (S10, S12)."""
    one.flags |= Flag.FAILOVER_IN_PROGRESS
    if not one.flags & Flag.O_DOWN:
        one.flags |= Flag.FORCE_FAILOVER
        if fold.version >= ORDERS_FROM_DOWN:
            one.flags |= Flag.S_DOWN
            one.s_down_since_ms = fold.state.now_ms
    one.failover_epoch = fold.state.current_epoch
    _enter(fold, one, FailoverState.WAIT_START)


def _enter(fold: FoldState, master: Instance, state: FailoverState) -> None:
    master.failover_state = state
    master.failover_changed_ms = fold.state.now_ms


def _aborted(fold: FoldState, one: Instance) -> None:
    if one.failover_state == FailoverState.SELECT_SLAVE:
        fold.explain(one, None)
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
"""Events that say which state a failover is in now."""
_RECONF: Final = {
    "+slave-reconf-sent": Flag.RECONF_SENT,
    "+slave-reconf-sent-be": Flag.RECONF_SENT,
    "+slave-reconf-inprog": Flag.RECONF_INPROG,
    "+slave-reconf-done": Flag.RECONF_DONE,
    "-slave-reconf-sent-timeout": Flag.RECONF_DONE,
}
"""Events that say how far a replica is on its way to the new master."""
_OF_REPLICAS: Final = (
    "+selected-slave", "+promoted-slave", "+failover-state-send-slaveof-noone", "+failover-state-wait-promotion",
)  # fmt: skip
_OF_EACH: Final = ("+sdown", "-sdown", "+role-change", "-role-change")
_ROLES: Final[dict[str, int]] = {
    **dict.fromkeys((*_OF_REPLICAS, *_RECONF), Flag.REPLICA),
    **dict.fromkeys(_OF_EACH, Flag.MASTER | Flag.REPLICA | Flag.SENTINEL),
    "+sentinel-invalid-addr": Flag.SENTINEL,
}
"""Which instances an event can be about unless that is a master; of others it tells nothing."""


VALID_PONGS: Final = (b"PONG", b"LOADING", b"MASTERDOWN")
_VERSION: Final = re.compile(rb"valkey_version:(\d{1,4})\.(\d{1,4})")
WITHOUT_BELIEFS: Final = ("+new-epoch", "+vote-for-leader", "+tilt", "-tilt", "failover-delayed")
"""Events that change nothing of what is shown of an instance."""


class SentinelFold(FoldState):
    """Feed it the evidence of one sentinel in order of time; `finish` returns what it believed."""

    def begin(self, ts_ns: int, hellos: Iterable[Hello]) -> None:
        """The masters that its first hello messages name are those it begins with at *ts_ns*."""
        self.at_time(ts_ns)
        self.is_running = True
        for hello in hellos:
            if hello.master_name not in self.state.masters:
                master = monitor(self, hello.master_name, Address(hello.master_ip, hello.master_port))
                master.config_epoch = hello.master_config_epoch
            self.state.current_epoch = max(self.state.current_epoch, hello.current_epoch)
        self.note("hello", CAPTURE)

    def begin_amid(self, targets: Iterable[Address], sentinels: Mapping[Address, str]) -> None:
        """It ran before the evidence begins, with connections to *targets*: to *sentinels*, its master, and replicas."""
        for master in self.state.masters.values():
            for target in targets:
                if target in sentinels:
                    add_sentinel(self.state, master, *target, sentinels[target])
                elif not self.at(target):
                    add_replica(self.state, master, *target)
        self.note("connection", CAPTURE)

    def handle(self, item: Evidence) -> None:
        """Take the next piece of evidence."""
        self._run_until(item.ts_ns)
        self.at_time(item.ts_ns)
        if not self.is_running and isinstance(item, seen.Linked | seen.Told | seen.Polled | seen.Sent):
            begin_again(self)
        self._touched = set()
        cause, source = self._take(item)
        if cause:
            self.note(cause, source, self._touched or None)
        self.take_announced()

    def finish(self, ts_ns: int) -> list[Span]:
        """The evidence ends at *ts_ns*."""
        self._run_until(ts_ns)
        return self.log.finish()

    def _run_until(self, ts_ns: int) -> None:
        if self.is_running:
            for tick_ns in self.ticks.between(self.now_ns, ts_ns):
                run_timer(self, tick_ns)

    # -- evidence --------------------------------------------------------------------------------------------------

    def _take(self, item: Evidence) -> tuple[str, Source]:
        """Fold one piece in; return what changed beliefs and where that came from, or nothing."""
        match item:
            case seen.Linked():
                return take_linked(self, item)
            case seen.Unlinked():
                return self._on_unlinked(item)
            case seen.Sent():
                return self._on_sent(item)
            case seen.Answered():
                return self._on_answered(item)
            case seen.Heard():
                return self._on_heard(item)
            case seen.Asked():
                return take_asked(self, item)
            case seen.Told():
                return self._on_told(item)
            case seen.Listened():
                if item.on:
                    self._listeners[item.connection] = self._listeners.get(item.connection, ()) + item.patterns
                else:
                    self._listeners.pop(item.connection, None)
                return NOTHING
            case seen.Assumed():
                for instance in self.at(item.address):
                    self.touch(instance.master or instance)
                    instance.link.disconnected = not item.is_linked
                return "conclusion", LOG
            case seen.Opined():
                return self._on_opined(item)
            case seen.Stopped():
                self.is_running = False
                self._listeners.clear()
                for name in self.log.masters:
                    self.log.note(self.now_ns, name, (), "stopped", CAPTURE)
                return NOTHING
            case seen.Started():
                return self._on_started(item)
            case seen.Polled():
                take_poll(self, item)
                adopt_links(self)
                return "poll", POLL

    def _on_unlinked(self, item: seen.Unlinked) -> tuple[str, Source]:
        link = release_link(self, item)
        if link is None:
            return NOTHING
        if item.is_own and not self.is_told:
            take_closed(self, link)
        mark_lost(link, item.connection)
        return "connection", CAPTURE

    def _on_sent(self, item: seen.Sent) -> tuple[str, Source]:
        name = item.words[0].upper()
        link = self.links.get(item.connection)
        if name == b"PING" and link is not None:
            link.last_ping_ms = self.state.now_ms
            link.pending_ping_ms = link.pending_ping_ms or self.state.now_ms
            return NOTHING
        return take_sent(self, item)

    def _on_answered(self, item: seen.Answered) -> tuple[str, Source]:
        name = item.request[0].upper()
        link = self.links.get(item.connection)
        if link is None:
            return NOTHING
        self._has_traffic = True
        if name == b"PING" and item.words and item.kind in ("simple", "error"):
            if item.words[0].startswith(VALID_PONGS):
                link.available_ms, link.pending_ping_ms = self.state.now_ms, 0
            link.last_pong_ms = self.state.now_ms
        elif name == b"INFO" and item.kind in ("bulk", "verbatim") and item.words:
            for instance in self.at(item.target):
                if instance.link is link and not instance.flags & Flag.SENTINEL:
                    self.touch(instance.master or instance)
                    take_info(self.state, instance, item.words[0].decode("utf-8", "replace"))
            self._note_version(item.words[0])
            adopt_links(self)
            return "INFO", CAPTURE
        elif name == b"SENTINEL":
            return take_opinion(self, item, link)
        return NOTHING

    def _note_version(self, info: bytes) -> None:
        """Sentinels are taken for the version of the servers that they watch, unless their log says theirs."""
        found = None if self._has_version else _VERSION.search(info[:4096])
        if found is not None:
            self.version = int(found[1]), int(found[2])
            self._has_version = True

    def _on_heard(self, item: seen.Heard) -> tuple[str, Source]:
        hello = parse_hello(item.text)
        if hello is None or hello.runid == self.observer:
            return NOTHING
        master = self.state.masters.get(hello.master_name)
        known = master.sentinels.get(hello.runid) if master is not None else None
        if known is not None and known.address == Address(hello.ip, hello.port):
            self.touch(master)  # a new one may put others out, with every master
        take_hello(self.state, item.text)
        adopt_links(self)
        return "hello", CAPTURE

    def _on_told(self, item: seen.Told) -> tuple[str, Source]:
        self._has_log = self._has_log or item.source == LOG
        self.events.append(EventRow(item.ts_ns, self.observer, item.channel, item.text, item.source))
        take_told(self, item)
        adopt_links(self)
        return (f"event {item.channel}", item.source) if item.channel not in WITHOUT_BELIEFS else NOTHING

    def _on_opined(self, item: seen.Opined) -> tuple[str, Source]:
        master = self.state.masters.get(item.master)
        sentinel = master.sentinels.get(item.sentinel) if master is not None else None
        if sentinel is None:
            return NOTHING
        self.touch(master)
        leader = item.leader if item.leader_epoch == sentinel.leader_epoch else ""  # of a new one the log has a line
        note_opinion(self, sentinel, item.says_down, leader, item.leader_epoch)
        return "conclusion", LOG

    def _on_started(self, item: seen.Started) -> tuple[str, Source]:
        self._has_log = True
        if item.version:
            self._has_version, self.version = True, item.version
        if self.state.masters:
            begin_again(self)
        self.is_running = True
        return "started", LOG


ROLE = Flag.MASTER | Flag.REPLICA | Flag.SENTINEL


def begin_again(fold: FoldState) -> None:
    """A process begins: what the configuration file keeps is known, all else begins anew."""
    fold.is_running = True
    fold.links.clear()
    fold.state.connections.clear()
    fold.state.tilt = False
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


RECONNECT_MS: Final = 1000


def run_timer(fold: FoldState, tick_ns: int) -> None:
    """The timer: what others said is forgotten in time; the rest only where no event tells it."""
    before_ms = fold.state.now_ms
    fold.at_time(tick_ns)
    is_told = fold.is_told
    if not is_told:
        _check_tilt(fold, before_ms)
    before = [(one.flags, one.leader) for one in fold.instances()]
    for master in fold.state.masters.values():
        if not is_told and not fold.state.tilt:
            fold.was_untold = True
            _check_down(fold, master)
        fold.forget_opinions(master)
    if before != [(one.flags, one.leader) for one in fold.instances()]:
        fold.note("time", CAPTURE)
    fold.take_announced()


def _check_tilt(fold: FoldState, before_ms: int) -> None:
    """A process that did not run for long does nothing but watch for half a minute (S16)."""
    state, periods = fold.state, fold.state.periods
    if before_ms and fold.ticks.is_stopped(fold.now_ns - 1) and state.now_ms - before_ms > periods.tilt_trigger_ms:
        state.tilt, state.tilt_since_ms = True, state.now_ms
        state.tell("#", "+tilt", "#tilt mode entered")
    elif state.tilt and state.now_ms - state.tilt_since_ms >= periods.tilt_period_ms:
        state.tilt = False
        state.tell("#", "-tilt", "#tilt mode exited")


def _check_down(fold: FoldState, master: Instance) -> None:
    for instance in family_of(master):
        link = instance.link
        if link.disconnected and fold.state.now_ms - link.reconnected_ms >= RECONNECT_MS:
            link.reconnected_ms = fold.state.now_ms
            link.pending_ping_ms = link.pending_ping_ms or fold.state.now_ms  # it is sent at once (S6)
        if fold.knows_down_after:
            fold.mark_down(instance, is_down(instance, fold.state.periods, fold.state.now_ms))
        elif not silent_ms(instance, fold.state.now_ms):
            fold.mark_down(instance, False)
    _, agreeing = is_agreed_down(master)
    fold.mark_agreed(master, agreeing >= fold.quorum_of(master), agreeing)


def take_poll(fold: FoldState, item: Polled) -> None:
    """What it answered about its instances holds, all of it."""
    for fields in item.masters:
        address = Address(fields.get("ip", ""), leading_number(fields.get("port", "")))
        name = fields.get("name", "")
        master = fold.state.masters.get(name) or monitor(fold, name, address)
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


def _take_replicas(fold: FoldState, master: Instance, polled: tuple[dict[str, str], ...]) -> None:
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


def _take_sentinels(fold: FoldState, master: Instance, polled: tuple[dict[str, str], ...]) -> None:
    names = {fields.get("name", "") for fields in polled}
    for gone in [name for name in master.sentinels if name not in names]:
        remove_sentinel(fold.state, master, gone)
    for fields in polled:
        runid = fields.get("name", "")
        add_sentinel(fold.state, master, fields.get("ip", ""), leading_number(fields.get("port", "")), runid)
        if runid in master.sentinels:
            _take_fields(master.sentinels[runid], fields)


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
