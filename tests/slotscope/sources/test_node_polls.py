"""Polls of CLUSTER NODES: forms of time, who answered, bad lines."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import read_poll
from cluster_core.instants import time_ns
from slotscope.servers.cluster import Answer
from slotscope.servers.node_link import Address
from slotscope.sources.node_polls import PollFile, newest_infos

A, B = "a" * 40, "b" * 40
TEXT = (
    f"{A} 10.0.0.1:7000@17000 myself,master - 0 0 3 connected 0-8191\n"
    f"{B} 10.0.0.2:7000@17000 master,fail? - 1795254729000 1795254728000 2 connected 8192-16383\n"
)
NS = 1_795_254_729_693_956_704


@pytest.mark.parametrize(
    ("expected", "ns"),
    [
        (NS, NS),
        (str(NS), NS),
        (NS // 1000, NS // 1000 * 1000),
        (NS // 10**6, NS // 10**6 * 10**6),
        (1795254729, 1795254729 * 10**9),
        (1795254729.25, 1795254729250000000),
        (1795254729693.5, 1795254729693500000),
        ("2026-11-21T09:52:09.693956Z", 1795254729693956000),
        ("2026-11-21 10:52:09.693956+01:00", 1795254729693956000),
        ("2026-11-21T09:52:09.693956", 1795254729693956000),
        (None, None), (True, None), ([], None), ("soon", None), (-1, None), (2**70, None),
        (float("nan"), None), (float("inf"), None), ("1e400", None), ("9999-12-31T23:59:59", None),
    ],
)  # fmt: skip
def test_a_time_is_understood_in_every_unit(expected, ns):
    """Seconds, milliseconds, microseconds and nanoseconds are recognised by their size."""
    assert time_ns(expected) == ns


def info_poll(seconds: int, node: str, maxmemory: int, **more: object) -> str:
    """A poll that asked for INFO, too."""
    text = (
        TEXT
        if node == A
        else TEXT.replace("myself,", "").replace(f"{B} 10.0.0.2:7000@17000 ", f"{B} :7000@17000 myself,")
    )
    info = f"# Memory\r\nused_memory:700\r\nmaxmemory:{maxmemory}\r\n"
    return json.dumps({"time": seconds * 10**9, "text": text, "persistence": info, **more})


def test_the_newest_info_of_a_node_comes_from_its_newest_poll_with_info(tmp_path):
    """Whatever the order of files; polls without INFO, without all that is asked for, and lines that are none count for nothing."""
    lines = [info_poll(3 * 10**9, A, 300), info_poll(2 * 10**9, A, 200), info_poll(2 * 10**9, B, 250)]
    lines += [
        json.dumps({"time": 4 * 10**18, "text": TEXT}),
        '{"maxmemory:',
        info_poll(5 * 10**9, A, 900, persistence="maxmemory:900"),
    ]
    lines += [info_poll(6 * 10**9, A, 900, text=7), info_poll(6 * 10**9, A, 900, time=None)]
    (tmp_path / "polls").write_text("\n".join(lines))

    assert newest_infos([str(tmp_path / "polls")], ("maxmemory", "used_memory")) == {
        A: {"maxmemory": "300", "used_memory": "700"},
        B: {"maxmemory": "250", "used_memory": "700"},
    }


@pytest.mark.parametrize(
    ("polled", "timeout_ms"),
    [("5000", 5000), (5000, 5000), (None, 0), ("", 0), ("-1", 0), ("²", 0), ("9" * 20, 0), ([1], 0)],
)
def test_a_poll_may_have_the_node_timeout(polled, timeout_ms):
    line = json.dumps({"time": NS, "text": TEXT, "node_timeout_ms": polled}).encode()

    assert read_poll(line, line=1).node_timeout_ms == timeout_ms


def test_a_written_poll_reads_back():
    poll = read_poll(Answer(Address("10.0.0.1", 7000), NS - 5, NS, TEXT, "").line().encode(), line=3)

    assert (poll.line, poll.ts_ns, poll.asked_ns, poll.text) == (3, NS, NS - 5, TEXT)
    assert (poll.observer, poll.address) == (A, "10.0.0.1:7000")
    assert [node.id for node in poll.topology.nodes] == [A, B]


@pytest.mark.parametrize(
    ("node", "text", "expected"),
    [
        ("10.9.9.9:1", TEXT, (A, "10.0.0.1:7000")),
        (None, TEXT, (A, "10.0.0.1:7000")),
        (7000, TEXT.replace("10.0.0.1:7000", ":7000"), (A, ":7000")),
        ("10.9.9.9:7000", TEXT.replace("10.0.0.1:7000", ":7000"), (A, "10.9.9.9:7000")),
        (A, TEXT.replace("myself,", ""), (A, "")),
        (7000, TEXT.replace("myself,", ""), ("", ":7000")),
    ],
)
def test_the_answer_names_its_node(node, text, expected):
    """The line with ``myself`` (R128) overrides the line of JSON."""
    poll = read_poll(json.dumps({"time": NS, "node": node, "text": text}).encode(), line=1)

    assert (poll.observer, poll.address) == expected


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{", "not a line of JSON"),
        (b"[" * 100_000, "not a line of JSON"),
        (b"\xff\xfe", "not a line of JSON"),
        (b"[]", "a poll is a JSON object"),
        (b'{"time": 1}', "no text of CLUSTER NODES"),
        (b'{"time": 1, "text": 5}', "no text of CLUSTER NODES"),
        (b'{"text": ""}', "the time is missing"),
        (b'{"time": 1795254729, "text": ""}', "does not name the node"),
        (b'{"time": 1795254729, "node": "x", "text": "rubbish"}', "CLUSTER NODES, byte 0 of the text"),
        (b'{"time": 1795254729, "node": "x", "text": "\\ud800"}', "CLUSTER NODES, byte 0 of the text"),
    ],
)
def test_an_invalid_poll_line_has_a_reason(raw, reason):
    with pytest.raises(DecodeError, match=reason) as caught:
        read_poll(raw, line=7, source="polls.jsonl")

    assert (caught.value.offset, caught.value.source) == (7, "polls.jsonl")


@pytest.mark.long
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=5
    )
)
def test_any_json_value_is_a_poll_or_a_decode_error(value):
    shapes = (value, {"time": value, "node": value, "text": TEXT}, {"time": NS, "text": value, "node": value})

    assert all(outcome(json.dumps(shape).encode()) in ("poll", "line 1") for shape in shapes)


def outcome(raw: bytes) -> str:
    try:
        return "poll" if read_poll(raw, line=1) else ""
    except DecodeError as error:
        return f"line {error.offset}"


def lines(*rows: str) -> bytes:
    return "".join(rows).encode()


@pytest.mark.parametrize(
    ("member", "info", "offset"),
    [
        ("persistence", "# Replication\r\nrole:master\r\nmaster_repl_offset:1234\r\n", 1234),
        ("replication", "role:slave\r\nmaster_repl_offset:1234\r\n", None),
        ("info", "cluster_state:ok\r\n", None),
        ("replication", "role:master\r\nmaster_repl_offset:-1\r\n", None),
        ("replication", 7, None),
    ],
)
def test_info_gives_a_masters_offset(member, info, offset):
    """That of a replica counts its processed bytes."""
    line = json.dumps({"time": NS, "node": A, "text": TEXT, member: info})

    assert read_poll(line.encode(), line=1).sample.master_offset == offset


def test_a_strict_file_stops_and_a_permissive_file_continues(tmp_path):
    good = Answer(Address("x", 1), NS, NS, TEXT, "").line()
    path = tmp_path / "polls.jsonl.gz"
    path.write_bytes(gzip.compress(lines(good, "\n", "rubbish\n", good, good[:50])))

    with pytest.raises(DecodeError, match="not a line of JSON") as caught:
        list(PollFile(str(path)))
    permissive = PollFile(str(path), permissive=True)
    polls = list(permissive)

    assert caught.value.offset == 3
    assert [poll.line for poll in polls] == [1, 4]
    assert [error.offset for error in permissive.bad] == [3, 5]


def test_an_unchanged_poll_has_the_previous_text(tmp_path):
    """Of the same node in the same file; one without such a poll before it is bad."""
    first, other = (
        Answer(Address("10.0.0.1", 7000), NS - 5, NS, TEXT, "cluster_state:ok\r\n"),
        Answer(Address("10.0.0.2", 7000), NS, NS, TEXT, ""),
    )
    again = first._replace(asked_ns=NS + 5, ts_ns=NS + 9)
    path = tmp_path / "polls.jsonl"
    path.write_text(first.line() + again.line(is_same=True) + other.line(is_same=True))

    polls = PollFile(str(path), permissive=True)
    whole, short = polls

    assert short == whole._replace(line=2, asked_ns=NS + 5, ts_ns=NS + 9, sample=short.sample)
    assert (short.sample.ts_min_ns, short.sample.cluster_ok) == (NS + 5, True)
    assert [error.offset for error in polls.bad] == [3]


def test_answers_that_differ_only_in_times_are_equal():
    later = TEXT.replace(" 0 0 1 ", " 17 18 1 ")
    first, second, down = (
        Answer(
            Address("10.0.0.1", 7000), 1, 2, text, f"cluster_state:{state}\r\ncluster_stats_messages_sent:{count}\r\n"
        ).belief()
        for text, state, count in ((TEXT, "ok", 1), (later, "ok", 2), (TEXT, "fail", 1))
    )

    assert first == second != down


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ("redis_version:6.2.14\r\n", "Redis 6.2.14"),
        ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", "Valkey 8.0.1"),
        ("role:master\r\n", ""),
    ],
)
def test_a_poll_with_info_names_the_server_and_its_version(info, version):
    """Valkey's own version, not the version of Redis that it is compatible with."""
    text = f"{'a' * 40} 127.0.0.1:7000@17000 myself,master - 0 0 1 connected\n"
    raw = json.dumps({"time": 1795254729, "text": text, "persistence": info}).encode()

    assert read_poll(raw, line=1).sample.version == version
