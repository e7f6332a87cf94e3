"""The state that a log leaves, against the servers that wrote it."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
import redis

from cluster_core.aof.keyspace import Keyspace
from cluster_core.formats.aof.framing import CommandReader, Tail
from cluster_core.formats.aof.manifest import read_manifest
from tests.benches.servers import Server, installed, redis_binary, running, valkey_binary, wait_for
from tests.builders.aof_logs import certain, log_of, replay
from tests.builders.aof_workload import Workload

pytestmark = pytest.mark.servers

COMMANDS = 500
_COUNTS = {b"string": "STRLEN", b"list": "LLEN", b"set": "SCARD", b"zset": "ZCARD", b"hash": "HLEN", b"stream": "XLEN"}
SETTINGS = {
    "appendonly": "yes",
    "appendfsync": "always",
    "aof_timestamp_enabled": "yes",
    "auto_aof_rewrite_percentage": 0,
}


@pytest.fixture(scope="module", params=["redis", "valkey"])
def server(request):
    binary = installed(redis_binary() if request.param == "redis" else valkey_binary())
    with running(binary, **SETTINGS) as started:
        yield started, request.param == "valkey"


def servers_state(server: Server) -> dict[tuple[int, bytes], tuple[str, int, int]]:
    """What the server answers for every key."""
    values = {}
    for db in (0, 1):
        names = server.call("KEYS", "*", db=db)
        kinds = server.ask([["TYPE", name] for name in names], db)
        counts = server.ask([[_COUNTS[kind], name] for name, kind in zip(names, kinds, strict=True)], db)
        times = server.ask([["PEXPIRETIME", name] for name in names], db)
        for name, kind, count, time_ms in zip(names, kinds, counts, times, strict=True):
            values[db, name] = (kind.decode(), count, time_ms)
    return values


def run(server: Server, workload: Workload, count: int) -> None:
    connection = server.connect()
    try:
        for command in workload.commands(count):
            connection.send_command(*command)
            with contextlib.suppress(redis.ResponseError):
                connection.read_response()
    finally:
        connection.disconnect()


def log_files(server: Server) -> list[Path]:
    return sorted((server.directory / "appendonlydir").glob("*.aof"), key=lambda path: int(path.name.split(".")[2]))


def state(keyspace: Keyspace) -> dict[tuple[int, bytes], tuple[str, int, int]]:
    return {(row.db, row.key): (row.type, row.elements, row.expire_at_ms) for row in keyspace.rows()}


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 6))])
def test_the_state_of_random_commands_is_the_servers(server, seed):
    """Existence, type, element count and expiry of every key, and nothing uncertain: servers log what can be replayed."""
    started, is_valkey = server
    for db in (0, 1):
        started.call("FLUSHDB", db=db)
    run(started, Workload(seed, valkey=is_valkey), COMMANDS)

    keyspace = Keyspace()
    for path in log_files(started):
        replay(keyspace, {path.name: path.read_bytes()})

    assert certain(keyspace, servers_state(started)), f"seed {seed}"
    assert keyspace.refused == 0


def test_the_state_after_a_rewrite_is_the_servers(server):
    """Base (RDB of this server) and increments, with MULTI and scripts."""
    started, is_valkey = server
    run(started, Workload(99, valkey=is_valkey), COMMANDS)
    started.call("BGREWRITEAOF")
    wait_for(lambda: b"aof_rewrite_in_progress:0" in started.call("INFO", "persistence"), "the rewrite")
    wait_for(
        lambda: any(path.name.endswith(".rdb") for path in (started.directory / "appendonlydir").iterdir()), "a base"
    )
    run(started, Workload(100, valkey=is_valkey), COMMANDS)
    home = started.directory / "appendonlydir"
    manifest = (home / "appendonly.aof.manifest").read_bytes()

    keyspace = Keyspace()
    for part in read_manifest(manifest).parts():
        replay(keyspace, {part.name: (home / part.name).read_bytes()})

    assert certain(keyspace, servers_state(started))


CUT_LOG = log_of(
    ("SELECT", 0), ("SET", "a", "1"), ("MULTI",), ("SET", "b", "2"), ("RPUSH", "l", "x", "y"), ("EXEC",), ("SET", "c", "3")
)  # fmt: skip
CUTS = [
    *range(len(CUT_LOG) - 1, 0, -23),
    CUT_LOG.index(b"*3\r\n$3\r\nSET\r\n$1\r\nb"),
    CUT_LOG.index(b"*1\r\n$4\r\nEXEC"),
]


@contextlib.contextmanager
def loading(binary: str, log: bytes, **settings):
    """A server that has loaded *log* as the only increment of its log, and the rest of the file."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "appendonlydir"
        home.mkdir()
        (home / "appendonly.aof.1.incr.aof").write_bytes(log)
        (home / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
        with running(binary, appendonly="yes", dir=name, **settings) as started:
            yield started, home / "appendonly.aof.1.incr.aof"


@pytest.mark.parametrize("cut", CUTS)
def test_a_server_cuts_a_truncated_log_where_we_end_it(server, cut):
    """``aof-load-truncated yes``: the file that is left has the length of `Tail.loaded_end`, and the keys are those of the replay.

    Redis 7.0 leaves an open transaction in the file if the cut is inside one of its commands; it does not run it either.
    """
    _, is_valkey = server
    binary = valkey_binary() if is_valkey else redis_binary()
    reader = CommandReader("log")
    reader.feed(CUT_LOG[:cut])
    keyspace = Keyspace()
    for command in reader.commands():
        keyspace.apply(command.arguments)
    tail = Tail(reader.valid_end, cut, reader.open_transaction)

    with loading(binary, CUT_LOG[:cut], aof_load_truncated="yes") as (started, left):
        leaves_multi = not is_valkey and tail.valid_end != tail.end
        assert left.stat().st_size == (tail.valid_end if leaves_multi else tail.loaded_end)
        assert servers_state(started) == state(keyspace)


@pytest.mark.parametrize(
    ("log", "settings"), [(CUT_LOG[:-3], {"aof_load_truncated": "no"}), (CUT_LOG + b"+OK\r\n" + CUT_LOG, {})]
)
def test_a_server_does_not_start_where_we_raise_an_error(server, log, settings):
    _, is_valkey = server
    with (
        pytest.raises(RuntimeError, match="ended at once"),
        loading(valkey_binary() if is_valkey else redis_binary(), log, **settings),
    ):
        pass
