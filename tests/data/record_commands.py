"""Records what real servers say of their commands: ``python -m tests.data.record_commands``.

Writes ``cluster_core/routing/commands/SERVER-VERSION.json`` from COMMAND of a running server: arity, flags and key
specifications of every command and subcommand.  A server that is not installed is named and its file stays.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.benches.servers import redis_binary, running, valkey_binary

FOLDER = Path(__file__).parent.parent.parent / "cluster_core" / "routing" / "commands"
SERVERS = {"redis": redis_binary, "valkey": valkey_binary}


def main() -> int:
    """Record every server that is there."""
    FOLDER.mkdir(exist_ok=True)
    for name, binary_of in SERVERS.items():
        binary = binary_of()
        if binary is None:
            sys.stderr.write(f"not recorded: {name}-server is not installed\n")
            continue
        version, commands = record(binary)
        target = FOLDER / f"{name}-{'.'.join(version.split('.')[:2])}.json"
        target.write_text(as_text(name, version, commands), "ascii")
    return 0


def record(binary: str) -> tuple[str, dict[str, Any]]:
    """Version and commands of a server."""
    with running(binary) as server:
        info = server.call("INFO", "server").decode()
        facts = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
        commands: dict[str, Any] = {}
        for entry in server.call("COMMAND"):
            add(entry, commands)
        return facts.get("valkey_version") or facts["redis_version"], dict(sorted(commands.items()))


def add(entry: list[Any], commands: dict[str, Any]) -> None:
    """Note one command, and its subcommands as ``command|subcommand``."""
    name, arity, flags = entry[0].decode(), entry[1], sorted(flag.decode() for flag in entry[2])
    commands[name] = [arity, flags, [specification(key) for key in entry[8]]]
    for subcommand in entry[9]:
        add(subcommand, commands)


def specification(key: list[Any]) -> list[Any]:
    """One key specification: flags, where to begin, what to find from there."""
    fields = paired(key)
    begin, find = paired(fields["begin_search"]), paired(fields["find_keys"])
    flags = sorted(flag.decode() for flag in fields["flags"])
    return [flags, [begin["type"].decode(), *values(begin)], [find["type"].decode(), *values(find)]]


def values(search: dict[str, Any]) -> list[Any]:
    """The numbers and keywords of a search, in the order of the servers."""
    return [value.decode() if isinstance(value, bytes) else value for value in paired(search["spec"]).values()]


def paired(flat: list[Any]) -> dict[str, Any]:
    """A RESP2 map as a dict."""
    return {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def as_text(name: str, version: str, commands: dict[str, Any]) -> str:
    """JSON with a command a line, so that a new version shows as a readable difference."""
    lines = (f"{json.dumps(command)}:{json.dumps(flags, separators=(',', ':'))}" for command, flags in commands.items())
    return f'{{"server":"{name}","version":"{version}","commands":{{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    sys.exit(main())
