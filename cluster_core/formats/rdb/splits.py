"""Where a cluster node's dump may be cut: at the slot info before each slot's keys (aux ``slot-info``, or opcode 244).

A candidate is found by its bytes and then proved: its keys are walked up to the next slot info, all of them
hash to the slot, they are as many as declared, and the next slot is a greater one.  Bytes that a user stored
can still imitate that, so a reader of a range must land exactly on the range's end (`SplitError` otherwise:
read the file whole).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb.buffer import Work
from cluster_core.formats.rdb.facts import SplitError
from cluster_core.formats.rdb.opcodes import (
    DIALECT_REDIS,
    OP_EOF,
    OP_EXPIRE_MS,
    OP_EXPIRE_S,
    OP_FREQ,
    OP_IDLE,
    OP_KEY_META,
    OP_SELECTDB,
    OP_SLOT_INFO,
    REDIS_TYPE_MAX,
    RdbHead,
)
from cluster_core.formats.rdb.reader import PlainSkim
from cluster_core.formats.rdb.strings import Fault, length_at

__all__ = ["SplitError", "find_splits", "next_slot_boundary"]

ReadAt = Callable[[int, int], bytes]
"""Returns up to so many bytes (second argument) of the file from an offset (first); fewer only at the file's end."""

PIECE_BYTES = 1 << 16
SEARCH_PIECE_BYTES = 1 << 20
SEARCH_BYTES_MAX = 64 << 20
PROOF_KEYS_MAX = 200_000
PROOF_BYTES_MAX = 32 << 20
RANGE_BYTES_MIN = 1 << 16

_SLOT_INFO_AUX = b"\xfa\x09slot-info"
_SLOT_INFO = bytes([OP_SLOT_INFO])
_AFTER_SLOT_INFO = frozenset((*range(REDIS_TYPE_MAX + 1), OP_KEY_META, OP_IDLE, OP_FREQ, OP_EXPIRE_MS, OP_EXPIRE_S))
_CANDIDATE_BYTES = 64


class _Proved(Exception):  # noqa: N818 - no error
    """The walk of one slot has met the record that closes it."""


class _SlotWalk(PlainSkim):
    """Walks one slot's keys from its slot info on; stops at the next record that is neither a key nor an aux field."""

    def __init__(self, start: int, head: RdbHead | None) -> None:
        self.slots: list[tuple[int, int]] = []
        super().__init__("<probe>", start=start, head=head, check_crc=False)

    def _note_slot(self, slot: int, keys: int, expires: int) -> bool:
        self.slots.append((slot, keys))
        if len(self.slots) > 1:
            raise _Proved
        return super()._note_slot(slot, keys, expires)

    def _other_record(self, op: int, pos: int) -> Work[int]:
        if op in (OP_EOF, OP_SELECTDB) and self._start:
            raise _Proved
        return super()._other_record(op, pos)

    def is_proved(self, read_at: ReadAt) -> bool:
        """Whether the keys from the start on are those that its slot info declares, and a greater slot follows."""
        at, fed = self._start, 0
        try:
            while fed < PROOF_BYTES_MAX and len(self.rows) <= PROOF_KEYS_MAX:
                ahead = self.skippable
                self.skip(ahead)
                at += ahead
                piece = read_at(at, PIECE_BYTES)
                at += len(piece)
                fed += len(piece)
                self.feed(piece)
                if not self.slots or self._is_refuted():
                    return False
        except DecodeError:
            return False
        except _Proved:
            pass
        if len(self.slots) != 2 or self._is_refuted():
            return False
        (slot, keys), (following, _) = self.slots
        return 0 < keys == len(self.rows) and following > slot

    def _is_refuted(self) -> bool:
        slot, keys = self.slots[0]
        return keys == 0 or len(self.rows) > keys or any(row.slot != slot for row in self.rows)


def find_splits(read_at: ReadAt, size: int, count: int) -> list[int]:
    """Return offsets that cut a file of *size* bytes into up to *count* ranges of about the same length.

    They rise, and each is a proved slot boundary; [] if the file has no slot info.  Fewer are returned where no
    boundary lies near the ideal cut.  Raises DecodeError if the file's first bytes are no RDB.
    """
    if count < 2 or size < count * RANGE_BYTES_MIN:
        return []
    head = _slotted_head(read_at)
    if head is None:
        return []
    reach = min(size // (2 * count), SEARCH_BYTES_MAX)
    cuts: list[int] = []
    for part in range(1, count):
        ideal = size * part // count
        for at in _candidates(read_at, head, max(ideal, cuts[-1] + 1 if cuts else 0), min(ideal + reach, size)):
            if _SlotWalk(at, head).is_proved(read_at):
                cuts.append(at)
                break
    return cuts


def next_slot_boundary(read_at: ReadAt, size: int, after: int) -> int | None:
    """Return the first proved slot boundary at or after *after*, or None: where to go on behind damage.

    Raises DecodeError if the file's first bytes are no RDB.
    """
    head = _slotted_head(read_at)
    if head is None:
        return None
    for at in _candidates(read_at, head, after, size):
        if _SlotWalk(at, head).is_proved(read_at):
            return at
    return None


def _slotted_head(read_at: ReadAt) -> RdbHead | None:
    """Return the file's head if its first keys follow a slot info, else None."""
    walk = _SlotWalk(0, None)
    at = 0
    try:
        while not (walk.rows or walk.slots or walk.done):
            at += walk.skippable
            walk.skip(walk.skippable)
            piece = read_at(at, PIECE_BYTES)
            at += len(piece)
            walk.feed(piece)
    except _Proved:
        pass
    except DecodeError as error:
        if error.offset == 0:
            raise
    return walk.head if walk.slots else None


def _candidates(read_at: ReadAt, head: RdbHead, start: int, stop: int) -> Iterator[int]:
    """Yield the offsets in [*start*, *stop*) where a slot info may begin, in order."""
    has_opcode = head.dialect == DIALECT_REDIS and head.version >= 12
    at = start
    while at < stop:
        piece = read_at(at, SEARCH_PIECE_BYTES + _CANDIDATE_BYTES)
        if not piece:
            return
        found = set(_places(piece, _SLOT_INFO_AUX))
        if has_opcode:
            found.update(place for place in _places(piece, _SLOT_INFO) if _may_be_slot_info(piece, place))
        for place in sorted(found):
            if place < SEARCH_PIECE_BYTES and at + place < stop:
                yield at + place
        at += SEARCH_PIECE_BYTES


def _places(data: bytes, pattern: bytes) -> Iterator[int]:
    place = data.find(pattern)
    while place >= 0:
        yield place
        place = data.find(pattern, place + 1)


def _may_be_slot_info(data: bytes, place: int) -> bool:
    """Whether a slot, its keys and its expiring keys, and then a key's record, could follow opcode 244 at *place*."""
    try:
        slot, at = length_at(data, place + 1)
        keys, at = length_at(data, at)
        expires, at = length_at(data, at)
        return slot < 16384 and keys > 0 and expires <= keys and data[at] in _AFTER_SLOT_INFO
    except (Fault, IndexError):
        return False
