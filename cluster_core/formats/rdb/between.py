"""The records between keys, one by one with their bytes: for whoever copies a file in parts.

Works on the bytes between two keys that a skim has found and checked.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb.buffer import Work
from cluster_core.formats.rdb.head import MAGIC_BYTES
from cluster_core.formats.rdb.opcodes import OP_AUX, RdbHead
from cluster_core.formats.rdb.reader import PlainSkim
from cluster_core.formats.rdb.strings import string_at

GAP_BYTES_MAX = 256 << 20
"""More bytes than this between two keys are refused, not held."""

NO_SLOT = -1


class OtherRecord(NamedTuple):
    """A record that is no key: its opcode, its bytes and where they began, the slot of slot info (else `NO_SLOT`), the
    name of an aux field.
    """

    op: int
    data: bytes
    at: int
    slot: int
    name: bytes


class _Between(PlainSkim):
    """Notes where each record begins and ends."""

    def __init__(self, source: str, start: int, head: RdbHead | None) -> None:
        self.found: list[tuple[int, int, int, int]] = []
        self._slot = NO_SLOT
        super().__init__(source, start=start, head=head, check_crc=False)

    def _note_slot(self, slot: int, keys: int, expires: int) -> bool:
        self._slot = slot
        return super()._note_slot(slot, keys, expires)

    def _other_record(self, op: int, pos: int) -> Work[int]:
        self._slot = NO_SLOT
        begin = self._base + pos
        pos = yield from super()._other_record(op, pos)
        self.found.append((op, begin, self._base + pos, self._slot))
        return pos


def records_between(data: bytes, head: RdbHead | None, *, source: str) -> list[OtherRecord]:
    """Return the records in *data*, what lies between the keys of a file, joined; without *head* it begins with the magic.

    Raises DecodeError, with a position in *data* as offset, if they are no whole records.
    """
    first = 0 if head is None else MAGIC_BYTES
    walk = _Between(source, first, head)  # a range of a file begins behind its magic
    if data:
        walk.feed(data)
    reached = max([MAGIC_BYTES, *(end for _, _, end, _ in walk.found)])
    if not walk.done and reached != first + len(data):
        raise DecodeError("the bytes between two keys are no whole records", offset=reached - first, source=source)
    return [
        OtherRecord(op, data[begin - first : end - first], begin - first, slot, _name(op, data, begin - first))
        for op, begin, end, slot in walk.found
    ]


def _name(op: int, data: bytes, at: int) -> bytes:
    return string_at(data, at + 1) if op == OP_AUX else b""
