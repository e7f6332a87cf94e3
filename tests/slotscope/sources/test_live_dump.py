"""Dumps that live servers make for us, against those that the same servers write to their disk."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster_core.errors import DecodeError, MissingInputError, TruncatedError
from cluster_core.memory.model import MemorySettings
from jobs.export import Request
from schemas.interim import ADVICE
from slotscope.pipelines.keys.export import export_dumps
from slotscope.runtime.errors import InputError
from slotscope.servers.dump_link import DumpOptions, check_live
from slotscope.sources import byte_streams
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.sources.rdb.files import RdbTask, RdbUnit, RdbUnitReader
from slotscope.sources.rdb.tally import tally_dumps
from tests.benches.servers import Server, installed, redis_62_binary, redis_binary, running, valkey_binary, wait_for

pytestmark = pytest.mark.servers

KEYS = 3000
BINARIES = {"redis-6.2": redis_62_binary, "redis-7.0": redis_binary, "valkey": valkey_binary}
DISKLESS = {"from-disk": "no", "diskless": "yes"}


@contextlib.contextmanager
def replicated(name: str, diskless: str = "yes") -> Iterator[tuple[Server, Server]]:
    """A master and its replica, in sync, with keys of all types."""
    binary = installed(BINARIES[name]())
    settings = {"repl-diskless-sync": diskless, "repl-ping-replica-period": 1}
    with running(binary, **settings) as master, running(binary, **settings) as replica:
        fill(master)
        replica.call("REPLICAOF", "127.0.0.1", master.port)
        wait_for(lambda: b"master_link_status:up" in replica.call("INFO", "replication"), "the replica to be in sync")
        yield master, replica


def fill(server: Server) -> None:
    commands: list[tuple[Any, ...]] = [("SET", f"user:{at}", "u" * (at % 300)) for at in range(KEYS)]
    commands += [("HSET", f"hash:{at}", *(word for n in range(at + 1) for word in (f"f{n}", n))) for at in range(200)]
    commands += [
        ("RPUSH", "list", *range(5000)),
        ("ZADD", "zset", *(word for n in range(900) for word in (n, f"m{n}"))),
    ]
    commands += [("XADD", "stream", "*", "field", at) for at in range(50)] + [("SADD", "set", *range(700))]
    commands += [("EXPIRE", f"user:{at}", 10_000) for at in range(0, KEYS, 3)]
    server.ask(commands)


def live(server: Server) -> str:
    return f"redis://127.0.0.1:{server.port}"


def figures(reader: RdbUnitReader) -> dict[str, Any]:
    """Keys, bytes, expiries and memory by slot, and the names of all keys."""
    slots = np.zeros((16384, 4), np.int64)
    names: set[bytes] = set()
    for batch in reader:
        assert batch.memory_bytes is not None
        columns = np.ones(len(batch)), batch.serialized_bytes, batch.expire_at_ms >= 0, batch.memory_bytes
        np.add.at(slots, batch.slot, np.column_stack(columns).astype(np.int64))
        names |= {batch.key(row) for row in range(len(batch))}
    return {"slots": slots.tolist(), "keys": names}


@pytest.mark.parametrize("framing", sorted(DISKLESS))
@pytest.mark.parametrize("name", sorted(BINARIES))
def test_a_dump_from_a_replica_is_the_one_that_it_writes_to_its_disk(name, framing):
    """Same figures, all checksums right; the server is rid of us as soon as all is there."""
    with replicated(name, DISKLESS[framing]) as (_, replica):
        actual = figures(RdbUnitReader(RdbUnit(live(replica), 0), memory=MemorySettings()))
        wait_for(lambda: b"connected_slaves:0" in replica.call("INFO", "replication"), "the server to forget us", 30)
        wait_for(lambda: b"rdb_bgsave_in_progress:0" in replica.call("INFO", "persistence"), "its child to end")
        replica.call("SAVE")
        path = str(Path(replica.directory) / "dump.rdb")
        expected = figures(RdbUnitReader(RdbUnit(path, 1), memory=MemorySettings()))

    assert len(actual["keys"]) == KEYS + 204
    assert actual == expected


def test_a_master_is_refused_unless_it_is_allowed():
    with replicated("valkey") as (master, replica):
        with pytest.raises(InputError, match=f"this is a master; .* name its replica 127.0.0.1:{replica.port}"):
            check_live(live(master), DumpOptions())
        check_live(live(master), DumpOptions(from_master=True))
        allowed = figures(
            RdbUnitReader(RdbUnit(live(master), 0), memory=MemorySettings(), live=DumpOptions(from_master=True))
        )
        replica.call("REPLICAOF", "127.0.0.1", 1)
        with pytest.raises(InputError, match="lost its master"):
            check_live(live(replica), DumpOptions())

    assert len(allowed["keys"]) == KEYS + 204


@pytest.mark.parametrize("held", [byte_streams.HELD_BYTES, 20_000])
def test_values_of_a_streamed_dump_are_those_of_the_file(held, tmp_path, monkeypatch):
    """Written by `export` in the one pass, however few keys are held at a time."""
    monkeypatch.setattr(byte_streams, "HELD_BYTES", held)
    with replicated("redis-7.0") as (master, replica):
        master.call("FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)")
        wait_for(lambda: replica.call("FUNCTION", "LIST"), "the replica to have the library")
        actual = all_exports(live(replica), tmp_path)
        wait_for(lambda: b"rdb_bgsave_in_progress:0" in replica.call("INFO", "persistence"), "its child to end")
        replica.call("SAVE")
        expected = all_exports(str(Path(replica.directory) / "dump.rdb"), tmp_path)

    assert actual["resp"].startswith(b"*4\r\n$8\r\nFUNCTION")
    assert actual == expected


def all_exports(source: str, folder: Path) -> dict[str, Any]:
    exported: dict[str, Any] = {}
    for style in ("resp", "json"):
        out = folder / f"out.{style}"
        export_dumps(Request(rdb=(source,), to=style, out=str(out)))
        exported[style] = out.read_bytes()
    return exported


@pytest.mark.parametrize("name", sorted(BINARIES))
def test_advice_of_a_streamed_dump_is_that_of_the_file(name, monkeypatch):
    """In the one pass, however few keys are held at a time."""
    monkeypatch.setattr(byte_streams, "HELD_BYTES", 20_000)
    with replicated(name) as (_, replica):
        actual = advice_rows(live(replica))
        wait_for(lambda: b"rdb_bgsave_in_progress:0" in replica.call("INFO", "persistence"), "its child to end")
        replica.call("SAVE")
        advice = advice_rows(str(Path(replica.directory) / "dump.rdb"))

    assert len(advice) > 100
    assert actual == advice


def advice_rows(source: str) -> list[Any]:
    """The sums of advice that the task of a dump returns."""
    options = TallyOptions(memory=MemorySettings(), advice=True)
    rows = [row for batch in tally_dumps(RdbTask((RdbUnit(source, 0),)), 0, options) for row in batch.to_pylist()]
    return [(row["text"], row["offset"], row["name"], row["amounts"]) for row in rows if row["kind"] == ADVICE]


def test_a_record_above_the_memory_limit_is_one_line(monkeypatch):
    monkeypatch.setattr(byte_streams, "HELD_BYTES_MAX", 100_000)
    with replicated("valkey") as (master, replica):
        master.call("SET", "large", random.Random(1).randbytes(200_000))
        wait_for(lambda: replica.call("EXISTS", "large"), "the replica to have it")
        reader = RdbUnitReader(RdbUnit(live(replica), 0))
        reader.hold()
        with pytest.raises(DecodeError, match="MB; save the dump to a file first"):
            list(reader)


def test_a_connection_that_breaks_is_one_line_with_the_place():
    """Half of the dump is there; before its first byte the message differs."""
    with replicated("valkey") as (_, replica):
        with breaking(replica, 100_000) as path, pytest.raises(TruncatedError) as broken:
            list(RdbUnitReader(RdbUnit(path, 0), memory=None))
        with breaking(replica, 0) as path, pytest.raises(MissingInputError, match="no dump"):
            list(RdbUnitReader(RdbUnit(path, 0)))

    assert "the dump broke off: the connection was closed" in broken.value.reason
    assert 0 < broken.value.offset <= 100_000


@contextlib.contextmanager
def breaking(server: Server, count: int) -> Iterator[str]:
    """A way to *server* that is cut after *count* bytes of an answer to SYNC."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = threading.Thread(target=_pass_on, args=(door, server.port, count), daemon=True)
        thread.start()
        yield f"redis://127.0.0.1:{door.getsockname()[1]}"
        thread.join(60)


def _pass_on(door: socket.socket, port: int, count: int) -> None:
    client, _ = door.accept()
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        while b"SYNC" not in (asked := client.recv(65536)):
            server.sendall(asked)
            client.sendall(server.recv(65536))
        server.sendall(asked)
        while count > 0 and (data := server.recv(min(count, 65536))):
            client.sendall(data)
            count -= len(data)
