"""What a sentinel shows by the commands that it sends: hello messages, questions, orders (S3, S8, S14)."""

from __future__ import annotations

from cluster_core.kinds import Source
from cluster_core.sentinel.directory import (
    move_master,
)
from cluster_core.sentinel.failover import advance, start_failover, switch_master
from cluster_core.sentinel.failover_states import FailoverState, Trigger
from cluster_core.sentinel.hello import HELLO_CHANNEL, Hello, parse_hello
from cluster_core.sentinel.instance import Address, Flag, Instance, InstanceLink
from cluster_core.sentinel.monitoring import current_address
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel.votes import vote
from cluster_core.sentinel_history.evidence import CAPTURE, NOTHING, Sent
from cluster_core.sentinel_history.fold.connections import monitor
from cluster_core.sentinel_history.fold.state import FoldState

_IS_DOWN = (b"IS-MASTER-DOWN-BY-ADDR", b"IS-PRIMARY-DOWN-BY-ADDR")
_WHERE = (b"GET-MASTER-ADDR-BY-NAME", b"GET-PRIMARY-ADDR-BY-NAME")
_ANYBODY = "*"


def _texts(words: tuple[bytes, ...]) -> list[str]:
    return [word.decode("utf-8", "replace") for word in words]


def take_sent(fold: FoldState, item: Sent) -> tuple[str, Source]:
    """A command of the sentinel; what it tells holds since its last timer."""
    words = _texts(item.words)
    match words[0].upper(), *words[1:]:
        case "PUBLISH", channel, text if channel == HELLO_CHANNEL:
            hello = parse_hello(text)
            return _own_hello(fold, hello) if hello is not None and hello.runid == fold.observer else NOTHING
        case "SENTINEL", what, ip, port, epoch, runid if what.upper().encode() in _IS_DOWN:
            return _asks(fold, fold.master_at(ip, port), leading_number(epoch), runid != _ANYBODY)
        case (("SLAVEOF" | "REPLICAOF"), host, port):
            return _orders(fold, item.target, host, port)
        case "FAILOVER", *_:
            return _hands_over(fold, item.target)
        case _:
            return NOTHING


def _own_hello(fold: FoldState, hello: Hello) -> tuple[str, Source]:
    """Its own hello message says which master it holds for current, and the epochs (S3)."""
    state = fold.state
    if hello.current_epoch > state.current_epoch:
        state.current_epoch = fold.own_epoch = hello.current_epoch
    address = Address(hello.master_ip, hello.master_port)
    master = state.masters.get(hello.master_name)
    if master is None:
        master = monitor(fold, hello.master_name, address)
        master.config_epoch = hello.master_config_epoch
        return "own hello", CAPTURE
    if current_address(master) != address:
        promoted = next((one for one in master.replicas.values() if one.address == address), None)
        if master.flags & Flag.FAILOVER_IN_PROGRESS and promoted is not None:
            _promote(fold, master, promoted)
            master.failover_state = FailoverState.RECONF_SLAVES
        elif hello.master_config_epoch >= master.config_epoch:
            move_master(state, master, address)
    elif master.address == address and master.flags & Flag.FAILOVER_IN_PROGRESS:
        master.failover_state = min(master.failover_state, FailoverState.WAIT_PROMOTION)
    master.config_epoch = max(master.config_epoch, hello.master_config_epoch)
    return "own hello", CAPTURE


def _asks(fold: FoldState, master: Instance | None, epoch: int, wants_vote: bool) -> tuple[str, Source]:
    """It asks others only about a master that is down for it, and for their votes only in a failover of its own (S8)."""
    if master is None:
        return NOTHING
    if not fold.is_told:
        fold.mark_down(master, True)
        if wants_vote and not master.flags & Flag.FAILOVER_IN_PROGRESS:
            fold.mark_agreed(
                master, True, 1 + sum(bool(one.flags & Flag.MASTER_DOWN) for one in master.sentinels.values())
            )
            fold.state.current_epoch = max(fold.state.current_epoch, epoch - 1)
            start_failover(fold.state, master)
            vote(fold.state, master, epoch, fold.observer)
    elif wants_vote and master.flags & Flag.FORCE_FAILOVER and master.failover_state == FailoverState.WAIT_START:
        _coordinate(master)  # nobody is asked in a forced one
    fold.state.current_epoch = max(fold.state.current_epoch, epoch)
    return "question", CAPTURE


def _orders(fold: FoldState, target: Address, host: str, port: str) -> tuple[str, Source]:
    """``SLAVEOF NO ONE`` promotes the chosen replica, ``SLAVEOF`` it sends the others there (S14)."""
    if fold.is_told:
        return NOTHING
    for replica in fold.at(target):
        master = replica.master
        if master is None or not replica.flags & Flag.REPLICA:
            continue
        if host.upper() == "NO" and not master.flags & Flag.FAILOVER_IN_PROGRESS:
            _begin_ordered(fold, master)
        if not master.flags & Flag.FAILOVER_IN_PROGRESS:
            continue
        if host.upper() == "NO":
            _promote(fold, master, replica)
            if master.failover_state == FailoverState.WAIT_START:
                advance(fold.state, master, Trigger.ELECTED)
            if master.failover_state == FailoverState.SELECT_SLAVE:
                advance(fold.state, master, Trigger.REPLICA_CHOSEN)
            if master.failover_state == FailoverState.SEND_SLAVEOF_NOONE:
                advance(fold.state, master, Trigger.ORDER_SENT)
        elif master.promoted is not None and master.promoted.address == Address(host, leading_number(port)):
            replica.flags = replica.flags & ~(Flag.RECONF_INPROG | Flag.RECONF_DONE) | Flag.RECONF_SENT
            fold.state.tell_of("*", "+slave-reconf-sent", replica)
    return "order", CAPTURE


def _begin_ordered(fold: FoldState, master: Instance) -> None:
    """A replica is promoted without an election: an operator asked for it, on a connection that is not captured (S12)."""
    if fold.own_epoch == fold.state.current_epoch:
        fold.state.current_epoch -= 1  # the epoch of this failover, which a hello message has told before
    start_failover(fold.state, master)
    vote(fold.state, master, fold.state.current_epoch, fold.observer)
    master.flags |= Flag.FORCE_FAILOVER


def take_closed(fold: FoldState, link: InstanceLink) -> None:
    """It closes its connection to the replica that it has promoted when that becomes its master (S14)."""
    for master in fold.state.masters.values():
        promoted = master.promoted
        if promoted is None or promoted.link is not link or master.failover_state != FailoverState.RECONF_SLAVES:
            continue
        advance(fold.state, master, Trigger.ALL_RECONFIGURED)
        switch_master(fold.state, master)
        return


def _hands_over(fold: FoldState, target: Address) -> tuple[str, Source]:
    """``FAILOVER TO`` is sent to the master itself in a coordinated failover of Valkey 9."""
    for master in fold.at(target):
        if master.flags & Flag.MASTER and master.flags & Flag.FAILOVER_IN_PROGRESS:
            _coordinate(master)
    return "order", CAPTURE


def _coordinate(master: Instance) -> None:
    """The failover was ordered, and is one with an election, in which the master itself hands over."""
    master.flags = master.flags & ~Flag.FORCE_FAILOVER | Flag.COORDINATED_FAILOVER


def _promote(fold: FoldState, master: Instance, replica: Instance) -> None:
    if master.promoted is not None and master.promoted is not replica:
        master.promoted.flags &= ~Flag.PROMOTED
    if not replica.flags & Flag.PROMOTED:
        fold.explain(master, replica)
    replica.flags |= Flag.PROMOTED
    master.promoted = replica
