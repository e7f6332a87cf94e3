"""Asking a Prometheus for metrics: queries, credentials, refusals; and saved answers as rows."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cluster_core.errors import DecodeError
from slotscope.runtime.errors import InputError
from slotscope.sources.bus.polls_and_logs import PollsAndLogs, read_polls_and_logs
from slotscope.sources.prometheus import PASSWORD, TOKEN, USER, check_range, fetch_metrics, read_metrics

RECORDED = Path(__file__).parents[2] / "data" / "prometheus" / "query_range.json.gz"
S = 1_000_000_000
FROM, TO = 1000 * S, 9000 * S


class Endpoint(ThreadingHTTPServer):
    """Answers each query with *reply(query, time)*: a status and a document; keeps the queries."""

    def __init__(self, reply) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply, self.asked = reply, []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        fields = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        asked = (fields["query"][0], float(fields["time"][0]), self.headers.get("Authorization"))
        self.server.asked.append(asked)
        status, document = self.server.reply(*asked[:2])
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments) -> None: ...


@pytest.fixture
def endpoint() -> Iterator[type]:
    opened = []

    def start(reply) -> Endpoint:
        server = Endpoint(reply)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        opened.append(server)
        return server

    yield start
    for server in opened:
        server.shutdown()
        server.server_close()


def success(query: str, time_s: float):
    metric = {"__name__": "redis_up", "instance": "10.0.0.1:7000"}
    return 200, {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"metric": metric, "values": [[time_s, "1"]]}]},
    }


def test_a_range_is_queried_by_hour_and_saved(endpoint, tmp_path):
    server = endpoint(success)

    path = fetch_metrics(server.url, 'job="redis"', FROM, TO, str(tmp_path), {})
    samples, bad = read_metrics([path], permissive=False)

    assert [(time_s, query.rpartition("[")[2]) for query, time_s, _ in server.asked] == [
        (9000.0, "3600000ms]"), (5400.0, "3600000ms]"), (1800.0, "800000ms]"),
    ]  # fmt: skip
    assert all(', job="redis"}' in query and "instance_info" in query for query, _, _ in server.asked)
    assert ([sample.ts_ns // S for sample in samples], bad) == ([1800, 5400, 9000], [])


@pytest.mark.parametrize(
    ("environment", "header"),
    [
        ({}, None),
        ({TOKEN: "t0p"}, "Bearer t0p"),
        ({USER: "me", PASSWORD: "s3cret"}, "Basic " + base64.b64encode(b"me:s3cret").decode()),
    ],
)
def test_credentials_come_from_the_environment(endpoint, tmp_path, environment, header):
    """Never from the command line, which every user of a machine can read."""
    server = endpoint(success)
    fetch_metrics(server.url, "", FROM, FROM + S, str(tmp_path), environment)

    assert [asked[2] for asked in server.asked] == [header]


def test_a_query_that_is_too_large_is_halved(endpoint, tmp_path):
    """The server's limit of samples is not known before."""

    def reply(query: str, time_s: float):
        if int(query.rpartition("[")[2].rstrip("ms]")) > 1_000_000:
            return 422, {"status": "error", "error": "query processing would load too many samples into memory"}
        return success(query, time_s)

    server = endpoint(reply)
    fetch_metrics(server.url, "", FROM, FROM + 3600 * S, str(tmp_path), {})

    assert [query.rpartition("[")[2] for query, _, _ in server.asked][:3] == ["3600000ms]", "1800000ms]", "900000ms]"]


@pytest.mark.parametrize(
    ("status", "document", "reason"),
    [
        (401, {"error": "unauthorized"}, f"HTTP 401: unauthorized; set {TOKEN}, or {USER} and {PASSWORD}"),
        (400, {"error": "parse error"}, "HTTP 400: parse error"),
        (422, {"error": "too many samples"}, "too many values; ask for a shorter time, or select one cluster with --prometheus-match"),
        (200, {"status": "success", "data": {"result": []}}, "no metrics of redis_exporter from 1970-01-01T00:16:40"),
        (200, "x", "not an answer of Prometheus"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_line(endpoint, tmp_path, status, document, reason):
    server = endpoint(lambda query, time_s: (status, document))

    with pytest.raises(InputError, match=reason.replace("(", r"\(")):
        fetch_metrics(server.url, "", FROM, FROM + S, str(tmp_path), {})


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://127.0.0.1:1", "no answer: .*refused"), ("file:///etc/passwd", "write http://HOST:9090")],
)
def test_a_missing_server_is_a_line(tmp_path, url, reason):
    """Exit 2, as for any input that is not there."""
    with pytest.raises(InputError, match=reason):
        fetch_metrics(url, "", FROM, FROM + S, str(tmp_path), {})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((None, None), "--prometheus-url needs --from and --to"),
        (("yesterday", "2026-01-01T00:00:00Z"), "--prometheus-url needs --from and --to"),
        (("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), "--to must be after --from"),
        (("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"), "at most 7 days"),
    ],
)
def test_a_range_is_checked_before_any_query(arguments, reason):
    with pytest.raises(InputError, match=reason):
        check_range(*arguments)


def test_saved_answers_become_rows_with_the_time_before(tmp_path):
    other = tmp_path / "other.json"
    other.write_bytes(gzip.compress(b'{"a": 1}'))

    evidence = read_polls_and_logs(PollsAndLogs(metrics=(str(RECORDED), str(other))), permissive=True)

    promoted = next(row for row in evidence.metrics if row.address == "127.0.0.1:11491" and row.role == "master")
    assert promoted.ts_min_ns <= 1795824135_216_000_000 <= promoted.ts_ns + S
    assert [error.source for error in evidence.bad] == [str(other)]
    with pytest.raises(DecodeError, match="not an answer of Prometheus"):
        read_polls_and_logs(PollsAndLogs(metrics=(str(other),)), permissive=False)
