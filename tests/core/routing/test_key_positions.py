"""Key positions against COMMAND GETKEYS of real servers, for every command there is."""

from __future__ import annotations

from random import Random

import pytest
import redis

from cluster_core.routing.key_positions import NOT_KEY, TABLES, key_positions, table_of
from tests.benches.servers import Server

WORDS = [
    b"a", b"b", b"{t}c", b"", b"0", b"1", b"2", b"3", b"5", b"-1", b"9999999999", b"01", b"x1", b"STREAMS", b"streams", b"COUNT",
    b"KEYS", b"keys", b"STORE", b"store", b"STOREDIST", b"BY", b"GET", b"LIMIT", b"AUTH", b"AUTH2", b"COPY", b"WEIGHTS", b"GROUP",
    b"EX", b"\xff\x00",
]  # fmt: skip
SHAPES_PER_COMMAND = 60


def keys_of(name: str, arguments: list[bytes]) -> list[bytes]:
    info = table_of(name).find(arguments)
    assert info is not None
    return [arguments[position] for position in key_positions(arguments, info)]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("GET k", "k"),
        ("get k", "k"),
        ("MSET a 1 b 2", "a b"),
        ("DEL a b c", "a b c"),
        ("EVAL script 2 a b arg", "a b"),
        ("EVAL script 0 a", ""),
        ("EVAL script 3 a", ""),
        ("XREAD COUNT 1 STREAMS a b 0 0", "a b"),
        ("XREADGROUP GROUP g c STREAMS a 0", "a"),
        ("ZUNIONSTORE d 2 a b WEIGHTS 1 2", "d a b"),
        ("ZINTER 2 a b", "a b"),
        ("BITOP AND d a b", "d a b"),
        ("OBJECT FREQ k", "k"),
        ("MEMORY USAGE k", "k"),
        ("SORT k BY w STORE d STORE e", "k e"),
        ("SORT k GET STORE LIMIT STORE x", "k"),
        ("GEORADIUS k 1 2 3 m STORE d", "k d"),
        ("SPUBLISH channel message", "channel"),
        ("PUBLISH channel message", ""),
        ("PING", ""),
    ],
)
@pytest.mark.parametrize("name", TABLES)
def test_keys_have_the_positions_of_the_command(name, text, keys):
    """First, last and step; number of keys; keyword; by hand where the server gives no specification."""
    assert keys_of(name, text.encode().split(b" ")) == keys.encode().split()


@pytest.mark.parametrize("name", TABLES)
def test_migrate_has_one_key_or_those_behind_its_keyword(name):
    """`migrateGetKeys`: AUTH takes a word with it, and KEYS needs an empty key."""
    assert keys_of(name, [b"MIGRATE", b"h", b"1", b"k", b"0", b"5", b"COPY"]) == [b"k"]
    assert keys_of(name, [b"MIGRATE", b"h", b"1", b"", b"0", b"5", b"AUTH", b"keys", b"KEYS", b"a", b"b"]) == [
        b"a",
        b"b",
    ]


@pytest.mark.parametrize(("name", "server"), [("redis-7.0", "redis_server"), ("valkey-9.1", "valkey_server")])
def test_every_command_of_a_real_server_has_the_reported_keys(name, server, request):
    """COMMAND GETKEYS on random arguments."""
    assert disagreements(name, request.getfixturevalue(server)) == []


def disagreements(name: str, server: Server) -> list[tuple[list[bytes], object, list[bytes]]]:
    """Commands for which server and table differ."""
    info = server.call("INFO", "server").decode()
    if table_of(name).version.rpartition(".")[0] not in info:
        pytest.skip(f"another version than {name} is installed")
    random = Random(7)
    asked = [shape for command in table_of(name).commands for shape in shapes(name, command, random)]
    replies = answers(server, [[b"COMMAND", b"GETKEYS", *arguments] for arguments in asked])
    differences = [
        (arguments, reply, keys_of(name, arguments)) for arguments, reply in zip(asked, replies, strict=True)
    ]
    assert sum(1 for _, reply, _ in differences if reply) > 3000
    return [(arguments, reply, keys) for arguments, reply, keys in differences if sorted(keys) != sorted(reply)]


def shapes(name: str, command: str, random: Random) -> list[list[bytes]]:
    """Random commands with a valid number of arguments."""
    info = table_of(name).commands[command]
    specs = info.key_specs
    if not specs or any(NOT_KEY in spec.flags for spec in specs):
        return []  # COMMAND GETKEYS refuses those
    head = command.encode().split(b"|")
    result = []
    for _ in range(SHAPES_PER_COMMAND):
        extra = abs(info.arity) - len(head) + (random.randrange(7) if info.arity < 0 else 0)
        result.append([*head, *(random.choice(WORDS) for _ in range(extra))])
    cut_off = (b"migrate", b"keys")  # COMMAND GETKEYS and the redirection read this one differently
    return [
        arguments
        for arguments in result
        if table_of(name).find(arguments) is info and (arguments[0], arguments[-1].lower()) != cut_off
    ]


def answers(server: Server, commands: list[list[bytes]]) -> list[list[bytes]]:
    """Replies, an error as no keys."""
    connection = server.connect()
    replies: list[list[bytes]] = []
    try:
        for start in range(0, len(commands), 500):
            part = commands[start : start + 500]
            connection.send_packed_command(connection.pack_commands(part))
            for _ in part:
                try:
                    replies.append(connection.read_response())
                except redis.ResponseError:
                    replies.append([])
    finally:
        connection.disconnect()
    return replies


def test_a_missing_table_is_an_error_of_the_caller():
    with pytest.raises(ValueError, match="redis-2"):
        table_of("redis-2.8")
