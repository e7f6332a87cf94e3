"""`slotscope look`: how keys are used, against the data of the same servers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.benches.clusters import running_cluster
from tests.benches.servers import Server, installed, redis_binary, running, valkey_binary, wait_for
from tests.jobs.test_look import address, answer_of

DAY_S = 86_400
COLD = 3000
WARM = 9000
HASH_EACH = 15
"""So many strings to a hash: a small sample of a busy machine holds some, too."""


def fill(server: Server, *, count: int = WARM) -> None:
    """Small strings, some untouched for ten days; hashes just too large to be packed."""
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
    with running(installed(valkey_binary())) as server:
        fill(server)
        yield server


@pytest.mark.servers
def test_untouched_memory_is_estimated_and_measuring_touches_no_key(valkey, capsys):
    """The second look gives the results of the first."""
    answer_of(capsys, address(valkey), "--seconds", "2", "--rate", "4000")
    actual = answer_of(capsys, address(valkey), "--seconds", "2", "--rate", "4000")
    by_days = {row["days"]: row for row in actual["untouched"]}

    assert abs(by_days[7]["keys"]["value"] - COLD) <= 2 * by_days[7]["keys"]["error"]
    assert by_days[30]["keys"] is None
    assert actual["idlest_keys"][0]["key"].startswith("old:")
    assert actual["idlest_keys"][0]["idle_s"] >= 10 * DAY_S
    assert actual["biggest_keys"][0]["elements"] == 600
    assert valkey.call("OBJECT", "IDLETIME", "old:7") >= 10 * DAY_S


@pytest.mark.servers
def test_keys_are_read_from_a_replica_and_their_use_from_its_master(capsys):
    """The replica does not know which keys clients read at its master."""
    lfu = {"maxmemory": "500mb", "maxmemory-policy": "allkeys-lfu"}
    with running_cluster(installed(redis_binary()), masters=1, replicas=1, **lfu) as made:
        (master,), (replica,) = made.masters, made.replicas
        master.ask([("SET", f"k:{at}", "v" * 20) for at in range(400)])
        master.ask([("GET", f"k:{at}") for at in range(100, 400)] * 100)
        wait_for(lambda: replica.call("DBSIZE") == 400, "the replica to have all keys")

        actual = answer_of(capsys, address(master), "--seconds", "4", "--rate", "4000")

    assert re.fullmatch(r"k:[123]\d\d", actual["most_used_keys"][0]["key"])  # a slow machine may have read few of them
    assert any("comes from their masters" in note for note in actual["notes"])
    assert any("no idle keys: " in note for note in actual["notes"])
