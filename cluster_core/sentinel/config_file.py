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
from cluster_core.sentinel.links import current_address
from cluster_core.sentinel.state import EPOCH_MAX, ID_CHARS, SentinelState
from cluster_core.sentinel.text import leading_number

CONFIG_CHARS_MAX: Final = 4 << 20
"""A longer text is no configuration."""
SCRIPT_OPTIONS: Final = frozenset(("deny-scripts-reconfig", "notification-script", "client-reconfig-script"))
"""No script runs here: their lines are kept as they stand."""
NO_MASTER: Final = "No such master with specified name."
_WORD: Final = re.compile(r"\s*(\"(?:\\.|[^\"\\])*\"|'(?:\\'|[^'])*'|[^\s\"']+)(?=\s|$)")
_PLAIN: Final = re.compile(r"[^\s\"'\\#\x00-\x1f\x7f]+")


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
        if len(words) > 1 and words[0].lower() == "sentinel" and words[1].lower() not in SCRIPT_OPTIONS:
            lines.append((offset, words[1:]))
        else:
            state.other_lines.append(line.rstrip())
            if len(words) == 2 and words[0].lower() == "requirepass":
                state.requirepass = words[1]
        offset += len(line) + 1
    for offset, words in sorted(lines, key=lambda entry: _rank(entry[1][0].lower())):
        epoch = state.current_epoch
        problem = _take_line(state, words)
        if problem:
            raise DecodeError(problem, offset=offset, source=source)
        state.current_epoch = max(epoch, state.current_epoch)
    state.current_epoch = max(state.current_epoch, *(master.config_epoch for master in state.masters.values()), 0)


def _rank(option: str) -> int:
    return 0 if option in _OF_STATE else 1 if option == "monitor" else 2


def _take_line(state: SentinelState, words: list[str]) -> str:
    """Carry out one line; returns what is wrong with it, or nothing (sentinelHandleConfiguration)."""
    option, values = words[0].lower(), words[1:]
    if option == "monitor" and len(values) == 4:
        return _monitor(state, *values)
    try:
        if option in _OF_STATE and len(values) == 1:
            field, read, _ = _OF_STATE[option]
            setattr(state, field, read(values[0]))
            return ""
        taker = _TABLES.get((option, len(values)))
        if taker is None and (option not in _OF_MASTERS or len(values) != 2):
            return "Unrecognized sentinel configuration statement."
        master = state.masters.get(values[0])
        if master is None:
            return NO_MASTER
        if taker is not None:
            return taker(state, master, *values[1:])
        field, read, _ = _OF_MASTERS[option]
        setattr(master, field, read(values[1]))
        return ""
    except ValueError as error:
        return str(error)


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


def _id(value: str) -> str:
    if len(value) != ID_CHARS:
        raise ValueError("Malformed Sentinel id in myid option.")
    return value


def _port(value: str) -> int:
    if not 0 <= leading_number(value) <= 65535:
        raise ValueError("Invalid port number.")
    return leading_number(value)


def _yes_no(problem: str) -> Callable[[str], bool]:
    def read(value: str) -> bool:
        if value.lower() not in ("yes", "no"):
            raise ValueError(f"Please specify yes or no for the {problem}")
        return value.lower() == "yes"

    return read


def _positive(value: str) -> int:
    if leading_number(value) <= 0:
        raise ValueError("negative or zero time parameter.")
    return leading_number(value)


def _count(value: str) -> int:
    return max(0, min(leading_number(value), EPOCH_MAX))


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


_OF_STATE: Final[dict[str, tuple[str, Callable[[str], object], object]]] = {
    "myid": ("my_id", _id, None),
    "resolve-hostnames": ("resolve_hostnames", _yes_no("resolve-hostnames option."), False),
    "announce-hostnames": ("announce_hostnames", _yes_no("announce-hostnames option."), False),
    "current-epoch": ("current_epoch", _count, None),
    "announce-ip": ("announce_ip", str, ""),
    "announce-port": ("announce_port", _port, 0),
    "sentinel-user": ("auth_user", str, ""),
    "sentinel-pass": ("auth_pass", str, ""),
}
"""Options of the sentinel itself: field, what reads a value or raises ValueError, and the value that is not written.

All are read before any master is (preMonitorCfgName); `monitor` comes next, everything else then.
"""
_OF_MASTERS: Final[dict[str, tuple[str, Callable[[str], object], object]]] = {
    "down-after-milliseconds": ("down_after_ms", _positive, DEFAULT_DOWN_AFTER_MS),
    "failover-timeout": ("failover_timeout_ms", _positive, DEFAULT_FAILOVER_TIMEOUT_MS),
    "parallel-syncs": ("parallel_syncs", _count, DEFAULT_PARALLEL_SYNCS),
    "auth-pass": ("auth_pass", str, ""),
    "auth-user": ("auth_user", str, ""),
    "master-reboot-down-after-period": ("reboot_down_after_ms", _count, 0),
    "config-epoch": ("config_epoch", _count, None),
    "leader-epoch": ("leader_epoch", _count, None),
}
"""Options of a master that have one value, in the order in which they are written."""
_TABLES: Final[dict[tuple[str, int], Callable[..., str]]] = {
    ("known-replica", 3): _replica,
    ("known-slave", 3): _replica,
    ("known-sentinel", 3): lambda state, master, host, port: "",
    ("known-sentinel", 4): _sentinel,
    ("rename-command", 3): _rename,
}
"""What a master may have several of; by option and number of values."""


# -- writing -----------------------------------------------------------------------------------------------------------


def config_text(state: SentinelState) -> str:
    """Return the file as it should be now: the lines of others, then ours, which `load_config` reads again."""
    others = "\n".join(state.other_lines).rstrip("\n")
    ours = "\n".join("sentinel " + " ".join(map(quote_word, words)) for words in _lines(state))
    return f"{others}\n{ours}\n" if others else f"{ours}\n"


def _lines(state: SentinelState) -> Iterator[tuple[str, ...]]:
    for option, (field, _, usual) in _OF_STATE.items():
        if getattr(state, field) != usual:
            yield (option, _shown(getattr(state, field)))
    for master in state.masters.values():
        yield from _lines_of(master)


def _shown(value: object) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _lines_of(master: Instance) -> Iterator[tuple[str, ...]]:
    """What concerns one master; while a failover ends, the new master's address takes the place of the old one."""
    name, place = master.name, current_address(master)
    yield ("monitor", name, place.ip, str(place.port), str(master.quorum))
    for option, (field, _, usual) in _OF_MASTERS.items():
        if getattr(master, field) != usual:
            yield (option, name, _shown(getattr(master, field)))
    for replica in master.replicas.values():
        address = master.address if replica.address == place else replica.address
        yield ("known-replica", name, address.ip, str(address.port))
    for sentinel in master.sentinels.values():
        yield ("known-sentinel", name, sentinel.address.ip, str(sentinel.address.port), sentinel.runid)
    for old, new in master.renamed.items():
        yield ("rename-command", name, old, new)
