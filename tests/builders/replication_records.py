"""Recorded replication: its packets replayed, and what INFO said at the same times compared with that."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.formats.capture.pcap import CaptureReader
from cluster_core.formats.capture.resp_capture import RespRow, read_resp
from cluster_core.replication.forecast import foresee_all
from cluster_core.replication.reconstruction import Reconstruction
from cluster_core.replication.rows import LinkSpan

RECORDINGS = Path(__file__).parents[1] / "data" / "psync"
SERVERS = ("redis-7.0", "valkey-9.1")
CRON_NS = 130_000_000
"""A master learns from its cron, ten times a second, that the process which sent a dump has ended: no packet tells."""
CROSSING_NS = 3_000_000
"""A packet that is on its way while a sample is taken."""
LISTED = ("wait_bgsave", "send_bulk", "bg_transfer", "online")


def packets(server: str) -> list[Packet | CaptureProblem]:
    """The packets of a recording."""
    reader = CaptureReader()
    return [*reader.feed(gzip.decompress((RECORDINGS / server / "resp.pcap.gz").read_bytes())), *reader.finish()]


def replayed(rows: Iterator[RespRow] | Sequence[RespRow], sizes: dict[str, int] | None = None) -> Reconstruction:
    """A replay of *rows*, with its forecasts."""
    replay = Reconstruction(is_write=lambda words: words[0].upper() == b"SET")
    for row in rows:
        replay.handle(row)
    replay.finish()
    foresee_all(replay.resyncs, replay.servers, sizes)
    return replay


def replayed_recording(server: str, sizes: dict[str, int] | None = None) -> Reconstruction:
    """The replay of a recording."""
    return replayed(read_resp(packets(server)), sizes)


def samples(server: str) -> list[dict[str, Any]]:
    """What INFO said: fields, with *ts_ns*, *until_ns* and *name* of the server."""
    lines = gzip.decompress((RECORDINGS / server / "info.jsonl.gz").read_bytes()).decode().splitlines()
    found = []
    for line in lines:
        sample = json.loads(line)
        fields = dict(part.split(":", 1) for part in sample["info"].split("\r\n") if ":" in part)
        name = f"127.0.0.1:{sample['port']}"
        found.append({**fields, "name": name, "ts_ns": sample["ts_ns"], "until_ns": sample["until_ns"]})
    return found


def contradictions(spans: Sequence[LinkSpan], sample: dict[str, Any]) -> list[str]:
    """What a sample says that the links do not, or the other way round."""
    found = []
    start_ns, end_ns = sample["ts_ns"] - CROSSING_NS, sample["until_ns"]
    own = _at([span for span in spans if span.replica == sample["name"]], start_ns, end_ns)
    if sample["role"] == "slave":
        said = (f"{sample['master_host']}:{sample['master_port']}", sample["master_link_status"] == "up")
        if said not in [(span.master, span.is_up) for span in own]:
            found.append(f"follows {said}, not {[(span.master, span.state, span.is_up) for span in own]}")
        if said[1] and own and own[-1].is_up and own[-1].replid != sample["master_replid"]:
            found.append(f"has {sample['master_replid']}, not {own[-1].replid}")
    elif own and all(span.to_ns is None or span.to_ns > end_ns for span in own):
        found.append(f"is a master and follows {[span.master for span in own]}")
    return [*found, *_replicas(spans, sample)]


def _replicas(spans: Sequence[LinkSpan], sample: dict[str, Any]) -> list[str]:
    start_ns, end_ns = sample["ts_ns"] - CRON_NS, sample["until_ns"]
    listed = {}
    for name, value in sample.items():
        if re.fullmatch(r"slave\d+", name):
            fields = dict(part.split("=") for part in value.split(","))
            if fields.get("type") != "rdb-channel":
                listed[f"{fields['ip']}:{fields['port']}"] = fields["state"]
    ours: dict[str, list[LinkSpan]] = {}
    for span in _at([span for span in spans if span.master == sample["name"]], start_ns, end_ns):
        ours.setdefault(span.replica, []).append(span)
    wrong = [
        f"{name} is {state}" for name, state in listed.items() if state not in [s.state for s in ours.get(name, [])]
    ]
    for name, found in ours.items():
        lasts = all(
            s.state in LISTED and s.from_ns <= start_ns and (s.to_ns is None or s.to_ns > end_ns) for s in found
        )
        if name not in listed and lasts:
            wrong.append(f"{name} is not there")
    return wrong


def _at(spans: Sequence[LinkSpan], start_ns: int, end_ns: int) -> list[LinkSpan]:
    return [span for span in spans if span.from_ns <= end_ns and (span.to_ns is None or span.to_ns >= start_ns)]
