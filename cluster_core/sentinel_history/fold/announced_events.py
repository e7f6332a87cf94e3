"""What an event that a sentinel told changes in what is known of it (sentinelEvent, where each is raised)."""

from __future__ import annotations

from typing import Final

from cluster_core.sentinel.directory import (
    add_replica,
    add_sentinel,
    move_master,
    propagate_down_after,
    remove_master,
    remove_sentinel,
    reset_master,
)
from cluster_core.sentinel.instance import FailoverState, Flag, Instance
from cluster_core.sentinel.text import leading_number
from cluster_core.sentinel_history.announcements import Announcement, read_announcement, read_switch
from cluster_core.sentinel_history.evidence import Told
from cluster_core.sentinel_history.fold.conversations import monitor
from cluster_core.sentinel_history.fold.state import FoldState
from cluster_core.sentinel_history.rows import VoteRow

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
