"""How tests run a skim over bytes in memory, and what they compare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import ENCODINGS, KEY_TYPES
from cluster_core.rdb.skim import RdbSkimmer
from tests.reference.rdb.skim import PlainRdbSkimmer

Row = tuple[Any, ...]


def skim_all(
    data: bytes,
    pieces: list[int] | None = None,
    *,
    start: int = 0,
    end: int | None = None,
    compiled: bool = True,
    **options: Any,
) -> tuple[list[Row], RdbSkimmer, DecodeError | None]:
    """Return (rows, skimmer, error) of *data*, fed in *pieces* of those sizes in turn (0: all there is room for)."""
    skimmer = (RdbSkimmer if compiled else PlainRdbSkimmer)("test.rdb", start=start, end=end, **options)
    rows: list[Row] = []
    at = start
    turn = 0
    try:
        while not skimmer.done:
            ahead = min(skimmer.skippable(), max(len(data) - at, 0))
            skimmer.skipped(ahead)
            at += ahead
            room = skimmer.room()
            wanted = pieces[turn % len(pieces)] if pieces else 0
            turn += 1
            count = max(min(wanted or len(room), len(room), len(data) - at), 0)
            room[:count] = data[at : at + count]
            at += count
            skimmer.filled(count)
            for batch in skimmer.batches():
                rows += rows_of(batch)
        while end is None and at < len(data):  # what follows the end
            room = skimmer.room()
            count = min(len(room), len(data) - at)
            room[:count] = data[at : at + count]
            at += count
            skimmer.filled(count)
    except DecodeError as error:
        return (
            rows,
            skimmer,
            error.with_traceback(None),
        )  # whose frames would keep the buffers until all garbage is collected
    return rows, skimmer, None


def batches_of(skimmer: RdbSkimmer, dump: bytes) -> Iterator[KeyBatch]:
    """The batches of *dump*, which *skimmer* is fed as it has room."""
    fed = 0
    while not skimmer.done:
        room = skimmer.room()
        piece = dump[fed : fed + len(room)]
        room[: len(piece)] = piece
        fed += len(piece)
        skimmer.filled(len(piece))
        yield from skimmer.batches()


def rows_of(batch: Any) -> list[Row]:
    """Return the rows of a batch as tuples in the order of `tests.reference.rdb.reader.KeyRow`, sizes in memory if measured."""
    rows = []
    for index in range(len(batch)):
        key = batch.key(index)
        first, size = int(batch.tag_start[index]), int(batch.tag_length[index])
        rows.append(
            (
                int(batch.db[index]),
                key,
                int(batch.slot[index]),
                key[first : first + size] if size else None,
                KEY_TYPES[batch.type[index]],
                ENCODINGS[batch.encoding[index]],
                int(batch.elements[index]),
                int(batch.serialized_bytes[index]),
                int(batch.expire_at_ms[index]),
                int(batch.idle_s[index]),
                int(batch.freq[index]),
                int(batch.offset[index]),
                *(() if batch.memory_bytes is None else (int(batch.memory_bytes[index]), int(batch.estimate[index]))),
            )
        )
    return rows


def facts_of(skimmer: RdbSkimmer) -> dict[str, Any]:
    """Return what a skimmer knows besides its rows."""
    return {
        "done": skimmer.done,
        "keys": skimmer.keys,
        "aux": skimmer.aux,
        "databases": skimmer.databases,
        "functions": skimmer.function_count,
        "module_aux": skimmer.module_aux_count,
        "slot_keys": skimmer.declared_slot_keys.tolist(),
        "slot_expires": skimmer.declared_slot_expires.tolist(),
        "stored_crc": skimmer.stored_crc,
        "crc_ok": skimmer.crc_ok,
        "trailing": skimmer.trailing_bytes,
    }
