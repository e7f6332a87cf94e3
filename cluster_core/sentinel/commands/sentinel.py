"""The SENTINEL command: its subcommands, options and replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cluster_core.errors import ProtocolError
from cluster_core.sentinel.commands.reports import (
    FAILURE_BITS,
    encoded,
    info_cache_reply,
    instance_reply,
    instances_reply,
)
from cluster_core.sentinel.config_file import place_problem
from cluster_core.sentinel.directory import (
    add_master,
    find_master_at,
    is_address,
    propagate_down_after,
    remove_master,
    reset_master,
)
from cluster_core.sentinel.down import ask_others
from cluster_core.sentinel.failover import choose_replica, start_failover, vote
from cluster_core.sentinel.instance import Address, Flag, Instance
from cluster_core.sentinel.links import current_address, drop_instances, drop_sentinels
from cluster_core.sentinel.state import DEBUG_NAMES, SentinelState, text_of
from cluster_core.sentinel.text import matches, whole_number
from cluster_core.wire.resp import RespMap

SCRIPTS_DENIED: Final = (
    "ERR Reconfiguration of scripts path is denied for security reasons. Check the deny-scripts-reconfig "
    "configuration directive in your Sentinel configuration"
)


class _WrongValueError(Exception):
    """A value that the option cannot have; *value* is shown."""

    def __init__(self, value: str) -> None:
        self.value = value
        super().__init__(value)


# -- SENTINEL SET ------------------------------------------------------------------------------------------------------


def set_options(state: SentinelState, master: Instance, words: list[str]) -> Any:
    """Set options of *master* one by one; what stands before a mistake has been set (sentinelSetCommand)."""
    at = changes = 0
    try:
        while at < len(words):
            option = words[at].lower()
            count, take = _OPTIONS.get(option, (0, None))
            values = words[at + 1 : at + 1 + count]
            if take is None or len(values) < count:
                raise ProtocolError(f"ERR Unknown option or number of arguments for SENTINEL SET '{words[at]}'")
            try:
                take(state, master, *values)
            except _WrongValueError as error:
                text = f"ERR Invalid argument '{error.value}' for SENTINEL SET '{words[at]}'"
                raise ProtocolError(text) from None
            changes += 1
            shown = ["******"] if option == "auth-pass" else values
            state.tell_of("#", "+set", master, " ".join((words[at], *shown)))
            at += 1 + count
    finally:
        if changes:
            state.save()
    return "OK"


def _number(field: str, least: int = 1) -> Callable[[SentinelState, Instance, str], None]:
    def take(state: SentinelState, master: Instance, value: str) -> None:
        number = whole_number(value)
        if number is None or number < least:
            raise _WrongValueError(value)
        setattr(master, field, number)
        if field == "down_after_ms":
            propagate_down_after(master)

    return take


def _script(state: SentinelState, master: Instance, value: str) -> None:
    """Scripts are not run here, so there is none that could be (the server asks for an executable file)."""
    if state.denies_scripts:
        raise ProtocolError(SCRIPTS_DENIED)
    raise ProtocolError("ERR Notification script seems non existing or non executable")


def _login(field: str) -> Callable[[SentinelState, Instance, str], None]:
    def take(state: SentinelState, master: Instance, value: str) -> None:
        setattr(master, field, value)
        drop_instances(state, master)

    return take


def _rename(state: SentinelState, master: Instance, old: str, new: str) -> None:
    if not old or not new:
        raise _WrongValueError(old if new else new)
    master.renamed.pop(old.lower(), None)
    if old.lower() != new.lower():
        master.renamed[old.lower()] = new


_OPTIONS: Final[dict[str, tuple[int, Callable[..., None]]]] = {
    "down-after-milliseconds": (1, _number("down_after_ms")),
    "failover-timeout": (1, _number("failover_timeout_ms")),
    "parallel-syncs": (1, _number("parallel_syncs")),
    "quorum": (1, _number("quorum")),
    "master-reboot-down-after-period": (1, _number("reboot_down_after_ms", least=0)),
    "notification-script": (1, _script),
    "client-reconfig-script": (1, _script),
    "auth-pass": (1, _login("auth_pass")),
    "auth-user": (1, _login("auth_user")),
    "rename-command": (2, _rename),
}
"""Options, how many values they take, and what sets them."""

# -- SENTINEL CONFIG ---------------------------------------------------------------------------------------------------


def configure(state: SentinelState, words: list[str]) -> Any:
    """SENTINEL CONFIG SET and GET, of one option, in Valkey of several."""
    action, rest = words[0].lower(), words[1:]
    several = state.settings.dialect.startswith("valkey")
    if action == "set" and (len(rest) == 2 or (several and len(rest) > 1)):
        return _config_set(state, rest)
    if action == "get" and (len(rest) == 1 or (several and rest)):
        shown = [name for name in _CONFIG if any(_fits(pattern, name) for pattern in rest)]
        return RespMap(tuple((name.encode(), encoded(_CONFIG[name][0](state))) for name in shown))
    raise ProtocolError(f"ERR Only SENTINEL CONFIG {_CONFIG_FORMS[several]} are supported.")


_CONFIG_FORMS: Final = (
    "GET <option> / SET <option> <value>",
    "GET <param> [<param> <param> ...] / SET <param> <value> [<param> <value> ...]",
)
"""What may be said, of one option and of several."""


def _fits(pattern: str, name: str) -> bool:
    return matches(encoded(pattern), name.encode(), no_case=True)


def _config_set(state: SentinelState, words: list[str]) -> Any:
    for option, value in zip(words[::2], (*words[1::2], None), strict=False):
        found = _CONFIG.get(option.lower())
        if found is None:
            raise ProtocolError(f"ERR Invalid argument '{option}' to SENTINEL CONFIG SET")
        if value is None:
            raise ProtocolError(f"ERR Missing argument '{option}' value")
        if not found[1](state, value):
            raise ProtocolError(f"ERR Invalid value '{value}' to SENTINEL CONFIG SET '{option}'")
    state.save()
    return "OK"


def _yes_no(field: str) -> tuple[Callable[[SentinelState], str], Callable[[SentinelState, str], bool]]:
    def put(state: SentinelState, value: str) -> bool:
        if value.lower() not in ("yes", "no"):
            return False
        setattr(state, field, value.lower() == "yes")
        return True

    return (lambda state: "yes" if getattr(state, field) else "no"), put


def _text(
    field: str, then: Callable[[SentinelState], None] | None = None
) -> tuple[Callable[[SentinelState], str], Callable[[SentinelState, str], bool]]:
    def put(state: SentinelState, value: str) -> bool:
        setattr(state, field, value)
        if then is not None:
            then(state)
        return True

    return (lambda state: str(getattr(state, field))), put


def _put_port(state: SentinelState, value: str) -> bool:
    port = whole_number(value)
    if port is None or not 0 <= port <= 65535:
        return False
    state.announce_port = port
    return True


_CONFIG: Final[dict[str, tuple[Callable[[SentinelState], str], Callable[[SentinelState, str], bool]]]] = {
    "resolve-hostnames": _yes_no("resolve_hostnames"),
    "announce-hostnames": _yes_no("announce_hostnames"),
    "announce-ip": _text("announce_ip"),
    "announce-port": (lambda state: str(state.announce_port), _put_port),
    "sentinel-user": _text("auth_user", drop_sentinels),
    "sentinel-pass": _text("auth_pass", drop_sentinels),
}
"""Options, how each is shown, and what sets it: False for a value that it cannot have."""

# -- SENTINEL DEBUG ----------------------------------------------------------------------------------------------------


def debug(state: SentinelState, words: list[str]) -> Any:
    """Show the periods, or change some of them (sentinelSetDebugConfigParameters)."""
    periods = state.periods
    if not words:
        shown = ((name.upper().encode(), str(getattr(periods, at)).encode()) for name, at in DEBUG_NAMES.items())
        return RespMap(tuple(shown))
    for option, value in zip(words[::2], (*words[1::2], None), strict=False):
        at = DEBUG_NAMES.get(option.lower())
        if at is None or value is None:
            raise ProtocolError(f"ERR Unknown option or number of arguments for SENTINEL DEBUG '{option}'")
        number = whole_number(value)
        if number is None or number <= 0:
            raise ProtocolError(f"ERR Invalid argument '{value}' for SENTINEL DEBUG '{option}'")
        setattr(periods, at, number)
    return "OK"


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
