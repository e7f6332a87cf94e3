"""Where a dump may be cut into ranges: between two keys, found by a walk from an arbitrary byte.

A walk that has passed many keys is very likely aligned with records, but bytes that a user stored can imitate keys.  A reader of a
range must therefore end exactly where the next range begins (`SplitError` otherwise: read the file whole).  A range that ends there
proves the start of the next one, so all ranges together hold each key once.
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
"""Keys after which a walk from an arbitrary byte counts as aligned with records; wrong starts usually fail early."""
SYNC_BYTES_MAX = 64 << 20
"""Bytes that such a walk may pass over, and those that it may read: what seems to be a length mostly is none."""
SYNC_READ_BYTES_MAX = 4 << 20
SYNC_PIECE_BYTES = 1 << 12
SYNC_WINDOW_BYTES = 1 << 14
SYNC_STEP_BYTES = 1 << 18
SYNC_TRIALS_MAX = 4096
SYNC_WINDOW_TRIALS_MAX = 256
"""Walks for one cut, and for one of its windows, which lie farther and farther apart: one large value does not take them all."""
_BEGINNINGS_OF_KEYS = frozenset((B_TYPE, B_ATTRIBUTE, B_KEY_META))


def find_splits(read_at: ReadAt, size: int, count: int) -> list[int]:
    """Return ascending offsets that cut a file of *size* bytes into up to *count* ranges of about the same length.

    None is proved: the proof is that the range before it ends exactly there.  Fewer are returned where no walk finds keys.  Raises
    DecodeError if the file's first bytes are no RDB.
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
    """Return where some key's record seems to begin, not before *start*; None if nothing in [*start*, *stop*) leads to one."""
    begins = np.isin(np.array(head.grammar.begins), list(_BEGINNINGS_OF_KEYS))
    trials = read = 0
    window, step = start, SYNC_STEP_BYTES
    while window < stop:
        near = _Near(read_at, window)
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


class _Near:
    """Reads a file; what lies in the first `SYNC_STEP_BYTES` from *start* is read once, since the file may be far away."""

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
