"""Recorded captures, edited packet by packet: lost packets, a late start, other clocks, several points, cut packets."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cluster_core.formats.capture.pcap import CaptureReader, Packet
from cluster_core.kernels.bus.packets import ADDRESS_BYTES, RECORD, SEGMENT, new_rows, view_segments
from cluster_core.kernels.interning import new_interned


def packets_of(path: Path) -> list[Packet]:
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rb") as file:
        items = CaptureReader().feed(file.read())
    return [packet for packet in items if isinstance(packet, Packet)]


def as_pcap(packets: Iterable[Packet]) -> bytes:
    kept = list(packets)
    link_type = kept[0].link_type if kept else 1
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, link_type)]
    for packet in kept:
        seconds, fraction = divmod(packet.ts_ns, 1_000_000_000)
        parts.append(struct.pack("<IIII", seconds, fraction, len(packet.data), packet.length))
        parts.append(packet.data)
    return b"".join(parts)


def write(path: Path, packets: Iterable[Packet]) -> Path:
    path.write_bytes(as_pcap(packets))
    return path


def with_loss(packets: Iterable[Packet], share: float, seed: int) -> list[Packet]:
    """Each packet is lost with the chance *share*."""
    rng = random.Random(seed)
    return [packet for packet in packets if rng.random() >= share]


def later_by(packets: Iterable[Packet], ns: int) -> list[Packet]:
    """The packets under a clock that is ahead by *ns*."""
    return [replace(packet, ts_ns=packet.ts_ns + ns) for packet in packets]


def cut_to(packets: Iterable[Packet], snaplen: int) -> list[Packet]:
    """The packets under a snap length."""
    return [replace(packet, data=packet.data[:snaplen]) for packet in packets]


def ports_of(packet: Packet) -> tuple[int, int]:
    view = segment_of(packet)
    return int(view.source_port), int(view.target_port)


def segment_of(packet: Packet) -> Any:
    """The TCP segment (`SEGMENT`) of a packet."""
    record, segments = new_rows(RECORD, 1), new_rows(SEGMENT, 1)
    record[0] = (packet.ts_ns, 0, packet.length, packet.offset, len(packet.data), packet.link_type)
    data = np.frombuffer(bytearray(packet.data), np.uint8)
    view_segments(data, record, 1, new_interned(ADDRESS_BYTES, 4), segments)
    return segments[0]


def split(packets: Iterable[Packet], place: Callable[[Packet], int]) -> Iterator[list[Packet]]:
    """The packets of two points: *place* says which one saw a packet."""
    both: tuple[list[Packet], list[Packet]] = ([], [])
    for packet in packets:
        both[place(packet)].append(packet)
    yield from both


def by_connection(packet: Packet) -> int:
    """Each connection at one of two points."""
    return hash(tuple(sorted(ports_of(packet)))) % 2
