"""Logs as shippers deliver them: every wrapper gives the server's line and the name of its source."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.formats.server_log import BadLine, LogReader, LogRow, read_log
from cluster_core.formats.shipped_lines import records_of, unwrap

MOMENT_NS = 1_795_255_872_345_000_000  # 2026-11-21T10:11:12.345Z
LINE = "7:M 21 Nov 2026 10:11:12.345 # Cluster state changed: fail"
SENT = "2026-11-21T10:11:13.000000001Z"
TEXT = "Cluster state changed: fail"


def dumped(**members) -> str:
    return json.dumps(members)


SHAPES = {
    "docker json-file": (dumped(log=LINE + "\n", stream="stdout", time=SENT), ""),
    "docker json-file with a tag": (dumped(log=LINE + "\n", stream="stdout", attrs={"tag": "redis-1"}, time=SENT), "redis-1"),
    "docker logs -t": (f"{SENT} {LINE}", ""),
    "docker compose": (f"redis-node-1  | {LINE}", "redis-node-1"),
    "CRI": (f"{SENT} stdout F {LINE}", ""),
    "kubectl --prefix": (f"[pod/redis-0/redis] {LINE}", "redis-0/redis"),
    "kubectl --prefix --timestamps": (f"[pod/redis-0/redis] {SENT} {LINE}", "redis-0/redis"),
    "stern": (f"redis-0 redis {LINE}", "redis-0 redis"),
    "RFC 3164": (f"Nov 21 10:11:13 host-1 redis-server[7]: {LINE}", "host-1 redis-server"),
    "RFC 3164 with priority": (f"<134>Nov  1 10:11:13 host-1 redis-server[7]: {LINE}", "host-1 redis-server"),
    "RFC 5424": (f"<134>1 {SENT} host-1 redis 7 - - {LINE}", "host-1 redis"),
    "RFC 5424 of syslog-enabled": (f"<132>1 2026-11-21T10:11:12.345Z host-1 redis 7 - [a b=\"c\"] {TEXT}", "host-1 redis"),
    "syslog with ISO dates": (f"2026-11-21T10:11:13.123456+00:00 host-1 valkey-server[7]: {LINE}", "host-1 valkey-server"),
    "logcli jsonl": (
        dumped(labels={"pod": "redis-0", "container": "redis", "namespace": "prod"}, line=LINE, timestamp=SENT),
        "prod/redis-0/redis",
    ),
    "logcli jsonl of syslog": (dumped(labels={"host": "h1", "filename": "/var/log/r.log"}, line=LINE), "h1//var/log/r.log"),
    "logcli text": (f'2026-11-21T10:11:13Z {{pod="redis-0", app="x"}} {LINE}', "redis-0"),
    "elasticdump": (
        dumped(_index="i", _id="1", _source={"message": LINE, "kubernetes": {"pod": {"name": "redis-0"}, "namespace": "prod"}}),
        "prod/redis-0",
    ),
    "OpenSearch fields": (dumped(_index="i", fields={"message": [LINE], "kubernetes.pod_name": ["redis-0"]}), "redis-0"),
    "fluent-bit": (dumped(log=LINE, stream="stdout", kubernetes={"pod_name": "redis-0", "container_name": "redis"}), "redis-0/redis"),
    "Vector of a file": (dumped(file="/r.log", host="h1", message=LINE, source_type="file", timestamp=SENT), "h1//r.log"),
    "Vector of Kubernetes": (
        dumped(kubernetes={"pod_name": "redis-0", "pod_namespace": "prod", "container_name": "redis"}, message=LINE, stream="stdout"),
        "prod/redis-0/redis",
    ),
    "filebeat of a file": (dumped(message=LINE, host={"name": "h1"}, log={"file": {"path": "/r.log"}}), "h1//r.log"),
    "filebeat redis module": (
        dumped(**{"@timestamp": "2026-11-21T10:11:12.345Z"}, message=TEXT, process={"pid": 7}, host={"name": "h1"},
               log={"level": "warning"}, redis={"log": {"role": "master"}}),
        "h1",
    ),
    "journald": (
        dumped(MESSAGE=TEXT, PRIORITY="4", SYSLOG_IDENTIFIER="redis", _PID="7", _HOSTNAME="h1", __REALTIME_TIMESTAMP="1795255872345678"),
        "h1/redis",
    ),
    "CloudWatch of text": (f"xyz-0001-001/0001:M 21 Nov 2026 10:11:12.345 UTC # {TEXT}", "xyz-0001-001/0001"),
    "CloudWatch of JSON": (
        dumped(CacheClusterId="xyz-0001-001", CacheNodeId="0001", LogLevel="WARNING", Role="M",
               Time="21 Nov 2026 10:11:12.345 UTC", Message=TEXT),
        "xyz-0001-001/0001",
    ),
    "CloudWatch exported to S3": (
        f"{SENT} " + dumped(CacheClusterId="xyz", CacheNodeId="0001", LogLevel="WARNING", Role="M",
                            Time="21 Nov 2026 10:11:12.345 UTC", Message=TEXT),
        "xyz/0001",
    ),
    "syslog in a container in Loki": (
        dumped(labels={"pod": "relay"}, line=f"Nov 21 10:11:13 host-1 redis-server[7]: {LINE}"), "relay host-1 redis-server",
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shipped_line_gives_the_line_of_the_server_and_its_source(shape):
    """R160: containers, syslog, Loki, Elasticsearch, journald, CloudWatch."""
    text, source = SHAPES[shape]

    (row,) = read_log([text.encode()])

    assert isinstance(row, LogRow)
    assert (row.ts_ns, row.level, row.kind, row.text, row.source) == (MOMENT_NS, "warning", "state-fail", TEXT, source)


def test_the_utc_of_cloudwatch_counts_before_the_zone_of_the_servers():
    """ElastiCache writes UTC behind each time."""
    from datetime import timedelta, timezone

    (row,) = read_log([SHAPES["CloudWatch of text"][0].encode()], zone=timezone(timedelta(hours=9)))

    assert row.ts_ns == MOMENT_NS


@pytest.mark.parametrize(
    "lines",
    [
        [f"{SENT} stdout P {LINE[:30]}", f"{SENT} stdout F {LINE[30:]}"],
        [f"{SENT} stdout P {LINE[:9]}", f"{SENT} stdout P {LINE[9:30]}", f"{SENT} stdout F {LINE[30:]}"],
        [dumped(log=LINE[:30], stream="stdout", time=SENT), dumped(log=LINE[30:] + "\n", stream="stdout", time=SENT)],
        [dumped(log=LINE[:30], stream="stdout", time=SENT), dumped(log=LINE[30:], stream="stdout", time=SENT)],
    ],
)
def test_the_parts_of_a_line_are_joined(lines):
    """Container runtimes cut long lines; the end of the log ends a line, too."""
    (row,) = read_log(["\n".join(lines).encode()])

    assert (row.ts_ns, row.text) == (MOMENT_NS, TEXT)


def test_lines_of_other_programs_are_readable_but_foreign():
    """A sidecar writes into the same export."""
    lines = [dumped(log="GET /healthz 200\n", stream="stdout"), '{"level":"info","ts":1}', "Starting Redis", "\x00\x01"]

    rows = list(read_log(["\n".join(lines).encode()]))

    assert [(type(row), row.is_foreign) for row in rows] == [(BadLine, True)] * 3 + [(BadLine, False)]


def test_the_banner_of_a_container_is_known():
    """Wrapped blank lines and the start-up picture are no foreign lines."""
    reader = LogReader()
    lines = [f"{SENT} stdout F ", f"{SENT} stdout F            `-.__.-'              https://redis.io       "]

    assert reader.feed("\n".join([*lines, ""]).encode()) == []
    assert reader.skipped == 2


@pytest.mark.parametrize(
    "document",
    [
        [{"line": LINE}],
        {"events": [{"logStreamName": "a", "timestamp": 1795255872345, "message": LINE}], "searchedLogStreams": []},
        {"took": 1, "hits": {"total": 1, "hits": [{"_source": {"message": LINE}}]}},
        {
            "status": "success",
            "data": {"resultType": "streams", "result": [{"stream": {"pod": "a"}, "values": [["1", LINE]]}]},
        },
    ],
)
def test_a_whole_document_holds_entries(document):
    rows = [json.dumps(record).encode() + b"\n" for record in records_of(document)]

    (row,) = read_log(rows)
    assert row.text == TEXT


@given(st.one_of(st.text(max_size=200), st.recursive(st.none() | st.text(max_size=9), lambda x: st.dictionaries(st.sampled_from(["log", "message", "labels", "_source", "fields", "host", "kubernetes", "Time", "CacheClusterId"]), x, max_size=4) | st.lists(x, max_size=2)).map(json.dumps)))  # fmt: skip
def test_no_text_raises(text):
    shipped = unwrap(text)

    assert shipped is None or isinstance(shipped.message, str)
