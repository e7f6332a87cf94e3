"""Connections of a sentinel, what it sends on them and what it is answered, folded into what it must believe."""

from __future__ import annotations

from typing import Final

from cluster_core.kinds import Source
from cluster_core.sentinel.directory import add_master, move_master, remove_master, reset_master
from cluster_core.sentinel.events import HELLO_CHANNEL, Hello, parse_hello
from cluster_core.sentinel.failover import advance, start_failover, switch_master, vote
from cluster_core.sentinel.instance import Address, FailoverState, Flag, Instance, InstanceLink, Trigger
from cluster_core.sentinel.links import current_address
from cluster_core.sentinel.state import Connection
from cluster_core.sentinel.text import leading_number, matches
from cluster_core.sentinel_history.evidence import (
    CAPTURE,
    NOTHING,
    PUBSUB,
    WHOLE,
    Answered,
    Asked,
    Linked,
    Sent,
    Unlinked,
)
from cluster_core.sentinel_history.fold.state import FoldState
from cluster_core.sentinel_history.rows import OpinionRow, VoteRow

MASTERS_MAX: Final = 1000
"""A sentinel that is said to watch more of them is a fake: the oldest are given up."""
WAITING_MAX: Final = 8
"""Connections to an address of which no instance is known."""


def take_linked(fold: FoldState, item: Linked) -> tuple[str, Source]:
    found = fold.at(item.target)
    takers = _takers(found, item.purpose)
    if not takers:  # of an instance that is not known yet
        waiting = fold.waiting.setdefault(item.target, [])
        waiting.append(item)
        del waiting[:-WAITING_MAX]
        if found:
            fold.links[item.connection] = found[0].link
        return NOTHING
    for instance in takers:
        fold.touch(instance.master or instance)
        link = instance.link
        if item.purpose in (PUBSUB, WHOLE):
            link.pubsub = item.connection + 1  # 0 is none
        if item.purpose != PUBSUB:
            link.command = item.connection + 1
        link.reconnected_ms = fold.state.now_ms
        link.disconnected = not (link.command and (link.pubsub or instance.flags & Flag.SENTINEL))
        fold.links[item.connection] = link
        is_pubsub = item.purpose == PUBSUB
        fold.state.connections[item.connection + 1] = Connection(link, instance, is_pubsub)
    return "connection", CAPTURE


def _takers(found: list[Instance], purpose: str) -> list[Instance]:
    """Of the records of an address, those whose link lacks such a connection: the first one, and who shares its link."""
    lacking = [one for one in found if not (one.link.pubsub if purpose == PUBSUB else one.link.command)]
    return [one for one in found if one.link is lacking[0].link] if lacking else []


def release_link(fold: FoldState, item: Unlinked) -> InstanceLink | None:
    """The connection ended: return the link that it was part of, if it is known of whom."""
    fold.state.connections.pop(item.connection + 1, None)
    link = fold.links.pop(item.connection, None)
    for address, waiting in list(fold.waiting.items()):
        fold.waiting[address] = [one for one in waiting if one.connection != item.connection]
    if link is not None:
        fold.touch(*(one.master or one for one in fold.instances() if one.link is link))
    return link


def mark_lost(link: InstanceLink, connection: int) -> None:
    """A link lacks this connection now."""
    if link.command == connection + 1:
        link.command, link.disconnected = 0, True
    if link.pubsub == connection + 1:
        link.pubsub, link.disconnected = 0, True


def adopt_links(fold: FoldState) -> None:
    """Connections that began before their instance was known are those of the instance."""
    if fold.waiting:
        for instance in list(fold.instances()):
            for item in fold.waiting.pop(instance.address, []):
                take_linked(fold, item)


def monitor(fold: FoldState, name: str, address: Address, quorum: int = 0) -> Instance:
    """Begin to monitor a master; connections that are there already are its own."""
    while len(fold.state.masters) >= MASTERS_MAX:
        oldest = next(iter(fold.state.masters.values()))
        remove_master(fold.state, oldest)
        fold.log.note(fold.now_ns, oldest.name, (), "too many", CAPTURE)
    master = add_master(fold.state, name, address, quorum or fold.default_quorum or 0)
    adopt_links(fold)
    return master


_IS_DOWN = (b"IS-MASTER-DOWN-BY-ADDR", b"IS-PRIMARY-DOWN-BY-ADDR")
_WHERE = (b"GET-MASTER-ADDR-BY-NAME", b"GET-PRIMARY-ADDR-BY-NAME")
_ANYBODY = "*"


def _texts(words: tuple[bytes, ...]) -> list[str]:
    return [word.decode("utf-8", "replace") for word in words]


