"""Connections to the masters of a plan: commands, receivers, and hidden secrets."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster_core.rebalance.execution.effects import Answered, Ask, Lost, Migrate, Refused, Send
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import OK
from slotscope.servers.cluster import Access, Address
from slotscope.servers.moves import LiveNodes, open_nodes
from tests.benches.clusters import Cluster, topology_of
from tests.benches.fake_servers import scripted
from tests.benches.live_runs import slotscope
from tests.benches.moving_cluster import fill, owners_of, store_moves
from tests.benches.servers import SLOT_COUNT, free_port, redis_binary, running, wait_for

pytestmark = pytest.mark.servers

KEYS = (b"a", b"b")


@pytest.mark.parametrize(
    ("access", "reason"),
    [
        (Access(), ()),
        (Access(password="p"), ("AUTH", "p")),
        (Access("u", "p"), ("AUTH2", "u", "p")),
        (Access("u"), ()),
    ],
)
def test_migrate_brings_the_password_to_the_target(access, reason):
    """AUTH or AUTH2 before KEYS; REPLACE only where it is asked for; database 0."""
    nodes = LiveNodes(access, ("s", "t"), {"s": Address("h", 1), "t": Address("10.0.0.2", 7000)})

    plain, replace = (nodes._arguments(Migrate("s", "t", KEYS, again), 7500) for again in (False, True))

    assert plain == ("MIGRATE", "10.0.0.2", 7000, "", 0, 7500, *reason, "KEYS", *KEYS)
    assert replace == ("MIGRATE", "10.0.0.2", 7000, "", 0, 7500, "REPLACE", *reason, "KEYS", *KEYS)


def test_a_node_with_another_id_gets_no_command(redis_cluster_node):
    """CLUSTER MYID first: addresses change hands."""
    meant = "f" * 40
    nodes = LiveNodes(Access(timeout_s=60), (meant,), {meant: Address("127.0.0.1", redis_cluster_node.port)})

    (reply,) = nodes.ask(Ask((Send(meant, ("CLUSTER", "SETSLOT", "1", "STABLE")),)))
    sight = nodes.look([meant])
    nodes.close()

    assert isinstance(reply, Lost)
    assert "is another node" in reply.text
    assert list(sight.lost) == [meant]


def test_replies_stand_in_the_order_of_the_commands(redis_cluster_node):
    """Errors are replies; a node that is not there is lost and the others go on."""
    me, gone = redis_cluster_node.call("CLUSTER", "MYID").decode(), "e" * 40
    places = {me: Address("127.0.0.1", redis_cluster_node.port), gone: Address("127.0.0.1", free_port())}
    nodes = LiveNodes(Access(timeout_s=60), (me, gone), places)

    replies = nodes.ask(
        Ask(
            (
                Send(me, ("CLUSTER", "COUNTKEYSINSLOT", "1")),
                Send(gone, ("PING",)),
                Send(me, ("CLUSTER", "SETSLOT", "1", "IMPORTING", gone)),
                Send(me, ("CLUSTER", "GETKEYSINSLOT", "1", "5")),
            )
        )
    )
    nodes.close()

    assert replies[0] == Answered(0)
    assert isinstance(replies[1], Lost)
    assert isinstance(replies[2], Refused)
    assert replies[3] == Answered([])


def test_a_hanging_node_is_waited_for_up_to_the_timeout():
    """It takes connections and says nothing: look and command end in time, the whole of a pipeline within one limit."""
    with scripted(lambda arguments: None) as (port, _):
        nodes = LiveNodes(Access(), ("a",), {"a": Address("127.0.0.1", port)})
        begun_s = time.monotonic()
        sight = nodes.look(["a"], 0.3)
        replies = nodes.ask(Ask((Send("a", ("PING",)), Send("a", ("PING",))), within_s=0.3))
        took_s = time.monotonic() - begun_s
        nodes.close()

    assert sight.lost == {"a": "no answer in time"}
    assert replies == [Lost("no answer in time")] * 2
    assert 0.5 < took_s < 30


def test_a_trickling_node_is_a_hanging_node():
    """A byte now and then does not begin the wait anew."""

    def trickle(arguments: list[bytes]) -> bytes:
        time.sleep(0.1)
        return b"*9\r\n" if arguments[1:] == [b"MYID"] else b":1\r\n"

    with scripted(trickle) as (port, _):
        nodes = LiveNodes(Access(), ("a",), {"a": Address("127.0.0.1", port)})
        begun_s = time.monotonic()
        (reply,) = nodes.ask(Ask((Send("a", ("PING",)),), within_s=0.4))
        nodes.close()

    assert isinstance(reply, Lost)
    assert time.monotonic() - begun_s < 30


def test_a_target_that_missed_a_migrate_is_not_waited_for_again():
    """Each wait keeps the source from its clients; another target is another matter."""

    def answer(arguments: list[bytes]) -> bytes:
        if arguments[0] == b"MIGRATE":
            return b"-IOERR error or timeout reading to target instance\r\n" if arguments[2] == b"1" else b"+OK\r\n"
        return b"$1\r\ns\r\n"

    with scripted(answer) as (port, asked):
        places = {"s": Address("127.0.0.1", port), "t": Address("127.0.0.1", 1), "u": Address("127.0.0.1", 2)}
        nodes = LiveNodes(Access(timeout_s=60), ("s", "t", "u"), places)
        replies = nodes.ask(Ask(tuple(Migrate("s", to, KEYS) for to in ("t", "t", "u", "t")), migrate_ms=10_000))
        nodes.close()

    assert [type(reply) for reply in replies] == [Refused, Lost, Answered, Lost]
    assert [arguments[2:6] for arguments in asked if arguments[0] == b"MIGRATE"] == [
        [b"1", b"", b"0", b"10000"],
        [b"2", b"", b"0", b"10000"],
    ]


@pytest.mark.parametrize(("reply", "timeout_ms"), [(b"*2\r\n$1\r\na\r\n$4\r\n2500\r\n", 2500), (b"-NOPERM no\r\n", 0)])
def test_the_node_timeout_is_asked_once_and_may_be_refused(reply, timeout_ms):
    me = "a" * 40
    line = f"{me} 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-16383\n".encode()

    def answer(arguments: list[bytes]) -> bytes:
        answers = {b"MYID": me.encode(), b"NODES": line, b"INFO": b"cluster_state:ok\r\n"}
        if arguments[0] == b"CONFIG":
            return reply
        text = answers.get(arguments[-1], b"")
        return b"$%d\r\n%s\r\n" % (len(text), text)

    with scripted(answer) as (port, asked):
        nodes = LiveNodes(Access(timeout_s=60), (me,), {me: Address("127.0.0.1", port)})
        seen = [nodes.look([me]).nodes[me].node_timeout_ms for _ in range(3)]
        nodes.close()

    assert seen == [timeout_ms] * 3
    assert sum(arguments[0] == b"CONFIG" for arguments in asked) == 1


def test_unknown_masters_are_an_input_error(redis_cluster_node):
    with pytest.raises(InputError, match="no master of the plan is in this cluster"):
        open_nodes(Access(), ["d" * 40], f"127.0.0.1:{redis_cluster_node.port}")
    with pytest.raises(InputError, match="refused"):
        open_nodes(Access(), ["d" * 40], f"127.0.0.1:{free_port()}")


def test_slots_move_over_tls(tmp_path):
    """Client and servers speak TLS, MIGRATE too; without the authority's certificate nothing is sent."""
    binary = redis_binary()
    if binary is None or shutil.which("openssl") is None:
        pytest.skip("redis-server or openssl is not installed")
    key, cert = certificate(tmp_path)
    files = {"tls_cert_file": cert, "tls_key_file": key, "tls_ca_cert_file": cert, "tls_auth_clients": "no"}
    with ExitStack() as stack:
        ports = [free_port(), free_port()]
        options = {"cluster": True, "tls_cluster": "yes", "tls_replication": "yes", **files}
        servers = [stack.enter_context(running(binary, tls_port=port, **options)) for port in ports]
        for number, node in enumerate(servers):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            node.call("CLUSTER", "ADDSLOTSRANGE", *((0, 8191), (8192, SLOT_COUNT - 1))[number])
        servers[0].call("CLUSTER", "MEET", "127.0.0.1", ports[1])
        cluster = Cluster(servers)
        cluster.settle(cluster_state="ok", cluster_size=2)
        wait_for(lambda: all("" not in owners_of(node) for node in servers), "both to know all owners")
        fill(cluster, [(f"{{{n}}}", b"x") for n in range(2000)])
        stored = store_moves(tmp_path / "root", cluster, [(slot, 0, 1) for slot in range(300)])
        address = ("--cluster", f"127.0.0.1:{ports[0]}", "--apply", "--tls")

        assert slotscope(tmp_path / "root", cluster, *address) != OK
        assert slotscope(tmp_path / "root", cluster, *address, "--tls-ca", cert) == OK

        assert [owners_of(node) for node in servers] == [list(stored.plan.owners_after)] * 2
        assert sum(node.call("DBSIZE") for node in servers) == 2000
        assert not any(node.importing or node.migrating for node in topology_of(servers[1]).nodes)


def certificate(folder: Path) -> tuple[str, str]:
    """A key and a certificate of its own for localhost."""
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", cert]
    subprocess.run([*made, *names], check=True, capture_output=True)
    return key, cert
