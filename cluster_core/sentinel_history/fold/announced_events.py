"""What an event that a sentinel told changes in what is known of it (sentinelEvent, where each is raised)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster_core.sentinel.directory import (
    add_replica,
    add_sentinel,
    move_master,
    remove_master,
    remove_sentinel,
    reset_master,
)
from cluster_core.sentinel.failover_states import FailoverState
from cluster_core.sentinel.instance import (
    COORDINATED_FAILOVER,
    FAILOVER_IN_PROGRESS,
    FORCE_FAILOVER,
    MASTER,
    O_DOWN,
    PROMOTED,
    RECONF_DONE,
    RECONF_INPROG,
    RECONF_SENT,
    REPLICA,
    S_DOWN,
    SENTINEL,
    Address,
    Instance,
)
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel_history.announcements import Announcement, read_announcement, read_switch
from cluster_core.sentinel_history.evidence import Told
from cluster_core.sentinel_history.fold.connections import monitor
from cluster_core.sentinel_history.fold.state import FoldState
from cluster_core.sentinel_history.rows import VoteRow

ORDERS_FROM_DOWN: Final = (9, 0)
"""From this version on Valkey holds a master for down from the order to fail over until its next timer."""

ANY: Final = MASTER | REPLICA | SENTINEL
_CURRENT: Final = frozenset({"+sdown", "+odown", "+try-failover", "+monitor"})
"""Events of a master that name where it is now."""
_RUNID: Final = 40
_OF_ALL: Final = frozenset({"+sentinel-invalid-addr"})
"""Events that change what is believed of other masters, too."""
_RECONF: Final = RECONF_SENT | RECONF_INPROG | RECONF_DONE


def take_told(fold: FoldState, told: Told) -> None:
    """Bring what is known of the sentinel to what its event says; an event that is not known here changes nothing."""
    if told.channel in _PLAIN:
        _PLAIN[told.channel](fold, told)
        return
    said = read_announcement(told.text)
    if not said.role:
        return
    master = _master_of(fold, said)
    if master is not None and said.role == "master" and told.channel in _CURRENT and master.address != said.address:
        move_master(fold.state, master, said.address)  # its switch was not told
    subject = _subject(fold, said, master) if master is not None else None
    if told.channel not in _OF_ALL:
        fold.touch(master)
    action = _OF_INSTANCES.get(told.channel)
    if action is not None and subject is not None and subject.flags & _ROLES.get(told.channel, ANY):
        action(fold, subject, said)


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


def _new_epoch(fold: FoldState, told: Told) -> None:
    fold.state.current_epoch = max(fold.state.current_epoch, leading_number(told.text))


def _vote(fold: FoldState, told: Told) -> None:
    """``RUNID EPOCH``: its own vote; of several masters the one that is down."""
    candidate, _, epoch = told.text.partition(" ")
    masters = list(fold.state.masters.values())
    master = next((one for one in masters if one.flags & O_DOWN), masters[0] if masters else None)
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
            if leader == fold.observer and master.flags & FORCE_FAILOVER:  # nobody is asked in a forced one
                master.flags = master.flags & ~FORCE_FAILOVER | COORDINATED_FAILOVER
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


def _tilt(fold: FoldState, told: Told) -> None:
    fold.state.tilt = told.channel == "+tilt"


_PLAIN: Final[dict[str, Callable[[FoldState, Told], None]]] = {
    "+new-epoch": _new_epoch,
    "+vote-for-leader": _vote,
    "voted": _voted,
    "+switch-master": _switch,
    "+tilt": _tilt,
    "-tilt": _tilt,
}


# -- events of an instance ---------------------------------------------------------------------------------------------


def _nothing(fold: FoldState, one: Instance, said: Announcement) -> None:
    """The instance is known now; that is all."""


def _down(is_down: bool) -> Callable[[FoldState, Instance, Announcement], None]:
    def action(fold: FoldState, one: Instance, said: Announcement) -> None:
        fold.mark_down(one, is_down)

    return action


def _agreed(fold: FoldState, one: Instance, said: Announcement) -> None:
    """``#quorum 2/2`` behind it says which quorum is asked for."""
    one.flags |= O_DOWN
    one.o_down_since_ms = fold.state.now_ms
    quorum = leading_number(said.rest.rpartition("/")[2])
    one.quorum = quorum if quorum > 0 else one.quorum


def _not_agreed(fold: FoldState, one: Instance, said: Announcement) -> None:
    one.flags &= ~O_DOWN


def _try(fold: FoldState, one: Instance, said: Announcement) -> None:
    """A failover begins; without O_DOWN it was ordered (S10, S12)."""
    one.flags |= FAILOVER_IN_PROGRESS
    if not one.flags & O_DOWN:
        one.flags |= FORCE_FAILOVER
        if fold.version >= ORDERS_FROM_DOWN:
            one.flags |= S_DOWN
            one.s_down_since_ms = fold.state.now_ms
    one.failover_epoch = fold.state.current_epoch
    _enter(fold, one, FailoverState.WAIT_START)


def _enter(fold: FoldState, master: Instance, state: FailoverState) -> None:
    master.failover_state = state
    master.failover_changed_ms = fold.state.now_ms


