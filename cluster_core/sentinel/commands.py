"""Commands that a sentinel serves to clients, SENTINEL included, with the server's reply texts (sentinelcmds)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.sentinel.directory import (
    add_master,
    find_master_at,
    is_place,
    propagate_down_after,
    remove_master,
    reset_master,
    take_hello,
)
from cluster_core.sentinel.down import ask_others
from cluster_core.sentinel.events import HELLO_CHANNEL, Reply
from cluster_core.sentinel.failover import choose_replica, start_failover, vote
from cluster_core.sentinel.instance import Address, Flag, Instance, flag_text
from cluster_core.sentinel.links import current_address
from cluster_core.sentinel.state import SentinelState, text_of
from cluster_core.sentinel.text import whole_number
from cluster_core.wire.resp import RespError, RespMap


def encoded(text: str) -> bytes:
    """Encode text that came from a peer, restoring the peer's bytes."""
    return text.encode("utf-8", "surrogateescape")


def instance_reply(instance: Instance, now_ms: int) -> RespMap:
    """Return one record as field names and values; numbers are texts, as in the server."""
    fields = [*_common(instance, now_ms)]
    for kind, describe in ((Flag.MASTER, _of_master), (Flag.REPLICA, _of_replica), (Flag.SENTINEL, _of_sentinel)):
        if instance.flags & kind:
            fields += describe(instance, now_ms)
    return RespMap(tuple((name.encode(), encoded(str(value))) for name, value in fields))


def _common(instance: Instance, now_ms: int) -> Iterator[tuple[str, object]]:
    link = instance.link
    yield "name", instance.name
    yield "ip", instance.address.ip
    yield "port", instance.address.port
    yield "runid", instance.runid
    yield "flags", flag_text(instance.shown_flags)
    yield "link-pending-commands", link.pending_commands
    yield "link-refcount", link.refcount
    if instance.flags & Flag.FAILOVER_IN_PROGRESS:
        yield "failover-state", instance.failover_state.word
    yield "last-ping-sent", now_ms - link.pending_ping_ms if link.pending_ping_ms else 0
    yield "last-ok-ping-reply", now_ms - link.available_ms
    yield "last-ping-reply", now_ms - link.last_pong_ms
    if instance.flags & Flag.S_DOWN:
        yield "s-down-time", now_ms - instance.s_down_since_ms
    if instance.flags & Flag.O_DOWN:
        yield "o-down-time", now_ms - instance.o_down_since_ms
    yield "down-after-milliseconds", instance.down_after_ms
    if instance.flags & (Flag.MASTER | Flag.REPLICA):
        yield "info-refresh", now_ms - instance.info_ms if instance.info_ms else 0
        yield "role-reported", "master" if instance.role_reported == Flag.MASTER else "slave"
        yield "role-reported-time", now_ms - instance.role_reported_ms


def _of_master(master: Instance, now_ms: int) -> Iterator[tuple[str, object]]:
    yield "config-epoch", master.config_epoch
    yield "num-slaves", len(master.replicas)
    yield "num-other-sentinels", len(master.sentinels)
    yield "quorum", master.quorum
    yield "failover-timeout", master.failover_timeout_ms
    yield "parallel-syncs", master.parallel_syncs


def _of_replica(replica: Instance, now_ms: int) -> Iterator[tuple[str, object]]:
    yield "master-link-down-time", replica.master_link_down_ms
    yield "master-link-status", "ok" if replica.is_master_link_up else "err"
    yield "master-host", replica.master_host or "?"
    yield "master-port", replica.master_port
    yield "slave-priority", replica.priority
    yield "slave-repl-offset", replica.offset
    yield "replica-announced", int(replica.is_announced)


def _of_sentinel(sentinel: Instance, now_ms: int) -> Iterator[tuple[str, object]]:
    yield "last-hello-message", now_ms - sentinel.hello_ms
    yield "voted-leader", sentinel.leader or "?"
    yield "voted-leader-epoch", sentinel.leader_epoch


