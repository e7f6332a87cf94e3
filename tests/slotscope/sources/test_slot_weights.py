"""What slots of a live cluster weigh where its servers tell their memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cluster_core.kinds import Severity
from cluster_core.load.sampling import SlotMemory
from cluster_core.wire.resp import RespError
from schemas.caveats import Code
from slotscope.pipelines.rebalance.live import memory_caveats
from slotscope.servers.node_link import Access, Address
from slotscope.servers.slot_weights import SlotWeights, weigh_slots
from tests.benches.fake_servers import scripted
from tests.benches.resp import encode_value

NODES = b"%s 127.0.0.1:%d@17000 myself,master - 0 0 1 connected 0-16383\n"
INFO = b"# Server\r\nredis_version:8.4.0\r\n# Memory\r\nused_memory_dataset:4096\r\nloading:0\r\n%s# Keyspace\r\ndb0:keys=3,expires=0\r\n"
FULL = b"used_memory:960000\r\nmaxmemory:1000000\r\nmaxmemory_policy:%s\r\n"


def slot_stats(first: int, last: int) -> list[Any]:
    """A reply in the form of Redis 8.4: slot 7 holds two keys, slot 16000 one."""
    keys, memory = {7: 2, 16000: 1}, {7: 300, 16000: 96}
    return [
        [
            slot,
            [
                *(b"key-count", keys.get(slot, 0), b"cpu-usec", 0, b"memory-bytes", memory.get(slot, 0)),
                *(b"network-bytes-in", 0, b"network-bytes-out", 0),
            ],
        ]
        for slot in range(first, last + 1)
    ]


def weigh(memory: bytes = b"") -> tuple[SlotWeights, list[list[bytes]]]:
    """The loads of a server of Redis 8.4 with all slots, and the received commands; *memory* are more lines of its INFO."""

    def answer(arguments: list[bytes]) -> bytes:
        match [word.upper() for word in arguments[:2]]:
            case [b"INFO", *_]:
                return encode_value(INFO % memory, protocol=2)
            case [b"CLUSTER", b"NODES"]:
                return encode_value(NODES % (b"a" * 40, port), protocol=2)
            case [b"CLUSTER", b"INFO"]:
                return encode_value(b"cluster_state:ok\r\n", protocol=2)
            case [b"CLUSTER", b"SLOT-STATS"]:
                return encode_value(slot_stats(int(arguments[3]), int(arguments[4])), protocol=2)
        return encode_value(RespError("ERR unexpected"), protocol=2)

    with scripted(answer) as (port, asked):
        return weigh_slots(Address("127.0.0.1", port), Access(timeout_s=60), seconds=5, rate=100_000), asked


def test_no_key_is_sampled_if_servers_report_memory_of_slots() -> None:
    """Keys and memory are those of SLOT-STATS, nothing is an estimate, and no command names or looks for a key."""
    weights, asked = weigh()

    held = {name: {slot: load for slot, load in enumerate(loads) if load} for name, loads in weights.loads.items()}
    assert held == {"keys": {7: 2, 16000: 1}, "memory_bytes": {7: 300, 16000: 96}}
    assert not weights.memory
    assert (weights.counted_masters, weights.memory_error) == (1, None)
    assert {int(arguments[4]) - int(arguments[3]) for arguments in asked if arguments[1] == b"SLOT-STATS"} == {255}
    assert not weights.limits.capacity
    allowed = {b"INFO ALL", b"CLUSTER NODES", b"CLUSTER INFO", b"CLUSTER SLOT-STATS"}
    assert {b" ".join(arguments[:2]).upper() for arguments in asked} <= allowed


def test_the_maxmemory_of_a_server_limits_its_slots() -> None:
    """396 bytes in slots, 600,000 used in all, 95 % of a million may be: slots may grow by 350,000."""
    weights, _ = weigh(b"used_memory:600000\r\nmaxmemory:1000000\r\nmaxmemory_policy:allkeys-lru\r\n")

    assert weights.limits == ({"a" * 40: 396 + 350_000}, {})


def test_the_zone_of_a_server_comes_from_info() -> None:
    """CLUSTER NODES, as clients see it, does not tell."""
    weights, _ = weigh(b"availability_zone:rack-7\r\n")

    assert [node.aux["availability-zone"] for node in weights.topology.nodes] == ["rack-7"]


def test_an_evicting_server_has_no_limit_and_a_full_server_has_no_room() -> None:
    """At 96 % of its maxmemory: the 9,604 bytes above its limit exceed the load of its slots."""
    assert weigh(FULL % b"allkeys-lru")[0].limits[:2] == ({}, {"a" * 40: "allkeys-lru"})
    assert weigh(FULL % b"noeviction")[0].limits[:2] == ({"a" * 40: 1}, {})


def test_memory_measured_in_two_ways_is_a_warning() -> None:
    """A cluster in the middle of an upgrade: one master counts by slot, of the other every key was measured."""
    counted, _ = weigh()
    measured = SlotMemory({9: 100}, 0.0, measured=2, keys=2)

    assert memory_caveats(counted) == []
    assert memory_caveats(replace(counted, memory=[measured], counted_masters=0)) == []
    (caveat,) = memory_caveats(replace(counted, memory=[measured]))
    assert (caveat.severity, caveat.code) == (Severity.WARNING, Code.MEMORY_MIXED)
    assert "memory comes from SLOT-STATS for 1 master and from MEMORY USAGE for 1 master" in caveat.text
