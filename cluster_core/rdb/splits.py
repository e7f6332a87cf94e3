"""Split a dump into ranges between keys, found by walks from arbitrary bytes.

A walk over many keys is very likely aligned, but user data can imitate keys. The reader of a range must therefore end
exactly at the start of the next one (else `SplitError`: read the file whole), which proves that start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from cluster_core.errors import DecodeError
from cluster_core.rdb.grammar import B_ATTRIBUTE, B_KEY_META, B_TYPE
from cluster_core.rdb.head import MAGIC_BYTES, RdbHead
from cluster_core.rdb.skim import RdbSkimmer

ReadAt = Callable[[int, int], bytes]
"""Returns up to *count* bytes (second argument) at an offset (first); fewer only at the end of the file."""

PIECE_BYTES = 1 << 16
SEARCH_BYTES_MAX = 64 << 20
RANGE_BYTES_MIN = 1 << 16

SYNC_KEYS = 64
"""Keys after which a walk from an arbitrary byte counts as aligned."""
SYNC_BYTES_MAX = 64 << 20
"""Maximum bytes that such a walk may skip, and may read."""
SYNC_READ_BYTES_MAX = 4 << 20
SYNC_PIECE_BYTES = 1 << 12
SYNC_WINDOW_BYTES = 1 << 14
SYNC_STEP_BYTES = 1 << 18
SYNC_TRIALS_MAX = 4096
SYNC_WINDOW_TRIALS_MAX = 256
"""Maximum walks per cut, and per window of it, at growing distances."""
_BEGINNINGS_OF_KEYS = frozenset((B_TYPE, B_ATTRIBUTE, B_KEY_META))


def find_splits(read_at: ReadAt, size: int, count: int) -> list[int]:
    """Return ascending offsets that may cut a file of *size* bytes into up to *count* ranges of similar length.

    Reading the ranges proves them. Raises DecodeError if the file is no RDB.
    """
    if count < 2 or size < count * RANGE_BYTES_MIN:
        return []
    head = _first_head(read_at)
    reach = min(size // (2 * count), SEARCH_BYTES_MAX)
    cuts: list[int] = []
    for part in range(1, count):
        ideal = size * part // count
        at = _record_start(read_at, head, ideal, ideal + reach)
        if at is not None and at > (cuts[-1] if cuts else 0):
            cuts.append(at)
    return cuts


def _record_start(read_at: ReadAt, head: RdbHead, start: int, stop: int) -> int | None:
    """Return the likely start of a record in [*start*, *stop*); None for none."""
    begins = np.isin(np.array(head.grammar.begins), list(_BEGINNINGS_OF_KEYS))
    trials = read = 0
    window, step = start, SYNC_STEP_BYTES
    while window < stop:
        near = _ReadOnceFile(read_at, window)
        piece = np.frombuffer(near(window, SYNC_WINDOW_BYTES), np.uint8)
        for place in np.flatnonzero(begins[piece])[:SYNC_WINDOW_TRIALS_MAX].tolist():
            result, taken = _walk_to_record(near, head, window + place)
            if result is not None:
                return result
            trials, read = trials + 1, read + taken
            if trials == SYNC_TRIALS_MAX or read > SYNC_BYTES_MAX:
                return None
        window, step = window + step, step * 2
    return None


class _ReadOnceFile:
    """Reads a file; the first `SYNC_STEP_BYTES` from *start* are read once, as storage may be slow."""

    def __init__(self, read_at: ReadAt, start: int) -> None:
        self._read_at = read_at
        self._start = start
        self._bytes = read_at(start, SYNC_STEP_BYTES)

    def __call__(self, offset: int, count: int) -> bytes:
        """Return up to *count* bytes from *offset* on, fewer only at the file's end."""
        at = offset - self._start
        if at >= 0 and at + count <= len(self._bytes):
            return self._bytes[at : at + count]
        return self._read_at(offset, count)


def _walk_to_record(read_at: ReadAt, head: RdbHead, start: int) -> tuple[int | None, int]:
    """Return the start of the last of `SYNC_KEYS` keys from *start* on, None if there are fewer; and the bytes read."""
    skimmer = RdbSkimmer("<probe>", start=start, head=head, check_crc=False, batch_keys=SYNC_KEYS)
    read = 0
    with suppress(DecodeError):
        while not skimmer.done and skimmer.position - start < SYNC_BYTES_MAX and read < SYNC_READ_BYTES_MAX:
            read += skimmer.feed(read_at, PIECE_BYTES if read else SYNC_PIECE_BYTES)
            for batch in skimmer.batches():
                return (int(batch.offset[-1]) if len(batch) == SYNC_KEYS else None), read
    return None, read


def _first_head(read_at: ReadAt) -> RdbHead:
    """Return the file's head; raises DecodeError if its first bytes are no RDB."""
    skimmer = RdbSkimmer("<probe>", check_crc=False)
    try:
        while not skimmer.done:
            skimmer.feed(read_at, PIECE_BYTES)
            if any(len(batch) for batch in skimmer.batches(at_once=True)):
                break
    except DecodeError as error:
        if error.offset < MAGIC_BYTES:
            raise
    return skimmer.head