def instances_reply(instances: Iterable[Instance], now_ms: int) -> list[Any]:
    """Return several records without replicas that set ``replica-announced no`` (addReplyDictOfRedisInstances)."""
    return [instance_reply(each, now_ms) for each in instances if each.is_announced or not each.flags & Flag.REPLICA]


# -- SENTINEL SET ------------------------------------------------------------------------------------------------------


def set_options(state: SentinelState, master: Instance, words: list[str]) -> Any:
    """Set options of *master* in order; options before an invalid one stay set (sentinelSetCommand)."""
    for at in range(0, len(words), 2):
        option, values = words[at].lower(), words[at + 1 : at + 2]
        field = _OPTIONS.get(option)
        if field is None or not values:
            raise ProtocolError(f"ERR Unknown option or number of arguments for SENTINEL SET '{words[at]}'")
        number = whole_number(values[0])
        if number is None or number < 1:
            raise ProtocolError(f"ERR Invalid argument '{values[0]}' for SENTINEL SET '{words[at]}'")
        setattr(master, field, number)
        if field == "down_after_ms":
            propagate_down_after(master)
        state.tell_of("#", "+set", master, f"{words[at]} {values[0]}")
    return "OK"


_OPTIONS: Final = {
    "down-after-milliseconds": "down_after_ms",
    "failover-timeout": "failover_timeout_ms",
    "parallel-syncs": "parallel_syncs",
    "quorum": "quorum",
}

MASTERS_MAX: Final = 1000
NAME_CHARS_MAX: Final = 256
FAILOVER_STATE: Final = "master_failover_state:"
"""INFO line of servers that support FAILOVER."""

Words = list[str]


def sentinel_reply(state: SentinelState, words: tuple[bytes, ...]) -> Any:
    """Execute a SENTINEL subcommand and return its reply; raises ProtocolError."""
    name = text_of(words[1]).lower()
    valkey = state.settings.dialect.startswith("valkey")
    found = (_VALKEY_COMMANDS if valkey else _COMMANDS).get(name)
    if found is None:
        raise ProtocolError(f"ERR unknown subcommand '{text_of(words[1])[:128]}'. Try SENTINEL HELP.")
    arity, command = found
    if len(words) != arity if arity > 0 else len(words) < -arity:
        raise ProtocolError(f"ERR wrong number of arguments for 'sentinel|{name}' command")
    return command(state, [text_of(word) for word in words[2:]])


def named_master(state: SentinelState, name: str) -> Instance:
    """Return the master called *name*; raises ProtocolError if there is none."""
    master = state.masters.get(name)
    if master is None:
        raise ProtocolError("ERR No such master with that name")
    return master


def _integer(text: str, problem: str = "value is not an integer or out of range") -> int:
    number = whole_number(text)
    if number is None:
        raise ProtocolError(f"ERR {problem}")
    return number


def _replicas(state: SentinelState, words: Words) -> Any:
    return instances_reply(named_master(state, words[0]).replicas.values(), state.now_ms)


def _address(state: SentinelState, words: Words) -> Any:
    master = state.masters.get(words[0])
    if master is None:
        return None
    address = current_address(master)
    return [encoded(address.ip), str(address.port).encode()]


def _is_down(state: SentinelState, words: Words) -> Any:
    """Return SDOWN of a master, and this sentinel's vote if one is requested; never down in TILT (S8, S9, S16)."""
    host, port_text, epoch_text, runid = words
    port, epoch = _integer(port_text), _integer(epoch_text)
    master = find_master_at(state, host, port)
    is_down = master is not None and bool(master.flags & Flag.S_DOWN) and not state.tilt
    leader, leader_epoch = "", 0
    if master is not None and runid != "*" and epoch >= 0:
        leader, leader_epoch = vote(state, master, epoch, runid)
    return [int(is_down), encoded(leader or "*"), leader_epoch]


