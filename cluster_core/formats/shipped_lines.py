"""Unwrap log lines of shippers: the server's line and its pod, container or host.

Supports Docker's ``json-file`` driver, CRI files of Kubernetes, ``kubectl logs --prefix --timestamps``, ``docker compose
logs``, syslog (RFC 3164 and 5424), Loki (``logcli``), and exports of Elasticsearch, OpenSearch, journald and CloudWatch,
also nested. Lines split into fields (ElastiCache, Filebeat's redis module) are rebuilt in the server's format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from cluster_core.instants import time_ns

WRAPPERS_MAX: Final = 4
"""Maximum nested wrappers; syslog in a container in Loki has three."""
SOURCE_CHARS_MAX: Final = 200
HEAD_CHARS_MAX: Final = 200
"""Maximum text of an unknown shipper before the server's prefix."""

SERVER_PREFIX: Final = re.compile(r"\d{1,10}:[A-Z] \d|pid=\d{1,10} role=")
UNKNOWN_ROLE: Final = "U"
"""Role of a rebuilt line without a role."""


class ShippedLine(NamedTuple):
    """An unwrapped line; *source*: pod, container, host or log stream; *is_partial*: the source's next line continues it."""

    message: str
    source: str = ""
    is_partial: bool = False


def unwrap(text: str) -> ShippedLine | None:
    """Remove all wrappers of a line; None without a known wrapper.

    >>> unwrap("[pod/redis-0/redis] 2026-11-21T10:11:13.000000001Z 1:M 21 Nov 2026 10:11:12.345 * Ready")
    Shipped(message='1:M 21 Nov 2026 10:11:12.345 * Ready', source='redis-0/redis', is_partial=False)
    """
    shipped = None
    message, sources, is_partial = text, dict[str, None](), False
    for _ in range(WRAPPERS_MAX):
        if SERVER_PREFIX.match(message):
            break
        layer = _json_layer(message) if message[:1] == "{" else _text_layer(message)
        if layer is None:
            break
        message, is_partial = layer.message, is_partial or layer.is_partial
        if layer.source:
            sources[layer.source] = None
        shipped = ShippedLine(message, " ".join(sources)[:SOURCE_CHARS_MAX], is_partial)
    return shipped


# -- text --------------------------------------------------------------------------------------------------------------

_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_TAG: Final = r"(?P<host>[\w.:-]{1,255}) (?P<tag>[\w./@-]{1,64})(?:\[(?P<pid>\d{1,10})\])?: (?P<rest>.*)"
_KUBECTL: Final = re.compile(r"\[(?:pod/)?(?P<source>[\w./-]{1,300})\] ?(?P<rest>.*)", re.DOTALL)
_CRI: Final = re.compile(rf"{_ISO} (?:stdout|stderr) (?P<tags>[PF])(?::\S*)? ?(?P<rest>.*)", re.DOTALL)
_ISO_TAG: Final = re.compile(rf"(?P<time>{_ISO}) {_TAG}", re.DOTALL)
_ISO_LINE: Final = re.compile(rf"{_ISO}[ \t](?P<rest>.*)", re.DOTALL)
_LABELS: Final = re.compile(r"\{(?P<labels>[^{}]{0,1000})\}[ \t]+(?P<rest>.*)", re.DOTALL)
_LABEL: Final = re.compile(r'([\w.]+)="((?:[^"\\]|\\.)*)"')
_RFC3164: Final = re.compile(rf"(?:<\d{{1,3}}>)?[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)? {_TAG}", re.DOTALL)
_RFC5424: Final = re.compile(
    rf"<(?P<priority>\d{{1,3}})>1 (?P<time>{_ISO}) (?P<host>\S+) (?P<tag>\S+) (?P<pid>\S+) \S+ (?:-|(?:\[[^\]]*\])+) ?(?P<rest>.*)",
    re.DOTALL,
)
_COMPOSE: Final = re.compile(r"(?P<source>[A-Za-z0-9][\w.-]{0,100}) +\| ?(?P<rest>.*)", re.DOTALL)
_ELASTICACHE: Final = re.compile(
    r"(?P<source>[\w.-]{1,100}/\d{1,6}):(?P<line>[A-Z] \d{1,2} [A-Z][a-z]{2} \d{4} \S+ UTC [.\-*#] ?.*)", re.DOTALL
)
_INSIDE: Final = re.compile(r"(?<=\s)(?=\d{1,10}:[A-Z] \d|pid=\d{1,10} role=)")
_TIME_WORD: Final = re.compile(r"[<(\[]?[\d:.,/TZ+-]+[>)\]]?:?|[A-Z][a-z]{2}")
_PROCESS_NUMBER: Final = re.compile(r"\[\d+\]:?$")
_SERVER_NAME: Final = re.compile(r"(?:redis|valkey)(?!.*exporter)")


