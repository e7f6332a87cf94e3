"""CLUSTER SLOT-STATS and counts of keys, in the forms in which people save them."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import DecodeError
from cluster_core.formats.slot_stats import SlotSample, read_slot_stats, read_slot_stats_line


@pytest.fixture(scope="module")
def answer(valkey_cluster_node):
    """A node with two keys in two slots, and its answers as RESP2 and RESP3."""
    node = valkey_cluster_node
    node.call("CONFIG", "SET", "cluster-slot-stats-enabled", "yes")
    node.call("FLUSHALL")
    node.call("SET", "a", "1")  # slot 15495
    node.call("SET", "{a}b", "1")
    node.call("SET", "b", "1")  # slot 3300
    command = ("CLUSTER", "SLOT-STATS", "SLOTSRANGE", "3300", "15495")
    yield node.raw_reply(*command), node.raw_reply(*command, protocol=3), node.call(*command)
    node.call("FLUSHALL")


def plain(reply):
    """What redis-cli sees of a RESP2 reply."""
    return (
        [plain(item) for item in reply]
        if isinstance(reply, list)
        else reply.decode()
        if isinstance(reply, bytes)
        else reply
    )


def test_a_real_servers_answer_reads_the_same_in_every_form(answer):
    resp2, resp3, reply = answer
    forms = [resp2, resp3, json.dumps(plain(reply)).encode()]
    read = [read_slot_stats(form) for form in forms]

    assert read[1:] == read[:-1]
    keys = {sample.slot: sample.value for sample in read[0] if sample.metric == "keys"}
    assert (keys[15495], keys[3300], keys[3301], len(keys)) == (2, 1, 0, 15495 - 3300 + 1)
    assert {sample.metric for sample in read[0]} == {"keys", "cpu_usec", "network_bytes_in", "network_bytes_out"}
    assert next(s.value for s in read[0] if s.metric == "network_bytes_in" and s.slot == 3300) > 0


def test_a_poll_has_a_time_and_a_node():
    """As collect writes it; metrics that we do not know are left out."""
    line = json.dumps({"time": 1795254729, "node": "h:1", "slot_stats": [[7, {"key-count": 3, "x": "y"}]]}).encode()

    assert read_slot_stats_line(line, line=1) == [SlotSample(1795254729 * 10**9, "h:1", 7, "keys", 3)]
    assert read_slot_stats_line(b'{"time": 1, "text": ""}', line=1) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not a line of JSON"),
        (b"[]", "a JSON object"),
        (b'{"slot_stats": []}', "the time is missing"),
        (b'{"time": 1, "slot_stats": {}}', "a list of slots"),
        (b'{"time": 1, "slot_stats": [[16384, {}]]}', "entry 0 is not a slot"),
        (b'{"time": 1, "slot_stats": [[1, {"key-count": -1}]]}', "slot 1: key-count is -1"),
        (b'{"time": 1, "slot_stats": [[1, {"key-count": 1.5}]]}', "slot 1: key-count is 1.5"),
        (b'{"time": 1, "slot_stats": [[1, ["key-count"]]]}', "not pairs of name and value"),
        (b'{"time": 1, "slot_stats": [[true, {}]]}', "entry 0 is not a slot"),
    ],
)
def test_an_invalid_poll_line_has_a_reason(line, reason):
    with pytest.raises(DecodeError) as caught:
        read_slot_stats_line(line, line=9, source="f")

    assert reason in caught.value.reason
    assert (caught.value.offset, caught.value.source) == (9, "f")


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_a_decode_error(data):
    for read in (
        read_slot_stats,
        lambda raw: read_slot_stats_line(raw, line=1),
    ):
        with contextlib.suppress(DecodeError):
            assert read(data) is not None
