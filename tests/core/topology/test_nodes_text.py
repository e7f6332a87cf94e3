"""CLUSTER NODES and nodes.conf there and back, byte for byte (R20, R128, R129)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.slots.node_flags import FLAG_NAMES, NodeFlags, read_flags, write_flags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Conflict, Node, Topology
from cluster_core.topology.nodes_text import write_nodes
from cluster_core.topology.replies import read_topology

A, B, C = ("07c37dfeb235213a872192d90877d0cd55635b91", "67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1", "c" * 40)
NODES = (
    f"{A} 127.0.0.1:30004@31004,host-4.example.test slave {B} 0 1426238317239 4 connected\n"
    f"{B} ::1:30001@31001 myself,master - 0 0 1 connected 0-5460 5500 [93->-{A}] [94-<-{C}]\n"
    f"{C} :0@0 master,fail?,noaddr - 1426238316232 0 2 disconnected 5461-5499\n"
).encode()
CONF = (
    f"{A} 127.0.0.1:7000@17000,,tls-port=0,shard-id={B} myself,master - 0 0 1 connected 0-16383\n"
    f"{B} 127.0.0.1:7001@17001,h,tls-port=0,nodename=second,x-new=1 slave,brand-new {A} 0 5 1 connected\n"
    "vars currentEpoch 6 lastVoteEpoch 5\n"
).encode()

IDS = st.text("0123456789abcdef", min_size=40, max_size=40)
NAMES = st.text("abcdefghij0123456789.-", min_size=1, max_size=12)
MARKS = st.dictionaries(st.integers(0, 16383), IDS, max_size=3)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Nodes with disjoint slots; any flags, addresses and open slots."""
    ids = draw(st.lists(IDS, min_size=1, max_size=5, unique=True))
    cuts = sorted(draw(st.lists(st.integers(0, 16384), min_size=2 * len(ids), max_size=2 * len(ids))))
    nodes = []
    for index, node_id in enumerate(ids):
        migrating = draw(MARKS)
        importing = {slot: other for slot, other in draw(MARKS).items() if slot not in migrating}
        flags = draw(st.lists(st.sampled_from([flag for word, flag in FLAG_NAMES.items() if word != "myself"])))
        bits = NodeFlags(0)
        for flag in flags:
            bits |= flag
        nodes.append(
            Node(
                id=node_id,
                ip=draw(st.sampled_from(["", "10.0.0.1", "::1", "fe80::1:2"])),
                port=draw(st.integers(0, 65535)),
                cport=draw(st.none() | st.integers(0, 65535)),
                hostname=draw(st.just("") | NAMES),
                flags=bits | NodeFlags.MYSELF if index == 0 else bits,
                extra_flags=tuple(draw(st.lists(st.sampled_from(["new-flag", "loading"]), unique=True))),
                master_id=draw(st.none() | IDS),
                ping_sent=draw(st.integers(0, 2**62)),
                pong_received=draw(st.integers(0, 2**62)),
                config_epoch=draw(st.integers(0, 2**64 - 1)),
                link_connected=draw(st.booleans()),
                slots=SlotSet(range(cuts[2 * index], cuts[2 * index + 1])),
                migrating=migrating,
                importing=importing,
            )
        )
    return Topology(tuple(nodes), "nodes")


@given(topologies())
def test_cluster_nodes_comes_back_as_it_was(topology: Topology) -> None:
    """R128: every field of a node."""
    assert read_topology(write_nodes(topology)) == topology


@given(topologies(), st.data())
def test_text_cut_anywhere_is_a_shorter_text_or_an_error(topology: Topology, data: st.DataObject) -> None:
    raw = write_nodes(topology)
    cut = raw[: data.draw(st.integers(0, len(raw)))]

    try:
        outcome = f"{len(read_topology(cut, source='cut').nodes)} nodes"
    except DecodeError as fault:
        outcome = f"{fault.source}: {0 <= fault.offset <= len(cut)}"

    assert outcome in {"cut: True", *(f"{count} nodes" for count in range(len(topology.nodes) + 1))}


def test_cluster_nodes_is_read_field_by_field() -> None:
    """R128; an IPv6 address has no brackets, a node may have no address."""
    topology = read_topology(NODES)
    replica, me, gone = topology.nodes

    assert write_nodes(topology) == NODES
    assert (topology.form, topology.my_id, topology.current_epoch) == ("nodes", B, None)
    assert (replica.hostname, replica.master_id, replica.config_epoch) == ("host-4.example.test", B, 4)
    assert (me.ip, me.port, me.cport) == ("::1", 30001, 31001)
    assert (me.migrating, me.importing, str(me.slots)) == ({93: A}, {94: C}, "0-5460 5500")
    assert gone.flags == NodeFlags.MASTER | NodeFlags.PFAIL | NodeFlags.NOADDR
    assert (gone.address, gone.link_connected, gone.ping_sent) == (":0", False, 1426238316232)


def test_a_topology_has_the_owners_of_slots() -> None:
    topology = read_topology(NODES)

    assert [node.id for node in topology.masters()] == [B, C]
    assert [node.id for node in topology.nodes if node.master_id == B] == [A]
    assert topology.owner_of(5500) == topology.by_id[B]
    assert topology.owner_of(16383) is None
    assert str(topology.uncovered()) == "5501-16383"
    assert len(topology.slot_map().slots_of(C)) == 39