def _text_layer(text: str) -> ShippedLine | None:
    first = text[:1]
    if first == "[" and (match := _KUBECTL.match(text)):
        return ShippedLine(match["rest"], match["source"])
    if first == "<" and (match := _RFC5424.match(text)):
        return _from_syslog(match, _LEVELS_OF_PRIORITY.get(int(match["priority"]) & 7, "*"))
    if first.isdigit():
        if match := _CRI.match(text):
            return ShippedLine(match["rest"], "", match["tags"] == "P")
        if match := _ISO_TAG.match(text):
            return _from_syslog(match, "*")
        if match := _ISO_LINE.match(text):
            return _labelled(match["rest"])
    if match := _RFC3164.match(text):
        return ShippedLine(match["rest"], f"{match['host']} {match['tag']}")
    if match := _ELASTICACHE.match(text):
        return ShippedLine(f"0:{match['line']}", match["source"])
    if match := _COMPOSE.match(text):
        return ShippedLine(match["rest"], match["source"])
    if inside := _INSIDE.search(text, 0, HEAD_CHARS_MAX):
        return ShippedLine(text[inside.start() :], _name_in(text[: inside.start()]))
    return None


def _labelled(text: str) -> ShippedLine:
    """Return the part after the time, without logcli's labels."""
    match = _LABELS.match(text)
    if match is None:
        return ShippedLine(text)
    labels = dict(_LABEL.findall(match["labels"]))
    return ShippedLine(match["rest"], _source(labels) if labels else match["labels"].strip())


def _from_syslog(match: re.Match[str], level: str) -> ShippedLine:
    """Unwrap syslog with a full date; the server's prefix may be missing (``syslog-enabled yes``)."""
    message, source = match["rest"], f"{match['host']} {match['tag']}"
    if _SERVER_NAME.search(match["tag"]) and not SERVER_PREFIX.match(message):
        pid = match["pid"] if match["pid"] and match["pid"].isdigit() else "0"
        message = _server_line(pid, UNKNOWN_ROLE, match["time"], level, message) or message
    return ShippedLine(message, source)


def _name_in(head: str) -> str:
    """Return an unknown shipper's prefix without times."""
    parts = [_PROCESS_NUMBER.sub("", word) for word in head.split()]
    return " ".join(word for word in parts if word and not _TIME_WORD.fullmatch(word))


# -- JSON --------------------------------------------------------------------------------------------------------------

_MESSAGES: Final = ("log", "message", "line", "MESSAGE", "@message", "Message", "msg", "event.original", "textPayload")
_TIMES: Final = ("@timestamp", "timestamp", "time", "__REALTIME_TIMESTAMP", "ts")
_NAMESPACES: Final = ("kubernetes.namespace", "kubernetes.namespace_name", "kubernetes.pod_namespace", "namespace")
_PODS: Final = ("kubernetes.pod.name", "kubernetes.pod_name", "pod", "pod_name", "k8s.pod.name")
_CONTAINERS: Final = (
    "kubernetes.container.name", "kubernetes.container_name", "container", "container_name", "container.name",
    "k8s.container.name", "CONTAINER_NAME", "container.id", "container_id", "attrs.tag",
)  # fmt: skip
_HOSTS: Final = ("host.name", "host.hostname", "hostname", "host", "node_name", "_HOSTNAME", "agent.hostname")
_STREAMS: Final = (
    "logStreamName", "@logStream", "log.file.path", "filename", "file", "_SYSTEMD_UNIT", "SYSLOG_IDENTIFIER", "instance",
)  # fmt: skip
_DOCKER: Final = frozenset(("log", "stream", "time", "attrs"))
_LEVELS: Final = {"debug": ".", "verbose": "-", "info": "-", "notice": "*", "warning": "#"}
_LEVELS_OF_PRIORITY: Final = {7: ".", 6: "-", 5: "*", 4: "#", 3: "#"}
_LOCAL_UTC: Final = re.compile(r"\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d\.\d{3} UTC")


def _json_layer(text: str) -> ShippedLine | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _from_object(document) if isinstance(document, dict) else None


