"""`slotscope look`: how keys are used, and what would save memory, from a sample; both against what the same servers hold in all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_core.advice.changes import rank_changes
from cluster_core.memory.model import MemorySettings
from tests.benches.clusters import running_cluster
from tests.benches.servers import Server, redis_binary, running, valkey_binary, wait_for
from tests.builders.advice_totals import advice_totals
from tests.jobs.test_look import address, told

DAY_S = 86_400
COLD = 3000
WARM = 9000
HASH_EACH = 15
"""So many strings to a hash: a small sample of a busy machine holds some, too."""


def fill(server: Server, *, count: int = WARM) -> None:
    """Small strings, of which some are untouched for ten days; hashes just too large to be packed."""
    server.ask([("SET", f"session:{at}", f"value-{at:06}") for at in range(count)])
    server.ask(
        [
            ("HSET", f"hash:{at}", *(word for n in range(600) for word in (f"f{n}", n)))
            for at in range(count // HASH_EACH)
        ]
    )
    payload = server.call("DUMP", "session:1")
    server.ask([("RESTORE", f"old:{at}", 0, payload, "IDLETIME", 10 * DAY_S) for at in range(count // 3)])


@pytest.fixture(scope="module")
def valkey() -> Iterator[Server]:
    """A server of 12,600 keys that tells how long they are idle."""
    binary = valkey_binary()
    if binary is None:
        pytest.skip("valkey-server is not installed")
    with running(binary) as server:
        fill(server)
        yield server


def advised(server: Server) -> dict[tuple[str, str], int]:
    """What every change saves of all keys, by the dump that the server itself writes."""
    server.call("SAVE")
    data = (Path(server.directory) / "dump.rdb").read_bytes()
    settings = MemorySettings("libc" if b"libc" in server.call("INFO", "memory") else "jemalloc")
    model, found = advice_totals(data, settings)
    return {(one.kind.value, one.subject.decode()): one.saved_bytes for one in rank_changes(found.sums(model))}


def saved(found: dict[str, Any], change: str) -> dict[str, Any]:
    return next(one for one in found["savings"]["changes"] if one["change"] == change)


@pytest.mark.servers
def test_savings_of_a_sample_are_near_those_of_the_whole_dump(valkey, capsys):
    """Within twice the error that is said, for a change of programs and for a setting; the share that was read is said."""
    truth = advised(valkey)

    found = told(capsys, address(valkey), "--seconds", "5", "--rate", "2000")
    bucket = next(
        one for one in found["savings"]["changes"] if one["subject"] == "session:" and "bucket" in one["change"]
    )
    packed = saved(found, "raise")

    assert 0 < found["savings"]["values"] < WARM
    assert bucket["saved_bytes"]["error"] > 0
    assert abs(bucket["saved_bytes"]["value"] - truth["bucket", "session:"]) <= 2 * bucket["saved_bytes"]["error"]
    assert packed["subject"] == "hash-max-listpack-entries"
    assert (
        abs(packed["saved_bytes"]["value"] - truth["setting", "hash-max-listpack-entries"])
        <= 2 * packed["saved_bytes"]["error"]
    )
    assert any("values read by DUMP (" in note for note in found["notes"])


@pytest.mark.servers
def test_memory_that_nobody_touched_is_estimated_and_looking_does_not_touch(valkey, capsys):
    """The second look finds what the first found: reading values is no use of keys."""
    told(capsys, address(valkey), "--seconds", "2", "--rate", "4000")
    found = told(capsys, address(valkey), "--seconds", "2", "--rate", "4000")
    by_days = {one["days"]: one for one in found["untouched"]}

    assert abs(by_days[7]["keys"]["value"] - COLD) <= 2 * by_days[7]["keys"]["error"]
    assert by_days[30]["keys"] is None
    assert found["idlest_keys"][0]["key"].startswith("old:")
    assert found["idlest_keys"][0]["idle_s"] >= 10 * DAY_S
    assert found["biggest_keys"][0]["elements"] == 600
    assert valkey.call("OBJECT", "IDLETIME", "old:7") >= 10 * DAY_S


@pytest.mark.servers
def test_a_master_that_would_count_reading_as_use_is_asked_for_no_value(capsys):
    """Redis 7.0 does not know CLIENT NO-TOUCH: no savings, and why."""
    binary = redis_binary()
    if binary is None:
        pytest.skip("redis-server is not installed")
    with running(binary) as server:
        fill(server, count=300)
        if server.client().info("server")["redis_version"] >= "7.2":
            pytest.skip("this server knows CLIENT NO-TOUCH")

        found = told(capsys, address(server), "--seconds", "2")
        commands = server.call("INFO", "commandstats")

    assert found["savings"] is None
    assert any("reading values would reset LRU and LFU data" in note for note in found["notes"])
    assert b"cmdstat_dump:calls=1," in commands  # the test's own
    assert b"cmdstat_hlen" not in commands
    assert found["untouched"][1]["keys"]["value"] == 100


@pytest.mark.servers
def test_a_replica_is_read_and_its_master_tells_how_keys_are_used(capsys):
    """What clients read of the master the replica does not know; no value is read from the master."""
    binary = redis_binary()
    if binary is None:
        pytest.skip("redis-server is not installed")
    lfu = {"maxmemory": "500mb", "maxmemory-policy": "allkeys-lfu"}
    with running_cluster(binary, masters=1, replicas=1, **lfu) as made:
        (master,), (replica,) = made.masters, made.replicas
        master.ask([("SET", f"k:{at}", "v" * 20) for at in range(400)])
        master.ask([("GET", f"k:{at}") for at in range(100, 400)] * 100)
        wait_for(lambda: replica.call("DBSIZE") == 400, "the replica to have all keys")

        found = told(capsys, address(master), "--seconds", "4", "--rate", "4000")
        asked = {node.port: node.call("INFO", "commandstats") for node in made.nodes}

    assert re.fullmatch(r"k:[123]\d\d", found["most_used_keys"][0]["key"])  # a slow machine may have read few of them
    assert found["savings"]["values"] >= 100
    assert b"cmdstat_dump" in asked[replica.port]
    assert b"cmdstat_dump" not in asked[master.port]
    assert any("comes from their masters" in note for note in found["notes"])
    assert any("no idle keys: " in note for note in found["notes"])
