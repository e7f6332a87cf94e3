"""sentinel.conf: what a sentinel is told, and what it must know again after a restart (rewriteConfigSentinelOption).

Lines that are not about the sentinel are kept as they stand, in front.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from cluster_core.errors import DecodeError
from cluster_core.formats.key_list import unquote
from cluster_core.sentinel.directory import add_master, add_replica, add_sentinel, is_place
from cluster_core.sentinel.instance import (
    DEFAULT_DOWN_AFTER_MS,
    DEFAULT_FAILOVER_TIMEOUT_MS,
    DEFAULT_PARALLEL_SYNCS,
    Address,
    Instance,
)
from cluster_core.sentinel.monitoring import current_address
from cluster_core.sentinel.numbers import leading_number
from cluster_core.sentinel.state import EPOCH_MAX, ID_CHARS, SentinelState

CONFIG_CHARS_MAX: Final = 4 << 20
"""A longer text is no configuration."""
NO_MASTER: Final = "No such master with specified name."
_WORD: Final = re.compile(r"\s*(\"(?:\\.|[^\"\\])*\"|'(?:\\'|[^'])*'|[^\s\"']+)(?=\s|$)")
_PLAIN: Final = re.compile(r"[^\s\"'\\#\x00-\x1f\x7f]+")
_FIRST: Final = frozenset(
    (
        "announce-ip",
        "announce-port",
        "deny-scripts-reconfig",
        "sentinel-user",
        "sentinel-pass",
        "current-epoch",
        "myid",
        "resolve-hostnames",
        "announce-hostnames",
    )
)
"""Read before any master is (preMonitorCfgName); `monitor` comes next, everything else then."""


def split_words(line: str) -> list[str]:
    """Return the words of a line of configuration, unquoted; raises ValueError for quotes that do not match."""
    words, at, end = [], 0, len(line.rstrip())
    while at < end:
        found = _WORD.match(line, at)
        if found is None:
            raise ValueError("Unbalanced quotes in configuration line")
        word, at = found[1], found.end()
        if word[0] == '"':
            word = unquote(word.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
        elif word[0] == "'":
            word = word[1:-1].replace("\\'", "'")
        words.append(word)
    return words


def quote_word(word: str) -> str:
    """Return *word* so that `split_words` reads it again, plain where that is possible (sdscatrepr)."""
    if _PLAIN.fullmatch(word):
        return word
    raw = word.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in raw) + '"'


# -- reading -----------------------------------------------------------------------------------------------------------


def load_config(state: SentinelState, text: str, source: str = "sentinel.conf") -> None:
    """Take over what *text* says; raises DecodeError with the server's reason and the offset of the line."""
    if len(text) > CONFIG_CHARS_MAX:
        raise DecodeError(f"more than {CONFIG_CHARS_MAX} characters", offset=CONFIG_CHARS_MAX, source=source)
    lines: list[tuple[int, list[str]]] = []
    offset = 0
    for line in text.split("\n"):
        try:
            words = split_words(line) if not line.lstrip().startswith("#") else []
        except ValueError as error:
            raise DecodeError(str(error), offset=offset, source=source) from None
        if len(words) > 1 and words[0].lower() == "sentinel":
            lines.append((offset, words[1:]))
        else:
            state.other_lines.append(line.rstrip())
            if len(words) == 2 and words[0].lower() == "requirepass":
                state.requirepass = words[1]
        offset += len(line) + 1
    for offset, words in sorted(lines, key=lambda entry: _rank(entry[1][0].lower())):
        problem = _take_line(state, words)
        if problem:
            raise DecodeError(problem, offset=offset, source=source)


def _rank(option: str) -> int:
    return 0 if option in _FIRST else 1 if option == "monitor" else 2


def _take_line(state: SentinelState, words: list[str]) -> str:
    """Carry out one line; returns what is wrong with it, or nothing (sentinelHandleConfiguration)."""
    option, values = words[0].lower(), words[1:]
    if option == "monitor" and len(values) == 4:
        return _monitor(state, *values)
    if (option, len(values)) in _GLOBAL:
        return _GLOBAL[option, len(values)](state, *values)
    taker = _OF_MASTERS.get((option, len(values)))
    if taker is None:
        return "Unrecognized sentinel configuration statement."
    master = state.masters.get(values[0])
    return taker(state, master, *values[1:]) if master is not None else NO_MASTER


