"""SENTINEL and its subcommands (sentinelCommand); errors are ProtocolError with the server's text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.sentinel.commands.options import configure, debug, set_options
from cluster_core.sentinel.commands.patterns import matches
from cluster_core.sentinel.commands.reports import (
    FAILURE_BITS,
    encoded,
    info_cache_reply,
    instance_reply,
    instances_reply,
)
from cluster_core.sentinel.config_file import place_problem
from cluster_core.sentinel.directory import add_master, find_master_at, is_address, remove_master, reset_master
from cluster_core.sentinel.down import ask_others
from cluster_core.sentinel.failover import start_failover
from cluster_core.sentinel.instance import Address, Flag, Instance
from cluster_core.sentinel.monitoring import current_address
from cluster_core.sentinel.numbers import whole_number
from cluster_core.sentinel.replica_choice import choose_replica
from cluster_core.sentinel.state import SentinelState, text_of
from cluster_core.sentinel.votes import vote

MASTERS_MAX: Final = 1000
NAME_CHARS_MAX: Final = 256
FAILOVER_STATE: Final = "master_failover_state:"
"""A line of INFO of servers that know FAILOVER."""

_FAILURES: Final = {
    "crash-after-election": "being successfully elected as failover leader",
    "crash-after-promotion": "promoting the selected replica to master",
}

Words = list[str]


def sentinel_reply(state: SentinelState, words: tuple[bytes, ...]) -> Any:
    """The reply to SENTINEL …; what the command changes is done when this returns.  Raises ProtocolError."""
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
    """The master with a name; raises ProtocolError if there is none."""
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
    """Whether we hold a master for down, and our vote if one is asked for; in TILT nothing is down (S8, S9, S16)."""
    host, port_text, epoch_text, runid = words
    port, epoch = _integer(port_text), _integer(epoch_text)
    master = find_master_at(state, host, port)
    is_down = master is not None and bool(master.flags & Flag.S_DOWN) and not state.tilt
    leader, leader_epoch = "", 0
    if master is not None and runid != "*" and epoch >= 0:
        leader, leader_epoch = vote(state, master, epoch, runid)
    return [int(is_down), encoded(leader or "*"), leader_epoch]


def _check_quorum(state: SentinelState, words: Words) -> Any:
    """Whether enough sentinels are up for the quorum, and for a majority (S17, sentinelIsQuorumReachable)."""
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
    """A failover that somebody wants: without agreement and without election (S12).

    COORDINATED of Valkey 9: by election, and the master itself hands over.
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
        master.flags |= Flag.S_DOWN  # only those who hold it for down ask for votes; the next timer sees that it is up
        ask_others(state, master, forced=True)
    return "OK"


def _monitor(state: SentinelState, words: Words) -> Any:
    name, host, port_text, quorum_text = words
    quorum, port = _integer(quorum_text, "Invalid quorum"), _integer(port_text, "Invalid port")
    if quorum <= 0:
        raise ProtocolError("ERR Quorum must be 1 or greater.")
    if not is_address(state, host):
        raise ProtocolError("ERR Invalid IP address or hostname specified")
    if name in state.masters:
        raise ProtocolError("ERR Duplicate master name.")
    problem = place_problem(state, host, port)
    if problem:
        raise ProtocolError(f"ERR {problem}")
    if not name or len(name) > NAME_CHARS_MAX or "," in name or len(state.masters) >= MASTERS_MAX:
        raise ProtocolError(f"ERR no more than {MASTERS_MAX} masters, with short names without commas")
    master = add_master(state, name, Address(host, port), quorum)
    state.save()
    state.tell_of("#", "+monitor", master, f"quorum {quorum}")
    return "OK"


def _remove(state: SentinelState, words: Words) -> Any:
    master = named_master(state, words[0])
    state.tell_of("#", "-monitor", master)
    remove_master(state, master)
    state.save()
    return "OK"


def _reset(state: SentinelState, words: Words) -> Any:
    chosen = [m for m in state.masters.values() if matches(encoded(words[0]), encoded(m.name))]
    for master in chosen:
        reset_master(state, master)
        state.tell_of("#", "+reset-master", master)
    return len(chosen)


def _flush(state: SentinelState, words: Words) -> Any:
    state.save()
    return "OK"


def _info_cache(state: SentinelState, words: Words) -> Any:
    wanted = [state.masters[name] for name in dict.fromkeys(words) if name in state.masters]
    return info_cache_reply(wanted, state.now_ms)


def _simulate_failure(state: SentinelState, words: Words) -> Any:
    """SENTINEL SIMULATE-FAILURE: end the process right after an election or a promotion."""
    state.fails_after = set()
    for word in words:
        if word.lower() == "help":
            return [name.encode() for name in FAILURE_BITS]
        if word.lower() not in FAILURE_BITS:
            raise ProtocolError("ERR Unknown failure simulation specified")
        state.fails_after.add(word.lower())
        state.log("#", f"Failure simulation: this Sentinel will crash after {_FAILURES[word.lower()]}")
    return "OK"


def _set(state: SentinelState, words: Words) -> Any:
    return set_options(state, named_master(state, words[0]), words[1:])


def _help(state: SentinelState, words: Words) -> Any:
    names = sorted(name for name in _COMMANDS if name != "help")
    return ["SENTINEL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", *(name.upper() for name in names)]


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
    "flushconfig": (2, _flush),
    "myid": (2, lambda state, words: state.my_id.encode()),
    "pending-scripts": (2, lambda state, words: []),
    "info-cache": (-3, _info_cache),
    "config": (-4, configure),
    "debug": (-2, debug),
    "simulate-failure": (-3, _simulate_failure),
    "help": (2, _help),
}
"""Number of words (negative: at least), the name and SENTINEL included, and what carries the command out."""
_VALKEY_COMMANDS: Final = {
    **_COMMANDS,
    "failover": (-3, _failover),
    "primaries": _COMMANDS["masters"],
    "primary": _COMMANDS["master"],
    "get-primary-addr-by-name": _COMMANDS["get-master-addr-by-name"],
    "is-primary-down-by-addr": _COMMANDS["is-master-down-by-addr"],
}
"""Valkey has new names for old commands beside the old ones."""
