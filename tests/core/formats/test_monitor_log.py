"""Lines of MONITOR."""

from __future__ import annotations

import contextlib
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.slot_stats import read_monitor_line, read_plain_line

HOSTILE = [b"", b'"', b"\\", b'\\"', b"a b", b"\r\n\x00\xff", b"] [", "ü".encode()]


def watched(node, commands):
    """What a real server tells a MONITOR client about *commands*."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as link:
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
def test_a_real_servers_log_gives_back_the_words_that_were_sent(server, request):
    """With every byte that a key can have, and a script's own commands."""
    node = request.getfixturevalue(server)
    commands = [[b"SET", key, value] for key in HOSTILE for value in HOSTILE[:3]]
    script = b"return redis.call('GET', KEYS[1])"
    log = watched(node, [*commands, [b"EVAL", script, b"1", b"k"]])
    read = [read_monitor_line(line, offset=0) for line in log.split(b"\r\n")]
    told = [line for line in read if line is not None]

    assert [list(line.words) for line in told if line.words[0] == b"SET"] == commands
    assert [(line.client, line.words) for line in told if line.words[0] == b"GET"] == [(b"lua", (b"GET", b"k"))]
    assert all(line.db == 0 and line.ts_ns > 10**18 for line in told)
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
def test_a_line_that_is_none_is_refused_with_its_offset(line):
    """Whatever is missing of it."""
    with pytest.raises(DecodeError) as caught:
        read_monitor_line(line, offset=77, source="f")

    assert (caught.value.offset, caught.value.source) == (77, "f")


def test_unix_sockets_and_ipv6_stand_in_the_place_of_the_address():
    """As the servers print them."""
    for client in (b"unix:/run/x.sock", b"[::1]:5000", b"lua"):
        line = read_monitor_line(b"1795254729.693956 [3 " + client + b'] "PING"', offset=0)
        assert line is not None
        assert (line.client, line.db, line.words) == (client, 3, (b"PING",))


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_in_another_way(raw):
    """A line, nothing, or a DecodeError."""
    with contextlib.suppress(DecodeError):
        line = read_monitor_line(raw, offset=0)
        assert line is None or line.words


@given(
    st.binary(max_size=40),
    st.lists(st.sampled_from(HOSTILE), max_size=2),
    st.sampled_from([b"GET", b"set", b"X.Y", b"a b"]),
)
def test_the_short_way_finds_the_same_as_the_long_one(key, more, name):
    """Where it finds anything."""
    words = b" ".join(
        b'"' + w.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"' for w in (name, key, *more)
    )
    raw = b"1795254729.693956 [0 h:1] " + words + b"\r"
    plain = read_plain_line(raw)
    with contextlib.suppress(DecodeError):
        line = read_monitor_line(raw, offset=0)
        assert line is not None
        assert plain is None or (plain.ts_ns, plain.name, plain.first) == (line.ts_ns, *line.words[:2])


def test_the_short_way_refuses_what_is_no_line():
    """It is then read the long way, which says why."""
    for raw in (b"rubbish", b'1795254729.693956 [0 h:1] "GET" "k', b'1795254729.693956 [0 h:1] "GET" "k" x'):
        assert read_plain_line(raw) is None
    assert read_plain_line(b'1795254729.693956 [0 h:1] "GET" "k"') is not None
