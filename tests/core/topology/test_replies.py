"""CLUSTER SHARDS and CLUSTER SLOTS in every form in which they are kept (R131)."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.cli_text import NESTING_MAX
from cluster_core.topology.replies import read_reply, read_topology

A, B, C = "a" * 40, "b" * 40, "c" * 40
REPLY = [["slots", [0, 9], "nodes", [["id", A, "port", 7000, "ip", "10.0.0.1", "endpoint", None, "role", "master"]]]]
RAW = [
    b"*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:9\r\n$5\r\nnodes\r\n*1\r\n*10\r\n$2\r\nid\r\n$40\r\n%b\r\n$4\r\nport\r\n"
    b":7000\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n$8\r\nendpoint\r\n$-1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n" % A.encode(),
    json.dumps(REPLY).encode(),
    b'1) 1) "slots"\n   2) 1) (integer) 0\n      2) (integer) 9\n   3) "nodes"\n   4) 1)  1) "id"\n          2) "%b"\n'
    b'          3) "port"\n          4) (integer) 7000\n          5) "ip"\n          6) "10.0.0.1"\n'
    b'          7) "endpoint"\n          8) (nil)\n          9) "role"\n         10) "master"\n' % A.encode(),
]


@pytest.mark.parametrize("raw", RAW, ids=["resp", "json", "cli"])
def test_a_reply_is_the_same_topology_in_every_form(raw: bytes) -> None:
    """RESP bytes, redis-cli's JSON and its numbered text."""
    assert read_topology(raw) == read_reply(REPLY)
    assert read_topology(raw).owner_of(9) == read_reply(REPLY).by_id[A]


@given(st.sampled_from(RAW), st.data())
def test_a_reply_cut_or_changed_anywhere_is_read_or_refused(reply: bytes, data: st.DataObject) -> None:
    raw = bytearray(reply)
    at = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[at:]
    else:
        raw[at] = data.draw(st.integers(0, 255))

    offset = 0
    try:
        read_topology(bytes(raw), source="reply")
    except DecodeError as fault:
        offset = fault.offset

    assert 0 <= offset <= len(raw)


def test_numbered_text_is_read_as_redis_cli_writes_it() -> None:
    """RESP3 maps have ``1# name => value``; RESP2 has names and values in turn."""
    text = b"""1) 1# "slots" => 
      1) (integer) 0
      2) (integer) 16383
   2# "nodes" => 
      1) 1# "id" => "%b"
         2# "port" => (integer) 7391
         3# "ip" => ""
         4# "endpoint" => (nil)
         5# "role" => "master"
         6# "replication-offset" => (integer) 0
         7# "health" => "online"
""" % A.encode()  # noqa: W291

    topology = read_topology(text)

    assert topology.owner_of(16383) == topology.by_id[A]


def shard(*slots: int, node_id: str = A, role: str = "master", health: str = "online") -> list:
    fields = ["id", node_id, "port", 1, "ip", "h", "endpoint", "h", "role", role, "replication-offset", 0]
    return ["slots", list(slots), "nodes", [[*fields, "health", health]]]


def test_a_failed_master_beside_its_successor_owns_nothing() -> None:
    """R131: both have the role of a master; the shard's slots are those of the healthy one."""
    reply = shard(0, 9, health="fail")
    reply[3] += shard(node_id=B)[3]

    topology = read_reply([reply])

    assert topology.owner_of(5) == topology.by_id[B]
    assert NodeFlags.FAIL in topology.by_id[A].flags


def test_slots_may_name_nodes_by_host_name_or_not_at_all() -> None:
    """The endpoint is what cluster-preferred-endpoint-type says; the rest stands in the metadata."""
    reply = [
        [0, 1, ["host-a", 1, A, ["ip", "10.0.0.1"]], [None, 2, B, ["ip", "10.0.0.2", "hostname", "host-b"]]],
        [5, 5, ["10.0.0.3", 3, C, []]],
    ]

    topology = read_reply(reply)

    assert [(node.ip, node.hostname, node.endpoint) for node in topology.nodes] == [
        ("10.0.0.1", "host-a", "host-a"),
        ("10.0.0.2", "host-b", None),
        ("10.0.0.3", "", "10.0.0.3"),
    ]
    assert topology.by_id[B].master_id == A
    assert len(topology.slot_map().slots_of(C)) == 1


def test_replies_of_old_servers_have_no_metadata() -> None:
    """Redis 4 to 6 sent address, port and id only."""
    topology = read_reply([[0, 16383, ["127.0.0.1", 7000, A]]])

    assert topology.uncovered() == SlotSet()
    assert topology.by_id[A].address == "127.0.0.1:7000"


