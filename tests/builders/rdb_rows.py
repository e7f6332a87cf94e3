"""How tests run a skim over bytes in memory, and the rows and facts that they compare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import ENCODINGS, KEY_TYPES
from cluster_core.rdb.skim import RdbSkimmer


class Row(NamedTuple):
    """One key of a batch: *hash_tag* is None where the whole key is hashed, sizes in memory where they were not measured."""

    db: int
    key: bytes
    slot: int
    hash_tag: bytes | None
    type: str
    encoding: str
    elements: int
    serialized_bytes: int
    expire_at_ms: int
    idle_s: int
    freq: int
    offset: int
    memory_bytes: int | None
    estimate: int | None


def skim_all(
    data: bytes, pieces: list[int] | None = None, *, start: int = 0, end: int | None = None, **options: Any
) -> tuple[list[Row], RdbSkimmer, DecodeError | None]:
    """Return (rows, skimmer, error) of *data*, fed in *pieces* of those sizes in turn (0: all there is room for)."""
    skimmer = RdbSkimmer("test.rdb", start=start, end=end, **options)
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
    except DecodeError as error:  # without its frames, which would keep the buffers
        return rows, skimmer, error.with_traceback(None)
    return rows, skimmer, None


def batches_of(skimmer: RdbSkimmer, dump: bytes) -> Iterator[KeyBatch]:
    """The batches of *dump*, which *skimmer* is fed as it has room."""
    while not skimmer.done:
        skimmer.feed(lambda at, count: dump[at : at + count])
        yield from skimmer.batches()


def rows_of(batch: Any) -> list[Row]:
    rows = []
    for index in range(len(batch)):
        key = batch.key(index)
        first, size = int(batch.tag_start[index]), int(batch.tag_length[index])
        rows.append(
            Row(
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
                *(
                    (None, None)
                    if batch.memory_bytes is None
                    else (int(batch.memory_bytes[index]), int(batch.estimate[index]))
                ),
            )
        )
    return rows


def facts_of(skimmer: RdbSkimmer) -> dict[str, Any]:
    """Return the facts of a skimmer beside its rows."""
    return {
        "done": skimmer.done,
        "keys": skimmer.keys,
        "aux": skimmer.aux,
        "databases": skimmer.databases,
        "functions": skimmer.function_count,
        "stored_crc": skimmer.stored_crc,
        "crc_ok": skimmer.crc_ok,
        "trailing": skimmer.trailing_bytes,
    }
