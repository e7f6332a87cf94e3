"""The records between keys, one by one: for whoever copies a file in parts, or looks for a place to cut it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb.grammar import OP_AUX, OP_EOF
from cluster_core.formats.rdb.head import MAGIC_BYTES, RdbHead
from cluster_core.formats.rdb.strings import string_at
from cluster_core.kernels.keys.batch import KeyBatch
from cluster_core.kernels.rdb import skim_state as at
from cluster_core.kernels.rdb.skim import RdbSkimmer

GAP_BYTES_MAX = 256 << 20
"""More bytes than this between two keys are refused, not held."""

NO_SLOT = -1


class RecordBounds(NamedTuple):
    """A record that is no key: its opcode, offsets of its first byte and of that after it, the slot of slot info (else `NO_SLOT`)
    and the keys that it declares.
    """

    op: int
    begin: int
    end: int
    slot: int
    keys: int


class RecordSkimmer(RdbSkimmer):
    """A skim that also says where each record begins and ends that is no key."""

    def _set_up(self, head: RdbHead | None) -> None:
        super()._set_up(head)
        self._state[at.BY_RECORD] = 1
        self._state[at.OTHER_SLOT] = NO_SLOT

    def parts(self) -> Iterator[KeyBatch | RecordBounds]:
        """Decode what was fed; yield batches of keys, and the bounds of other records, in the order of the file.

        Raises DecodeError with the offset in the file, after the keys before it were yielded.
        """
        error: DecodeError | None = None
        while not self.done and error is None:
            try:
                answer = self._step()
            except DecodeError as problem:
                answer, error = at.FAULT, problem
            if self._state[at.ROW] > 0 and answer in (at.NEED, at.BATCH, at.RECORD, at.END, at.FAULT):
                yield self._take_batch()
            if answer == at.RECORD:
                yield self._bounds()
            elif answer == at.END and not self.done:
                yield RecordBounds(OP_EOF, self.position - 1, self.position, NO_SLOT, 0)
            elif answer == at.NEED:
                return
        if error is not None:
            raise error

    def _bounds(self) -> RecordBounds:
        st = self._state
        found = RecordBounds(
            int(st[at.OTHER_OP]),
            int(st[at.OTHER_BEGIN]),
            self.position,
            int(st[at.OTHER_SLOT]),
            int(st[at.OTHER_KEYS]),
        )
        st[at.OTHER_OP] = 0
        st[at.OTHER_SLOT] = NO_SLOT
        return found


class OtherRecord(NamedTuple):
    """A record that is no key: its opcode, its bytes and where they began, the slot of slot info (else `NO_SLOT`), the
    name of an aux field.
    """

    op: int
    data: bytes
    at: int
    slot: int
    name: bytes


def records_between(data: bytes, head: RdbHead | None, *, source: str) -> list[OtherRecord]:
    """Return the records in *data*, what lies between the keys of a file, joined; without *head* it begins with the magic.

    Raises DecodeError, with a position in *data* as offset, if they are no whole records.
    """
    first = 0 if head is None else MAGIC_BYTES  # a range of a file begins behind its magic
    skimmer = RecordSkimmer(source, start=first, head=head, check_crc=False)
    found: list[OtherRecord] = []
    fed, reached = 0, MAGIC_BYTES
    while fed < len(data) and not skimmer.done:
        room = skimmer.room()
        piece = data[fed : fed + len(room)]
        room[: len(piece)] = piece
        skimmer.filled(len(piece))
        fed += len(piece)
        for part in skimmer.parts():
            if isinstance(part, KeyBatch):
                raise _no_records(reached - first, source)
            op, begin, reached, slot, _ = part
            name = string_at(data, begin - first + 1) if op == OP_AUX else b""
            found.append(OtherRecord(op, data[begin - first : reached - first], begin - first, slot, name))
    if not skimmer.done and reached != first + len(data):
        raise _no_records(reached - first, source)
    return found


def _no_records(offset: int, source: str) -> DecodeError:
    return DecodeError("the bytes between two keys are no whole records", offset=offset, source=source)
