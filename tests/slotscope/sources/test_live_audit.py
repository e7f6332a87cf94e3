"""What a live cluster is asked after a plan, and what is made of the answers; sizes against a real dump."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster_core.incidents.symptoms import Checkup
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.resp import RespError
from slotscope.servers.audit import (
    LiveCluster,
    LiveMaster,
    connected,
    measure_dumps,
    read_slot_stats,
)
from slotscope.servers.node_link import Access, Address
from slotscope.servers.visits import Visit
from tests.benches.servers import running_cluster_node, valkey_binary
from tests.builders.rdb_rows import sound_rows

pytestmark = pytest.mark.servers

NODE = "a" * 40


@dataclass
class FakeLink:
    """Answers from a dictionary and keeps what was asked."""

    answers: dict[tuple[Any, ...], Any]
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    is_local: bool = False
    due_s: float = 0.0

    def ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        self.asked += commands
        return [self.answers.get(command, RespError("ERR unknown")) for command in commands]


def visit(answers: dict[tuple[Any, ...], Any], info: dict[str, str] | None = None) -> Visit:
    """A visit of *NODE*, which owns the slots 5 and 6, with scripted answers."""
    topology = read_nodes(f"{NODE} 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 5-6\n".encode())
    checkup = Checkup("10.0.0.1:6379", topology, info=info or {})
    return Visit(Address("10.0.0.1", 6379), checkup, FakeLink(answers))  # type: ignore[arg-type]


def master(answers: dict[tuple[Any, ...], Any], keys: dict[int, int]) -> LiveMaster:
    """A master with scripted answers."""
    return LiveMaster(visit(answers), NODE, keys)


def test_keys_left_on_the_former_owner_are_counted_there() -> None:
    """Each moved slot at its own source; a source that did not answer is left out."""
    cluster = LiveCluster([visit({("CLUSTER", "COUNTKEYSINSLOT", 3): 5, ("CLUSTER", "COUNTKEYSINSLOT", 4): 0})])

    assert cluster.left_behind({3: NODE, 4: NODE, 9: "gone"}) == {(NODE, 3): 5, (NODE, 4): 0}


def test_a_slot_with_many_keys_is_estimated_with_its_error() -> None:
    """Mean times count; variance of a mean, less what a finite slot leaves open."""
    answers: dict[tuple[Any, ...], Any] = {
        ("CLUSTER", "GETKEYSINSLOT", 1, 2): [b"x", b"y"], ("MEMORY", "USAGE", b"x"): 100, ("MEMORY", "USAGE", b"y"): 300,
        ("DUMP", b"x"): b"d" * 108, ("DUMP", b"y"): b"d" * 308,
    }  # fmt: skip
    found = measure_dumps([master(answers, {1: 10})], 2)

    assert found.loads == {NODE: 2000.0}
    assert found.errors == {NODE: pytest.approx(math.sqrt(100 * 20_000 / 2 * 0.8))}


def test_keys_that_went_and_slots_that_moved_meanwhile_are_left_out() -> None:
    """An expired key has no size, a slot that is gone no keys: neither is a failure."""
    answers: dict[tuple[Any, ...], Any] = {
        ("CLUSTER", "GETKEYSINSLOT", 1, 3): [b"x", b"y", b"z"], ("MEMORY", "USAGE", b"x"): 100, ("MEMORY", "USAGE", b"y"): None,
        ("MEMORY", "USAGE", b"z"): RespError("MOVED"), ("DUMP", b"x"): b"d" * 108,
    }  # fmt: skip
    found = measure_dumps([master(answers, {1: 3, 2: 5})], 20)

    assert found.loads == {NODE: 300.0}


def test_metrics_of_slot_stats_are_read_and_others_ignored() -> None:
    """memory-bytes only where a server has it."""
    reply = [[5, [b"key-count", 3, b"cpu-usec", 40, b"new-metric", 1]], [6, [b"key-count", 0, b"cpu-usec", 2]]]
    with_stats = master({("CLUSTER", "SLOT-STATS", "SLOTSRANGE", 5, 6): reply}, {})
    found = read_slot_stats([with_stats, master({}, {})])

    assert found == {"keys": {5: (NODE, 3), 6: (NODE, 0)}, "cpu_usec": {5: (NODE, 40), 6: (NODE, 2)}}


def test_serialized_bytes_are_those_of_a_real_dump() -> None:
    """DUMP of every key adds up to what the dump file of the same data holds."""
    binary = valkey_binary()
    if binary is None:
        pytest.skip("valkey-server is not installed")
    chance = random.Random(1)  # a server compresses long keys that repeat themselves, which DUMP cannot know
    with running_cluster_node(binary) as server:
        for number in range(60):
            server.call("SET", b"text:%d" % number + chance.randbytes(2 * number), "v" * number * 7)
            server.call("RPUSH", f"list:{number}", *range(number + 1))
            server.call("HSET", f"hash:{number}", "field", "x" * number, "other", number)
        server.call("SAVE")
        rows, _ = sound_rows((server.directory / "dump.rdb").read_bytes())
        in_file = sum(row.serialized_bytes for row in rows)
        with connected(Address("127.0.0.1", server.port), Access()) as cluster:
            (one,) = cluster.masters()
            found = measure_dumps([one], 20)

    assert found.loads == {one.node_id: in_file}
