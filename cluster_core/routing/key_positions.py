"""Commands and the positions of their keys (`getKeysFromCommand`), from COMMAND replies of real servers.

``python -m tests.data.record_commands`` records ``commands/SERVER-VERSION.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

TABLES: Final = ("redis-7.0", "valkey-9.1")
"""Names of the tables."""


class KeySpec(NamedTuple):
    """A key specification (``redisCommand.key_specs``).

    *begin* is ``("index", position)`` or ``("keyword", word, start)``; *find* is ``("range", last, step, limit)`` or
    ``("keynum", number position, first, step)``. Both are ``("unknown",)`` for some commands of `_BY_HAND`.
    """

    flags: frozenset[str]
    begin: tuple[str | int, ...]
    find: tuple[str | int, ...]


class CommandInfo(NamedTuple):
    """Entry of COMMAND; a subcommand is named ``command|subcommand``."""

    name: str
    arity: int
    flags: frozenset[str]
    key_specs: tuple[KeySpec, ...]

    def takes(self, count: int) -> bool:
        """Return whether the arity allows *count* arguments, the name included."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity


@dataclass(frozen=True, slots=True)
class CommandTable:
    """All commands of one server version, by lower-case name."""

    server: str
    version: str
    commands: Mapping[str, CommandInfo]

    def find(self, command: Sequence[bytes]) -> CommandInfo | None:
        """Return the entry of *command* or of its subcommand; None if unknown.

        >>> table_of("redis-7.0").find([b"OBJECT", b"freq", b"k"]).name
        'object|freq'
        """
        if not command:
            return None
        name = command[0].decode("latin-1").lower()
        info = self.commands.get(name)
        if info is None or "|" in name:
            return None
        if len(command) > 1:
            return self.commands.get(f"{name}|{command[1].decode('latin-1').lower()}", info)
        return info


@cache
def table_of(name: str) -> CommandTable:
    """Return one of `TABLES`; raises ValueError for another name."""
    if name not in TABLES:
        raise ValueError(f"no table of commands {name!r}; there are {', '.join(TABLES)}")
    record = json.loads(files("cluster_core.routing").joinpath("commands", f"{name}.json").read_text("ascii"))
    commands = {
        command: CommandInfo(
            command,
            arity,
            frozenset(flags),
            tuple(KeySpec(frozenset(spec[0]), tuple(spec[1]), tuple(spec[2])) for spec in specs),
        )
        for command, (arity, flags, specs) in record["commands"].items()
    }
    return CommandTable(record["server"], record["version"], commands)


NOT_KEY: Final = "not_key"
"""Flag of specifications that find shard channels: routed like keys."""
_UNSURE: Final = frozenset(("incomplete", "variable_flags"))
_KEYS_MAX: Final = 1 << 20
_LEADING_NUMBER: Final = re.compile(rb"[ \t-\r]*([+-]?\d+)")


def key_positions(command: Sequence[bytes], info: CommandInfo) -> tuple[int, ...]:
    """Return positions of keys and shard channels in *command* (name first), in the server's order.

    Empty without keys, or if the command contradicts its specifications.
    """
    by_hand = _BY_HAND.get(info.name)
    if by_hand is not None and any(spec.flags & _UNSURE or spec.begin[0] == "unknown" for spec in info.key_specs):
        return by_hand(command)
    places: list[int] = []
    for spec in info.key_specs:
        positions = _positions(command, spec)
        if positions is None:
            return ()
        places += positions
    return tuple(places)


def _positions(command: Sequence[bytes], spec: KeySpec) -> range | None:
    """Return positions by one specification: empty if its keyword is missing, None if the arguments contradict it."""
    first = _begin(command, spec.begin)
    if first == 0:
        return range(0)
    length = len(command)
    kind, *numbers = spec.find
    if kind == "range":
        last, step, limit = (int(number) for number in numbers)
        share = length if limit <= 1 else first + (length - first) // limit
        end = first + last if last >= 0 else share + last
    else:
        at, skip, step = (int(number) for number in numbers)
        count = _number(command[first + at]) if first + at < length else None
        if count is None or (step > 1 and command[first + at] != b"%d" % count):  # MSETEX: no `atoi`
            return None
        first += skip
        end = first + (count - 1) * step
    return range(first, end + 1, step) if first <= end < length and step > 0 else None


def _begin(command: Sequence[bytes], begin: tuple[str | int, ...]) -> int:
    """Return the start position; 0 if the keyword is missing."""
    if begin[0] == "index":
        return int(begin[1])
    keyword, start = str(begin[1]).lower().encode(), int(begin[2])
    last = len(command) - 1  # a keyword in the last position is ignored
    places = range(start, last) if start > 0 else range(len(command) + start, 0, -1)
    return next((place + 1 for place in places if command[place].lower() == keyword), 0)


def _number(argument: bytes) -> int | None:
    """Parse a key count like `atoi`: leading digits; None if longer than any valid count."""
    match = _LEADING_NUMBER.match(argument)
    if match is None:
        return 0
    return int(match[1]) if len(match[1]) <= len(str(_KEYS_MAX)) else None


def _sort(command: Sequence[bytes]) -> tuple[int, ...]:
    """SORT key … [STORE destination]: the last destination counts (`sortGetKeys`)."""
    skipped = {b"limit": 2, b"get": 1, b"by": 1}
    store = 0
    at = 2
    while at < len(command):
        argument = command[at].lower()
        if argument in skipped:
            at += skipped[argument]
        elif argument == b"store" and at + 1 < len(command):
            store = at + 1
        at += 1
    return (1, store) if store else (1,)


def _sort_ro(command: Sequence[bytes]) -> tuple[int, ...]:
    return (1,) if len(command) > 1 else ()


def _migrate(command: Sequence[bytes]) -> tuple[int, ...]:
    """MIGRATE host port key …, or with an empty key … KEYS key key … (`migrateGetKeys`)."""
    skipped = {b"auth": 1, b"auth2": 2}
    at = 6
    while at < len(command):
        argument = command[at].lower()
        if argument == b"keys":
            return () if command[3] else tuple(range(at + 1, len(command)))
        at += 1 + skipped.get(argument, 0)
    return (3,) if len(command) > 3 else ()


def _georadius(command: Sequence[bytes]) -> tuple[int, ...]:
    """Return the keys of GEORADIUS key … [STORE key] [STOREDIST key]: the last option counts (`georadiusGetKeys`)."""
    store = 0
    at = 5
    while at < len(command):
        if command[at].lower() in (b"store", b"storedist") and at + 1 < len(command):
            store = at + 1
            at += 1
        at += 1
    return (1, store) if store else (1,)


_BY_HAND: Final[dict[str, Callable[[Sequence[bytes]], tuple[int, ...]]]] = {
    "sort": _sort,
    "sort_ro": _sort_ro,
    "migrate": _migrate,
    "georadius": _georadius,
    "georadiusbymember": _georadius,
}
"""Commands with unknown, incomplete or argument-dependent specifications."""
