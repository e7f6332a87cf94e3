"""Polls of CLUSTER NODES as JSON lines, written by ``slotscope collect`` and read by ``history``.

Each line is an object::

    {"time": 1795254729693956704, "asked": 1795254729693012345, "node": "127.0.0.1:7000", "text": "07c37df… …\\n…"}

*time* is when the reply was complete: a number since the epoch in ns, µs, ms or s (by size, fractions allowed), or ISO
8601 (UTC without an offset). *asked* is the optional time of the request. *node* is the polled node: ip:port, a port or
an id. It is optional, because the ``myself`` line of *text* names the node and takes precedence. *text* is the reply of
CLUSTER NODES (R128). ``"same": true`` in its place repeats the *text* of the previous poll of *node* in the file, except
for ping and pong times. *node_timeout_ms* is the optional setting cluster-node-timeout. Other members are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.prometheus_answer import MetricSample, info_sample
from cluster_core.instants import time_ns
from cluster_core.topology.node import Topology
from cluster_core.topology.nodes_text import NODE_ID, read_nodes
from cluster_core.wire.resp import read_info

LINE_BYTES_MAX: Final = 16 << 20
"""Maximum bytes; a cluster of 10,000 nodes needs a tenth."""
TIMEOUT_DIGITS_MAX: Final = 9
TIME_NAMES: Final = ("time", "ts", "t", "ts_ns")
NODE_NAMES: Final = ("node", "address", "id")
TEXT_NAMES: Final = ("text", "nodes")
"""Accepted member names for *time*, *node* and *text*; the first present one counts."""

INFO_NAMES: Final = ("replication", "persistence", "info")
"""Members that may hold INFO."""
_MYSELF: Final = re.compile(r"^([0-9a-f]{40}) \S* \S*\bmyself\b", re.MULTILINE)


class Poll(NamedTuple):
    """One reply of *observer* (node id) at *address* (ip:port, if known); *sample* is its CLUSTER INFO and INFO if polled.

    *node_timeout_ms*: its cluster-node-timeout; 0 if not polled.
    """

    line: int
    ts_ns: int
    asked_ns: int | None
    observer: str
    address: str
    text: str
    topology: Topology
    sample: MetricSample
    node_timeout_ms: int = 0


def read_object(raw: bytes, *, line: int, source: str) -> dict[str, Any]:
    """Return the members of a poll of any kind; raises DecodeError with offset *line*."""
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DecodeError("not a line of JSON", offset=line, source=source) from error
    if not isinstance(record, dict):
        raise DecodeError("a poll is a JSON object", offset=line, source=source)
    return record


def without_times(text: str) -> str:
    """Return CLUSTER NODES without ping and pong times, which change with every reply."""
    lines = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 6:
            fields[4] = fields[5] = "0"
        lines.append(" ".join(fields))
    return "\n".join(lines)


def read_poll(raw: bytes, *, line: int, source: str = "<polls>", before: dict[str, Poll] | None = None) -> Poll:
    """Parse one line, with *before* the last poll of each node (updated); DecodeError with offset *line* (from 1)."""
    record = read_object(raw, line=line, source=source)
    node = str(_member(record, NODE_NAMES))[:300]
    if record.get("same") is True and before is not None and node in before:
        ts_ns, asked_ns = time_ns(_member(record, TIME_NAMES)), time_ns(record.get("asked"))
        if ts_ns is None:
            raise DecodeError("the time is missing or cannot be parsed", offset=line, source=source)
        last = before[node]
        sample = _sample(record, asked_ns, ts_ns, last.address)
        if sample.cluster_ok is None:
            sample = sample._replace(cluster_ok=last.sample.cluster_ok)
        before[node] = last._replace(line=line, ts_ns=ts_ns, asked_ns=asked_ns, sample=sample)
        return before[node]
    poll = _read_whole(record, line, source)
    if before is not None:
        before[node] = poll
    return poll


def _read_whole(record: dict[str, Any], line: int, source: str) -> Poll:
    """Parse a poll with its own text."""
    text = _member(record, TEXT_NAMES)
    if not isinstance(text, str):
        raise DecodeError("no text of CLUSTER NODES", offset=line, source=source)
    ts_ns, asked_ns = time_ns(_member(record, TIME_NAMES)), time_ns(record.get("asked"))
    if ts_ns is None:
        raise DecodeError("the time is missing or cannot be parsed", offset=line, source=source)
    try:
        topology = read_nodes(text.encode("utf-8", "surrogatepass"), source=source)
    except DecodeError as error:
        reason = f"CLUSTER NODES, byte {error.offset} of the text: {error.reason}"
        raise DecodeError(reason, offset=line, source=source) from error
    observer, address = _replying_node(_member(record, NODE_NAMES), topology)
    if not observer and not address:
        raise DecodeError("the poll does not name the node that answered", offset=line, source=source)
    timeout = str(record.get("node_timeout_ms"))
    timeout_ms = int(timeout) if timeout.isascii() and timeout.isdigit() and len(timeout) <= TIMEOUT_DIGITS_MAX else 0
    sample = _sample(record, asked_ns, ts_ns, address)
    return Poll(line, ts_ns, asked_ns, observer, address, text, topology, sample, timeout_ms)


class NodeInfo(NamedTuple):
    """INFO of the node *node_id* at *ts_ns*."""

    node: str
    ts_ns: int
    fields: Mapping[str, str]


def read_node_info(raw: bytes, *, line: int, source: str = "<polls>") -> NodeInfo | None:
    """Return the INFO of a poll; None without one, or without time and node; DecodeError for invalid JSON."""
    record = read_object(raw, line=line, source=source)
    text, ts_ns = _member(record, TEXT_NAMES), time_ns(_member(record, TIME_NAMES))
    me = _MYSELF.search(text) if isinstance(text, str) else None
    fields = {name: value for info in _infos(record) for name, value in info.items()}
    return NodeInfo(me[1], ts_ns, fields) if me is not None and ts_ns is not None and fields else None


def _infos(record: dict[str, Any]) -> list[dict[str, str]]:
    """Return the fields of all INFO replies, by ascending precedence."""
    texts = [text for name in INFO_NAMES if isinstance(text := record.get(name), str)]
    return [read_info(text.encode("utf-8", "surrogatepass")) for text in reversed(texts)]


def _sample(record: dict[str, Any], asked_ns: int | None, ts_ns: int, address: str) -> MetricSample:
    """Return CLUSTER INFO and INFO of a poll."""
    fields = {name: value for info in _infos(record) for name, value in info.items()}
    return info_sample(fields, ts_ns if asked_ns is None else min(asked_ns, ts_ns), ts_ns, address)


def _member(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _replying_node(node: Any, topology: Topology) -> tuple[str, str]:
    """Return id and address of the replying node."""
    name = str(node)[:300] if isinstance(node, str | int) and not isinstance(node, bool) else ""
    me = topology.by_id.get(topology.my_id or "")
    if me is not None:
        known = me.address if me.ip else name if ":" in name else f":{me.port}"
        return me.id, known
    if NODE_ID.fullmatch(name):
        return name, ""
    return "", f":{name}" if name.isdigit() else name