def test_nodes_conf_keeps_epochs_aux_fields_and_unknown_flags() -> None:
    """R129: Valkey's form, with an empty host name; servers add flags and fields over time."""
    topology = read_topology(CONF)
    first, second = topology.nodes

    assert (topology.form, topology.current_epoch, topology.last_vote_epoch) == ("nodes.conf", 6, 5)
    assert (first.hostname, first.aux) == ("", {"tls-port": "0", "shard-id": B})
    assert (second.hostname, second.aux["nodename"], second.aux["x-new"]) == ("h", "second", "1")
    assert (second.flags, second.extra_flags) == (NodeFlags.REPLICA, ("brand-new",))


def test_an_address_without_a_bus_port_is_that_of_old_servers() -> None:
    """Redis 3 had no ``@cport``; line ends of other systems and blank lines do not matter."""
    raw = f"\n{A} 127.0.0.1:6379 master - 0 0 1 connected 0\r\n\r\n".encode()

    topology = read_topology(raw)

    assert topology.nodes[0].cport is None
    assert write_nodes(topology) == f"{A} 127.0.0.1:6379 master - 0 0 1 connected 0\n".encode()


GOOD = f"{A} h:1@2 master - 0 0 1 connected 0-9\n"


@pytest.mark.parametrize(
    ("text", "at", "reason"),
    [
        (GOOD + f"{B} h:1@2 master - 0 0 1\n", len(GOOD), "7 words"),
        (GOOD.replace("h:1@2", "h"), 41, "not an address"),
        (GOOD.replace("h:1@2", "h:99999@2"), 41, "not an address"),
        (GOOD.replace("h:1@2", "h:1@2,x,y"), 41, "name=value"),
        (GOOD.replace("master -", "master,,x -"), 47, "empty or repeated"),
        (GOOD.replace("master -", "master,master -"), 47, "empty or repeated"),
        (GOOD.replace("master -", "slave abc"), 53, "not a node id"),
        (GOOD.replace(" 1 conn", " x conn"), 60, "not a number"),
        (GOOD.replace(" 1 conn", f" {'9' * 20} conn"), 60, "not a number"),
        (GOOD.replace("connected", "up"), 62, "not a link state"),
        (GOOD.replace("0-9", "9-0"), 72, "ends before"),
        (GOOD.replace("0-9", "16384"), 72, "not a slot"),
        (GOOD.replace("0-9", "1 [1-x-y]"), 74, "open slot"),
        (GOOD.replace("0-9", f"[16384->-{A}]"), 72, "open slot"),
        (GOOD + GOOD, len(GOOD), "appears twice"),
        ("".join(f"{id_} h:1@2 myself - 0 0 1 connected\n" for id_ in (A, B)) + GOOD.replace(A, C), 72, "myself"),
        (GOOD + "vars currentEpoch x\n", len(GOOD) + 18, "not a number"),
        (GOOD + "vars currentEpoch", len(GOOD) + 5, "without a value"),
        (GOOD + GOOD.replace(A, B).replace("0-9", "5-20"), len(GOOD), "slots 5-9 belong to"),
    ],
)
def test_an_error_has_its_offset(text: str, at: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        read_topology(text.encode(), source="nodes.txt")

    assert (caught.value.offset, caught.value.source) == (at, "nodes.txt")


def test_a_last_line_cut_short_is_truncated() -> None:
    with pytest.raises(TruncatedError):
        read_topology((GOOD + f"{B} h:1").encode())


def test_overlapping_slots_are_listed_on_request() -> None:
    """The first node keeps them, as in a server that loads such a file; three claims make two conflicts."""
    text = GOOD + GOOD.replace(A, B).replace("0-9", "5-20") + GOOD.replace(A, C).replace("0-9", "0-2 15-30")

    topology = read_topology(text.encode(), strict=False)

    assert topology.conflicts == (
        Conflict(SlotSet.parse("5-9"), A, B),
        Conflict(SlotSet.parse("0-2"), A, C),
        Conflict(SlotSet.parse("15-20"), B, C),
    )
    assert topology.owner_of(7) == topology.by_id[A]
    assert len(topology.slot_map().slots_of(C)) == 10


@pytest.mark.parametrize("text", ["noflags", "myself,master", "slave,fail,nofailover", "fail?,handshake,noaddr"])
def test_flags_are_in_the_order_of_a_server(text: str) -> None:
    """R20, R128."""
    assert write_flags(*read_flags(text, offset=0, source="x")) == text


@pytest.mark.parametrize("server", ["valkey_cluster_node", "redis_cluster_node"])
def test_text_of_a_real_server_comes_back_byte_for_byte(server: str, request: pytest.FixtureRequest) -> None:
    """CLUSTER NODES and the nodes.conf that the server itself wrote."""
    node = request.getfixturevalue(server)
    text = node.call("CLUSTER", "NODES")
    text = text if isinstance(text, bytes) else text.encode()
    conf = (node.directory / "nodes.conf").read_bytes()

    assert write_nodes(read_topology(text)) == text
    assert (read_topology(conf).form, read_topology(conf).by_id.keys()) == (
        "nodes.conf",
        read_topology(text).by_id.keys(),
    )
    assert read_topology(text).uncovered() == SlotSet()
