"""Make cluster-bus messages, TCP conversations and capture files, with defaults for all that a test does not care about."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from cluster_core.slots.slot_set import SlotSet
from cluster_core.wire.bus import (
    Body,
    Empty,
    Extension,
    Fail,
    Gossip,
    GossipEntry,
    Header,
    LightHeader,
    Message,
    MessageType,
    Module,
    Publish,
    Update,
    encode_message,
    sized,
)
from cluster_core.wire.bus_message import HOSTNAME, forgotten_node_extension, shard_id_extension, text_extension
from cluster_core.wire.tcp_stream import ACK, FIN, RST, SYN

ONE, TWO, THREE = "1" * 40, "2" * 40, "3" * 40
SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS
PSH_ACK = 0x18


def bitmap(*slots: int) -> bytes:
    """The wire form of a slot set."""
    return SlotSet(slots).to_wire()


def ping(sender: str = ONE, **header: object) -> Message:
    return gossip_message(MessageType.PING, sender, **header)


def gossip_message(
    kind: int, sender: str = ONE, entries: int = 1, extensions: Sequence[Extension] = (), **header: object
) -> Message:
    """A PING, PONG or MEET with lengths and counts that fit."""
    entries = tuple(
        GossipEntry(f"{i:040x}", 100 + i, 200 + i, f"10.0.0.{i % 250}", 6379, 16379, 0x111) for i in range(entries)
    )
    return message(kind, Gossip(entries, tuple(extensions)), sender, **header)


def message(kind: int, body: Body, sender: str = ONE, **header: object) -> Message:
    fields = {"myslots": bitmap(1, 2), "port": 6379, "cport": 16379, "flags": 0x11, "current_epoch": 7, **header}
    return sized(Message(Header(type=kind, sender=sender, **fields), body))  # type: ignore[arg-type]


def light(kind: int = MessageType.PUBLISH, channel: bytes = b"ch", text: bytes = b"hello1") -> Message:
    """A PUBLISH or PUBLISHSHARD under the light header of Valkey (R7)."""
    return sized(Message(LightHeader(type=kind), Publish(channel, text)))


def every_kind() -> list[Message]:
    """One message of every type and header that the rules name."""
    extensions = (
        text_extension(HOSTNAME, "node-1.example"),
        text_extension(1, "first"),
        forgotten_node_extension(TWO, 60),
        shard_id_extension("a" * 40),
        text_extension(4, "10.0.0.1"),
        text_extension(5, "fe80::1"),
        Extension(6, b"newer...", 3),
    )
    return [
        gossip_message(MessageType.PING, entries=3, extensions=extensions),
        gossip_message(MessageType.PONG, TWO, entries=0),
        gossip_message(MessageType.MEET, THREE),
        message(MessageType.FAIL, Fail(TWO)),
        message(MessageType.PUBLISH, Publish(b"channel", b"text")),
        message(MessageType.AUTH_REQUEST, Empty(), mflags=b"\x02\0\0"),
        message(MessageType.AUTH_ACK, Empty()),
        message(MessageType.UPDATE, Update(9, THREE, bitmap(5, 16383))),
        message(MessageType.MFSTART, Empty()),
        message(MessageType.MODULE, Module(b"module!!", 7, b"payload")),
        message(MessageType.PUBLISHSHARD, Publish(b"", b"")),
        light(),
        light(MessageType.PUBLISHSHARD),
        sized(Message(LightHeader(type=MessageType.MODULE), Module(b"module!!", 1, b""))),
    ]


_ids = st.sampled_from([ONE, TWO, THREE, "", "not hex \xff" + "z" * 31])
_u16 = st.integers(0, 0xFFFF)
_u64 = st.sampled_from([0, 1, 1 << 32, (1 << 64) - 1])
_entries = st.builds(
    GossipEntry,
    _ids,
    st.integers(0, 0xFFFFFFFF),
    st.just(5),
    st.sampled_from(["", "10.0.0.1", "::1"]),
    _u16,
    _u16,
    _u16,
    _u16,
    _u16,
)
_extensions = st.one_of(
    st.just(shard_id_extension("b" * 40)),
    st.builds(Extension, _u16, st.sampled_from([b"", bytes(8), b"x" * 16]), _u16),
)
_bodies = st.one_of(
    st.builds(Gossip, st.lists(_entries, max_size=3).map(tuple), st.lists(_extensions, max_size=2).map(tuple)),
    st.builds(Fail, _ids.map(lambda text: text.ljust(40, "\0").rstrip("\0"))),
    st.builds(Publish, st.binary(max_size=9), st.binary(max_size=9)),
    st.builds(Update, _u64, _ids, st.sampled_from([bitmap(), bitmap(3, 900)])),
    st.builds(Module, st.binary(min_size=8, max_size=8), st.integers(0, 255), st.binary(max_size=9)),
    st.just(Empty()),
)
_headers = st.builds(
    Header,
    type=st.integers(0, 12),
    ver=st.sampled_from([1, 1, 1, 2]),
    port=_u16,
    sender=_ids,
    current_epoch=_u64,
    config_epoch=_u64,
    offset=_u64,
    myslots=st.sampled_from([bitmap(), bitmap(1, 2, 3), bitmap(16383)]),
    replicaof=_ids,
    myip=st.sampled_from(["", "127.0.0.1"]),
    notused1=st.sampled_from([bytes(30), b"n" * 30]),
    cport=_u16,
    flags=_u16,
    state=st.integers(0, 255),
    mflags=st.sampled_from([bytes(3), b"\4\0\0", b"\7\1\2"]),
)
_LIGHT_HEADERS = st.builds(LightHeader, notused1=_u16, type=st.integers(0, 12), notused2=_u16)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Bytes of messages: mostly sound, some with a body of another type, wrong counts, or bytes behind the body."""
    made = sized(Message(draw(st.one_of(_headers, _headers, _LIGHT_HEADERS)), draw(_bodies)))
    if isinstance(made.header, Header) and draw(st.integers(0, 3)) == 0:
        count = draw(st.sampled_from([made.header.count, made.header.count + 1, 0xFFFF, 0]))
        extensions = draw(st.sampled_from([made.header.extensions, made.header.extensions + 1, 0xFFFF]))
        made = replace(made, header=replace(made.header, count=count, extensions=extensions))
    return encode_message(made)