def _in_state(state: FailoverState) -> Callable[[FoldState, Instance, Announcement], None]:
    def action(fold: FoldState, one: Instance, said: Announcement) -> None:
        master = one.master or one
        if state is not FailoverState.UPDATE_CONFIG or master.flags & FAILOVER_IN_PROGRESS:
            _enter(fold, master, state)

    return action


def _selected(fold: FoldState, one: Instance, said: Announcement) -> None:
    if one.master is not None:
        fold.explain(one.master, one)
        one.master.promoted = one
    one.flags |= PROMOTED


def _promoted(fold: FoldState, one: Instance, said: Announcement) -> None:
    if one.master is not None:
        one.master.config_epoch = max(one.master.config_epoch, one.master.failover_epoch)


def _aborted(fold: FoldState, one: Instance, said: Announcement) -> None:
    if said.role and one.failover_state == FailoverState.SELECT_SLAVE:
        fold.explain(one, None)
    one.flags &= ~(FAILOVER_IN_PROGRESS | FORCE_FAILOVER | COORDINATED_FAILOVER)
    _enter(fold, one, FailoverState.NONE)
    if one.promoted is not None:
        one.promoted.flags &= ~PROMOTED
        one.promoted = None


def _reconf(flag: int) -> Callable[[FoldState, Instance, Announcement], None]:
    def action(fold: FoldState, one: Instance, said: Announcement) -> None:
        if one.flags & RECONF_DONE and flag != RECONF_DONE:
            return
        one.flags = one.flags & ~_RECONF | flag

    return action


def _role(fold: FoldState, one: Instance, said: Announcement) -> None:
    role = MASTER if said.rest.endswith("is master") else REPLICA
    if one.role_reported != role:
        one.role_reported, one.role_reported_ms = role, fold.state.now_ms


def _reset(fold: FoldState, one: Instance, said: Announcement) -> None:
    reset_master(fold.state, one)


def _removed(fold: FoldState, one: Instance, said: Announcement) -> None:
    remove_master(fold.state, one)


def _invalid(fold: FoldState, one: Instance, said: Announcement) -> None:
    for master in fold.state.masters.values():
        remove_sentinel(fold.state, master, one.runid)


def _moved(fold: FoldState, one: Instance, said: Announcement) -> None:
    """``master … ip IP port PORT for RUNID``."""
    words = said.words
    if len(words) == 6:
        remove_sentinel(fold.state, one, words[5])
        address = Address(words[1], leading_number(words[3]))
        add_sentinel(fold.state, one, *address, words[5])


def _set(fold: FoldState, one: Instance, said: Announcement) -> None:
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
        for instance in (one, *one.replicas.values(), *one.sentinels.values()):
            instance.down_after_ms = number


_OF_INSTANCES: Final[dict[str, Callable[[FoldState, Instance, Announcement], None]]] = {
    "+monitor": _nothing,
    "-monitor": _removed,
    "+slave": _nothing,
    "+sentinel": _nothing,
    "+sentinel-invalid-addr": _invalid,
    "+sentinel-address-switch": _moved,
    "+sdown": _down(True),
    "-sdown": _down(False),
    "+odown": _agreed,
    "-odown": _not_agreed,
    "+try-failover": _try,
    "+elected-leader": _in_state(FailoverState.SELECT_SLAVE),
    "+failover-state-select-slave": _in_state(FailoverState.SELECT_SLAVE),
    "+selected-slave": _selected,
    "+failover-state-send-slaveof-noone": _in_state(FailoverState.SEND_SLAVEOF_NOONE),
    "+failover-state-wait-promotion": _in_state(FailoverState.WAIT_PROMOTION),
    "+promoted-slave": _promoted,
    "+failover-state-reconf-slaves": _in_state(FailoverState.RECONF_SLAVES),
    "+slave-reconf-sent": _reconf(RECONF_SENT),
    "+slave-reconf-sent-be": _reconf(RECONF_SENT),
    "+slave-reconf-inprog": _reconf(RECONF_INPROG),
    "+slave-reconf-done": _reconf(RECONF_DONE),
    "-slave-reconf-sent-timeout": _reconf(RECONF_DONE),
    "+failover-end": _in_state(FailoverState.UPDATE_CONFIG),
    "-failover-abort-not-elected": _aborted,
    "-failover-abort-no-good-slave": _aborted,
    "-failover-abort-slave-timeout": _aborted,
    "-failover-abort-master-timeout": _aborted,
    "+role-change": _role,
    "-role-change": _role,
    "+reset-master": _reset,
    "+set": _set,
}
_OF_REPLICAS: Final = (
    "+selected-slave", "+promoted-slave", "+slave-reconf-sent", "+slave-reconf-sent-be", "+slave-reconf-inprog",
    "+slave-reconf-done", "-slave-reconf-sent-timeout", "+failover-state-send-slaveof-noone",
    "+failover-state-wait-promotion",
)  # fmt: skip
_OF_EACH: Final = ("+sdown", "-sdown", "+role-change", "-role-change", "+slave", "+sentinel")
_ROLES: Final[dict[str, int]] = {
    **dict.fromkeys(_OF_INSTANCES, MASTER),
    **dict.fromkeys(_OF_REPLICAS, REPLICA),
    **dict.fromkeys(_OF_EACH, ANY),
    "+sentinel-invalid-addr": SENTINEL,
}
"""Which instances an event can be about; of others it tells nothing."""
