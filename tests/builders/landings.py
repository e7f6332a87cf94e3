"""A recorded cluster as the landing that a recorder on each of its hosts would have left."""

from __future__ import annotations

import gzip
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cluster_core.formats.capture.pcap import Packet
from cluster_core.formats.landing import RecordedFile
from cluster_core.kernels.bus.decoder import BusDecoder
from tests.builders.bus_comparison import decoded
from tests.builders.edited_captures import as_pcap, later_by, packets_of, ports_of
from tests.conftest import DATA

RECORDED = DATA / "bus-valkey-9.1"
SECOND = 1_000_000_000
CLUSTER = "shop"
_LOG_TIME = re.compile(rb"\d{1,2} \w{3} \d{4} \d\d:\d\d:\d\d\.\d{3}")


@dataclass(frozen=True)
class Landed:
    """A file of a landing, and when it was finished."""

    path: Path
    ended_ns: int
    raw: bytes

    def put(self) -> None:
        """Write it, as a recorder does: under its name when it is whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f".{self.path.name}.partial")
        partial.write_bytes(self.raw)
        partial.rename(self.path)


def speakers(path: Path) -> dict[int, str]:
    """Which node has which port, those of its own connections among them."""
    names: dict[int, str] = {}
    for batch in decoded(BusDecoder(), [gzip.decompress(path.read_bytes())]):
        for row in batch.messages:
            if row.sender >= 0 and not row.light:
                names.setdefault(int(row.source_port), batch.node(int(row.sender)))
    return names


def landing_files(
    folder: Path,
    *,
    seconds: int = 10,
    capture: Path = RECORDED / "bus.pcap.gz",
    ahead_s: Mapping[int, float] | None = None,
    packets_max: int | None = None,
    aligned: bool = False,
    logs: bool = False,
) -> list[Landed]:
    """The files that a recorder beside each node leaves, in the order in which they were finished.

    Each ends its files at its own moments, unless they are *aligned*; *ahead_s* is how far the clock of the nth point is ahead.
    """
    packets = packets_of(capture)[:packets_max]
    nodes = speakers(capture)
    points = sorted(set(nodes.values()))
    landed = []
    for number, node in enumerate(points):
        ahead_ns = int((ahead_s or {}).get(number, 0) * SECOND)
        seen = [packet for packet in packets if node in {nodes.get(port) for port in ports_of(packet)}]
        turn_ns = 0 if aligned else number * seconds * SECOND // len(points)
        bounds = _bounds(packets, seconds, turn_ns)
        for begin_ns, end_ns in bounds:
            mine = [packet for packet in seen if begin_ns <= packet.ts_ns < end_ns]
            raw = gzip.compress(as_pcap(later_by(mine, ahead_ns)), 1)
            name = RecordedFile("", begin_ns + ahead_ns, end_ns + ahead_ns, "pcap").name
            landed.append(Landed(folder / CLUSTER / f"host-{number}" / "bus" / name, end_ns, raw))
    if logs:
        landed += _log_files(folder, _bounds(packets, seconds, 0), len(points))
    return sorted(landed, key=lambda file: (file.ended_ns, file.path))


def _bounds(packets: list[Packet], seconds: int, turn_ns: int) -> list[tuple[int, int]]:
    first_ns, last_ns = packets[0].ts_ns, packets[-1].ts_ns
    every = seconds * SECOND
    edges = [first_ns // 1000 * 1000]
    at = (edges[0] // every) * every + turn_ns
    while at <= last_ns:
        if at > edges[-1]:
            edges.append(at)
        at += every
    edges.append(last_ns // 1000 * 1000 + 1000)
    return list(itertools.pairwise(edges))


def _log_files(folder: Path, bounds: list[tuple[int, int]], points: int) -> list[Landed]:
    """The logs, cut where the files of captures are that end together."""
    result = []
    for number, path in enumerate(sorted((RECORDED / "logs").glob("*.log.gz"))[:points]):
        source = f"127.0.0.1_{path.name.partition('.')[0]}"
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        times = [_time_ns(line) for line in lines]
        edges = [0, *(end for _, end in bounds[:-1]), max(times) + SECOND]
        for begin_ns, end_ns in itertools.pairwise(edges):
            mine = [line for line, time in zip(lines, times, strict=True) if begin_ns <= time < end_ns]
            name = RecordedFile(source, max(begin_ns, bounds[0][0]), end_ns, "log").name
            place = folder / CLUSTER / f"host-{number}" / "logs" / name
            result.append(Landed(place, end_ns, gzip.compress(b"".join(mine))))
    return result


def _time_ns(line: bytes) -> int:
    match = _LOG_TIME.search(line)
    if match is None:
        return 0
    moment = datetime.strptime(match[0].decode(), "%d %b %Y %H:%M:%S.%f").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000) * 1_000_000
