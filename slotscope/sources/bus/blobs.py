"""Evidence of one process as blobs: Arrow batches of deliveries, and the slot bitmaps that they refer to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, Literal, NamedTuple

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
from cluster_core.wire.bus import SLOT_BITMAP_BYTES, Message, decode_partial

KINDS: Final[tuple[DeliveryKind | Literal["bitmap"], ...]] = (
    "message", "opened", "closed", "refused", "poll", "log", "bitmap", "gap", "unread", "read",
)  # fmt: skip
"""Kinds of rows; the code is the index.  Bitmaps come first, *number* is theirs."""
OUTBOUND, SENT = 1, 2
"""Bits of the column ``flags``: on a connection that the observer opened; sent by the observer."""
NONE: Final = -1
"""The number of a message or bitmap where there is none."""
_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
MESSAGE: Final = _CODES["message"]
POLL: Final = _CODES["poll"]


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
    """Evidence, row by row, as `_schema` has it: *peer* are numbers of addresses, *start* and *stop* tell where the packed bytes stand in *data*."""

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


def pack_columns(found: EvidenceColumns, ends: Sequence[Endpoint], bitmaps: Sequence[bytes]) -> bytes:
    """Evidence of one process as a blob; *ends* are the addresses, *bitmaps* the contents of every bitmap number."""
    used = np.unique(found.bitmap)
    used = used[used >= 0]
    head = len(used)
    contents = b"".join(bitmaps[number] for number in used.tolist())
    packed = np.empty(len(contents) + int((found.stop - found.start).sum()), np.uint8)
    packed[: len(contents)] = np.frombuffer(contents, np.uint8)
    gather(found.data, found.start, found.stop, packed[len(contents) :])
    sizes = np.concatenate([np.full(head, SLOT_BITMAP_BYTES), found.stop - found.start])
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    peers, which = np.unique(found.peer, return_inverse=True)
    ips = {"": 0} if head else {}
    numbers = [ips.setdefault(ends[peer].ip, len(ips)) for peer in peers.tolist()]
    nothing, none = np.zeros(head, np.int64), np.full(head, NONE)
    columns: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
        "kind": (np.full(head, _CODES["bitmap"]), found.kind),
        "number": (used, found.number),
        "ts_ns": (nothing, found.ts_ns),
        "ref": (none, found.ref),
        "connection": (none, found.connection),
        "flags": (nothing, found.flags),
        "ip": (nothing, np.array(numbers, np.int32)[which]),
        "port": (nothing, np.array([ends[peer].port for peer in peers.tolist()], np.int32)[which]),
        "bitmap": (used, found.bitmap),
    }
    schema, arrays = _schema(), []
    for field, both in zip(schema, columns.values(), strict=False):
        if field.name == "ip":
            arrays.append(
                pa.DictionaryArray.from_arrays(np.concatenate(both).astype(np.int32), pa.array(ips, pa.string()))
            )
        else:
            arrays.append(pa.array(np.concatenate(both).astype(field.type.to_pandas_dtype()), field.type))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(packed)]
    arrays.append(pa.Array.from_buffers(pa.binary(), len(sizes), buffers))
    return packed_table(pa.record_batch(arrays, schema=schema))


class EvidenceReader:
    """Reads evidence of one process, blob by blob: later blobs refer to bitmaps of earlier ones."""

    def __init__(self) -> None:
        self._bitmaps: dict[int, bytes] = {}
        self._polled: tuple[bytes, tuple[PolledNode, ...]] = (b"", ())

    def read(self, blob: bytes) -> Iterator[tuple[int, Evidence]]:
        """Yield the evidence in *blob*, each piece with its number."""
        table = unpacked_table(blob)
        bitmaps = int(np.count_nonzero(table.column("kind").to_numpy() == _CODES["bitmap"]))
        numbers, contents = (table.column(name).slice(0, bitmaps).to_pylist() for name in ("number", "packed"))
        self._bitmaps.update(zip(numbers, contents, strict=True))
        columns = (_values(table.column(name).slice(bitmaps)) for name in table.schema.names)
        for kind, number, ts_ns, ref, connection, flags, ip, port, bitmap, packed in zip(*columns, strict=True):
            peer, outbound, sent = Endpoint(ip, port), bool(flags & OUTBOUND), bool(flags & SENT)
            if kind == MESSAGE:
                message = message_of(packed, self._bitmaps.get(bitmap, b""))
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
        texts = coded.dictionary.to_pylist()
        return [texts[code] for code in coded.indices.to_numpy().tolist()]
    found: list[Any] = column.to_numpy().tolist() if pa.types.is_integer(column.type) else column.to_pylist()
    return found


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
