"""Redirections against live clusters: the same commands to real nodes and to `route`, in every state of a slot."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from cluster_core.routing.key_positions import key_positions, table_of
from cluster_core.routing.redirect import (
    DOWN,
    DOWN_READ_ONLY,
    NOT_SERVED,
    REDIS_7_0,
    SERVE,
    VALKEY_9_1,
    Ask,
    Client,
    CrossSlot,
    Dialect,
    Endpoint,
    EndpointType,
    Moved,
    RoutingView,
    Settings,
    TryAgain,
    route,
    view_of,
)
from cluster_core.slots.key_slot import key_slot
from tests.benches.clusters import Cluster, converse, error_text, running_cluster, topology_of
from tests.benches.servers import SLOT_COUNT, Server, installed, redis_binary, valkey_binary, wait_for

REDIRECTIONS = ("MOVED", "ASK", "TRYAGAIN", "CROSSSLOT", "CLUSTERDOWN")
DIALECTS = {"redis-7.0": (REDIS_7_0, redis_binary), "valkey-9.1": (VALKEY_9_1, valkey_binary)}
OPEN, CLOSED, FREE = (next(tag for tag in (b"{t%d}" % i for i in range(999)) if key_slot(tag) // 4096 == want)
                      for want in (0, 2, 1))  # fmt: skip
"""Hash tags: of a slot that is moved, of one of the other master, and of one that is taken away from its owner."""
KEYS = [tag + name for tag in (OPEN, CLOSED, FREE) for name in (b"stays", b"goes", b"absent", b"absent2")]
ONE_KEY = [b"GET", b"TTL", b"PERSIST", b"STRLEN", b"SORT", b"TYPE"]
MANY_KEYS = [b"MGET", b"EXISTS", b"RPOPLPUSH", b"SINTER", b"TOUCH"]
SHEBANG = (b"return 1", b"#!lua flags=no-writes\nreturn 1", b"#!lua\nreturn 1")


@pytest.fixture(scope="module", params=list(DIALECTS))
def live(request) -> Iterator[tuple[Dialect, Cluster]]:
    """Two masters and a replica of the first; slot OPEN of the first is being moved to the second."""
    dialect, binary_of = DIALECTS[request.param]
    with running_cluster(installed(binary_of()), masters=2, replicas=1) as cluster:
        open_slot(cluster)
        yield dialect, cluster


def open_slot(cluster: Cluster) -> None:
    """MIGRATING and IMPORTING, with one key moved and one still here."""
    source, target = cluster.masters
    slot = key_slot(OPEN)
    for tag in (OPEN, FREE):
        source.ask([("SET", tag + b"stays", 1), ("SET", tag + b"goes", 1)])
    target.ask([("SET", CLOSED + b"stays", 1), ("SET", CLOSED + b"goes", 1)])
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.call("CLUSTER", "MYID"))
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.call("CLUSTER", "MYID"))
    source.call("MIGRATE", "127.0.0.1", target.port, OPEN + b"goes", 0, 5000)
    replica = cluster.replicas[0]
    wait_for(lambda: keys_on(replica) == keys_on(source), "the replica to follow")


def keys_on(node: Server) -> set[bytes]:
    return set(node.call("KEYS", "*"))


def view_from(node: Server, dialect: Dialect, settings: Settings) -> RoutingView:
    ok = b"cluster_state:ok" in node.call("CLUSTER", "INFO")
    return view_of(topology_of(node), cluster_ok=ok, dialect=dialect, settings=settings)


def draw_command(random: Random, port: int) -> list[bytes]:
    """A command that changes no key."""
    shape = random.randrange(12)
    key = random.choice(KEYS)
    if shape < 4:
        return [random.choice(ONE_KEY), key]
    if shape < 9:
        tag = random.choice((OPEN, OPEN, CLOSED, FREE))
        near = [name for name in KEYS if name.startswith(tag)] if random.random() < 0.85 else KEYS
        name = random.choice(MANY_KEYS)
        return [name, *(random.choice(near) for _ in range(2 if name == b"RPOPLPUSH" else random.randint(1, 3)))]
    if shape == 9:
        return [b"EVAL", random.choice(SHEBANG), b"1", key]
    if shape == 10:
        return [b"SPUBLISH", key, b"message"]
    return random.choice(
        [
            [b"MIGRATE", b"127.0.0.1", b"%d" % port, random.choice((OPEN, CLOSED)) + b"absent", b"0", b"100"],
            [b"PING"],
            [b"GET"],
            [b"NOSUCH", key],
            [b"EVAL", b"return 1", b"0"],
            [b"OBJECT", b"ENCODING", key],
        ]
    )


def draw_session(random: Random, port: int) -> list[list[bytes]]:
    """Commands of one connection: flags, single commands, transactions."""
    session: list[list[bytes]] = []
    if random.random() < 0.5:
        session.append([b"READONLY"])
    for _ in range(random.randint(1, 4)):
        if random.random() < 0.35:
            session.append([b"ASKING"])
        if random.random() < 0.25:
            inside = [draw_command(random, port) for _ in range(random.randint(1, 3))]
            session += [[b"MULTI"], *inside, [b"EXEC"]]
        else:
            session.append(draw_command(random, port))
    if random.random() < 0.2:
        session += [[b"READWRITE"], draw_command(random, port)]
    return session


def disagreements(cluster: Cluster, dialect: Dialect, settings: Settings, seed: int, sessions: int) -> list[object]:
    """Sessions at random nodes with different answers of node and `route`, and the frequency of each answer."""
    random = Random(seed)
    views = [view_from(node, dialect, settings) for node in cluster.nodes]
    held = [keys_on(node) for node in cluster.nodes]
    wrong: list[object] = []
    replies: dict[str, int] = {}
    for _ in range(sessions):
        index = random.randrange(len(cluster.nodes))
        session = draw_session(random, cluster.masters[1].port)
        client, refused = Client(), False
        for arguments, reply in zip(session, converse(cluster.nodes[index], session), strict=True):
            text = error_text(reply)
            answered = text if text.startswith(REDIRECTIONS) else ""
            decision = route(views[index], arguments, client=client, keys_here=held[index])
            aborted = arguments == [b"EXEC"] and refused
            if not aborted and answered != str(decision):
                wrong.append((index, client, arguments, reply, str(decision)))
            replies[(answered or "serve").split()[0]] = replies.get((answered or "serve").split()[0], 0) + 1
            refused = client.queued is not None and (refused or text != "") and arguments != [b"EXEC"]
            client = client.after(arguments, decision)
    return [*wrong, *([] if len(replies) > 1 else [replies])]


def configure(cluster: Cluster, **settings: str) -> None:
    for node in cluster.nodes:
        for name, value in settings.items():
            node.call("CONFIG", "SET", name.replace("_", "-"), value)


def test_a_migrating_slot(live):
    """R114 to R121: keys here, gone and never there; ASKING, READONLY, MULTI; masters and a replica."""
    dialect, cluster = live

    assert disagreements(cluster, dialect, Settings(), 1, 1200) == []


@pytest.mark.parametrize("kind", list(EndpointType))
def test_redirections_name_nodes_as_configured(live, kind):
    """R120: cluster-preferred-endpoint-type, with a host name, with none, with nothing."""
    dialect, cluster = live
    cluster.masters[0].call("CONFIG", "SET", "cluster-announce-hostname", "first.example")
    configure(cluster, cluster_preferred_endpoint_type=kind.value)
    try:
        wait_for(lambda: all(b"first.example" in node.call("CLUSTER", "NODES") for node in cluster.nodes), "the name")

        assert disagreements(cluster, dialect, Settings(endpoint_type=kind), 2, 150) == []
    finally:
        configure(cluster, cluster_preferred_endpoint_type="ip")


@pytest.mark.parametrize(
    ("coverage", "reads", "pubsub"),
    [("no", "no", "yes"), ("yes", "no", "yes"), ("yes", "no", "no"), ("yes", "yes", "yes"), ("yes", "yes", "no")],
)
def test_an_unserved_slot(live, coverage, reads, pubsub):
    """R115, R118: CLUSTERDOWN for the slot, for all slots, for writes, for shard channels."""
    dialect, cluster = live
    slot = key_slot(FREE)
    configure(
        cluster,
        cluster_require_full_coverage=coverage,
        cluster_allow_reads_when_down=reads,
        cluster_allow_pubsubshard_when_down=pubsub,
    )
    for node in cluster.nodes:
        topology = topology_of(node)
        spare = next(number for number in range(slot + 1, SLOT_COUNT) if topology.owner_of(number) is not None)
        if topology.owner_of(slot) is not None:
            node.call("CLUSTER", "DELSLOTS", slot)
        node.call("CLUSTER", "DELSLOTS", spare)  # so that the state is looked at again
    cluster.settle(cluster_state="ok" if coverage == "no" else "fail")
    settings = Settings(allow_reads_when_down=reads == "yes", allow_pubsubshard_when_down=pubsub == "yes")

    assert disagreements(cluster, dialect, settings, 3, 300) == []


ME, OTHER, KEY = "a" * 40, "b" * 40, b"k"
NODES = {ME: Endpoint("10.0.0.1", 7000), OTHER: Endpoint("10.0.0.2", 7001, "two.example")}
SLOT = key_slot(KEY)


def owned_by(owner: str | None, **changes) -> RoutingView:
    return RoutingView(ME, {} if owner is None else {SLOT: owner}, NODES, **changes)


MIGRATING = {"owner": ME, "migrating": {SLOT: OTHER}}
IMPORTING = {"owner": OTHER, "importing": {SLOT: OTHER}}
REPLICA = {"owner": OTHER, "master_id": OTHER}
IS_DOWN = {"owner": ME, "cluster_ok": False}
READS_WHEN_DOWN = IS_DOWN | {"settings": Settings(allow_reads_when_down=True)}
NO_CHANNELS_WHEN_DOWN = IS_DOWN | {"settings": Settings(allow_pubsubshard_when_down=False)}
MASTER, READER, ASKING, QUEUING = Client(), Client(readonly=True), Client(asking=True), Client(queued=())
MOVED, ASK, AGAIN = Moved(SLOT, "10.0.0.2:7001"), Ask(SLOT, "10.0.0.2:7001"), TryAgain()


@pytest.mark.parametrize(
    ("view", "client", "command", "redis", "valkey"),
    [
        ({"owner": ME}, MASTER, "GET {k}a", SERVE, SERVE),
        ({"owner": OTHER}, MASTER, "GET {k}a", MOVED, MOVED),
        ({"owner": None}, MASTER, "MGET {k}a z", NOT_SERVED, CrossSlot()),
        (MIGRATING, MASTER, "GET {k}a", SERVE, SERVE),
        (MIGRATING, MASTER, "GET {k}b", ASK, ASK),
        (MIGRATING, MASTER, "MGET {k}a {k}b", AGAIN, AGAIN),
        (MIGRATING, MASTER, "SPUBLISH {k}b message", SERVE, SERVE),
        (MIGRATING, QUEUING, "GET {k}b", ASK, SERVE),
        (IMPORTING, MASTER, "GET {k}a", MOVED, MOVED),
        (IMPORTING, ASKING, "GET {k}b", SERVE, SERVE),
        (IMPORTING, ASKING, "MGET {k}a {k}b", AGAIN, AGAIN),
        (IMPORTING | REPLICA, ASKING, "SET {k}a 1", SERVE, MOVED),
        (REPLICA, READER, "EVAL return 1 {k}a", SERVE, SERVE),
        (REPLICA, READER, "EVAL #!lua 1 {k}a", MOVED, MOVED),
        (IS_DOWN, MASTER, "GET {k}a", DOWN, DOWN),
        (IS_DOWN, MASTER, "SPUBLISH {k}a message", SERVE, SERVE),
        (NO_CHANNELS_WHEN_DOWN, MASTER, "SPUBLISH {k}a message", DOWN, DOWN),
        (READS_WHEN_DOWN, MASTER, "GET {k}a", SERVE, SERVE),
        (READS_WHEN_DOWN, MASTER, "SET {k}a 1", DOWN_READ_ONLY, DOWN_READ_ONLY),
    ],
)
def test_a_node_decides_by_the_state_of_the_slot(view, client, command, redis, valkey):
    """R114 to R121, without a server: the node has key {k}a and no {k}b."""
    views = [owned_by(**view, dialect=dialect) for dialect in (REDIS_7_0, VALKEY_9_1)]
    decisions = [route(each, command.encode().split(), client=client, keys_here={b"{k}a"}) for each in views]

    assert decisions == [redis, valkey]


def test_only_keys_of_open_slots_are_asked_for():
    """A caller may have to look them up somewhere."""

    def refuse(key: bytes) -> bool:
        raise AssertionError(key)

    assert route(owned_by(OTHER), [b"GET", KEY], keys_here=refuse) == MOVED


def test_the_caller_states_whether_a_cached_script_writes():
    """EVALSHA and FCALL on a replica: only the node knows the script (`getCommandFlags`)."""
    view, command = owned_by(**REPLICA), [b"EVALSHA", b"0" * 40, b"1", KEY]
    decisions = [route(view, command, client=READER, script_writes=writes) for writes in (None, False, True)]

    assert decisions == [SERVE, SERVE, MOVED]


def test_every_way_to_write_a_name_is_one_command():
    """Names are compared without case, subcommands too."""
    table = table_of("valkey-9.1")
    info = table.find([b"oBjEcT", b"EnCoDiNg", KEY])

    assert info is not None
    assert key_positions([b"oBjEcT", b"EnCoDiNg", KEY], info) == (2,)
    assert table.find([b"object|encoding", KEY]) is None
    assert table.find([]) is None
