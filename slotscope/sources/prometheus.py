"""Metrics of redis_exporter: saved answers of Prometheus, and a Prometheus that is asked for them.

`fetch_metrics` asks for the scrapes themselves (``/api/v1/query`` with a range), hour by hour, and saves the answers, so
that a history can be made again without the server.  Credentials come from the environment only.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Final

from cluster_core.errors import DecodeError
from cluster_core.formats.prometheus_answer import NAMES, MetricReader, MetricSample
from cluster_core.instants import time_ns, write_instant
from slotscope.runtime.errors import InputError
from slotscope.sources.files import read_pieces, write_text

S: Final = 1_000_000_000
FILE_BYTES_MAX: Final = 1 << 30
ANSWER_BYTES_MAX: Final = 256 << 20
RANGE_NS_MAX: Final = 7 * 86_400 * S
CHUNK_NS: Final = 3600 * S
CHUNK_NS_MIN: Final = 60 * S
"""A query that the server refuses as too large is halved down to this range."""
TIMEOUT_S: Final = 60.0
TOKEN, USER, PASSWORD = "SLOTSCOPE_PROMETHEUS_TOKEN", "SLOTSCOPE_PROMETHEUS_USER", "SLOTSCOPE_PROMETHEUS_PASSWORD"
"""Environment variables of a bearer token, or of a user and password."""
_TOO_LARGE: Final = (400, 413, 422, 503, 504)


def read_metrics(paths: Sequence[str], *, permissive: bool) -> tuple[list[MetricSample], list[DecodeError]]:
    """The samples of saved answers, and the files that are none; raises DecodeError for the first of these unless *permissive*."""
    reader, bad = MetricReader(), list[DecodeError]()
    for path in paths:
        try:
            if not reader.feed(_whole(path), source=path):
                raise DecodeError("no metrics of redis_exporter in this answer", offset=0, source=path)
        except DecodeError as error:
            if not permissive:
                raise
            bad.append(error)
    return reader.samples(), bad


def _whole(path: str) -> bytes:
    data = bytearray()
    for piece in read_pieces(path, 1 << 20):
        data += piece
        if len(data) > FILE_BYTES_MAX:
            raise DecodeError(
                f"an answer of more than {FILE_BYTES_MAX} bytes: ask for a shorter time", offset=0, source=path
            )
    return bytes(data)


def check_range(from_text: str | None, to_text: str | None) -> tuple[int, int]:
    """Return the times --from and --to; raises InputError for an invalid time, an empty range, or a too long one."""
    times = [None if text is None else time_ns(text) for text in (from_text, to_text)]
    if times[0] is None or times[1] is None:
        raise InputError("--prometheus-url needs --from and --to, as 2026-11-23T02:00:00Z")
    if not 0 < times[1] - times[0] <= RANGE_NS_MAX:
        raise InputError(f"--to must be after --from by at most {RANGE_NS_MAX // S // 86_400} days")
    return times[0], times[1]


def fetch_metrics(
    url: str, matchers: str, from_ns: int, to_ns: int, folder: str, environment: Mapping[str, str] = os.environ
) -> str:
    """Ask the Prometheus at *url* for the scrapes of a time and save the answers in *folder*, one a line; return the file's path.

    *matchers* select series (``namespace="prod"``), empty for all.  Raises InputError, in one line, where the server does not
    answer, refuses, or has no such metrics.
    """
    reader, answers = MetricReader(), list[str]()
    count = size = 0
    end_ns, range_ns = to_ns, CHUNK_NS
    while end_ns > from_ns:
        asked_ns = min(range_ns, end_ns - from_ns)
        answer = _ask(url, _query(matchers, asked_ns), end_ns, environment)
        size += len(answer or "")
        if size > FILE_BYTES_MAX or (answer is None and range_ns <= CHUNK_NS_MIN):
            raise InputError(
                f"{url}: too many values; ask for a shorter time, or select one cluster with --prometheus-match"
            )
        if answer is None:
            range_ns = max(CHUNK_NS_MIN, range_ns // 2)
            continue
        try:
            count += reader.feed(answer.encode(), source=url)
        except DecodeError as error:
            raise InputError(f"{url}: {error.reason}") from error
        answers.append(answer)
        end_ns -= asked_ns
    if not count:
        raise InputError(f"{url}: no metrics of redis_exporter from {write_instant(from_ns)} to {write_instant(to_ns)}")
    path = f"{folder.rstrip('/')}/prometheus-{_stamp(from_ns)}-{_stamp(to_ns)}.jsonl"
    write_text(path, "".join(f"{answer}\n" for answer in reversed(answers)))
    return path


def _stamp(ts_ns: int) -> str:
    return write_instant(ts_ns).replace(":", "").replace("-", "")


def _query(matchers: str, size_ns: int) -> str:
    names = "|".join(NAMES)
    more = f", {matchers}" if matchers else ""
    return f'{{__name__=~"(?:redis|valkey)_(?:{names})"{more}}}[{max(1, size_ns // 1_000_000)}ms]'


def _ask(url: str, query: str, end_ns: int, environment: Mapping[str, str]) -> str | None:
    """The answer in one line of JSON; None where the server refuses the query as too large."""
    where = f"{url.rstrip('/')}/api/v1/query"
    if not where.startswith(("http://", "https://")):
        raise InputError(f"{url}: not an address of Prometheus: write http://HOST:9090")
    body = urllib.parse.urlencode({"query": query, "time": f"{end_ns / S:.3f}", "timeout": f"{TIMEOUT_S:.0f}s"})
    request = urllib.request.Request(where, body.encode(), {"Content-Type": "application/x-www-form-urlencoded"})
    if token := environment.get(TOKEN):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    elif user := environment.get(USER):
        pair = base64.b64encode(f"{user}:{environment.get(PASSWORD, '')}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {pair}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            raw: bytes = answer.read(ANSWER_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        detail = _error_text(error)
        if error.code in _TOO_LARGE and (
            "too many samples" in detail or "too large" in detail or "timed out" in detail
        ):
            return None
        hint = f"; set {TOKEN}, or {USER} and {PASSWORD}" if error.code in (401, 403) else ""
        raise InputError(f"{url}: HTTP {error.code}: {detail or error.reason}{hint}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"{url}: no answer: {reason}") from error
    if len(raw) > ANSWER_BYTES_MAX:
        return None
    return raw.decode("utf-8", "replace").strip().replace("\n", " ")


def _error_text(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(1 << 16)).get("error", ""))[:200]
    except (OSError, ValueError, AttributeError, RecursionError, HTTPException):
        return ""
