"""Replies to other sentinels, compared with real sentinels byte by byte."""

from __future__ import annotations

import time
from random import Random

import pytest

from cluster_core.sentinel.events import ClientCommand, Reply, Tick
from cluster_core.sentinel.machine import Sentinel
from cluster_core.sentinel.state import MonitoredMaster, SentinelSettings
from tests.benches.resp import encode_value
from tests.benches.sentinels import running_sentinel
from tests.benches.servers import installed, redis_binary, valkey_binary

SERVERS = {"redis-7.0": redis_binary, "valkey-9.1": valkey_binary}
NOBODY = 1
"""A port at which nothing listens."""
COMMANDS = """
PING
SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
SENTINEL GET-MASTER-ADDR-BY-NAME nobody
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 2 0 *
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 5 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 5 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 4 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 6 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 3 7 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 x 7 b
SENTINEL IS-MASTER-DOWN-BY-ADDR 127.0.0.1 1 x b
PUBLISH __sentinel__:hello nonsense
PUBLISH __sentinel__:hello 127.0.0.1,8,cccccccccccccccccccccccccccccccccccccccc,9,mymaster,127.0.0.1,4,8
SENTINEL GET-MASTER-ADDR-BY-NAME mymaster
"""


def ours(sentinel: Sentinel, arguments: list[str], now_ms: int) -> bytes:
    effects = sentinel.handle(ClientCommand(1, tuple(word.encode() for word in arguments)), now_ms)
    return b"".join(encode_value(effect.value, protocol=2) for effect in effects if isinstance(effect, Reply))


@pytest.mark.parametrize("dialect", SERVERS)
def test_replies_are_those_of_the_real_sentinel(dialect):
    """sentinelCommand and its neighbours: same order, same names, same texts, on both servers."""
    port = 26399
    sentinel = Sentinel(
        SentinelSettings(port, dialect),
        Random(1),
        10**12,
        MonitoredMaster("mymaster", "127.0.0.1", NOBODY, 2, down_after_ms=100_000, failover_timeout_ms=10_000),
    )
    sentinel.handle(Tick(), 10**12)
    different = []

    with running_sentinel(installed(SERVERS[dialect]()), NOBODY, down_after_ms=100_000) as real:
        time.sleep(0.2)
        for line in COMMANDS.strip().splitlines():
            arguments = [word.strip('"') for word in line.split()]
            theirs = real.raw_reply(*arguments).replace(b"*-1\r\n", b"$-1\r\n")
            reply = ours(sentinel, arguments, 10**12)
            if reply != theirs:
                different.append((line, reply, theirs))

    assert different == []
