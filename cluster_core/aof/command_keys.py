"""Key positions of logged commands, from `cluster_core.routing`'s tables of all servers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from cluster_core.routing.key_positions import NOT_KEY, TABLES, CommandInfo, KeySpec, key_positions, table_of

NO_KEYS, BY_RANGE, BY_NUMBER = range(3)
"""Ways to find keys."""


class Rule(NamedTuple):
    """A key specification (`KeySpec`) as numbers: *first*, *last*, *step*, *limit*; or *at*, *skip*, *step*, 0."""

    kind: int
    first: int
    a: int
    b: int
    c: int


NOTHING = Rule(NO_KEYS, 0, 0, 0, 0)
RULES_MAX = 2


@cache
def known_commands() -> dict[str, CommandInfo]:
    """Return all commands by lower-case name, subcommands as ``command|subcommand``; newer tables win."""
    result: dict[str, CommandInfo] = {}
    for name in TABLES:
        result |= table_of(name).commands
    return dict(sorted(result.items()))


@cache
def command_names() -> tuple[str, ...]:
    """Return the sorted names of all commands without subcommands."""
    return tuple(name for name in known_commands() if "|" not in name)


def written_keys(args: Sequence[bytes]) -> tuple[int, ...] | None:
    """Return ascending key positions in a command; None if unknown.

    >>> written_keys([b"RENAME", b"a", b"b"]), written_keys([b"MULTI"]), written_keys([b"BF.ADD", b"k", b"v"])
    ((1, 2), (), None)
    """
    name = args[0].decode("latin-1").lower()
    info = None if "|" in name else known_commands().get(name)
    if info is None:
        return None
    if len(args) > 1:
        info = known_commands().get(f"{name}|{args[1].decode('latin-1').lower()}", info)
    if any(NOT_KEY in spec.flags for spec in info.key_specs):
        return ()
    return tuple(sorted({at for at in key_positions(args, info) if 0 < at < len(args)}))


@cache
def rules_of(name: str) -> tuple[Rule, Rule] | None:
    """Return a command's rules for compiled code; None if it needs `written_keys`."""
    commands = known_commands()
    infos = [info for other, info in commands.items() if other.startswith(f"{name}|")] or [commands[name]]
    if len({info.key_specs for info in infos}) != 1:
        return None
    specs = infos[0].key_specs
    if any(NOT_KEY in spec.flags for spec in specs):
        return NOTHING, NOTHING
    rules = [_rule(spec) for spec in specs]
    if len(rules) > RULES_MAX or None in rules:
        return None
    first, second, *_ = [*(rule for rule in rules if rule is not None), NOTHING, NOTHING]
    return first, second


def _rule(spec: KeySpec) -> Rule | None:
    if spec.begin[0] != "index" or spec.find[0] == "unknown":
        return None
    kind = BY_RANGE if spec.find[0] == "range" else BY_NUMBER
    a, b, c = (int(number) for number in spec.find[1:])
    return Rule(kind, int(spec.begin[1]), a, b, c)
