"""The commands of a server: arity, flags and key specifications, as the server itself told them.

The tables lie beside this module, ``commands/SERVER-VERSION.json``, recorded from COMMAND of real servers by
``python -m tests.data.record_commands``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

TABLES: Final = ("redis-7.0", "valkey-9.1")
"""Tables that there are."""


class KeySpec(NamedTuple):
    """One key specification (``redisCommand.key_specs``): where the keys begin and how they are found from there.

    *begin* is ``("index", position)``, ``("keyword", word, start)`` or ``("unknown",)``; *find* is ``("range", last, step,
    limit)``, ``("keynum", number position, first, step)`` or ``("unknown",)``.
    """

    flags: frozenset[str]
    begin: tuple[str | int, ...]
    find: tuple[str | int, ...]


class CommandInfo(NamedTuple):
    """What a server says of one command; a subcommand has the name ``command|subcommand``."""

    name: str
    arity: int
    flags: frozenset[str]
    key_specs: tuple[KeySpec, ...]

    def takes(self, words: int) -> bool:
        """Whether the command may have so many *words*, its name included."""
        return words == self.arity if self.arity >= 0 else words >= -self.arity


@dataclass(frozen=True, slots=True)
class CommandTable:
    """All commands of one server version, by lower-case name."""

    server: str
    version: str
    commands: Mapping[str, CommandInfo]

    def find(self, command: Sequence[bytes]) -> CommandInfo | None:
        """What is known of *command* or, if there is one, of its subcommand; None for an unknown command.

        >>> table_of("redis-7.0").find([b"OBJECT", b"freq", b"k"]).name
        'object|freq'
        """
        if not command:
            return None
        name = command[0].decode("latin-1").lower()
        found = self.commands.get(name)
        if found is None or "|" in name:
            return None
        if len(command) > 1:
            return self.commands.get(f"{name}|{command[1].decode('latin-1').lower()}", found)
        return found


@cache
def table_of(name: str) -> CommandTable:
    """The table of one of `TABLES`; raises ValueError for another name."""
    if name not in TABLES:
        raise ValueError(f"no table of commands {name!r}; there are {', '.join(TABLES)}")
    told = json.loads(files("cluster_core.routing").joinpath("commands", f"{name}.json").read_text("ascii"))
    commands = {
        command: CommandInfo(
            command,
            arity,
            frozenset(flags),
            tuple(KeySpec(frozenset(spec[0]), tuple(spec[1]), tuple(spec[2])) for spec in specs),
        )
        for command, (arity, flags, specs) in told["commands"].items()
    }
    return CommandTable(told["server"], told["version"], commands)
