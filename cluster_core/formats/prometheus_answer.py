"""Prometheus query results of redis_exporter metrics: one row per server and scrape.

Input is JSON of ``/api/v1/query_range``, or of ``/api/v1/query`` with a range (``redis_up[1h]``). The latter has scrape
times; the former has steps, with values up to one scrape interval old (`MetricSample` stores a time range). The address
is the host of ``instance`` or ``addr``, with ``tcp_port`` of ``redis_instance_info`` if ``instance`` is the exporter.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from cluster_core.errors import DecodeError

S: Final = 1_000_000_000
POINTS_MAX: Final = 20_000_000
"""Maximum values of one result."""
STALE_NS: Final = 300 * S
"""Prometheus returns a value for this long after its scrape, unless the series ended."""
HOLE: Final = 1.5
"""A pause longer than the usual interval by this factor is a gap in scrapes."""
_NAME: Final = re.compile(r"(?:redis|valkey)_(\w+)")
_ADDRESS: Final = re.compile(r"(?:\w+://)?(?:[^@/]*@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^:/\[\]]+)(?::(?P<port>\d{1,5}))?/?")

METRICS: Final = {
    "uptime_in_seconds": "uptime_s",
    "start_time_seconds": "start_s",
    "cluster_state": "cluster_state",
    "cluster_my_epoch": "my_epoch",
    "master_repl_offset": "master_offset",
    "slave_repl_offset": "replica_offset",
    "cluster_messages_sent_total": "messages_sent",
    "up": "up",
}
"""Columns by metric name without prefix."""
LABELLED: Final = ("instance_info", "slave_info", "master_link_up")
"""Metrics with relevant labels: role, version and process; the master."""
NAMES: Final = tuple(dict.fromkeys((*METRICS, *LABELLED)))


class MetricSample(NamedTuple):
    """One scrape or INFO of one server, taken between *ts_min_ns* and *ts_ns*; missing values are None or empty.

    *address*, *master*: host:port; *role*: ``master`` or ``slave``; *messages_sent*: bus messages since process start.
    """

    ts_min_ns: int
    ts_ns: int
    address: str
    up: bool | None = None
    role: str = ""
    master: str = ""
    version: str = ""
    server_run_id: str = ""
    uptime_s: int | None = None
    cluster_ok: bool | None = None
    my_epoch: int | None = None
    master_offset: int | None = None
    replica_offset: int | None = None
    messages_sent: int | None = None
    keys: int | None = None


_NUMBERS: Final = ("uptime_s", "my_epoch", "master_offset", "replica_offset", "messages_sent")
"""Columns copied as numbers."""
_KEYS: Final = re.compile(r"db\d{1,5}:keys=(\d{1,18})\b")
"""A database in INFO; empty databases are omitted."""
_WHOLE: Final = {"run_id", "used_memory", "role"}
"""Fields that show an INFO with all sections."""


class _Scrapes:
    """Values of one server, by time in ns."""

    def __init__(self) -> None:
        self.port = ""
        self.values: dict[int, dict[str, Any]] = {}

    def put(self, ts_ns: int, name: str, value: Any) -> None:
        self.values.setdefault(ts_ns, {})[name] = value


class MetricReader:
    """Collects results; `samples` returns all scrapes. Each metric may come in its own result."""

    def __init__(self) -> None:
        self._servers: dict[tuple[str, str], _Scrapes] = {}

    def feed(self, raw: bytes, *, source: str = "<metrics>") -> int:
        """Add results (one per line) and return the number of relevant values; DecodeError for other input and error results."""
        return sum(
            _take(series, self._servers) for answer in _answers(raw, source) for series in _series(answer, source)
        )

    def samples(self) -> list[MetricSample]:
        """Return all scrapes, by server and time."""
        is_stepped = _are_stepped([sorted(scrapes.values) for scrapes in self._servers.values()])
        return [
            sample
            for (instance, _), scrapes in sorted(self._servers.items())
            for sample in _samples(_address(instance, scrapes.port), scrapes, is_stepped)
        ]


def without_repeats(samples: Sequence[MetricSample]) -> Iterator[MetricSample]:
    """Drop samples between two equal ones, per server, except beside gaps, so times of changes keep their precision."""
    pauses = sorted(
        second.ts_ns - first.ts_ns for first, second in pairwise(samples) if first.address == second.address
    )
    longest_ns = HOLE * pauses[len(pauses) // 2] if pauses else 0
    for at, sample in enumerate(samples):
        near = (samples[at - 1] if at else None, samples[at + 1] if at + 1 < len(samples) else None)
        if any(
            other is None
            or other.address != sample.address
            or abs(other.ts_ns - sample.ts_ns) > longest_ns
            or _differs(other, sample)
            for other in near
        ):
            yield sample


def _differs(first: MetricSample, other: MetricSample) -> bool:
    """Return whether samples differ apart from uptime, offsets and counters."""

    def constant(sample: MetricSample) -> MetricSample:
        return sample._replace(ts_min_ns=0, ts_ns=0, uptime_s=0, master_offset=0, replica_offset=0, messages_sent=0)

    return constant(first) != constant(other)


def _answers(raw: bytes, source: str) -> Iterator[Any]:
    try:
        yield json.loads(raw)
    except (ValueError, RecursionError):
        for number, line in enumerate(raw.splitlines(), 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise DecodeError(f"line {number}: not JSON", offset=number, source=source) from error


def _series(answer: Any, source: str) -> Iterator[dict[str, Any]]:
    """Yield the series of a result, bounded."""
    if isinstance(answer, dict) and answer.get("status") == "error":
        raise DecodeError(f"an error of Prometheus: {str(answer.get('error'))[:200]}", offset=0, source=source)
    data = answer.get("data") if isinstance(answer, dict) else None
    result = data.get("result") if isinstance(data, dict) else answer
    if not isinstance(result, list):
        raise DecodeError("not an answer of Prometheus to a query", offset=0, source=source)
    points = 0
    for series in result:
        if not isinstance(series, dict) or not isinstance(series.get("metric"), dict):
            raise DecodeError("not an answer of Prometheus to a query", offset=0, source=source)
        points += len(_points(series))
        if points > POINTS_MAX:
            raise DecodeError(f"more than {POINTS_MAX} values", offset=0, source=source)
        yield series


def _points(series: dict[str, Any]) -> Sequence[Any]:
    values = series.get("values")
    if isinstance(values, list):
        return values
    return [series["value"]] if "value" in series else []


def _take(series: dict[str, Any], servers: dict[tuple[str, str], _Scrapes]) -> int:
    """Add a series to its server; return the number of relevant values."""
    labels = {str(name): str(value) for name, value in series["metric"].items()}
    match = _NAME.fullmatch(labels.get("__name__", ""))
    instance = labels.get("addr") or labels.get("instance", "")
    if match is None or match[1] not in NAMES or not instance:
        return 0
    name = match[1]
    scrapes = servers.setdefault((instance, labels.get("pod", "")), _Scrapes())
    if name == "instance_info" and labels.get("tcp_port", "").isdigit():
        scrapes.port = labels["tcp_port"]
    for point in _points(series):
        ts_ns, value = _point(point)
        if ts_ns is None or value is None:
            continue
        if name in LABELLED and (name != "instance_info" or value):
            for label in ("role", "redis_version", "valkey_version", "run_id", "master_host", "master_port"):
                if label in labels:
                    scrapes.put(ts_ns, label, labels[label])
        if name in METRICS:
            scrapes.put(ts_ns, METRICS[name], value)
    return len(_points(series))


def _point(point: Any) -> tuple[int | None, int | None]:
    """Return time and value of a point; None if not a number."""
    try:
        seconds, value = float(point[0]), float(point[1])
        if not math.isfinite(value) or not 0 < seconds < 1 << 33:
            return None, None
        return round(seconds * 1000) * 1_000_000, int(value)
    except (TypeError, ValueError, LookupError, OverflowError):
        return None, None


def _are_stepped(times: Sequence[Sequence[int]]) -> bool:
    """Return whether times are query steps: all servers share steps, but not scrape times."""
    firsts = {series[0] % S for series in times if series}
    return len(firsts) <= 1


def _samples(address: str, scrapes: _Scrapes, is_stepped: bool) -> Iterator[MetricSample]:
    times = sorted(scrapes.values)
    pauses = sorted(second - first for first, second in pairwise(times))
    step_ns = pauses[len(pauses) // 2] if pauses else STALE_NS
    for ts_ns in times:
        values = scrapes.values[ts_ns]
        min_ns = _scraped_ns(values, ts_ns, step_ns) if is_stepped else ts_ns
        yield _sample(min_ns, ts_ns, address, values)


def _scraped_ns(values: dict[str, Any], ts_ns: int, step_ns: int) -> int:
    """Return the earliest time of the scrape behind a step: by start and uptime, else one step earlier."""
    start_s, uptime_s = values.get("start_s"), values.get("uptime_s")
    if start_s and uptime_s is not None:
        scraped_s: int = start_s + uptime_s - 1
        return max(ts_ns - STALE_NS, min(ts_ns, scraped_s * S))
    return ts_ns - step_ns


def _sample(min_ns: int, ts_ns: int, address: str, values: dict[str, Any]) -> MetricSample:
    def flag(name: str) -> bool | None:
        return None if (value := values.get(name)) is None else bool(value)

    port = values.get("master_port", "")
    return MetricSample(
        min_ns,
        ts_ns,
        address,
        up=flag("up"),
        role=values.get("role", "") if values.get("role") in ("master", "slave") else "",
        master=f"{values.get('master_host', '')}:{port}" if port.isdigit() else "",
        version=_version(values),
        server_run_id=values.get("run_id", ""),
        cluster_ok=flag("cluster_state"),
        **{name: values.get(name) for name in _NUMBERS},
    )


def info_sample(fields: Mapping[str, str], ts_min_ns: int, ts_ns: int, address: str) -> MetricSample:
    """Return a sample from fields of INFO and CLUSTER INFO; the replication offset only of a master."""

    def number(name: str) -> int | None:
        value = fields.get(name, "")
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else None

    role, port = fields.get("role", ""), fields.get("master_port", "")
    keys = [match for name, value in fields.items() if (match := _KEYS.match(f"{name}:{value}"))]
    return MetricSample(
        ts_min_ns,
        ts_ns,
        address,
        role=role if role in ("master", "slave") else "",
        master=f"{fields.get('master_host', '')}:{port}" if port.isdecimal() else "",
        version=_version(fields),
        server_run_id=fields.get("run_id", "")[:40],
        uptime_s=number("uptime_in_seconds"),
        cluster_ok={"ok": True, "fail": False}.get(fields.get("cluster_state", "")),
        master_offset=number("master_repl_offset") if role == "master" else None,
        messages_sent=number("cluster_stats_messages_sent"),
        keys=sum(int(match[1]) for match in keys) if keys or fields.keys() >= _WHOLE else None,
    )


def _version(values: Mapping[str, Any]) -> str:
    """Return Valkey's own version, not its compatible Redis version."""
    for product in ("Valkey", "Redis"):
        if version := values.get(f"{product.lower()}_version"):
            return f"{product} {version}"
    return ""


def _address(instance: str, port: str) -> str:
    """Return the server's address from the *instance* label and the server's port.

    >>> _address("redis://10.0.0.1:7000", ""), _address("10.0.0.1:9121", "7000")
    ('10.0.0.1:7000', '10.0.0.1:7000')
    """
    match = _ADDRESS.fullmatch(instance)
    if match is None:
        return instance[:200]
    return f"{match['host']}:{port or match['port'] or 6379}"