def _from_object(document: dict[str, Any]) -> ShippedLine | None:
    if isinstance(document.get("_source"), dict):
        document = document["_source"]
    elif isinstance(document.get("fields"), dict) and "message" not in document:
        document = document["fields"]
    if "CacheClusterId" in document:
        return _from_elasticache(document)
    message = next((value for name in _MESSAGES if isinstance(value := _member(document, name), str)), None)
    if message is None:
        return None
    labels = next((value for name in ("labels", "stream") if isinstance(value := document.get(name), dict)), {})
    if document.keys() <= _DOCKER:
        return ShippedLine(message.rstrip("\r\n"), _source(document), not message.endswith("\n"))
    message = message.rstrip("\r\n")
    if not SERVER_PREFIX.match(message):
        message = _from_fields(document, message) or message
    return ShippedLine(message, _source(labels | document))


def _from_elasticache(document: dict[str, Any]) -> ShippedLine | None:
    """Unwrap an ElastiCache engine log entry in JSON."""
    time, message = document.get("Time"), document.get("Message")
    if not isinstance(time, str) or not isinstance(message, str) or not _LOCAL_UTC.fullmatch(time):
        return None
    role, level = str(document.get("Role", UNKNOWN_ROLE))[:1], str(document.get("LogLevel", "")).lower()
    source = f"{document['CacheClusterId']}/{document.get('CacheNodeId', '')}"
    return ShippedLine(f"0:{role} {time} {_LEVELS.get(level, '*')} {message}", source)


def _from_fields(document: dict[str, Any], message: str) -> str | None:
    """Rebuild a line split into fields (Filebeat's redis module) or sent to journald without prefix."""
    role, level = _member(document, "redis.log.role"), str(_member(document, "log.level") or "").lower()
    if role is None:
        tag = str(document.get("SYSLOG_IDENTIFIER") or document.get("_COMM") or "")
        if not _SERVER_NAME.search(tag):
            return None
        priority = str(document.get("PRIORITY", ""))
        mark = _LEVELS_OF_PRIORITY.get(int(priority) if priority.isdigit() else 5, "*")
    else:
        mark = _LEVELS.get(level, "*")
    pid = next((str(value) for name in ("process.pid", "_PID") if (value := _member(document, name)) is not None), "0")
    roles = {"master": "M", "primary": "M", "slave": "S", "replica": "S", "child": "C", "sentinel": "X"}
    letter = roles.get(str(role).lower(), str(role)[:1].upper() if role else UNKNOWN_ROLE)
    time = next((value for name in _TIMES if (value := document.get(name)) is not None), None)
    return _server_line(pid if pid.isdigit() else "0", letter, time, mark, message)


def _server_line(pid: str, role: str, time: Any, level: str, message: str) -> str | None:
    """Return a line in the server's format, with ms; None without a valid time."""
    ts_ns = time_ns(int(time) if isinstance(time, str) and time.isdigit() else time)
    return None if ts_ns is None else f"{pid}:{role} {ts_ns // 1_000_000} {level} {message}"


def _member(document: Mapping[str, Any], name: str) -> Any:
    """Return a member by name, also from nested objects; a list of one value gives the value."""
    value: Any = document.get(name)
    if value is None and "." in name:
        value = document
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _source(document: Mapping[str, Any]) -> str:
    """Return the source: pod and container, else host and container, else host and file or stream."""

    def named(names: tuple[str, ...]) -> str:
        values = (_member(document, name) for name in names)
        return next((value for value in values if isinstance(value, str) and value), "")

    pod, container, host = named(_PODS), named(_CONTAINERS).lstrip("/"), named(_HOSTS)
    parts = (named(_NAMESPACES), pod, container) if pod else (host, container or named(_STREAMS))
    return "/".join(part for part in parts if part)


def records_of(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the log entries of a JSON document: an array, CloudWatch ``filter-log-events``, or a search or Loki result."""
    if isinstance(document, dict):
        hits = document.get("hits")
        data = document.get("data")
        if isinstance(document.get("events"), list):
            document = document["events"]
        elif isinstance(hits, dict):
            document = hits.get("hits")
        elif isinstance(data, dict) and isinstance(data.get("result"), list):
            document = [
                {"labels": stream.get("stream"), "timestamp": value[0], "line": value[1]}
                for stream in data["result"]
                if isinstance(stream, dict) and isinstance(stream.get("values"), list)
                for value in stream["values"]
                if isinstance(value, list) and len(value) >= 2
            ]
    for entry in document if isinstance(document, list) else ():
        if isinstance(entry, dict):
            yield entry