@dataclass(frozen=True)
class Sent:
    """A TCP segment to be captured; *cut* bytes at its end are left out of the capture."""

    source: tuple[str, int]
    target: tuple[str, int]
    seq: int
    flags: int = PSH_ACK
    payload: bytes = b""
    ts_ns: int = START_NS
    ack: int = 0
    cut: int = 0


CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 16379)


def conversation(
    pieces: Iterable[bytes],
    answers: Iterable[bytes] = (),
    *,
    client: tuple[str, int] = CLIENT,
    server: tuple[str, int] = SERVER,
    isn: int = 1000,
    start_ns: int = START_NS,
    handshake: bool = True,
) -> list[Sent]:
    """A connection: handshake, one segment a piece from the client, then the server's answers, 1 ms apart."""
    made: list[Sent] = []
    seq, ack = isn, isn + 5000
    if handshake:
        made = [
            Sent(client, server, seq, SYN),
            Sent(server, client, ack, SYN | ACK, ack=(seq + 1) % (1 << 32)),
            Sent(client, server, (seq + 1) % (1 << 32), ACK),
        ]
    seq, ack = (seq + 1) % (1 << 32), (ack + 1) % (1 << 32)
    for piece in pieces:
        made.append(Sent(client, server, seq, payload=piece))
        seq = (seq + len(piece)) % (1 << 32)
    for piece in answers:
        made.append(Sent(server, client, ack, payload=piece))
        ack = (ack + len(piece)) % (1 << 32)
    return [replace(sent, ts_ns=start_ns + i * 1_000_000) for i, sent in enumerate(made)]


def closing(last: Sent, flags: int = FIN | ACK) -> Sent:
    """The FIN (or RST) that follows a segment in its direction."""
    return replace(last, seq=last.seq + len(last.payload), flags=flags, payload=b"", ts_ns=last.ts_ns + 1_000_000)


def refusal(syn: Sent) -> Sent:
    """The RST with which a closed port answers a SYN."""
    return Sent(syn.target, syn.source, 0, RST | ACK, ts_ns=syn.ts_ns + 1000, ack=syn.seq + 1)


def frame(sent: Sent, link_type: int = 1, vlans: int = 0) -> bytes:
    tcp = struct.pack(
        ">HHIIBBHHH",
        sent.source[1],
        sent.target[1],
        *(n % (1 << 32) for n in (sent.seq, sent.ack)),
        5 << 4,
        sent.flags,
        65535,
        0,
        0,
    )
    tcp += sent.payload
    is_v6 = ":" in sent.source[0]
    if is_v6:
        from ipaddress import IPv6Address

        ends = IPv6Address(sent.source[0]).packed + IPv6Address(sent.target[0]).packed
        ip = struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64) + ends + tcp
    else:
        ends = b"".join(bytes(map(int, end[0].split("."))) for end in (sent.source, sent.target))
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0) + ends + tcp
    kind = struct.pack(">H", 0x86DD if is_v6 else 0x0800)
    tags = b"".join(struct.pack(">HH", 0x8100, 7) for _ in range(vlans))
    if link_type == 1:
        return bytes(12) + tags + kind + ip
    if link_type == 113:
        return bytes(14) + kind + ip
    if link_type == 276:
        return kind + bytes(18) + ip
    if link_type in (0, 108):
        return struct.pack("<I" if link_type == 0 else ">I", 30 if is_v6 else 2) + ip
    return ip


def pcap(
    sent: Iterable[Sent], *, link_type: int = 1, order: str = "<", nanoseconds: bool = False, vlans: int = 0
) -> bytes:
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link_type)]
    for segment in sent:
        data = frame(segment, link_type, vlans)
        seconds, rest = divmod(segment.ts_ns, SECOND_NS)
        kept = data[: len(data) - segment.cut]
        parts.append(struct.pack(order + "IIII", seconds, rest if nanoseconds else rest // 1000, len(kept), len(data)))
        parts.append(kept)
    return b"".join(parts)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = 12 + len(body)
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def pcapng(sent: Iterable[Sent], *, link_type: int = 1, order: str = "<", tsresol: int | None = None) -> bytes:
    """A pcapng file with one section and one interface, enhanced packet blocks."""
    parts = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)]
    options = b"" if tsresol is None else struct.pack(order + "HHB3xHH", 9, 1, tsresol, 0, 0)
    parts.append(block(1, struct.pack(order + "HHI", link_type, 0, 262144) + options, order))
    ticks = 10**6 if tsresol is None else (2 if tsresol & 0x80 else 10) ** (tsresol & 0x7F)
    for segment in sent:
        data = frame(segment, link_type)
        kept = data[: len(data) - segment.cut]
        stamp = segment.ts_ns * ticks // SECOND_NS
        head = struct.pack(order + "IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(kept), len(data))
        parts.append(block(6, head + kept, order))
    return b"".join(parts)


def pieces_of(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Cut bytes into pieces of the given sizes, the last one taking the rest."""
    made, at = [], 0
    for size in sizes:
        if at >= len(data):
            break
        made.append(data[at : at + size])
        at += size
    if at < len(data):
        made.append(data[at:])
    return made
