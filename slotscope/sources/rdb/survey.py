"""What a dump holds, before it is cut: keys by database and slot, and every record that is no key.

The dump is read to its end and checked, so that nothing is written of a file that turns out to be damaged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb import grammar
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.skim import RecordBounds
from cluster_core.rdb.strings import string_at
from cluster_core.slots.key_slot import SLOT_COUNT
from slotscope.sources.files import open_stream
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader

KEPT_AUX = ("valkey-ver", "redis-ver", "redis-bits", "ctime", "aof-base")
"""Aux fields that a part keeps.  A part is no longer the data set of the replication id and offset, so those are left out."""

_SCRIPT_AUX = b"lua"
RECORD_BYTES_MAX = 256 << 20
"""A larger record that is not a key is refused, not held."""
_COMMON = frozenset((grammar.OP_FUNCTION2, grammar.OP_MODULE_AUX, grammar.OP_HASH_TEMPLATE))


@dataclass(slots=True)
class Survey:
    """One dump: *keys* and *expires* by database, 16384 numbers each; *end* is where its last good key ends.

    *before* and *after* the keys are records that every part needs (functions, scripts, what modules keep beside keys);
    *slot_info* holds those records by database and slot; *left_out* counts what no part holds, by name; *hollow* keys are collections
    without elements, which no part holds either.
    """

    path: str
    head: RdbHead = field(init=False)
    aux: dict[str, str] = field(default_factory=dict)
    keys: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    expires: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    before: list[bytes] = field(default_factory=list)
    after: list[bytes] = field(default_factory=list)
    slot_info: dict[tuple[int, int], bytes] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    end: int = 0
    hollow: int = 0

    @property
    def slot_keys(self) -> NDArray[np.int64]:
        """Keys of each slot in all databases."""
        return sum(self.keys.values(), np.zeros(SLOT_COUNT, np.int64))

    def add(self, batch: KeyBatch) -> None:
        """Count the keys of *batch*."""
        self.end = int(batch.offset[-1] + batch.serialized_bytes[-1])
        hollow = batch.hollow()
        if hollow.any():
            self.hollow += int(hollow.sum())
            batch = batch.where(~hollow)
        for db in np.unique(batch.db).tolist():
            mine = batch.db == db
            for counts, slots in (
                (self.keys, batch.slot[mine]),
                (self.expires, batch.slot[mine & (batch.expire_at_ms >= 0)]),
            ):
                counts[db] = counts.get(db, np.zeros(SLOT_COUNT, np.int64)) + np.bincount(slots, minlength=SLOT_COUNT)

    def note(self, record: RecordBounds, data: bytes) -> None:
        """Keep one *record* that is not a key, whose bytes are *data*."""
        name = string_at(data, 1)[0] if record.op == grammar.OP_AUX else b""
        if record.slot >= 0:
            self.slot_info.setdefault((record.db, record.slot), data)
        elif record.op in _COMMON or name == _SCRIPT_AUX:
            (self.after if self.keys else self.before).append(data)
        elif record.op == grammar.OP_SLOT_IMPORT:
            self.left_out["slot import"] += 1
        elif record.op == grammar.OP_FUNCTION_PRE_GA:
            self.left_out["function library of a Redis 7.0 release candidate, which no released server loads"] += 1
        elif record.op == grammar.OP_AUX and name.decode("utf-8", "backslashreplace") not in KEPT_AUX:
            self.left_out[f"aux field {name.decode('utf-8', 'backslashreplace')}"] += 1


class RangeReader:
    """Reads ranges of a file in rising order, decompressing as needed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream = open_stream(path)
        self._at = 0

    def read(self, start: int, count: int) -> bytes:
        """Return the *count* bytes from *start* on; DecodeError if the file has become shorter, or goes backwards."""
        if start < self._at:
            raise ValueError(f"range {start} lies before {self._at}")
        self._stream.skip(start - self._at)
        data = bytearray(count)
        room, filled = memoryview(data), 0
        while filled < count:
            read = self._stream.readinto(room[filled:])
            if not read:
                raise DecodeError("the file has changed while it was read", offset=start + filled, source=self._path)
            filled += read
        self._at = start + count
        return bytes(data)

    def close(self) -> None:
        """Release the file."""
        self._stream.close()


def survey(unit: RdbUnit, *, check_crc: bool) -> Survey:
    """Read one dump to its end; raises DecodeError with path, offset and reason, also for bytes after its end."""
    result = Survey(unit.path)
    reader = RdbUnitReader(unit, check_crc=check_crc)
    others = RangeReader(unit.path)
    try:
        for part in reader.records():
            if isinstance(part, KeyBatch):
                result.add(part)
            elif part.end - part.begin > RECORD_BYTES_MAX:
                reason = f"a record of {part.end - part.begin} bytes that is not a key is more than is held"
                raise DecodeError(reason, offset=part.begin, source=unit.path)
            else:
                result.note(part, others.read(part.begin, part.end - part.begin))
        if reader.trailing_bytes:
            reason = f"{reader.trailing_bytes} bytes follow the dump's end: a log that is not split"
            raise DecodeError(reason, offset=reader.skimmer.position, source=unit.path)
    finally:
        others.close()
    result.head, result.aux = reader.skimmer.head, dict(reader.skimmer.aux)
    return result
