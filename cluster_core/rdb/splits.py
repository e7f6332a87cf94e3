"""Where a dump may be cut: at the slot info before each slot's keys (aux ``slot-info``, or opcode 244), else between two keys.

A slot info is found by its bytes and then proved: its keys are walked up to the next slot info, all of them
hash to the slot, they are as many as declared, and the next slot is a greater one.  A dump without slot info is cut where
a walk that began somewhere before has come to after many keys (`find_record_splits`): a guess.  Bytes that a user stored
can imitate both, so a reader of a range must land exactly on the range's end (`SplitError` otherwise:
read the file whole).  Since a range that ends there proves where the next one begins, all ranges together hold each key once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import B_ATTRIBUTE, B_KEY_META, B_TYPE, DIALECT_REDIS, OP_EOF, OP_SELECTDB, OP_SLOT_INFO
from cluster_core.rdb.head import MAGIC_BYTES, RdbHead
from cluster_core.rdb.skim import NO_SLOT, RdbSkimmer, RecordBounds, RecordSkimmer
from cluster_core.rdb.strings import length_at
from cluster_core.slots.key_slot import SLOT_COUNT

ReadAt = Callable[[int, int], bytes]
"""Returns up to *count* bytes (second argument) at an offset (first); fewer only at the end of the file."""

PIECE_BYTES = 1 << 16
SEARCH_PIECE_BYTES = 1 << 20
SEARCH_BYTES_MAX = 64 << 20
PROOF_KEYS_MAX = 200_000
PROBE_BATCH_KEYS = 1 << 14
PROOF_BYTES_MAX = 32 << 20
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

_SLOT_INFO_AUX = b"\xfa\x09slot-info"
_SLOT_INFO = bytes([OP_SLOT_INFO])
_BEGINNINGS_OF_KEYS = frozenset((B_TYPE, B_ATTRIBUTE, B_KEY_META))
_CANDIDATE_BYTES = 64


class _Probe:
    """Walks the keys of one slot from its slot info on, up to the next slot info."""

    def __init__(self, read_at: ReadAt, start: int, head: RdbHead | None) -> None:
        self.slots: list[RecordBounds] = []
        self.keys = 0
        self.is_refuted = False
        self.skimmer = RecordSkimmer("<probe>", start=start, head=head, check_crc=False, batch_keys=PROBE_BATCH_KEYS)
        self._read_at = read_at
        self._start = start

    def read(self) -> int:
        """Read and decode the next piece; return its bytes.  Raises DecodeError."""
        size = self.skimmer.feed(self._read_at, PIECE_BYTES)
        for part in self.skimmer.parts():
            if isinstance(part, KeyBatch):
                self._count(part)
            elif part.slot != NO_SLOT:
                self.slots.append(part)
            elif self._start and part.op in (OP_EOF, OP_SELECTDB):
                self.is_refuted = True
            if self.is_refuted or len(self.slots) > 1:
                break
        return size

    def _count(self, batch: KeyBatch) -> None:
        self.keys += len(batch)
        if not self.slots or self.keys > self.slots[0].keys or (batch.slot != self.slots[0].slot).any():
            self.is_refuted = True


def _is_boundary(read_at: ReadAt, start: int, head: RdbHead) -> bool:
    """Whether the keys from the slot info at *start* on are those that it declares, and a greater slot follows."""
    probe, fed = _Probe(read_at, start, head), 0
    try:
        while fed < PROOF_BYTES_MAX and probe.keys <= PROOF_KEYS_MAX and len(probe.slots) < 2:
            fed += probe.read()
            if not probe.slots or probe.is_refuted or not probe.slots[0].keys or probe.skimmer.done:
                return False
    except DecodeError:
        return False
    if len(probe.slots) != 2:
        return False
    first, following = probe.slots
    return 0 < first.keys == probe.keys and following.slot > first.slot


def find_splits(read_at: ReadAt, size: int, count: int) -> list[int]:
    """Return offsets that cut a file of *size* bytes into up to *count* ranges of about the same length.

    They rise, and each is a proved slot boundary; [] if the file has no slot info.  Fewer are returned where no
    boundary lies near the ideal cut.  Raises DecodeError if the file's first bytes are no RDB.
    """
    if count < 2 or size < count * RANGE_BYTES_MIN:
        return []
    head, is_slotted = _first_head(read_at)
    if not is_slotted:
        return []
    reach = min(size // (2 * count), SEARCH_BYTES_MAX)
    cuts: list[int] = []
    for part in range(1, count):
        ideal = size * part // count
        for at in _candidates(read_at, head, max(ideal, cuts[-1] + 1 if cuts else 0), min(ideal + reach, size)):
            if _is_boundary(read_at, at, head):
                cuts.append(at)
                break
    return cuts


def find_record_splits(read_at: ReadAt, size: int, count: int) -> list[int]:
    """Return offsets that cut a file of *size* bytes into up to *count* ranges of about the same length, between two keys as it seems.

    They rise.  None is proved: that the range before it ends exactly there, without any fault, is the proof.  Fewer are
    returned where a guess fails.  Raises DecodeError if the file's first bytes are no RDB.
    """
    if count < 2 or size < count * RANGE_BYTES_MIN:
        return []
    head, _ = _first_head(read_at)
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


def _first_head(read_at: ReadAt) -> tuple[RdbHead, bool]:
    """Return the file's head, and whether its first keys follow a slot info; raises DecodeError if its first bytes are no RDB."""
    probe = _Probe(read_at, 0, None)
    try:
        while not (probe.keys or probe.slots or probe.skimmer.done):
            probe.read()
    except DecodeError as error:
        if error.offset < MAGIC_BYTES:
            raise
    return probe.skimmer.head, bool(probe.slots)


def _candidates(read_at: ReadAt, head: RdbHead, start: int, stop: int) -> Iterator[int]:
    """Yield the offsets in [*start*, *stop*) where a slot info may begin, in order."""
    has_opcode = head.dialect == DIALECT_REDIS and head.version >= 12
    at = start
    while at < stop:
        piece = read_at(at, SEARCH_PIECE_BYTES + _CANDIDATE_BYTES)
        if not piece:
            return
        result = set(_places(piece, _SLOT_INFO_AUX))
        if has_opcode:
            result.update(
                place for place in _places(piece, _SLOT_INFO) if _may_be_slot_info(piece, place, head.grammar.begins)
            )
        for place in sorted(result):
            if place < SEARCH_PIECE_BYTES and at + place < stop:
                yield at + place
        at += SEARCH_PIECE_BYTES


def _places(data: bytes, pattern: bytes) -> Iterator[int]:
    place = data.find(pattern)
    while place >= 0:
        yield place
        place = data.find(pattern, place + 1)


def _may_be_slot_info(data: bytes, place: int, begins: tuple[int, ...]) -> bool:
    """Return whether a slot, its counts of keys and expiring keys, and then a key's record can follow opcode 244 at *place*."""
    try:
        slot, at = length_at(data, place + 1)
        keys, at = length_at(data, at)
        expires, at = length_at(data, at)
        return slot < SLOT_COUNT and keys > 0 and expires <= keys and begins[data[at]] in _BEGINNINGS_OF_KEYS
    except (ValueError, IndexError):
        return False