def test_an_empty_reply_is_a_topology_without_nodes() -> None:
    """CLUSTER SLOTS of a node without slots and peers."""
    for raw in (b"*0\r\n", b"[]", b"(empty array)\n"):
        assert read_topology(raw).nodes == ()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ([shard(0, 9), shard(5, 6, node_id=B)], "slots 5-6 belong to"),
        ([shard(0, 9, 9, 10)], "shard 0, slots: a slot appears twice"),
        ([shard(0)], "1 bounds"),
        ([shard(9, 0)], "9 to 0 is not a range"),
        ([shard(0, 16384)], "not a range of slots"),
        ([shard(0, 1, role="replica")], "no master"),
        ([shard(0, 1, role="king")], "'king' is not a role"),
        ([shard(0, 1), shard(node_id=A)], "shard 1: node a+ appears twice"),
        ([shard(0, 1, node_id="x y")], "not a node id"),
        ([["slots", []]], "nodes is missing"),
        ([5], "is a int"),
        ({"a": 1}, "is a dict"),
        ([[0, 1]], "without a node"),
        ([[0]], "not a range"),
        ([[0, True, ["h", 1, A]]], "not a range"),
        ([[0, 1, ["h", 1]]], "2 fields"),
        ([[0, 1, ["h", 70000, A]]], "not in 0 to 65535"),
        ([[0, 1, ["a b", 1, A]]], "names and addresses cannot have"),
        ([[0, 1, ["h", 1, A]], [2, 3, ["h", 2, A]]], "differs"),
        ([[0, 1, ["h", 1, A]], [1, 3, ["h", 1, A]]], "appears twice"),
    ],
)
def test_an_invalid_reply_is_refused_with_its_place(reply: object, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read_topology(json.dumps(reply).encode())


@pytest.mark.parametrize(
    ("raw", "offset", "reason"),
    [
        (b"", 0, "nothing but blanks"),
        (b"\n  \n", 0, "nothing but blanks"),
        (b"REDIS0011\xfa", 0, "neither CLUSTER NODES"),
        (b"-ERR This instance has cluster support disabled\r\n", 0, "reply is an error: ERR This instance"),
        (b"(error) ERR unknown\n", 0, "reply is an error: ERR unknown"),
        (b"0\n5460\n127.0.0.1\n", 0, "raw output"),
        (b"slots\n0\n", 0, "raw output"),
        (b"*0\r\n*0\r\n", 0, "2 replies"),
        (b"[1,", 3, "no JSON"),
        (b"[" * 100_000, 0, "no JSON"),
        (b"[\xff]", 0, "no JSON"),
        (b'"\\ud800"', 0, "words"),
        (b"*1\r\n,1.5\r\n", 0, "a float"),
        (b"%1\r\n:1\r\n:2\r\n", 4, "not text"),
        (b"1) (integer) 5\n3) (integer) 6\n", 15, "item 3"),
        (b"1) (integer) 5\n   1) (integer) 6\n", 15, "in no list"),
        (b"1) five\n", 0, "'five' is not a value"),
        (b'1# "a" => (nil)\n2# "a" => (nil)\n', 16, "appears twice"),
        (b"1# a => (nil)\n", 0, "a name without"),
        (b"1) " * (NESTING_MAX + 1), 0, "lists nested"),
    ],
)
def test_a_reply_of_another_kind_is_refused(raw: bytes, offset: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        read_topology(raw, source="file")

    assert (caught.value.offset, caught.value.source) == (offset, "file")


def test_text_that_ends_before_its_last_item_is_truncated() -> None:
    for raw in (b"1) 1) ", b"*2\r\n:1\r\n"):
        with pytest.raises(TruncatedError):
            read_topology(raw)


@pytest.mark.parametrize("server", ["valkey_cluster_node", "redis_cluster_node"])
@pytest.mark.parametrize("command", ["shards", "slots"])
def test_replies_of_a_real_server_agree_with_cluster_nodes(
    server: str, command: str, request: pytest.FixtureRequest
) -> None:
    node = request.getfixturevalue(server)
    (own,) = read_topology(node.raw_reply("CLUSTER", "NODES")).nodes
    for protocol in (2, 3):
        raw = node.raw_reply("CLUSTER", command, protocol=protocol)

        topology = read_topology(raw)

        assert [(node.id, node.port, node.slots) for node in topology.nodes] == [(own.id, own.port, own.slots)]


@pytest.mark.servers
@pytest.mark.parametrize("command", ["shards", "slots", "nodes"])
@pytest.mark.parametrize("options", [["--no-raw"], ["--no-raw", "-3"], ["--json"], ["--json", "-2"]], ids=" ".join)
def test_output_of_redis_cli_is_the_same_topology(
    command: str, options: list[str], request: pytest.FixtureRequest
) -> None:
    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed")
    node = request.getfixturevalue("redis_cluster_node")
    program = ["redis-cli", "-p", str(node.port), *options, "cluster", command]
    shown = subprocess.run(program, capture_output=True, check=True, timeout=120).stdout

    topology = read_topology(shown)

    assert topology.uncovered() == SlotSet()
    assert [node.id for node in topology.nodes] == [node.call("CLUSTER", "MYID").decode()]
