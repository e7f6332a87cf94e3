"""The key space after a log: recorded truth, transactions, unmodelled commands, sizes."""

from __future__ import annotations

import random

import pytest

from cluster_core.aof.keyspace import Keyspace
from tests.builders.aof_logs import LOGS, SERVERS, certain, log_of, recorded_parts, recorded_truth, replay
from tests.builders.aof_workload import Workload


def files_of(server: str, log: str) -> dict[str, bytes]:
    """The files of a recorded log in their order."""
    return {name: data for name, data in sorted(recorded_parts(server, log).items()) if "manifest" not in name}


def state(keyspace: Keyspace) -> dict[tuple[int, bytes], tuple[str | None, int, int]]:
    return {(row.db, row.key): (row.type, row.elements, row.expire_at_ms) for row in keyspace.rows()}


def after(*commands) -> Keyspace:
    """The key space after a log of these commands."""
    return replay(Keyspace(), {"log": log_of(*commands)})


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("log", LOGS)
def test_base_and_increments_give_the_servers_values(server, log):
    """Every key's type, count and expiry, equal to the recorded truth; only sparse HyperLogLogs are uncertain, nothing is refused."""
    keyspace = replay(Keyspace(), files_of(server, log))

    assert certain(keyspace, recorded_truth(server, log))
    assert keyspace.refused == 0


@pytest.mark.parametrize("server", SERVERS)
def test_live_bytes_are_those_of_a_base_that_the_server_wrote(server):
    """The base is a rewrite (`rewriteAppendOnlyFileRio`); but Valkey writes scores of sorted sets in another form, and groups are left out."""
    (name, data), *_ = files_of(server, "aof-plain").items()
    keyspace = replay(Keyspace(), {name: data})
    written: dict[tuple[int, bytes], int] = {}
    from cluster_core.formats.aof.framing import CommandReader

    reader = CommandReader(name)
    reader.feed(data)
    for command in reader.commands():
        if command.name not in ("select", "xgroup", "xclaim"):
            written[command.db, command.arguments[1]] = (
                written.get((command.db, command.arguments[1]), 0) + command.size
            )

    rows = {(row.db, row.key): row for row in keyspace.rows()}
    followed = {place for place, row in rows.items() if row.type != "zset" or "redis" in server}
    assert {place: rows[place].live_bytes for place in followed} == {place: written[place] for place in followed}
    assert all(rows[place].live_bytes <= written[place] for place in written)
    assert sum(row.live_bytes for row in rows.values()) > 0.95 * sum(written.values())


def test_commands_of_a_transaction_run_at_its_end():
    """MULTI without EXEC is never run (`loadSingleAppendOnlyFile`), and another file begins without it."""
    keyspace = after(("MULTI",), ("SET", "a", "1"), ("EXEC",), ("MULTI",), ("SET", "b", "1"))

    assert state(keyspace) == {(0, b"a"): ("string", 1, -1)}
    assert keyspace.waiting == 1
    keyspace.begin_file()
    assert keyspace.waiting == 0


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("BF.ADD", "k", "v"), "bf.add"),
        (("EVAL", "return 1", 1, "k"), "eval"),
        (("SPOP", "k"), "spop"),
        (("SETEX", "k", 10, "v"), "setex"),
        (("EXPIRE", "k", 10), "expire"),
        (("PFDEBUG", "TODENSE", "k"), "pfdebug"),
        (("SORT", "k2", "STORE", "k"), "sort"),
        (("GEOSEARCHSTORE", "k", "k2", "FROMLONLAT", 1, 2, "BYRADIUS", 3, "m"), "geosearchstore"),
        (("GEORADIUS", "k2", 1, 2, 3, "m", "STORE", "k"), "georadius"),
    ],
)
def test_unmodelled_commands_are_counted_named_and_their_keys_flagged(command, name):
    """Never guessed; the key is certain again when it is made anew."""
    begin = (("SADD", "k", "a", "b", "c"), ("ZADD", "k2", 1, "m"), command)

    keyspace = after(*begin)

    assert keyspace.unknown == {name: 1}
    (row,) = [row for row in keyspace.rows() if row.key == b"k"]
    assert (row.type, row.elements, row.live_bytes, row.why) == (None, -1, -1, name)
    assert state(after(*begin, ("SET", "k", "new")))[0, b"k"] == ("string", 3, -1)
    assert state(after(*begin, ("DEL", "k"))).get((0, b"k")) is None


