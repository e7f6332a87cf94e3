"""Evidence of processes as blobs of Arrow: gathered row by row, packed for one process each, read again; a blob holds each slot bitmap once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.formats.capture.bus_rows import INITIATOR
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.known_links import OrderedMessages, gather
from cluster_core.kernels.bus.packing import decode_packed, unpack
from cluster_core.kinds import EventKind
from cluster_core.replay.dispatch import PROCESSES_MAX, Delivery, DeliveryKind
from cluster_core.replay.evidence import (
    Endpoint,
    Evidence,
    LinkChange,
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
LOG: Final = _CODES["log"]


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
                yield number, MessageSeen(ts_ns, ref, connection, outbound, sent, peer, message_of(packed, bitmap))
            elif kind == POLL:
                if (poll := self._poll(ts_ns, packed)) is not None:
                    yield number, poll
            elif kind == LOG:
                word, _, subject = packed.decode().partition(" ")
                yield number, LogSeen(ts_ns, EventKind(word), subject)
            else:
                change = cast("LinkChange", KINDS[kind])
                since_ns = int(packed) if packed else 0
                yield number, LinkSeen(ts_ns, ref, connection, outbound, change, sent, peer, since_ns)

    def _poll(self, ts_ns: int, packed: bytes) -> NodePoll | None:
        """An answer to CLUSTER NODES; one that is equal to the answer before is not read again."""
        asked, _, text = packed.partition(b"\n")
        if text != self._polled[0]:
            try:
                self._polled = text, poll_of(ts_ns, read_nodes(text)).nodes
            except DecodeError:  # it was read once before, so this is not met
                return None
        return NodePoll(ts_ns, self._polled[1], int(asked) or ts_ns)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; numbers go through numpy, which is faster."""
    if pa.types.is_dictionary(column.type):
        coded = column.combine_chunks()
        values = coded.dictionary.to_pylist()
        return [values[code] for code in coded.indices.to_numpy().tolist()]
    items: list[Any] = column.to_numpy().tolist() if pa.types.is_integer(column.type) else column.to_pylist()
    return items


def message_of(packed: bytes, bitmap: bytes) -> Message:
    """Unpack a message; of a cut one return the captured part."""
    if int.from_bytes(packed[4:8], "big") > len(packed) + len(bitmap):
        return readable_part(decode_partial(unpack(packed, bitmap)))
    return decode_packed(packed, bitmap)


class EvidenceCollector:
    """Gathers evidence; *processes* are those that had some, and grow up to `PROCESSES_MAX`."""

    def __init__(self, processes: dict[Endpoint, None]) -> None:
        self.size_bytes = 0
        self._processes = processes
        self._numbers: dict[Endpoint, int] = {}
        self._ends: list[Endpoint] = []
        self._single: list[Delivery] = []
        self._parts: list[EvidenceColumns] = []
        self._blobs = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not (self._single or self._parts)

    def number_of(self, end: Endpoint) -> int:
        """The number of a process or another address."""
        number = self._numbers.setdefault(end, len(self._ends))
        if number == len(self._ends):
            self._ends.append(end)
        return number

    def put(self, delivery: Delivery) -> None:
        """Add a piece of evidence; none where there are too many processes."""
        if self._admits(delivery.process):
            self._single.append(delivery)
            self.size_bytes += len(delivery.packed)

    def put_passing(
        self, batch: BusBatch, first_id: int, bitmaps: NDArray[np.int64], first_number: int, passed: OrderedMessages
    ) -> None:
        """Add messages of a batch that passed, numbered from *first_number* on, for the processes at both ends."""
        self._gather_single()
        rows, messages = passed.rows, batch.messages.view(np.ndarray)
        processes = np.stack((passed.opener, passed.acceptor), 1).ravel()
        by_opener = messages["direction"][rows] == INITIATOR
        numbers = np.arange(first_number, first_number + len(rows))
        flags = np.stack((OUTBOUND + SENT * by_opener, SENT * ~by_opener), 1).ravel().astype(np.uint8)
        stop = batch.packed_ends[rows]
        start = np.where(rows > 0, batch.packed_ends[rows - 1], 0)
        columns = numbers, passed.ts_ns, rows + first_id, messages["connection"][rows], bitmaps[rows], start, stop
        number, ts_ns, ref, connection, bitmap, start, stop = (np.repeat(column, 2) for column in columns)
        peers = np.stack((passed.acceptor, passed.opener_end), 1).ravel()
        kinds = np.full(len(processes), MESSAGE, np.uint8)
        part = EvidenceColumns(
            processes, kinds, number, ts_ns, ref, connection, flags, peers, bitmap, start, stop, batch.packed
        )
        refused = [number for number in np.unique(processes).tolist() if not self._admits(self._ends[number])]
        if refused:
            part = part.part(np.flatnonzero(~np.isin(processes, refused)))
        self._parts.append(part)
        self.size_bytes += int((part.stop - part.start).sum())

    def flush(self, bitmaps: Sequence[bytes]) -> Iterator[tuple[str, int, bytes]]:
        """Hand out all of it: the process as text, the number of the blob, the blob; *bitmaps* holds the content of every bitmap number.

        The outbox is emptied first; a thread may read the returned items while it fills again.
        """
        self._gather_single()
        parts, self._parts, self.size_bytes = self._parts, [], 0
        first, self._blobs = self._blobs, self._blobs + len(self._ends)
        return _blobs_of(parts, self._ends, bitmaps, first)

    def _admits(self, process: Endpoint) -> bool:
        if process not in self._processes:
            if len(self._processes) >= PROCESSES_MAX:
                return False
            self._processes[process] = None
        return True

    def _gather_single(self) -> None:
        items, self._single = self._single, []
        if not items:
            return
        stops = np.cumsum([len(item.packed) for item in items])
        columns = (
            ([self.number_of(item.process) for item in items], np.int32),
            ([_CODES[item.kind] for item in items], np.uint8),
            ([item.number for item in items], np.int64),
            ([item.ts_ns for item in items], np.int64),
            ([item.ref for item in items], np.int64),
            ([item.connection for item in items], np.int64),
            ([item.outbound * OUTBOUND + item.sent * SENT for item in items], np.uint8),
            ([self.number_of(item.peer) for item in items], np.int32),
            ([item.bitmap for item in items], np.int64),
        )
        data = np.frombuffer(b"".join(item.packed for item in items), np.uint8)
        arrays = [np.array(values, kind) for values, kind in columns]
        self._parts.append(EvidenceColumns._make([*arrays, np.concatenate(([0], stops[:-1])), stops, data]))


def _blobs_of(
    parts: list[EvidenceColumns], ends: Sequence[Endpoint], bitmaps: Sequence[bytes], first: int
) -> Iterator[tuple[str, int, bytes]]:
    if not parts:
        return
    evidence = joined(parts)
    evidence = evidence.part(np.argsort(evidence.process, kind="stable"))
    edges = np.flatnonzero(np.diff(evidence.process)) + 1
    for number, (begin, end) in enumerate(pairwise([0, *edges.tolist(), len(evidence.process)]), first + 1):
        process = ends[evidence.process[begin]]
        yield f"{process.ip}|{process.port}", number, pack_columns(evidence.part(slice(begin, end)), ends, bitmaps)
