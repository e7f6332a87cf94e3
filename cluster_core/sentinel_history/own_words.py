"""What a sentinel shows of itself by what it sends and answers: hello messages, questions, orders, votes, polls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_core.sentinel.commands.patterns import matches
from cluster_core.sentinel.directory import (
    add_replica,
    add_sentinel,
    move_master,
    remove_master,
    remove_sentinel,
    reset_master,
)
from cluster_core.sentinel.failover import advance, start_failover, switch_master
from cluster_core.sentinel.failover_states import STATE_BY_WORD, FailoverState, Trigger
from cluster_core.sentinel.hello import HELLO_CHANNEL, Hello, parse_hello
from cluster_core.sentinel.instance import (
    COORDINATED_FAILOVER,
    FAILOVER_IN_PROGRESS,
    FORCE_FAILOVER,
    MASTER,
    MASTER_DOWN,
    PROMOTED,
    RECONF_DONE,
    RECONF_INPROG,
    RECONF_SENT,
    REPLICA,
    Address,
    Instance,
    InstanceLink,
    parse_flags,
)
from cluster_core.sentinel.monitoring import current_address
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel.votes import vote
from cluster_core.sentinel_history.evidence import CAPTURE, Answered, Asked, Polled, Sent
from cluster_core.sentinel_history.rows import OpinionRow, VoteRow
from cluster_core.sentinel_history.timer import mark_agreed

if TYPE_CHECKING:
    from cluster_core.sentinel_history.fold import SentinelFold

NOTHING = ("", "")
_IS_DOWN = (b"IS-MASTER-DOWN-BY-ADDR", b"IS-PRIMARY-DOWN-BY-ADDR")
_WHERE = (b"GET-MASTER-ADDR-BY-NAME", b"GET-PRIMARY-ADDR-BY-NAME")
_ANYBODY = "*"


def _texts(words: tuple[bytes, ...]) -> list[str]:
    return [word.decode("utf-8", "replace") for word in words]


# -- what it sends -----------------------------------------------------------------------------------------------------


def take_sent(fold: SentinelFold, item: Sent) -> tuple[str, str]:
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


def _own_hello(fold: SentinelFold, hello: Hello) -> tuple[str, str]:
    """Its own hello message says which master it holds for current, and the epochs (S3)."""
    state = fold.state
    if hello.current_epoch > state.current_epoch:
        state.current_epoch = fold.own_epoch = hello.current_epoch
    address = Address(hello.master_ip, hello.master_port)
    master = state.masters.get(hello.master_name)
    if master is None:
        master = fold.add_master(hello.master_name, address)
        master.config_epoch = hello.master_config_epoch
        return "own hello", CAPTURE
    if current_address(master) != address:
        promoted = next((one for one in master.replicas.values() if one.address == address), None)
        if master.flags & FAILOVER_IN_PROGRESS and promoted is not None:
            _promote(fold, master, promoted)
            master.failover_state = FailoverState.RECONF_SLAVES
        elif hello.master_config_epoch >= master.config_epoch:
            move_master(state, master, address)
    elif master.address == address and master.flags & FAILOVER_IN_PROGRESS:
        master.failover_state = min(master.failover_state, FailoverState.WAIT_PROMOTION)
    master.config_epoch = max(master.config_epoch, hello.master_config_epoch)
    return "own hello", CAPTURE


def _asks(fold: SentinelFold, master: Instance | None, epoch: int, wants_vote: bool) -> tuple[str, str]:
    """It asks others only about a master that is down for it, and for their votes only in a failover of its own (S8)."""
    if master is None:
        return NOTHING
    if not fold.is_told:
        fold.mark_down(master, True)
        if wants_vote and not master.flags & FAILOVER_IN_PROGRESS:
            mark_agreed(fold, master, True, 1 + sum(bool(one.flags & MASTER_DOWN) for one in master.sentinels.values()))
            fold.state.current_epoch = max(fold.state.current_epoch, epoch - 1)
            start_failover(fold.state, master)
            vote(fold.state, master, epoch, fold.observer)
    elif wants_vote and master.flags & FORCE_FAILOVER and master.failover_state == FailoverState.WAIT_START:
        _coordinate(master)  # nobody is asked in a forced one
    fold.state.current_epoch = max(fold.state.current_epoch, epoch)
    return "question", CAPTURE


def _orders(fold: SentinelFold, target: Address, host: str, port: str) -> tuple[str, str]:
    """``SLAVEOF NO ONE`` promotes the chosen replica, ``SLAVEOF`` it sends the others there (S14)."""
    if fold.is_told:
        return NOTHING
    for replica in fold.at(target):
        master = replica.master
        if master is None or not replica.flags & REPLICA:
            continue
        if host.upper() == "NO" and not master.flags & FAILOVER_IN_PROGRESS:
            _begin_ordered(fold, master)
        if not master.flags & FAILOVER_IN_PROGRESS:
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
            replica.flags = replica.flags & ~(RECONF_INPROG | RECONF_DONE) | RECONF_SENT
            fold.state.tell_of("*", "+slave-reconf-sent", replica)
    return "order", CAPTURE


def _begin_ordered(fold: SentinelFold, master: Instance) -> None:
    """A replica is promoted without an election: an operator asked for it, on a connection that is not captured (S12)."""
    if fold.own_epoch == fold.state.current_epoch:
        fold.state.current_epoch -= 1  # the epoch of this failover, which a hello message has told before
    start_failover(fold.state, master)
    vote(fold.state, master, fold.state.current_epoch, fold.observer)
    master.flags |= FORCE_FAILOVER


def take_closed(fold: SentinelFold, link: InstanceLink) -> None:
    """It closes its connection to the replica that it has promoted when that becomes its master (S14)."""
    for master in fold.state.masters.values():
        promoted = master.promoted
        if promoted is None or promoted.link is not link or master.failover_state != FailoverState.RECONF_SLAVES:
            continue
        advance(fold.state, master, Trigger.ALL_RECONFIGURED)
        switch_master(fold.state, master)
        return


def _hands_over(fold: SentinelFold, target: Address) -> tuple[str, str]:
    """``FAILOVER TO`` is sent to the master itself in a coordinated failover of Valkey 9."""
    for master in fold.at(target):
        if master.flags & MASTER and master.flags & FAILOVER_IN_PROGRESS:
            _coordinate(master)
    return "order", CAPTURE


def _coordinate(master: Instance) -> None:
    """The failover was ordered, and is one with an election, in which the master itself hands over."""
    master.flags = master.flags & ~FORCE_FAILOVER | COORDINATED_FAILOVER


def _promote(fold: SentinelFold, master: Instance, replica: Instance) -> None:
    if master.promoted is not None and master.promoted is not replica:
        master.promoted.flags &= ~PROMOTED
    if not replica.flags & PROMOTED:
        fold.explain(master, replica)
    replica.flags |= PROMOTED
    master.promoted = replica


# -- what it is answered -----------------------------------------------------------------------------------------------


def take_opinion(fold: SentinelFold, item: Answered, link: InstanceLink) -> tuple[str, str]:
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


def note_opinion(fold: SentinelFold, sentinel: Instance, says_down: bool, leader: str, leader_epoch: int) -> None:
    """*sentinel* said whether the master is down for it, and whom it voted for, if for anybody."""
    sentinel.master_down_reply_ms = fold.state.now_ms
    if says_down is not bool(sentinel.flags & MASTER_DOWN) and sentinel.master is not None:
        fold.opinions.append(OpinionRow(fold.now_ns, fold.observer, sentinel.name, sentinel.master.name, says_down))
    sentinel.flags = sentinel.flags | MASTER_DOWN if says_down else sentinel.flags & ~MASTER_DOWN
    if leader:
        sentinel.leader, sentinel.leader_epoch = leader, leader_epoch


# -- what it answers ---------------------------------------------------------------------------------------------------


def take_asked(fold: SentinelFold, item: Asked) -> tuple[str, str]:
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


def _says(fold: SentinelFold, item: Asked, request: list[str], words: list[str]) -> tuple[str, str]:
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


def _names(fold: SentinelFold, name: str, address: Address) -> tuple[str, str]:
    """It tells a client where the master is."""
    master = fold.state.masters.get(name)
    if master is None:
        fold.add_master(name, address)
    elif current_address(master) != address and not fold.is_told and not master.flags & FAILOVER_IN_PROGRESS:
        move_master(fold.state, master, address)
    return "own answer", CAPTURE


def _ordered(fold: SentinelFold, name: bytes, request: list[str]) -> tuple[str, str]:
    """An operator's command that was carried out, over a connection that is captured."""
    state = fold.state
    master = state.masters.get(request[2]) if len(request) > 2 else None
    match name:
        case b"MONITOR" if len(request) == 6 and master is None:
            address = Address(request[3], leading_number(request[4]))
            fold.add_master(request[2], address, max(leading_number(request[5]), 0))
        case b"REMOVE" if master is not None:
            remove_master(state, master)
        case b"RESET" if len(request) == 3:
            for one in list(state.masters.values()):
                if matches(request[2].encode(), one.name.encode()):
                    reset_master(state, one)
        case b"FAILOVER" if master is not None and not master.flags & FAILOVER_IN_PROGRESS:
            start_failover(state, master)
            master.flags |= FORCE_FAILOVER
        case _:
            return NOTHING
    return "command", CAPTURE


# -- polls -------------------------------------------------------------------------------------------------------------


def take_poll(fold: SentinelFold, item: Polled) -> None:
    """What it answered about its instances holds, all of it."""
    for fields in item.masters:
        address = Address(fields.get("ip", ""), leading_number(fields.get("port", "")))
        name = fields.get("name", "")
        master = fold.state.masters.get(name) or fold.add_master(name, address)
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
            if replica.flags & PROMOTED:
                master.promoted = replica


def _take_sentinels(fold: SentinelFold, master: Instance, polled: tuple[dict[str, str], ...]) -> None:
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
        one.role_reported = MASTER if fields["role-reported"] == "master" else REPLICA
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