def _check_quorum(state: SentinelState, words: Words) -> Any:
    """Check that enough sentinels are up for quorum and majority (S17, sentinelIsQuorumReachable)."""
    master = named_master(state, words[0])
    others = master.sentinels.values()
    usable = 1 + sum(not s.flags & (Flag.S_DOWN | Flag.O_DOWN) for s in others)
    problems = []
    if usable < master.quorum:
        problems.append("Not enough available Sentinels to reach the specified quorum for this master")
    if usable < (len(others) + 1) // 2 + 1:
        problems.append("Not enough available Sentinels to reach the majority and authorize a failover")
    if problems:
        raise ProtocolError(f"NOQUORUM {usable} usable Sentinels. {'. '.join(problems)}")
    return f"OK {usable} usable Sentinels. Quorum and failover authorization can be reached"


def _failover(state: SentinelState, words: Words) -> Any:
    """Start a failover on request, without quorum and election (S12).

    COORDINATED (Valkey 9): with an election; the old master hands over with FAILOVER.
    """
    if len(words) > 1 and words[1].lower() != "coordinated":
        raise ProtocolError("ERR Unknown failover option specified")
    is_coordinated = len(words) > 1
    master = named_master(state, words[0])
    if master.flags & Flag.FAILOVER_IN_PROGRESS:
        raise ProtocolError("INPROG Failover already in progress")
    if is_coordinated and FAILOVER_STATE not in master.info:
        raise ProtocolError("NOGOODPRIMARY Primary does not support FAILOVER command")
    if choose_replica(master, state.periods, state.now_ms) is None:
        raise ProtocolError("NOGOODSLAVE No suitable replica to promote")
    level = "*" if state.settings.dialect.startswith("valkey") else "#"
    state.log(level, f"Executing user requested FAILOVER of '{master.name}'")
    start_failover(state, master)
    master.flags |= Flag.COORDINATED_FAILOVER if is_coordinated else Flag.FORCE_FAILOVER
    if is_coordinated:
        master.flags |= Flag.S_DOWN  # only a sentinel in SDOWN asks for votes; the next timer clears the flag
        ask_others(state, master, forced=True)
    return "OK"


def _monitor(state: SentinelState, words: Words) -> Any:
    name, host, port_text, quorum_text = words
    quorum, port = _integer(quorum_text, "Invalid quorum"), _integer(port_text, "Invalid port")
    if quorum <= 0:
        raise ProtocolError("ERR Quorum must be 1 or greater.")
    if not is_place(host, 0):
        raise ProtocolError("ERR Invalid IP address or hostname specified")
    if name in state.masters:
        raise ProtocolError("ERR Duplicate master name.")
    if not is_place(host, port):
        raise ProtocolError("ERR Invalid port number.")
    if not name or len(name) > NAME_CHARS_MAX or "," in name or len(state.masters) >= MASTERS_MAX:
        raise ProtocolError(f"ERR no more than {MASTERS_MAX} masters, with short names without commas")
    master = add_master(state, name, Address(host, port), quorum)
    state.tell_of("#", "+monitor", master, f"quorum {quorum}")
    return "OK"


def _remove(state: SentinelState, words: Words) -> Any:
    master = named_master(state, words[0])
    state.tell_of("#", "-monitor", master)
    remove_master(state, master)
    return "OK"


def _reset(state: SentinelState, words: Words) -> Any:
    chosen = [m for m in state.masters.values() if fnmatchcase(m.name, words[0])]
    for master in chosen:
        reset_master(state, master)
        state.tell_of("#", "+reset-master", master)
    return len(chosen)


def _set(state: SentinelState, words: Words) -> Any:
    return set_options(state, named_master(state, words[0]), words[1:])


