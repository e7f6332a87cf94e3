"""Evidence of one process as blobs: Arrow batches of deliveries, and the slot bitmaps that they refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, Literal

import pyarrow as pa

from cluster_core.errors import DecodeError
from cluster_core.kernels.bus.packing import decode_packed, unpack
from cluster_core.kinds import EventKind
from cluster_core.replay.dispatch import Delivery, DeliveryKind
from cluster_core.replay.evidence import Endpoint, Evidence, LinkSeen, LogSeen, MessageSeen, poll_of, readable_part
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.bus import Message, decode_partial

KINDS: Final[tuple[DeliveryKind | Literal["bitmap"], ...]] = (
    "message", "opened", "closed", "refused", "poll", "log", "bitmap", "gap",
)  # fmt: skip
"""Kinds of rows; the code is the index.  Bitmaps come first, *number* is theirs."""
_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
_BITMAP_AT: Final = 8
MESSAGE: Final = _CODES["message"]
OUTBOUND, SENT = 1, 2


@cache
def _schema() -> pa.Schema:
    return pa.schema(
        [
            ("kind", pa.uint8()),
            ("number", pa.int64()),
            ("ts_ns", pa.int64()),
            ("ref", pa.int64()),
            ("connection", pa.int64()),
            ("flags", pa.uint8()),
            ("ip", pa.dictionary(pa.int32(), pa.string())),
            ("port", pa.int32()),
            ("bitmap", pa.int64()),
            ("packed", pa.binary()),
        ]
    )


def packed_table(table: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as compressed bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpacked_table(blob: bytes) -> pa.Table:
    """The rows of `packed_table`."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()


Row = tuple[int, int, int, int, int, int, str, int, int, bytes]
"""A piece of evidence as `_schema` has it."""


def row_of(d: Delivery) -> Row:
    """A delivery as a row."""
    flags = d.outbound * OUTBOUND + d.sent * SENT
    return _CODES[d.kind], d.number, d.ts_ns, d.ref, d.connection, flags, d.peer.ip, d.peer.port, d.bitmap, d.packed


def pack_rows(found: Sequence[Row], bitmaps: Sequence[bytes]) -> bytes:
    """Evidence of one process as a blob; *bitmaps* holds the content of every bitmap number."""
    used = sorted({row[_BITMAP_AT] for row in found} - {-1})
    bitmap = _CODES["bitmap"]
    rows: list[Row] = [(bitmap, number, 0, -1, -1, 0, "", 0, number, bitmaps[number]) for number in used]
    rows += found
    schema = _schema()
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [
        pa.array(list(column), pa.string()).dictionary_encode()
        if field.name == "ip"
        else pa.array(list(column), field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return packed_table(pa.record_batch(arrays, schema=schema))


def unpack_evidence(blobs: Iterable[bytes]) -> Iterator[tuple[int, Evidence]]:
    """The evidence of one process and the number of each piece, in order of the blobs."""
    bitmaps: dict[int, bytes] = {}
    for blob in blobs:
        table = unpacked_table(blob)
        columns = [table.column(name).to_pylist() for name in table.schema.names]
        for kind, number, ts_ns, ref, connection, flags, ip, port, bitmap, packed in zip(*columns, strict=True):
            word = KINDS[kind]
            if word == "bitmap":
                bitmaps[number] = packed
                continue
            seen = (connection, bool(flags & OUTBOUND))
            told = _evidence(
                word, ts_ns, ref, seen, bool(flags & SENT), Endpoint(ip, port), bitmaps.get(bitmap, b""), packed
            )
            if told is not None:
                yield number, told


def _evidence(
    kind: DeliveryKind,
    ts_ns: int,
    ref: int,
    seen: tuple[int, bool],
    sent: bool,
    peer: Endpoint,
    bitmap: bytes,
    packed: bytes,
) -> Evidence | None:
    connection, outbound = seen
    if kind == "message":
        return MessageSeen(ts_ns, ref, connection, outbound, sent, peer, message_of(packed, bitmap))
    if kind == "poll":
        try:
            return poll_of(ts_ns, read_nodes(packed))
        except DecodeError:  # it was read once before, so this is not met
            return None
    if kind == "log":
        word, _, subject = packed.decode().partition(" ")
        return LogSeen(ts_ns, EventKind(word), subject)
    return LinkSeen(ts_ns, ref, connection, outbound, kind, sent, peer)


def message_of(packed: bytes, bitmap: bytes) -> Message:
    """The message of a packed one; of one that was cut, what was captured."""
    if int.from_bytes(packed[4:8], "big") > len(packed) + len(bitmap):
        return readable_part(decode_partial(unpack(packed, bitmap)))
    return decode_packed(packed, bitmap)


def evidence_of(delivery: Delivery, bitmap: bytes) -> Evidence | None:
    """The evidence of one delivery."""
    seen = (delivery.connection, delivery.outbound)
    return _evidence(
        delivery.kind, delivery.ts_ns, delivery.ref, seen, delivery.sent, delivery.peer, bitmap, delivery.packed
    )
