"""What one server may make of us: nothing but a reply in time, or an error that says why not."""

from __future__ import annotations

import resource
import shutil
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from slotscope.servers import node_link
from slotscope.servers.cluster import Answer, NodePoll, Refused, Schedule
from slotscope.servers.node_link import Access, Address, LinkError
from tests.benches.fake_servers import scripted

HOSTILE = {
    "nested": (b"*1\r\n" * 200_000, "no reply: Max nesting depth exceeded"),
    "digits": (b":" + b"9" * 5000 + b"\r\n", "no reply: Bad integer value"),
    "length": (b"$" + b"9" * 5000 + b"\r\n", "no reply: Bad bulk string length"),
    "terabyte": (b"$1099511627776\r\n", "no answer in time"),
    "no protocol": (b"HTTP/1.1 400\r\n", 'no reply: Protocol error, got "H" as reply type byte'),
    "half": (b"$99\r\nab", "no answer in time"),
}


@pytest.mark.parametrize(("raw", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_an_invalid_reply_is_an_error_with_its_reason(raw, reason):
    with scripted(lambda arguments: raw) as (port, _):
        access = Access(timeout_s=0.5 if reason == "no answer in time" else 60)
        link = access.connect(Address("127.0.0.1", port))
        with pytest.raises(LinkError) as error:
            link.ask([("CLUSTER", "NODES")])
        link.close()
        actual = NodePoll(Address("127.0.0.1", port), access, Schedule(1.0)).ask()

    assert str(error.value) == reason
    assert actual == Refused(Address("127.0.0.1", port), reason)


def test_an_invalid_reply_after_replies_in_a_packet_is_an_error():
    """Replies that are here already are taken without waiting; what follows them is judged alike."""
    with scripted(lambda arguments: b":1\r\n:2\r\nHTTP/1.1 400\r\n") as (port, _):
        link = Access(timeout_s=60).connect(Address("127.0.0.1", port))
        with pytest.raises(LinkError, match="no reply: Protocol error"):
            link.ask([("CLUSTER", "NODES")] * 3)
        link.close()


@pytest.mark.parametrize("commands", [1, 200_000])
def test_a_server_that_is_killed_while_it_is_asked_is_an_error_of_the_link(commands):
    """Its system resets the connection, while an answer is waited for or while commands are still sent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Access(timeout_s=60).connect(Address("127.0.0.1", server.getsockname()[1]))
        accepted, _ = server.accept()

        def die() -> None:
            accepted.recv(1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()

        killed = threading.Thread(target=die)
        killed.start()
        with pytest.raises(LinkError, match=r"reset|pipe"):
            link.ask([("CLUSTER", "NODES")] * commands)
        killed.join()
        link.close()


def test_a_list_that_memory_does_not_hold_is_an_error():
    before = resource.getrlimit(resource.RLIMIT_AS)
    with scripted(lambda arguments: b"*4294967295\r\n") as (port, _):
        link = Access(timeout_s=60).connect(Address("127.0.0.1", port))
        resource.setrlimit(resource.RLIMIT_AS, (32 << 30, before[1]))
        try:
            with pytest.raises(LinkError, match=r"^no reply: a list that memory does not hold$"):
                link.ask([("CLUSTER", "NODES")])
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        link.close()


def test_a_reply_without_end_is_cut_off(monkeypatch):
    """Bytes that are taken for one reply have a bound, whatever its parts are."""
    monkeypatch.setattr(node_link, "REPLY_BYTES_MAX", 1 << 20)
    with scripted(lambda arguments: b"*2000000\r\n" + b"$3\r\nabc\r\n" * 300_000) as (port, _):
        link = Access(timeout_s=60).connect(Address("127.0.0.1", port))
        with pytest.raises(LinkError, match=r"a reply of more than 1,048,576 bytes"):
            link.ask([("INFO",)])
        link.close()


def test_a_refused_password_is_not_shown():
    with (
        scripted(lambda arguments: b"-WRONGPASS no user has " + arguments[-1] + b"\r\n") as (port, asked),
        pytest.raises(LinkError, match=r"^no user has \*\*\*$"),
    ):
        Access("u", "hush").connect(Address("127.0.0.1", port))
    assert asked == [[b"AUTH", b"u", b"hush"]]


@pytest.mark.parametrize(
    "stats", [b":1\r\n", b"*1\r\n:7\r\n", b"*1\r\n*2\r\n:7\r\n*1\r\n:1\r\n", b"*1\r\n*2\r\n$1\r\nx\r\n*0\r\n"]
)
def test_slot_statistics_of_another_shape_are_no_answer(stats):
    def answer(arguments: list[bytes]) -> bytes:
        return stats if arguments[1] == b"SLOT-STATS" else b"$1\r\nx\r\n"

    with scripted(answer) as (port, _):
        actual = NodePoll(Address("127.0.0.1", port), Access(timeout_s=60), Schedule(1.0, slot_stats_s=0)).ask()

    assert actual == Refused(Address("127.0.0.1", port), "CLUSTER SLOT-STATS: not slots with their metrics")


def test_a_permanent_refusal_is_reported_once_and_not_repeated():
    """What the server is too old for, or forbids; one that is loading is asked again."""
    replies = {
        b"CLUSTER SLOT-STATS": b"-ERR unknown subcommand\r\n", b"INFO": b"-LOADING wait\r\n",
        b"CONFIG GET": b"-NOPERM no permissions\r\n",
    }  # fmt: skip
    asked: list[bytes] = []

    def answer(arguments: list[bytes]) -> bytes:
        name = b" ".join(arguments[:2])
        asked.append(name)
        return replies.get(name, b"$1\r\nx\r\n")

    with scripted(answer) as (port, _):
        poll = NodePoll(Address("127.0.0.1", port), Access(timeout_s=60), Schedule(1.0, slot_stats_s=0, settings_s=0))
        answers = [poll.ask() for _ in range(3)]

    assert [reply.refused for reply in answers if isinstance(reply, Answer)] == [
        "CLUSTER SLOT-STATS: ERR unknown subcommand; CONFIG GET: NOPERM no permissions",
        "",
        "",
    ]
    assert (asked.count(b"CLUSTER SLOT-STATS"), asked.count(b"INFO"), asked.count(b"CLUSTER NODES")) == (1, 3, 3)


@contextmanager
def tls_server(folder: Path, names: str) -> Iterator[tuple[int, str]]:
    """A server on loopback with a certificate for *names*; yields its port and the certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run(
        [*made, "-keyout", key, "-out", cert, "-subj", "/CN=x", "-addext", f"subjectAltName={names}"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    with suppress(OSError), context.wrap_socket(plain, server_side=True) as link:
                        link.recv(1024)
                        link.sendall(b"+OK\r\n")
                        time.sleep(0.05)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1], cert


@pytest.mark.parametrize(
    ("names", "announced", "is_good"),
    [
        ("DNS:db-1.example", "db-1.example", True),
        ("DNS:db-1.example", "db-2.example", False),
        ("DNS:db-1.example", "", False),
        ("IP:127.0.0.1", "db-1.example", True),
        ("IP:127.0.0.1", "", True),
        ("IP:127.0.0.2", "db-1.example", False),
        ("DNS:*.db.example", "one.db.example", True),
    ],
)
def test_a_certificate_names_the_announced_host_or_the_address(tmp_path, names, announced, is_good):
    """The connection goes to the address that the cluster tells; whatever else the certificate names does not count."""
    with tls_server(tmp_path, names) as (port, cert):
        access, address = Access(tls=True, tls_ca=cert), Address("127.0.0.1", port, announced)
        if is_good:
            link = access.connect(address)
            assert link.ask([("PING",)]) == [b"OK"]
            link.close()
        else:
            with pytest.raises(LinkError, match=f"not valid for '{announced or '127.0.0.1'}'"):
                access.connect(address)
        link = Access(tls=True, insecure=True).connect(address)
        link.close()


def test_a_refused_connection_names_the_settings_to_check():
    """No number of a system error; nothing listens on the port of a socket that is only bound."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(LinkError) as refused:
            Access().connect(Address("127.0.0.1", bound.getsockname()[1]))

    assert str(refused.value) == "connection refused; check the address, and that the server runs"