_COMMANDS: Final[dict[str, tuple[int, Callable[[SentinelState, Words], Any]]]] = {
    "masters": (2, lambda state, words: instances_reply(state.masters.values(), state.now_ms)),
    "master": (3, lambda state, words: instance_reply(named_master(state, words[0]), state.now_ms)),
    "replicas": (3, _replicas),
    "slaves": (3, _replicas),
    "sentinels": (3, lambda s, words: instances_reply(named_master(s, words[0]).sentinels.values(), s.now_ms)),
    "get-master-addr-by-name": (3, _address),
    "is-master-down-by-addr": (6, _is_down),
    "ckquorum": (3, _check_quorum),
    "failover": (3, _failover),
    "monitor": (6, _monitor),
    "remove": (3, _remove),
    "set": (-5, _set),
    "reset": (3, _reset),
    "myid": (2, lambda state, words: state.my_id.encode()),
}
"""Arity (negative: minimum), counting SENTINEL and the subcommand, and the handler."""
_VALKEY_COMMANDS: Final = {
    **_COMMANDS,
    "failover": (-3, _failover),
    "primaries": _COMMANDS["masters"],
    "primary": _COMMANDS["master"],
    "get-primary-addr-by-name": _COMMANDS["get-master-addr-by-name"],
    "is-primary-down-by-addr": _COMMANDS["is-master-down-by-addr"],
}
"""Valkey's new command names; the old ones still work."""


ECHOED_CHARS_MAX: Final = 128
"""Characters of an unknown command name that an error repeats."""
RawWords = tuple[bytes, ...]


def serve_client(state: SentinelState, client: int, words: RawWords) -> None:
    """Answer one client command; the reply is added to the effects."""
    if not words:
        return
    name = text_of(words[0]).lower()
    arity, command = _CLIENT_COMMANDS.get(name, (0, None))
    if command is None:
        shown = "".join(f"'{text_of(word)}' " for word in words[1:])[:ECHOED_CHARS_MAX]
        reply: Any = RespError(
            f"ERR unknown command '{text_of(words[0])[:ECHOED_CHARS_MAX]}', with args beginning with: {shown}"
        )
    elif len(words) != arity if arity > 0 else len(words) < -arity:
        reply = RespError(f"ERR wrong number of arguments for '{name}' command")
    else:
        try:
            reply = command(state, client, words)
        except ProtocolError as error:
            reply = RespError(str(error))
    if isinstance(reply, RespError):
        reply = RespError(reply.text.replace("\r", " ").replace("\n", " "))
    state.out.append(Reply(client, reply))


# -- commands ----------------------------------------------------------------------------------------------------------


def _ping(state: SentinelState, client: int, words: RawWords) -> Any:
    if len(words) > 2:
        raise ProtocolError("ERR wrong number of arguments for 'ping' command")
    return words[1] if len(words) > 1 else "PONG"


def _publish(state: SentinelState, client: int, words: RawWords) -> Any:
    """Accept hello messages of other sentinels; refuse other channels (sentinelPublishCommand)."""
    if words[1] != HELLO_CHANNEL.encode():
        raise ProtocolError("ERR Only HELLO messages are accepted by Sentinel instances.")
    take_hello(state, text_of(words[2]))
    return 1


def _hello(state: SentinelState, client: int, words: RawWords) -> Any:
    """Set the client's RESP version; the driver encodes replies by `Sentinel.protocol_of`."""
    if len(words) > 1:
        if words[1] not in (b"2", b"3"):
            raise ProtocolError("NOPROTO unsupported protocol version")
        state.protocols[client] = int(words[1])
    facts: dict[bytes, Any] = {b"server": state.settings.dialect.partition("-")[0].encode()}
    facts |= {b"version": state.settings.dialect.partition("-")[2].encode(), b"proto": state.protocols.get(client, 2)}
    facts |= {b"id": client, b"mode": b"sentinel", b"modules": []}
    return RespMap(tuple(facts.items()))


_CLIENT_COMMANDS: Final[dict[str, tuple[int, Callable[[SentinelState, int, RawWords], Any]]]] = {
    "ping": (-1, _ping),
    "sentinel": (-2, lambda state, client, words: sentinel_reply(state, words)),
    "publish": (3, _publish),
    "hello": (-1, _hello),
    "client": (-2, lambda state, client, words: "OK"),
    "quit": (-1, lambda state, client, words: "OK"),
}
"""Arity (negative: minimum) and the handler."""
