"""One entry for every form in which a cluster describes itself, recognised by its first bytes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.topology.cli_text import write_cli_text
from cluster_core.topology.node import Topology, find_conflicts
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.topology.replies import read_reply, shards_reply, slots_reply
from cluster_core.topology.reply_value import is_reply, read_reply_value
from cluster_core.wire.resp import RespMap, encode_value

TOPOLOGY_BYTES_MAX = 256 * 1024 * 1024
"""Bytes of one description; a thousand nodes with every slot apart need some megabytes."""

_NODES = re.compile(rb"[0-9a-z]{40} |vars ")
_RAW = re.compile(rb"[0-9]{1,5}\r?\n|slots[ \r\n]")


def read_topology(data: bytes, *, source: str = "<bytes>", strict: bool = True) -> Topology:
    """Return the topology that *data* describes.

    Takes the text of CLUSTER NODES, a nodes.conf, and replies of CLUSTER SHARDS and SLOTS as RESP2 or RESP3
    bytes, as redis-cli's JSON and as its numbered text; CLUSTER NODES also as RESP or JSON string.  Raises
    DecodeError for anything else, and for slots that two nodes claim unless *strict* is false: then they
    are listed in `Topology.conflicts`.
    """
    if len(data) > TOPOLOGY_BYTES_MAX:
        reason = f"{len(data)} bytes are more than the {TOPOLOGY_BYTES_MAX} of a description"
        raise DecodeError(reason, offset=TOPOLOGY_BYTES_MAX, source=source)
    topology = _read_form(data, source)
    conflicts = find_conflicts(topology.nodes)
    if conflicts and strict:
        first = conflicts[0]
        reason = f"slots {str(first.slots)[:80]} belong to {first.keeper_id} and to {first.other_id}"
        offset = max(data.rfind(b"\n" + first.other_id.encode()) + 1, 0)
        raise DecodeError(reason, offset=offset, source=source)
    return replace(topology, conflicts=conflicts) if conflicts else topology


def _read_form(data: bytes, source: str) -> Topology:
    start = len(data) - len(data.lstrip())
    if start == len(data):
        raise DecodeError("no description of a cluster: nothing but blanks", offset=0, source=source)
    if _NODES.match(data, start):
        return read_nodes(data, source=source)
    if is_reply(data, start):
        return _read_value(read_reply_value(data, source=source), source)
    if _RAW.match(data, start):
        raise DecodeError("redis-cli's raw output does not tell lists apart: use --json", offset=start, source=source)
    raise DecodeError(
        "neither CLUSTER NODES, nodes.conf, nor a reply of CLUSTER SHARDS or SLOTS",
        offset=start,
        source=source,
    )


def _read_value(value: Any, source: str) -> Topology:
    if isinstance(value, str):
        return read_nodes(value.encode("utf-8", "surrogatepass"), source=source)
    return read_reply(value, source=source)


def write_reply(topology: Topology, command: str, form: str) -> bytes:
    """Return the reply of CLUSTER *command*, ``shards`` or ``slots``, that describes *topology*.

    *form* is ``resp2``, ``resp3``, ``json`` or ``cli`` (numbered text); ValueError for other words.
    """
    if command not in ("shards", "slots") or form not in ("resp2", "resp3", "json", "cli"):
        raise ValueError(f"no reply of CLUSTER {command} in the form {form}")
    protocol = 3 if form in ("resp3", "json") else 2
    reply = (shards_reply if command == "shards" else slots_reply)(topology, protocol=protocol)
    if form == "json":
        return json.dumps(reply, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"
    if form == "cli":
        return write_cli_text(reply).encode("utf-8", "surrogateescape")
    return encode_value(_wire(reply), protocol=protocol)


def _wire(reply: Any) -> Any:
    if isinstance(reply, str):
        return reply.encode("utf-8", "surrogateescape")
    if isinstance(reply, list):
        return [_wire(item) for item in reply]
    if isinstance(reply, dict):
        return RespMap(tuple((_wire(name), _wire(item)) for name, item in reply.items()))
    return reply
