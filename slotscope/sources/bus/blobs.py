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
from cluster_core.kernels.bus.quiet import NONE, OUTBOUND, SENT, SeenRows
from cluster_core.kinds import EventKind
from cluster_core.replay.dispatch import DeliveryKind
from cluster_core.replay.evidence import Endpoint, Evidence, LinkSeen, LogSeen, MessageSeen, poll_of, readable_part
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.bus import SLOT_BITMAP_BYTES, Message, decode_partial

KINDS: Final[tuple[DeliveryKind | Literal["bitmap"], ...]] = (
    "message", "opened", "closed", "refused", "poll", "log", "bitmap", "gap",
)  # fmt: skip
"""Kinds of rows; the code is the index.  Bitmaps come first, *number* is theirs."""
_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}
MESSAGE: Final = _CODES["message"]


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


class EvidenceRows:
    """Evidence of one process, blob by blob; *seen* are the columns of the rows that are here."""

    def __init__(self) -> None:
        self._bitmaps: dict[int, bytes] = {}
        self._addresses: dict[str, int] = {}
        self._texts: list[str] = []
        self._table: pa.Table | None = None
        self.numbers = np.zeros(0, np.int64)

    def take(self, blob: bytes, first: int) -> None:
        """Add the rows of *blob*; those before row *first* are not needed any more."""
        table = unpacked_table(blob).combine_chunks()
        count = int(np.count_nonzero(_values(table, "kind") == _CODES["bitmap"]))
        numbers, contents = (table.column(name).slice(0, count).to_pylist() for name in ("number", "packed"))
        self._bitmaps.update(zip(numbers, contents, strict=True))
        table = table.slice(count)
        at = table.schema.get_field_index("ip")
        table = table.set_column(at, "ip", self._numbers(table.column("ip")))
        if self._table is not None and first < len(self._table):
            table = pa.concat_tables([self._table.slice(first), table])
        self._table = table.combine_chunks()
        columns = {name: _values(self._table, name) for name in table.schema.names if name != "packed"}
        offsets, data = _bytes_of(self._table)
        self.numbers = columns["number"]
        self._kind, self._ref, self._port = columns["kind"], columns["ref"], columns["port"]
        self.seen = SeenRows(
            self._kind == MESSAGE, columns["ts_ns"], columns["connection"], columns["flags"], columns["ip"],
            columns["bitmap"], data, offsets,
        )  # fmt: skip

    def _numbers(self, column: pa.ChunkedArray) -> pa.Array:
        """A number for each address, the same in all blobs."""
        coded = column.combine_chunks()
        known = [self._addresses.setdefault(text, len(self._addresses)) for text in coded.dictionary.to_pylist()]
        self._texts = list(self._addresses)
        return pa.array(known or [0], pa.int64()).take(coded.indices)

    def evidence(self, row: int) -> Evidence | None:
        """What row *row* is."""
        seen, word = self.seen, KINDS[self._kind[row]]
        flags, at = int(seen.flags[row]), seen.ends[row : row + 2].tolist()
        peer = Endpoint(self._texts[seen.ip[row]], int(self._port[row]))
        return _evidence(
            word, int(seen.ts_ns[row]), int(self._ref[row]), (int(seen.connection[row]), bool(flags & OUTBOUND)),
            bool(flags & SENT), peer, self._bitmaps.get(int(seen.bitmap[row]), b""), seen.data[at[0] : at[1]].tobytes(),
        )  # fmt: skip


def unpack_evidence(blobs: Iterable[bytes]) -> Iterator[Evidence]:
    """The evidence of one process, in order of the blobs."""
    rows = EvidenceRows()
    for blob in blobs:
        rows.take(blob, len(rows.numbers))
        yield from (seen for row in range(len(rows.numbers)) if (seen := rows.evidence(row)) is not None)


def _values(table: pa.Table, name: str) -> Any:
    column = table.column(name)
    return column.chunk(0).to_numpy() if column.num_chunks else np.zeros(0, np.int64)


def _bytes_of(table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where the packed bytes of each row begin, one more for the end, and all of them."""
    column = table.column("packed").combine_chunks() if len(table) else pa.array([], pa.binary())
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int32, len(column) + 1 + column.offset)[column.offset :] if ends else np.zeros(1)
    return offsets.astype(np.int64), np.frombuffer(data or b"", np.uint8)


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
            asked, _, text = packed.partition(b"\n")
            return poll_of(ts_ns, read_nodes(text), int(asked))
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