def take_opinion(fold: FoldState, item: Answered, link: InstanceLink) -> tuple[str, Source]:
    """Another sentinel's answer to the question whether a master is down, and its vote (S8)."""
    request, words = _texts(item.request), _texts(item.words)
    if len(request) != 6 or len(words) != 3 or item.kind != "array":
        return NOTHING
    master = fold.master_once_at(request[2], request[3])
    if master is None:
        return NOTHING
    for sentinel in master.sentinels.values():
        if sentinel.link is not link:
            continue
        leader = words[1] if words[1] != _ANYBODY else ""
        note_opinion(fold, sentinel, leading_number(words[0]) == 1, leader, leading_number(words[2]))
    return "opinion", CAPTURE


def note_opinion(fold: FoldState, sentinel: Instance, says_down: bool, leader: str, leader_epoch: int) -> None:
    """*sentinel* said whether the master is down for it, and whom it voted for, if for anybody."""
    sentinel.master_down_reply_ms = fold.state.now_ms
    if says_down is not bool(sentinel.flags & Flag.MASTER_DOWN) and sentinel.master is not None:
        fold.opinions.append(OpinionRow(fold.now_ns, fold.observer, sentinel.name, sentinel.master.name, says_down))
    sentinel.flags = sentinel.flags | Flag.MASTER_DOWN if says_down else sentinel.flags & ~Flag.MASTER_DOWN
    if leader:
        sentinel.leader, sentinel.leader_epoch = leader, leader_epoch


def take_asked(fold: FoldState, item: Asked) -> tuple[str, Source]:
    """A SENTINEL command that somebody sent it, with its answer."""
    request, words = _texts(item.request), _texts(item.words)
    if len(request) < 2:
        return NOTHING
    name = request[1].upper().encode()
    if name in _IS_DOWN and len(request) == 6 and len(words) == 3:
        return _says(fold, item, request, words)
    if name in _WHERE and len(request) == 3 and len(words) == 2 and words[1].isdigit():
        return _names(fold, request[2], Address(words[0], leading_number(words[1])))
    is_ok = (item.kind == "simple" and words[:1] == ["OK"]) or item.kind == "number"
    if is_ok and not fold.is_told:
        return _ordered(fold, name, request)
    return NOTHING


def _says(fold: FoldState, item: Asked, request: list[str], words: list[str]) -> tuple[str, Source]:
    """It answers whether the master is down for it, and with its vote."""
    master = fold.master_at(request[2], request[3])
    if master is None:
        return NOTHING
    epoch, candidate, is_down = leading_number(request[4]), request[5], leading_number(words[0]) == 1
    if not fold.is_told and (is_down or not fold.state.tilt):
        fold.mark_down(master, is_down)
    if candidate != _ANYBODY:
        granted, granted_epoch = words[1], leading_number(words[2])
        if not fold.is_told:
            vote(fold.state, master, epoch, candidate)
        if granted != _ANYBODY:
            master.leader, master.leader_epoch = granted, granted_epoch
        fold.votes.append(
            VoteRow(
                item.ts_ns, fold.observer, candidate, master.name, epoch, granted, granted_epoch, is_down, CAPTURE
            )
        )  # fmt: skip
    return "own answer", CAPTURE


def _names(fold: FoldState, name: str, address: Address) -> tuple[str, Source]:
    """It tells a client where the master is."""
    master = fold.state.masters.get(name)
    if master is None:
        monitor(fold, name, address)
    elif current_address(master) != address and not fold.is_told and not master.flags & Flag.FAILOVER_IN_PROGRESS:
        move_master(fold.state, master, address)
    return "own answer", CAPTURE


def _ordered(fold: FoldState, name: bytes, request: list[str]) -> tuple[str, Source]:
    """An operator's command that was carried out, over a connection that is captured."""
    state = fold.state
    master = state.masters.get(request[2]) if len(request) > 2 else None
    match name:
        case b"MONITOR" if len(request) == 6 and master is None:
            address = Address(request[3], leading_number(request[4]))
            monitor(fold, request[2], address, max(leading_number(request[5]), 0))
        case b"REMOVE" if master is not None:
            remove_master(state, master)
        case b"RESET" if len(request) == 3:
            for one in list(state.masters.values()):
                if matches(request[2].encode(), one.name.encode()):
                    reset_master(state, one)
        case b"FAILOVER" if master is not None and not master.flags & Flag.FAILOVER_IN_PROGRESS:
            start_failover(state, master)
            master.flags |= Flag.FORCE_FAILOVER
        case _:
            return NOTHING
    return "command", CAPTURE


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