def _monitor(state: SentinelState, name: str, host: str, port: str, quorum: str) -> str:
    if leading_number(quorum) <= 0:
        return "Quorum must be 1 or greater."
    if name in state.masters:
        return "Duplicate master name."
    problem = place_problem(state, host, leading_number(port))
    if not problem:
        add_master(state, name, Address(host, leading_number(port)), leading_number(quorum))
    return problem


def place_problem(state: SentinelState, host: str, port: int) -> str:
    """What is wrong with an address, in the server's words (sentinelCheckCreateInstanceErrors)."""
    if not 0 <= port <= 65535:
        return "Invalid port number."
    return "" if is_place(state, host, port) else "Can't resolve instance hostname."


def _set_id(state: SentinelState, value: str) -> str:
    if len(value) != ID_CHARS:
        return "Malformed Sentinel id in myid option."
    state.my_id = value
    return ""


def _set_epoch(state: SentinelState, value: str) -> str:
    state.current_epoch = max(state.current_epoch, min(leading_number(value), EPOCH_MAX))
    return ""


def _text(field: str) -> Callable[[SentinelState, str], str]:
    def take(state: SentinelState, value: str) -> str:
        setattr(state, field, value)
        return ""

    return take


def _set_port(state: SentinelState, value: str) -> str:
    state.announce_port = leading_number(value)
    return "" if 0 <= state.announce_port <= 65535 else "Invalid port number."


def _yes_no(field: str, problem: str) -> Callable[[SentinelState, str], str]:
    def take(state: SentinelState, value: str) -> str:
        if value.lower() not in ("yes", "no"):
            return problem
        setattr(state, field, value.lower() == "yes")
        return ""

    return take


def _positive(field: str) -> Callable[[SentinelState, Instance, str], str]:
    def take(state: SentinelState, master: Instance, value: str) -> str:
        number = leading_number(value)
        if number <= 0:
            return "negative or zero time parameter."
        setattr(master, field, number)
        return ""

    return take


def _number(field: str) -> Callable[[SentinelState, Instance, str], str]:
    def take(state: SentinelState, master: Instance, value: str) -> str:
        setattr(master, field, max(0, min(leading_number(value), EPOCH_MAX)))
        state.current_epoch = max(state.current_epoch, master.config_epoch)
        return ""

    return take


def _string(field: str) -> Callable[[SentinelState, Instance, str], str]:
    def take(state: SentinelState, master: Instance, value: str) -> str:
        setattr(master, field, value)
        return ""

    return take


def _replica(state: SentinelState, master: Instance, host: str, port: str) -> str:
    number = leading_number(port)
    problem = place_problem(state, host, number)
    if not problem and add_replica(state, master, host, number) is None:
        return "Duplicate hostname and port for replica."
    return problem


def _sentinel(state: SentinelState, master: Instance, host: str, port: str, runid: str) -> str:
    number = leading_number(port)
    problem = place_problem(state, host, number)
    if not problem and add_sentinel(state, master, host, number, runid) is None:
        return "Duplicate runid for sentinel."
    return problem


def _rename(state: SentinelState, master: Instance, old: str, new: str) -> str:
    if old.lower() in master.renamed:
        return "Same command renamed multiple times with rename-command."
    master.renamed[old.lower()] = new
    return ""


