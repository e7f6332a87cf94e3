"""Clients hear from the node what they hear from real servers: the same commands, the same replies, text by text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.wire.resp import RespError, Verbatim
from tests.benches.clusters import Cluster as Real
from tests.benches.clusters import converse, running_cluster
from tests.benches.node_cluster import FIRST_PORT, Cluster
from tests.benches.servers import redis_binary, running, valkey_binary, wait_for

UNKNOWN = "f" * 40
SERVERS = {"redis-7.0": (redis_binary, REDIS_7_0), "valkey-9.1": (valkey_binary, VALKEY_9_1)}

ALONE = """
CLUSTER
CLUSTER NOSUCH
CLUSTER nodes extra
CLUSTER KEYSLOT
CLUSTER KEYSLOT somekey
CLUSTER KEYSLOT foo{hash_tag}bar
CLUSTER MYID
CLUSTER NODES
CLUSTER INFO
CLUSTER COUNTKEYSINSLOT 0
CLUSTER COUNTKEYSINSLOT 16384
CLUSTER COUNTKEYSINSLOT -1
CLUSTER COUNTKEYSINSLOT abc
CLUSTER COUNTKEYSINSLOT 01
CLUSTER GETKEYSINSLOT 0 10
CLUSTER GETKEYSINSLOT 0 -1
CLUSTER GETKEYSINSLOT 70000 1
CLUSTER GETKEYSINSLOT 0 x
CLUSTER MEET nowhere 1
CLUSTER MEET 127.0.0.1 port
CLUSTER MEET 127.0.0.1 70000
CLUSTER MEET 127.0.0.1 0
CLUSTER MEET 127.0.0.1 1 port
CLUSTER MEET 127.0.0.1 1 70000
CLUSTER MEET 127.0.0.1 60000
CLUSTER MEET 127.0.0.1 1 2 3
CLUSTER MEET nowhere 70000
CLUSTER MEET
CLUSTER FORGET {unknown}
CLUSTER FORGET short
CLUSTER FORGET {0}
CLUSTER REPLICATE {0}
CLUSTER REPLICATE {unknown}
CLUSTER COUNT-FAILURE-REPORTS {0}
CLUSTER COUNT-FAILURE-REPORTS {unknown}
CLUSTER FAILOVER
CLUSTER FAILOVER FORCE
CLUSTER FAILOVER now
CLUSTER FAILOVER FORCE now
CLUSTER RESET now
CLUSTER RESET SOFT now
CLUSTER SETSLOT 3 NODE {0} extra
CLUSTER SET-CONFIG-EPOCH -1
CLUSTER SET-CONFIG-EPOCH x
CLUSTER SET-CONFIG-EPOCH 0
CLUSTER SET-CONFIG-EPOCH 7
CLUSTER SET-CONFIG-EPOCH 8
CLUSTER BUMPEPOCH
CLUSTER ADDSLOTS 1 2 3
CLUSTER ADDSLOTS 3
CLUSTER ADDSLOTS 4 4
CLUSTER ADDSLOTS 16384
CLUSTER ADDSLOTS 05
CLUSTER ADDSLOTS -1
CLUSTER ADDSLOTS x
CLUSTER ADDSLOTS
CLUSTER ADDSLOTSRANGE 10 20 30
CLUSTER ADDSLOTSRANGE 20 10
CLUSTER ADDSLOTSRANGE 10 20 15 25
CLUSTER ADDSLOTSRANGE 10 20 30 40
CLUSTER ADDSLOTSRANGE 3 5
CLUSTER NODES
CLUSTER DELSLOTS 1 2
CLUSTER DELSLOTS 1
CLUSTER DELSLOTS 11 11
CLUSTER DELSLOTSRANGE 30 40 50 60
CLUSTER DELSLOTSRANGE 30 40
CLUSTER NODES
CLUSTER INFO
GET nobodys{a}
SET x{06S} 1
MGET a b
GET
NOSUCHCOMMAND one two
CLUSTER SETSLOT
CLUSTER SETSLOT 3
CLUSTER SETSLOT 16384 NODE {0}
CLUSTER SETSLOT x STABLE
CLUSTER SETSLOT 3 NONSENSE {0}
CLUSTER SETSLOT 3 NODE {unknown}
CLUSTER SETSLOT 3 NODE
CLUSTER SETSLOT 3 MIGRATING {unknown}
CLUSTER SETSLOT 99 MIGRATING {0}
CLUSTER SETSLOT 3 IMPORTING {0}
CLUSTER SETSLOT 99 IMPORTING {unknown}
CLUSTER SETSLOT 3 MIGRATING
CLUSTER SETSLOT 99 IMPORTING {0}
CLUSTER SETSLOT 3 MIGRATING {0}
CLUSTER NODES
CLUSTER SETSLOT 99 NODE {0}
CLUSTER NODES
CLUSTER SETSLOT 3 STABLE
CLUSTER SETSLOT 3 STABLE extra
CLUSTER SETSLOT 77 NODE {0}
CLUSTER BUMPEPOCH
CLUSTER SAVECONFIG
CLUSTER FLUSHSLOTS
CLUSTER NODES
CLUSTER INFO
ASKING
READONLY
READWRITE
ASKING now
CLUSTER RESET SOFT
CLUSTER NODES
""".strip().splitlines()
"""What an empty node is asked, in this order."""

TOGETHER = """
1 CLUSTER NODES
2 CLUSTER NODES
0 CLUSTER INFO
0 SET a{06S} 1
0 GET a{06S}
0 SET b{b} 1
1 SET b{b} 1
0 MGET a{06S} b{b}
0 MGET a{06S} c{06S}
2 GET a{06S}
2 READONLY ; GET a{06S}
2 READONLY ; SET a{06S} 2
2 READONLY ; READWRITE ; GET a{06S}
2 READONLY ; GET b{b}
0 CLUSTER COUNTKEYSINSLOT 0
0 CLUSTER GETKEYSINSLOT 0 10
0 CLUSTER SETSLOT 0 MIGRATING {1}
0 CLUSTER NODES
0 GET a{06S}
0 GET c{06S}
0 MGET a{06S} c{06S}
0 SET c{06S} 1
0 MULTI ; GET a{06S} ; GET c{06S} ; EXEC
1 GET a{06S}
1 CLUSTER SETSLOT 0 IMPORTING {0}
1 CLUSTER SETSLOT 0 IMPORTING {2}
1 CLUSTER SETSLOT 0 IMPORTING {1}
1 CLUSTER NODES
1 GET a{06S}
1 ASKING ; GET a{06S}
1 ASKING ; GET a{06S} ; GET a{06S}
1 ASKING ; MGET a{06S} c{06S}
0 CLUSTER SETSLOT 0 NODE {1}
0 CLUSTER SETSLOT 0 NODE {2}
2 CLUSTER SETSLOT 0 NODE {1}
0 CLUSTER SETSLOT 0 STABLE
1 CLUSTER SETSLOT 0 STABLE
2 CLUSTER FORGET {0}
2 CLUSTER FORGET {2}
0 CLUSTER REPLICATE {1}
0 CLUSTER REPLICATE {2}
2 CLUSTER REPLICATE {2}
2 CLUSTER REPLICATE {0}
0 CLUSTER FAILOVER
0 CLUSTER RESET
0 CLUSTER FLUSHSLOTS
0 CLUSTER SET-CONFIG-EPOCH 9
2 CLUSTER ADDSLOTS 0
0 CLUSTER COUNT-FAILURE-REPORTS {1}
0 CLUSTER FAILOVER TAKEOVER
""".strip().splitlines()
"""What the nodes of a small cluster are asked: two masters, 2 is a replica of 0; ``;`` separates commands of one client."""


@pytest.fixture(scope="module", params=SERVERS, ids=str)
def kind(request: pytest.FixtureRequest) -> tuple[str, Profile]:
    """A server that is installed, and its profile."""
    find, profile = SERVERS[request.param]
    binary = find()
    if binary is None:
        pytest.skip(f"{request.param} is not installed")
    return binary, profile


REPLICATED_MS = 5
"""After so long a write has come to the replica."""


@pytest.fixture(scope="module")
def real(kind: tuple[str, Profile]) -> Iterator[Real]:
    """Two masters and a replica, running."""
    with running_cluster(kind[0], masters=2, replicas=1, cluster_node_timeout=15000) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours(kind: tuple[str, Profile]) -> Cluster:
    """The same cluster in memory."""
    cluster = Cluster(3, profile=kind[1], node_timeout_ms=15000)
    cluster.form(2, 1)
    cluster.write(0)
    cluster.run(20_000)
    return cluster


def plain(value: Any, names: dict[str, str]) -> Any:
    """A reply without what two clusters cannot share: ids, ports, times, counters, the order of nodes."""
    if isinstance(value, RespError):
        return f"-{plain(value.text, names)}"
    if isinstance(value, list):
        return [plain(item, names) for item in value]
    if isinstance(value, Verbatim):
        return plain(value.data, names)
    if isinstance(value, bytes):
        return plain(value.decode(), names)
    if isinstance(value, int):
        return plain(str(value), names) if value > 6000 else value
    if not isinstance(value, str):
        return value
    value = re.sub(r" \d+ \d+ (\d+) (dis)?connected", r" t t \1 connected", value)
    value = re.sub(r"\b\w+\b", lambda match: names.get(match[0], match[0]), value)
    if "cluster_state:" in value:
        return re.sub(r"(cluster_stats\w*[-\w]*|total_cluster_links_buffer_limit_exceeded):\d+\r\n", "", value)
    return "\n".join(sorted(value.split("\n")))


def flat(value: Any) -> Any:
    """A reply whose maps and lists may be in any order, as lists of nodes are."""
    if isinstance(value, list):
        pairs = value and len(value) % 2 == 0 and all(isinstance(name, str) for name in value[::2])
        if pairs and value[0] in ("id", "slots", "direction"):
            return sorted(([k, flat(v)] for k, v in zip(value[::2], value[1::2], strict=True)), key=str)
        return sorted((flat(item) for item in value), key=str)
    return sorted(map(list, value), key=str) if isinstance(value, tuple) else value


def words_of(line: str, ids: list[str]) -> list[bytes]:
    """A line as the words of a command, with real node ids."""
    for number, node_id in enumerate(ids):
        line = line.replace(f"{{{number}}}", node_id)
    return [word.encode() for word in line.replace("{unknown}", UNKNOWN).split()]


def names_of(ids: list[str], ports: list[int], shards: list[str]) -> dict[str, str]:
    """What stands for ids and ports."""
    return {
        **{node_id: f"<{number}>" for number, node_id in enumerate(ids)},
        **{shard: f"<shard {number}>" for number, shard in enumerate(shards)},
        **{str(port + 10000): f"<bus {number}>" for number, port in enumerate(ports)},
        **{str(port): f"<port {number}>" for number, port in enumerate(ports)},
    }


def shard_of(reply: Any) -> str:
    """The reply of CLUSTER MYSHARDID, empty where there is none."""
    return reply.decode() if isinstance(reply, bytes) else "no shard id"


@pytest.mark.servers
def test_a_node_that_knows_nobody_answers_as_a_server_does(kind: tuple[str, Profile]) -> None:
    """R79, R81, R123, R128, R130 and the error texts of every subcommand."""
    binary, profile = kind
    with running(binary, cluster=True, cluster_node_timeout=15000) as server:
        their_id = server.call("CLUSTER", "MYID").decode()
        shard, *replies = converse(
            server, [[b"CLUSTER", b"MYSHARDID"], *(words_of(line, [their_id]) for line in ALONE)]
        )
    theirs = names_of([their_id], [server.port], [shard_of(shard)])
    cluster = Cluster(1, profile=profile, node_timeout_ms=15000)
    host = cluster.hosts[0]
    mine = names_of([host.id], [FIRST_PORT], [host.node.view.myself.shard_id])

    wrong = []
    for line, reply in zip(ALONE, replies, strict=True):
        told = cluster.command(0, *words_of(line, [host.id]))
        wanted, found = flat(plain(reply, theirs)), flat(plain(resp2(told), mine))
        if found != wanted:
            wrong.append((line, found, wanted))

    assert not wrong, "\n".join(map(str, wrong))


def resp2(value: Any) -> Any:
    """A reply as a client of RESP2 reads it: texts have no format."""
    if isinstance(value, list):
        return [resp2(item) for item in value]
    return value.data if isinstance(value, Verbatim) else value


@pytest.mark.servers
def test_nodes_of_a_cluster_answer_as_servers_do(real: Real, ours: Cluster, kind: tuple[str, Profile]) -> None:
    """R115 to R121 and R123, R124, R128, R131 between nodes that know each other."""
    servers = real.nodes
    their_ids = [server.call("CLUSTER", "MYID").decode() for server in servers]
    my_ids = [host.id for host in ours.hosts]
    shards = [shard_of(converse(servers[i], [[b"CLUSTER", b"MYSHARDID"]])[0]) for i in range(2)]
    theirs = names_of(their_ids, [server.port for server in servers], shards)
    mine = names_of(
        my_ids, [FIRST_PORT + i for i in range(3)], [ours.hosts[i].node.view.myself.shard_id for i in range(2)]
    )
    wait_for(lambda: b"slave0" in servers[0].call("INFO", "replication"), "the replica to be counted")
    servers[0].call("SET", "first{06S}", "1")
    servers[0].call("DEL", "first{06S}")
    wait_for(lambda: all(offset_known(server, their_ids[2]) for server in servers), "the offset of the replica")

    wrong = []
    for client, line in enumerate(TOGETHER):
        ours.run(REPLICATED_MS)
        number, commands = int(line[0]), line[2:].split(" ; ")
        replies = converse(servers[number], [words_of(command, their_ids) for command in commands])
        for command, reply in zip(commands, replies, strict=True):
            told = ours.command(number, *words_of(command, my_ids), client=client)
            if command.startswith("EXEC") and not isinstance(reply, RespError):
                continue
            wanted = without_offsets(flat(plain(reply, theirs)))
            found = without_offsets(flat(plain(resp2(told), mine)))
            if found != wanted:
                wrong.append((line, command, found, wanted))

    assert not wrong, "\n".join(map(str, wrong))


def offset_known(server: Any, replica: str) -> bool:
    """Whether CLUSTER SLOTS lists the replica: it does once it has told an offset (R131)."""
    return replica in str(server.call("CLUSTER", "SLOTS"))


def without_offsets(value: Any) -> Any:
    """A reply whose replication offsets do not matter."""
    if isinstance(value, list):
        if len(value) == 2 and value[0] == "replication-offset":
            return [value[0], "some"]
        return [without_offsets(item) for item in value]
    return value
