"""A series of captures as numbered batches, and those as columns: what the job and the data source share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.columns import TextTable, address_of, gossip_columns, message_columns
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.packet_order import OFFSET_BITS
from slotscope.sources.bus.clues import BadRows, Place
from slotscope.sources.bus.files import CaptureFile
from slotscope.sources.bus.point_series import PointSeries, Turns
from slotscope.sources.bus.series_clocks import measure_clocks


class BitmapNumbers:
    """Numbers of slot bitmaps in order of appearance, over all batches."""

    def __init__(self, known: dict[bytes, int] | None = None) -> None:
        self.numbers: dict[bytes, int] = {} if known is None else known
        self.contents: list[bytes] = list(self.numbers)

    def of(self, batch: BusBatch) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        """The numbers of the batch's bitmaps, and of the new ones the message (row) in which each appears."""
        ids = np.full(len(batch.bitmaps), -1, dtype=np.int64)
        used, distinct = _used_bitmaps(batch)
        fresh = []
        for number in distinct:
            content = batch.bitmap(number)
            known = self.numbers.get(content)
            if known is None:
                fresh.append((int(np.argmax(used == number)), number, content))
            else:
                ids[number] = known
        new = []
        for place, number, content in sorted(fresh):
            known = self.numbers.setdefault(content, len(self.contents))
            if known == len(self.contents):
                self.contents.append(content)
                new.append((known, place // 2))
            ids[number] = known
        return ids, new


def _used_bitmaps(batch: BusBatch) -> tuple[NDArray[np.int32], list[int]]:
    """The bitmaps of the header and of the body of each message in turn, and the distinct ones; `NONE` is not among these."""
    at = batch.messages.view(np.ndarray)
    used = np.stack((at["slots"], at["body_slots"]), axis=1).ravel()
    is_used = np.zeros(len(batch.bitmaps) + 1, dtype=np.bool_)  # the last one is that of `NONE`
    is_used[used] = True
    return used, np.flatnonzero(is_used[:-1]).tolist()


def bitmap_digests(batch: BusBatch) -> NDArray[np.int64]:
    """A number of each of the batch's bitmaps that is made of its slots: whoever meets them gives them the same one."""
    ids = np.full(len(batch.bitmaps), -1, dtype=np.int64)
    for number in _used_bitmaps(batch)[1]:
        digest = blake2b(batch.bitmap(number), digest_size=8).digest()
        ids[number] = int.from_bytes(digest, "little") >> 1
    return ids


class BatchTexts:
    """The tables of batches as texts."""

    def __init__(self) -> None:
        self._tables = (TextTable(), TextTable(), TextTable(address_of))

    def of(self, batch: BusBatch) -> tuple[list[str], list[str], list[str]]:
        """Node ids, texts and addresses of a batch."""
        nodes, texts, addresses = self._tables
        return nodes.read(batch.nodes), texts.read(batch.texts), addresses.read(batch.addresses)


def files_of(batch: BusBatch, place: Place) -> str | pa.Array:
    """The file of each message of a batch, or of all; offsets become those in the files."""
    offsets = batch.messages.view(np.ndarray)["offset"]
    numbers, which = np.unique(offsets >> OFFSET_BITS, return_inverse=True)
    files = [place(int(number) << OFFSET_BITS)[0] for number in numbers]
    offsets &= (1 << OFFSET_BITS) - 1
    return files[0] if len(files) == 1 else pa.array(files, pa.string()).take(pa.array(which.ravel()))


def read_series(files: Sequence[CaptureFile], rows: str, *, permissive: bool) -> Iterator[dict[str, pa.Array]]:
    """Columns of ``messages``, ``gossip`` or ``bad`` *rows* of a series; raises DecodeError in strict mode."""
    decoder, bad = BusDecoder(), BadRows(strict=not permissive)
    tables = BatchTexts()
    first_id = 0
    ahead_ns: dict[str, int] = {}
    measure_clocks(files, ahead_ns, [], is_all=True)
    series = PointSeries(files, Turns(), ahead_ns)

    def columns_of(batch: BusBatch) -> dict[str, pa.Array] | None:
        bad.take(series.place, batch, first_id)
        if rows == "bad" or not len(batch):
            return None
        nodes, texts, addresses = tables.of(batch)
        if rows == "gossip":
            return gossip_columns(batch, first_id=first_id, nodes=nodes, texts=texts)
        ids = bitmap_digests(batch)
        file = files_of(batch, series.place)
        return message_columns(
            batch, first_id=first_id, bitmap_ids=ids, file=file, nodes=nodes, texts=texts, addresses=addresses
        )

    for batch in series.all_of(decoder):
        columns = columns_of(batch)
        if columns is not None:
            yield columns
        first_id += len(batch)
    if rows == "bad" and bad.rows():
        table = pa.Table.from_pylist(bad.rows())
        yield {name: table.column(name).combine_chunks() for name in table.schema.names}