_GLOBAL: Final[dict[tuple[str, int], Callable[..., str]]] = {
    ("myid", 1): _set_id,
    ("current-epoch", 1): _set_epoch,
    ("announce-ip", 1): _text("announce_ip"),
    ("announce-port", 1): _set_port,
    ("sentinel-user", 1): _text("auth_user"),
    ("sentinel-pass", 1): _text("auth_pass"),
    ("deny-scripts-reconfig", 1): _yes_no(
        "denies_scripts", "Please specify yes or no for the deny-scripts-reconfig options."
    ),
    ("resolve-hostnames", 1): _yes_no(
        "resolve_hostnames", "Please specify yes or no for the resolve-hostnames option."
    ),
    ("announce-hostnames", 1): _yes_no(
        "announce_hostnames", "Please specify yes or no for the announce-hostnames option."
    ),
}
_OF_MASTERS: Final[dict[tuple[str, int], Callable[..., str]]] = {
    ("down-after-milliseconds", 2): _positive("down_after_ms"),
    ("failover-timeout", 2): _positive("failover_timeout_ms"),
    ("parallel-syncs", 2): _number("parallel_syncs"),
    ("notification-script", 2): _string("notification_script"),
    ("client-reconfig-script", 2): _string("reconfig_script"),
    ("auth-pass", 2): _string("auth_pass"),
    ("auth-user", 2): _string("auth_user"),
    ("master-reboot-down-after-period", 2): _number("reboot_down_after_ms"),
    ("config-epoch", 2): _number("config_epoch"),
    ("leader-epoch", 2): _number("leader_epoch"),
    ("known-replica", 3): _replica,
    ("known-slave", 3): _replica,
    ("known-sentinel", 3): lambda state, master, host, port: "",
    ("known-sentinel", 4): _sentinel,
    ("rename-command", 3): _rename,
}


# -- writing -----------------------------------------------------------------------------------------------------------


def config_text(state: SentinelState) -> str:
    """Return the file as it should be now: the lines of others, then ours, which `load_config` reads again."""
    others = "\n".join(state.other_lines).rstrip("\n")
    ours = "\n".join("sentinel " + " ".join(map(quote_word, words)) for words in _lines(state))
    return f"{others}\n{ours}\n" if others else f"{ours}\n"


def _lines(state: SentinelState) -> Iterator[tuple[str, ...]]:
    yield ("myid", state.my_id)
    if not state.denies_scripts:
        yield ("deny-scripts-reconfig", "no")
    if state.resolve_hostnames:
        yield ("resolve-hostnames", "yes")
    if state.announce_hostnames:
        yield ("announce-hostnames", "yes")
    for master in state.masters.values():
        yield from _lines_of(master)
    yield ("current-epoch", str(state.current_epoch))
    if state.announce_ip:
        yield ("announce-ip", state.announce_ip)
    if state.announce_port:
        yield ("announce-port", str(state.announce_port))
    if state.auth_user:
        yield ("sentinel-user", state.auth_user)
    if state.auth_pass:
        yield ("sentinel-pass", state.auth_pass)


def _lines_of(master: Instance) -> Iterator[tuple[str, ...]]:
    """What concerns one master; while a failover ends, the new master's address takes the place of the old one."""
    name, place = master.name, current_address(master)
    yield ("monitor", name, place.ip, str(place.port), str(master.quorum))
    if master.down_after_ms != DEFAULT_DOWN_AFTER_MS:
        yield ("down-after-milliseconds", name, str(master.down_after_ms))
    if master.failover_timeout_ms != DEFAULT_FAILOVER_TIMEOUT_MS:
        yield ("failover-timeout", name, str(master.failover_timeout_ms))
    if master.parallel_syncs != DEFAULT_PARALLEL_SYNCS:
        yield ("parallel-syncs", name, str(master.parallel_syncs))
    for option, value in (
        ("notification-script", master.notification_script),
        ("client-reconfig-script", master.reconfig_script),
        ("auth-pass", master.auth_pass),
        ("auth-user", master.auth_user),
    ):
        if value:
            yield (option, name, value)
    if master.reboot_down_after_ms:
        yield ("master-reboot-down-after-period", name, str(master.reboot_down_after_ms))
    yield ("config-epoch", name, str(master.config_epoch))
    yield ("leader-epoch", name, str(master.leader_epoch))
    for replica in master.replicas.values():
        address = master.address if replica.address == place else replica.address
        yield ("known-replica", name, address.ip, str(address.port))
    for sentinel in master.sentinels.values():
        yield ("known-sentinel", name, sentinel.address.ip, str(sentinel.address.port), sentinel.runid)
    for old, new in master.renamed.items():
        yield ("rename-command", name, old, new)
