"""A capture of the cluster bus for the benchmarks, made once and kept in ``build/bench-data``.

Every node has a connection to every other one and sends PINGs on it, which are answered with PONGs.  Messages of every third
node are cut at the payload of an Ethernet frame, so that they are put together of several segments; the others lie in one
segment each, as on a loopback interface.  Every message is acknowledged by a packet of its own.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data import DATA
from cluster_core.wire.bus import Gossip, GossipEntry, Header, Message, MessageType, encode_message, sized
from cluster_core.wire.bus_message import shard_id_extension
from cluster_core.wire.tcp_stream import ACK, SYN

NODES = 30
ENTRIES_MAX = 5
SLOTS = 16384
BUS_PORT = 16379
START_NS = 1_700_000_000_000_000_000
STEP_NS = 500_000
FRAME_PAYLOAD_BYTES = 1448
_PUSH_ACK = 0x18
_MASTER, _REPLICA, _MYSELF = 1, 2, 16
_ETHERNET = bytes(12) + b"\x08\x00"


@dataclass
class _Side:
    """One direction of a connection."""

    source: tuple[bytes, int]
    target: tuple[bytes, int]
    seq: int
    frame_bytes: int


def bus_capture(messages: int) -> Path:
    """Return a capture of *messages* messages (2.4 to 2.9 kB) of 30 nodes."""
    path = DATA / f"bus-{messages}.pcap"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        for number, packet in enumerate(bus_packets(messages)):
            seconds, rest = divmod(START_NS + number * STEP_NS // 2, 1_000_000_000)
            file.write(struct.pack("<IIII", seconds, rest // 1000, len(packet), len(packet)) + packet)
    partial.rename(path)
    return path


def bus_packets(messages: int, nodes: int = NODES, step_ns: int = STEP_NS) -> Iterator[bytes]:
    """The packets of so many messages of *nodes* nodes, one each *step_ns*, as Ethernet frames."""
    chance = random.Random(17)
    ids = [chance.randbytes(20).hex() for _ in range(nodes)]
    links = [(host, other) for host in range(nodes) for other in range(nodes) if host != other]
    sides: dict[tuple[int, int], tuple[_Side, _Side]] = {}
    for number in range(0, messages, 2):
        at = (number // 2) % len(links)
        if not at:
            chance.shuffle(links)
        link = links[at]
        second = (START_NS + number * step_ns) // 1_000_000_000
        if link not in sides:
            sides[link] = _sides(link, chance)
            yield from _handshake(*sides[link])
        there, back = sides[link]
        for kind, speaker, hearer, side, other in (
            (MessageType.PING, *link, there, back),
            (MessageType.PONG, *link[::-1], back, there),
        ):
            yield from _sent(_message(kind, speaker, hearer, ids, second, chance), side, other)


def _sides(link: tuple[int, int], chance: random.Random) -> tuple[_Side, _Side]:
    opener = (_ip(link[0]), 20_000 + 200 * link[0] + link[1])
    acceptor = (_ip(link[1]), BUS_PORT)
    return (
        _Side(opener, acceptor, chance.getrandbits(32), _frame_bytes(link[0])),
        _Side(acceptor, opener, chance.getrandbits(32), _frame_bytes(link[1])),
    )


def _frame_bytes(node: int) -> int:
    return FRAME_PAYLOAD_BYTES if node % 3 == 0 else 60_000


def _ip(node: int) -> bytes:
    return bytes((10, 0, 0, node + 1))


def _message(kind: int, speaker: int, hearer: int, ids: list[str], second: int, chance: random.Random) -> bytes:
    peers = [node for node in range(len(ids)) if node not in (speaker, hearer)]
    gossiped = chance.sample(peers, min(len(peers), chance.randint(1, ENTRIES_MAX)))
    entries = tuple(
        GossipEntry(ids[node], 0, second - 1, f"10.0.0.{node + 1}", 6379, BUS_PORT, _role(node)) for node in gossiped
    )
    master = speaker - speaker % 2
    first, last = master * SLOTS // len(ids), (master + 2) * SLOTS // len(ids)
    owned = ((1 << last) - (1 << first)).to_bytes(SLOTS // 8, "little")
    header = Header(
        type=kind, sender=ids[speaker], port=6379, cport=BUS_PORT, flags=_role(speaker) | _MYSELF, current_epoch=len(ids),
        config_epoch=master + 1, offset=second, myslots=owned, replicaof=ids[master] if speaker % 2 else "",
        mflags=b"\4\0\0",
    )  # fmt: skip
    shard = shard_id_extension(ids[master][::-1])
    return encode_message(sized(Message(header, Gossip(entries, (shard,)))))


def _role(node: int) -> int:
    return _REPLICA if node % 2 else _MASTER


def _handshake(there: _Side, back: _Side) -> Iterator[bytes]:
    yield _packet(there, back, SYN)
    there.seq = (there.seq + 1) % (1 << 32)
    yield _packet(back, there, SYN | ACK)
    back.seq = (back.seq + 1) % (1 << 32)
    yield _packet(there, back, ACK)


def _sent(message: bytes, side: _Side, other: _Side) -> Iterator[bytes]:
    for at in range(0, len(message), side.frame_bytes):
        piece = message[at : at + side.frame_bytes]
        yield _packet(side, other, _PUSH_ACK, piece)
        side.seq = (side.seq + len(piece)) % (1 << 32)
    yield _packet(other, side, ACK)


def _packet(side: _Side, other: _Side, flags: int, payload: bytes = b"") -> bytes:
    tcp = struct.pack(
        ">HHIIBBHHH",
        side.source[1],
        side.target[1],
        side.seq,
        other.seq if flags & ACK else 0,
        5 << 4,
        flags,
        65_535,
        0,
        0,
    )
    size = 20 + len(tcp) + len(payload)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0x4000, 64, 6, 0) + side.source[0] + side.target[0]
    return _ETHERNET + ip + tcp + payload
