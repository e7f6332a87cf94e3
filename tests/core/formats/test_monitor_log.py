"""Lines of MONITOR."""

from __future__ import annotations

import contextlib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.slot_stats import read_monitor_line

HOSTILE = [b"", b'"', b"\\", b'\\"', b"a b", b"\r\n\x00\xff", b"] [", "ü".encode()]


def watched(node, commands):
    """What a real server tells a MONITOR client about *commands*."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=60) as link:
        link.sendall(b"MONITOR\r\n")
        received = b""
        while not received.endswith(b"+OK\r\n"):
            received += link.recv(100)
        node.ask(commands)
        node.call("ECHO", "the end")
        while b'"the end"\r\n' not in received:
            received += link.recv(1 << 16)
    return received


@pytest.mark.parametrize("server", ["valkey_cluster_node", "redis_cluster_node"])
def test_a_real_servers_log_returns_the_sent_arguments(server, request):
    """With every byte that a key can have, and a script's own commands."""
    node = request.getfixturevalue(server)
    commands = [[b"SET", key, value] for key in HOSTILE for value in HOSTILE[:3]]
    script = b"return redis.call('GET', KEYS[1])"
    log = watched(node, [*commands, [b"EVAL", script, b"1", b"k"]])
    read = [read_monitor_line(line, offset=0) for line in log.split(b"\r\n")]
    parsed = [line for line in read if line is not None]

    assert [list(line.arguments) for line in parsed if line.arguments[0] == b"SET"] == commands
    assert [line.arguments for line in parsed if line.arguments[0] == b"GET"] == [(b"GET", b"k")]
    assert all(line.ts_ns > 10**18 for line in parsed)
    assert read[0] is None
    node.call("FLUSHALL")


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b'1.0 [0 h:1] "GET" "k"',
        b"1795254729.693956 [0 h:1] GET k",
        b'1795254729.693956 [0 h:1] "GET" "k',
        b'1795254729.693956 [0 h:1] "GET"  "k"',
        b'1795254729.693956 [0 h:1] "GET""k"',
        b"1795254729.693956 [0 h:1]",
    ],
)
def test_an_invalid_line_is_refused_with_its_offset(line):
    with pytest.raises(DecodeError) as caught:
        read_monitor_line(line, offset=77, source="f")

    assert (caught.value.offset, caught.value.source) == (77, "f")


def test_unix_sockets_and_ipv6_stand_in_the_place_of_the_address():
    for client in (b"unix:/run/x.sock", b"[::1]:5000", b"lua"):
        line = read_monitor_line(b"1795254729.693956 [3 " + client + b'] "PING"', offset=0)
        assert line is not None
        assert line.arguments == (b"PING",)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_a_decode_error(raw):
    with contextlib.suppress(DecodeError):
        line = read_monitor_line(raw, offset=0)
        assert line is None or line.arguments
