"""Fields read from INFO: those of the servers, within bounds (sentinelRefreshInstanceInfo)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.sentinel.events import HELLO_CHARS_MAX, Hello, format_hello, parse_hello
from cluster_core.sentinel.instance import Flag
from cluster_core.sentinel.roles import read_info

OF_MASTER = "\r\n".join((
    "# Server", "redis_version:7.0.15", "run_id:" + "a" * 40, "# Replication", "role:master", "connected_slaves:2",
    "slave0:ip=127.0.0.1,port=24001,state=online,offset=2520,lag=0", "slave1:ip=::1,port=24002,state=online,offset=2520,lag=1",
    "slave2:10.0.0.3,6379,online", "slave3:nonsense", "master_repl_offset:2520", "",
))  # fmt: skip
OF_REPLICA = "\r\n".join((
    "role:slave", "master_host:127.0.0.1", "master_port:24000", "master_link_status:down", "master_link_down_since_seconds:7",
    "slave_repl_offset:77", "slave_priority:50", "replica_announced:0", "run_id:" + "b" * 40,
))  # fmt: skip


def test_a_master_names_its_replicas():
    """New and old form; a line that makes no sense is passed over."""
    report = read_info(OF_MASTER)

    assert (report.role, report.runid) == (Flag.MASTER, "a" * 40)
    assert report.replicas == (("127.0.0.1", 24001), ("::1", 24002), ("10.0.0.3", 6379))
    assert report.master_host is None


def test_a_replica_names_its_master_and_itself():
    """S13: priority, offset, and since when its link is down."""
    report = read_info(OF_REPLICA)

    assert (report.role, report.is_master_link_up) == (Flag.REPLICA, False)
    assert (report.master_host, report.master_port) == ("127.0.0.1", 24000)
    assert (report.link_down_ms, report.offset, report.priority, report.is_announced) == (7000, 77, 50, False)
    assert report.runid == "b" * 40


def test_false_numbers_are_bounded():
    """No number of a peer makes a time endless."""
    report = read_info(f"role:slave\r\nmaster_link_down_since_seconds:{'9' * 400}\r\nslave_repl_offset:-{'9' * 30}\r\n")

    assert report.link_down_ms == 10**12
    assert report.offset == 0


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    assert read_info(f"role:slave\r\n{text}").role in (Flag.MASTER, Flag.REPLICA)


RECORDED = "127.0.0.1,24010,6192f14bb1e622d97c441b110cef547096275f81,1,mymaster,127.0.0.1,24002,1"


def test_a_recorded_message_is_read_and_written_again():
    """S3, of Redis 7.0.15."""
    hello = parse_hello(RECORDED)

    assert hello == Hello("127.0.0.1", 24010, RECORDED.split(",")[2], 1, "mymaster", "127.0.0.1", 24002, 1)
    assert format_hello(hello) == RECORDED


@pytest.mark.parametrize("text", ["", "a,b", RECORDED + ",9", RECORDED.rpartition(",")[0], "x" * (HELLO_CHARS_MAX + 1)])
def test_a_message_has_eight_fields(text):
    """S3: the server drops it."""
    assert parse_hello(text) is None


@given(st.text(alphabet=",0123456789abc-\x00\n", max_size=200))
def test_any_text_is_read_or_dropped(text):
    hello = parse_hello(text)

    assert (hello is None) == (text.count(",") != 7)