def test_commands_that_a_server_would_refuse_change_nothing():
    keyspace = after(
        ("SET", "s", "text"), ("LPUSH", "s", "a"), ("INCR", "s"), ("HSET", "h"), ("ZADD", "z", "x", "m"), ("SETBIT",),
        ("XADD", "x", "1-1"), ("LSET", "none", 0, "v"), ("RESTORE", "r", 0, "short"), ("COPY", "none", "t"), ("SWAPDB", "a", "b"),
    )  # fmt: skip

    assert state(keyspace) == {(0, b"s"): ("string", 4, -1)}
    assert keyspace.refused == 10


def test_restore_returns_the_dumped_value():
    """A set of two integers, as Redis 7.0 dumps it (intset), with an absolute time."""
    payload = b"\x0b\x0c" + b"\x02\0\0\0\x02\0\0\0\x01\0\x02\0" + b"\x0a\0" + bytes(8)

    keyspace = after(("RESTORE", "k", 4_000_000_000_000, payload, "ABSTTL"))

    assert state(keyspace) == {(0, b"k"): ("set", 2, 4_000_000_000_000)}


def test_databases_are_flushed_swapped_and_moved_between():
    keyspace = after(
        ("SET", "a", "1"), ("SELECT", 1), ("SET", "b", "22"), ("SWAPDB", 0, 1), ("MOVE", "a", 2), ("SELECT", 2), ("COPY", "a", "c", "DB", 3),
        ("SELECT", 3), ("SET", "gone", "1"), ("SELECT", 4), ("SET", "x", "1"), ("FLUSHDB",),
    )  # fmt: skip

    assert state(keyspace) == {
        (0, b"b"): ("string", 2, -1),
        (2, b"a"): ("string", 1, -1),
        (3, b"c"): ("string", 1, -1),
        (3, b"gone"): ("string", 4 - 3, -1),
    }
    assert state(after(("SET", "a", "1"), ("FLUSHALL",))) == {}


def test_long_strings_are_known_by_their_length():
    keyspace = after(
        ("SET", "s", "x" * 100), ("APPEND", "s", "y" * 50), ("SETRANGE", "s", 200, "z"), ("SETBIT", "s", 8 * 300, 1),
        ("BITFIELD", "s", "SET", "u8", 8 * 400, 1),
    )  # fmt: skip

    assert state(keyspace) == {(0, b"s"): ("string", 401, -1)}


def test_a_hyperloglog_is_followed_while_it_is_dense():
    """A sparse one has a length that its registers decide."""
    keyspace = after(
        ("SET", "dense", b"HYLL" + bytes(12300)), ("PFADD", "dense", "a"), ("PFADD", "sparse", "a"), ("PFMERGE", "both", "sparse2", "dense"),
        ("PFMERGE", "few", "sparse2"),
    )  # fmt: skip

    assert state(keyspace) == {
        (0, b"dense"): ("string", 12304, -1),
        (0, b"sparse"): (None, -1, -1),
        (0, b"both"): ("string", 12304, -1),
        (0, b"few"): (None, -1, -1),
    }


def test_no_mutation_of_a_log_breaks_the_replay():
    """Words that lie are refused or flagged; nothing crashes, hangs or takes memory."""
    chance = random.Random(7)
    workload = Workload(7, valkey=True)
    commands = [[str(word).encode() for word in command] for command in workload.commands(4000)]
    keyspace = Keyspace()
    for arguments in commands:
        for _ in range(chance.randint(0, 2)):
            at = chance.randrange(len(arguments))
            arguments[at] = chance.choice(
                [b"", b"9" * 30, b"-1", b"9223372036854775807", b"fields", b"nan", b"\xff\0", arguments[-1]]
            )
        if chance.random() < 0.1:
            del arguments[chance.randint(1, len(arguments)) :]
        if arguments[0]:
            keyspace.apply(arguments)

    assert keyspace.commands > 3000
    assert all(row.elements >= -1 for row in keyspace.rows())
