"""Evidence of one process as blobs of Arrow; a blob holds each slot bitmap once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.bus.known_links import gather
from cluster_core.kernels.bus.packing import decode_packed, unpack
from cluster_core.kinds import EventKind
from cluster_core.replay.dispatch import DeliveryKind
from cluster_core.replay.evidence import (
    Endpoint,
    Evidence,
    LinkSeen,
    LogSeen,
    MessageSeen,
    NodePoll,
    PolledNode,
    poll_of,
    readable_part,
)
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.bus import Message, decode_partial

KINDS: Final[tuple[DeliveryKind, ...]] = (
    "message", "opened", "closed", "refused", "poll", "log", "gap", "unread", "read",
)  # fmt: skip
"""Kinds of rows; the code is the index."""
OUTBOUND, SENT = 1, 2
"""Bits of the column ``flags``: on a connection that the observer opened; sent by the observer."""
_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
MESSAGE: Final = _CODES["message"]
POLL: Final = _CODES["poll"]


def packed_table(table: pa.Table | pa.RecordBatch) -> bytes:
    """Rows as compressed bytes; one thread, as to spread columns of so few rows costs more than to compress them."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpacked_table(blob: bytes) -> pa.Table:
    """The rows of `packed_table`."""
    with pa.ipc.open_stream(blob, options=pa.ipc.IpcReadOptions(use_threads=False)) as reader:
        return reader.read_all()


def code_of(kind: DeliveryKind) -> int:
    """The code of a kind of rows."""
    return _CODES[kind]


class EvidenceColumns(NamedTuple):
    """Evidence, row by row: *process* and *peer* are numbers of addresses, *bitmap* of bitmaps (-1 for none); *start* and *stop* tell where the packed bytes stand in *data*."""

    process: NDArray[np.int32]
    kind: NDArray[np.uint8]
    number: NDArray[np.int64]
    ts_ns: NDArray[np.int64]
    ref: NDArray[np.int64]
    connection: NDArray[np.int64]
    flags: NDArray[np.uint8]
    peer: NDArray[np.int32]
    bitmap: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    data: NDArray[np.uint8]

    def part(self, rows: slice | NDArray[np.int64]) -> EvidenceColumns:
        """Some of the rows."""
        return EvidenceColumns._make([*(column[rows] for column in self[:-1]), self.data])


def joined(parts: Sequence[EvidenceColumns]) -> EvidenceColumns:
    """The rows of all *parts*; bytes that several of them share come once."""
    *columns, datas = (list(column) for column in zip(*parts, strict=True))
    distinct = {id(data): data for data in datas}
    starts = dict(zip(distinct, np.cumsum([0, *map(len, distinct.values())]).tolist(), strict=False))
    whole = EvidenceColumns._make([*map(np.concatenate, columns), np.concatenate(list(distinct.values()))])
    base = np.repeat([starts[id(data)] for data in datas], [len(part.start) for part in parts])
    return whole._replace(start=whole.start + base, stop=whole.stop + base)


def pack_columns(evidence: EvidenceColumns, ends: Sequence[Endpoint], bitmaps: Sequence[bytes]) -> bytes:
    """Evidence of one process as a blob; *ends* are the addresses, *bitmaps* the contents of every bitmap number."""
    packed = np.empty(int((evidence.stop - evidence.start).sum()), np.uint8)
    gather(evidence.data, evidence.start, evidence.stop, packed)
    offsets = np.concatenate(([0], np.cumsum(evidence.stop - evidence.start))).astype(np.int32)
    peers, peer = np.unique(evidence.peer, return_inverse=True)
    used, bitmap = np.unique(evidence.bitmap, return_inverse=True)
    contents = [bitmaps[number] if number >= 0 else b"" for number in used.tolist()]
    columns: dict[str, Any] = {
        name: getattr(evidence, name) for name in ("kind", "number", "ts_ns", "ref", "connection", "flags")
    }
    columns["ip"] = _coded(peer, [ends[number].ip for number in peers.tolist()], pa.string())
    columns["port"] = np.array([ends[number].port for number in peers.tolist()], np.int32)[peer]
    columns["bitmap"] = _coded(bitmap, contents, pa.binary())
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(packed)]
    columns["packed"] = pa.Array.from_buffers(pa.binary(), len(evidence.start), buffers)
    return packed_table(pa.record_batch(columns))


def _coded(codes: NDArray[Any], values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array(values, kind))


class EvidenceReader:
    """Reads evidence of one process, blob by blob."""

    def __init__(self) -> None:
        self._polled: tuple[bytes, tuple[PolledNode, ...]] = (b"", ())

    def read(self, blob: bytes) -> Iterator[tuple[int, Evidence]]:
        """Yield the evidence in *blob*, each piece with its number."""
        table = unpacked_table(blob)
        columns = (_values(table.column(name)) for name in table.schema.names)
        for kind, number, ts_ns, ref, connection, flags, ip, port, bitmap, packed in zip(*columns, strict=True):
            peer, outbound, sent = Endpoint(ip, port), bool(flags & OUTBOUND), bool(flags & SENT)
            if kind == MESSAGE:
                message = message_of(packed, bitmap)
                yield number, MessageSeen(ts_ns, ref, connection, outbound, sent, peer, message)
                continue
            if kind == POLL:
                poll = self._poll(ts_ns, packed)
                if poll is not None:
                    yield number, poll
                continue
            yield number, _evidence(KINDS[kind], ts_ns, ref, (connection, outbound), sent, peer, packed)

    def _poll(self, ts_ns: int, packed: bytes) -> NodePoll | None:
        """An answer to CLUSTER NODES; one that is equal to the answer before is not read again."""
        asked, _, text = packed.partition(b"\n")
        if text != self._polled[0]:
            try:
                self._polled = text, poll_of(ts_ns, read_nodes(text)).nodes
            except DecodeError:  # it was read once before, so this is not met
                return None
        return NodePoll(ts_ns, self._polled[1], int(asked) or ts_ns)


def unpack_evidence(blobs: Iterable[bytes]) -> Iterator[Evidence]:
    """The evidence of one process, in order of the blobs."""
    reader = EvidenceReader()
    for blob in blobs:
        yield from (evidence for _, evidence in reader.read(blob))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; numbers go through numpy, which is faster."""
    if pa.types.is_dictionary(column.type):
        coded = column.combine_chunks()
        values = coded.dictionary.to_pylist()
        return [values[code] for code in coded.indices.to_numpy().tolist()]
    items: list[Any] = column.to_numpy().tolist() if pa.types.is_integer(column.type) else column.to_pylist()
    return items


def _evidence(
    kind: DeliveryKind,
    ts_ns: int,
    ref: int,
    seen: tuple[int, bool],
    sent: bool,
    peer: Endpoint,
    packed: bytes,
) -> Evidence:
    """A piece of evidence that is neither message nor poll."""
    assert kind != "message"
    assert kind != "poll"
    connection, outbound = seen
    if kind == "log":
        word, _, subject = packed.decode().partition(" ")
        return LogSeen(ts_ns, EventKind(word), subject)
    return LinkSeen(ts_ns, ref, connection, outbound, kind, sent, peer, int(packed) if packed else 0)


def message_of(packed: bytes, bitmap: bytes) -> Message:
    """The message of a packed one; of one that was cut, what was captured."""
    if int.from_bytes(packed[4:8], "big") > len(packed) + len(bitmap):
        return readable_part(decode_partial(unpack(packed, bitmap)))
    return decode_packed(packed, bitmap)
