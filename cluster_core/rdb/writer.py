"""Writes an RDB file, piece by piece and without IO: each call returns the bytes to append, one value at a time.

    writer = RdbWriter(target_of("REDIS", 10))
    file.write(writer.head({"redis-ver": "7.0.15"}))
    file.write(writer.database(0, keys=2, expires=0))
    file.write(writer.record(Record(b"greeting", "string", b"hello", -1)))
    file.write(writer.raw(bytes_of_another_files_record))
    file.write(writer.end())

A server of the target's version, or a newer one of that family, loads the file to the same data (`rdbSaveRio`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from cluster_core.errors import EncodeError, ProtocolError
from cluster_core.rdb import grammar
from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.encoding import PACKED, Packing, Target, length_bytes, raw_string_bytes, string_bytes, value_bytes
from cluster_core.rdb.grammar import (
    AUX_NAME_BYTES_MAX,
    AUX_VALUE_BYTES_MAX,
    DATABASES_MAX,
    DIALECT_REDIS,
    DIALECT_VALKEY,
    KEY_BYTES_MAX,
    VERSIONS,
)
from cluster_core.rdb.values import Record
from cluster_core.slots.key_slot import SLOT_COUNT

TAIL_BYTES: Final = 10
"""RDB version and CRC64."""


def without_tail(payload: bytes) -> bytes:
    """Type byte and value alone."""
    return payload[:-TAIL_BYTES]


def target_of_dump(payload: bytes) -> Target:
    """The dialect and RDB version that the server has that answered *payload*."""
    version = int.from_bytes(payload[-TAIL_BYTES : -TAIL_BYTES + 2], "little")
    return Target(DIALECT_VALKEY if version >= VERSIONS[DIALECT_VALKEY][0] else DIALECT_REDIS, version)


Piece = bytes | bytearray
CrcOf = Callable[[Piece, int], int]
"""Returns the CRC64 after the bytes given, and the CRC before them: `crc64`, or a compiled twin."""


CRC_VERSION_MIN = 5
_P = TypeVar("_P", bytes, bytearray)


class RdbWriter:
    """One file of *target*, from `head` to `end`; *bytes* were returned so far.

    With *checksum* false the CRC64 at the end is 0, which servers take as unknown.  Calls out of order raise ProtocolError.
    """

    def __init__(
        self, target: Target, *, packing: Packing = PACKED, checksum: bool = True, crc_of: CrcOf = crc64
    ) -> None:
        self.target = target
        self.bytes = 0
        self._packing = packing
        self._checksum = checksum
        self._crc_of = crc_of
        self._crc = 0
        self._db: int | None = None
        self._ended = False

    def head(self, aux: Mapping[str, str | int] | None = None) -> bytes:
        """Return magic, version and aux fields; the first call."""
        if self.bytes:
            raise ProtocolError("the head of a file comes first, once")
        return self._add(self.target.magic + b"".join(_aux(name, value) for name, value in (aux or {}).items()))

    def function(self, code: bytes) -> bytes:
        """Return a function library; before the first database.  Raises EncodeError for a version before 10."""
        if not self.target.has_listpacks:
            raise EncodeError(f"version {self.target.version} does not hold functions")
        if self._db is not None:
            raise ProtocolError("functions come before the first database")
        return self._add(bytes((grammar.OP_FUNCTION2,)) + raw_string_bytes(code))

    def database(self, db: int, *, keys: int | None = None, expires: int = 0) -> bytes:
        """Return the beginning of database *db*, with the number of its *keys* (a hint for the server's tables) if given."""
        if not 0 <= db < DATABASES_MAX:
            raise EncodeError(f"database number {db} is not possible")
        out = bytes((grammar.OP_SELECTDB,)) + length_bytes(db)
        if keys is not None:
            out += bytes((grammar.OP_RESIZEDB,)) + length_bytes(keys) + length_bytes(expires)
        self._db = db
        return self._add(out)

    def slot_info(self, slot: int, keys: int, expires: int, volatile: int = 0) -> bytes:
        """Return what cluster nodes write before a slot's keys: Redis from version 12, Valkey from 8 on.

        *volatile* keys have fields that expire (Valkey 9).  Raises EncodeError for a version that has no such hint.
        """
        if not (0 <= slot < SLOT_COUNT and 0 <= expires <= keys and volatile >= 0):
            raise EncodeError(f"slot {slot} with {keys} keys, {expires} of them expiring: not possible")
        if self.target.slot_info_is_opcode:
            out = bytes((grammar.OP_SLOT_INFO,)) + length_bytes(slot) + length_bytes(keys) + length_bytes(expires)
        elif self.target.has_set_listpacks:
            more = "" if self.target.dialect == grammar.DIALECT_REDIS else f",{volatile}"
            out = _aux("slot-info", f"{slot},{keys},{expires}{more}")
        else:
            raise EncodeError(f"version {self.target.version} has no slot info")
        return self._add(out)

    def record(self, record: Record) -> bytes:
        """Return one key of the database at hand with its value, encoded for the target.

        Raises EncodeError for what the target, or any server, cannot hold; nothing is left out in silence.
        """
        if len(record.key) > KEY_BYTES_MAX:
            raise EncodeError(f"a key of {len(record.key)} bytes is longer than this writer takes ({KEY_BYTES_MAX})")
        kind, value = value_bytes(record.type, record.value, self.target, self._packing)
        return self.raw(_attributes(record) + bytes((kind,)) + string_bytes(record.key) + value)

    def dumped(self, key: bytes, payload: bytes, expire_at_ms: int) -> bytes:
        """Return a key whose value is as DUMP of a server of the target's version answered it."""
        value = without_tail(payload)
        return self.raw(_attributes(Record(key, "", None, expire_at_ms)) + value[:1] + string_bytes(key) + value[1:])

    def raw(self, data: _P) -> _P:
        """Return *data* as it is: whole records of a file of the same dialect, of the target's version or an older one."""
        if self._db is None:
            raise ProtocolError("a key needs a database")
        return self._add(data)

    def raw_preamble(self, data: bytes) -> bytes:
        """Return *data* as it is: whole records that are no keys, such as a function or what modules keep beside keys."""
        return self._add(data)

    def end(self) -> bytes:
        """Return the end mark and, from version 5 on, the CRC64; the last call."""
        out = self._add(bytes((grammar.OP_EOF,)))
        self._ended = True
        if self.target.version < CRC_VERSION_MIN:
            return out
        self.bytes += 8
        return out + (self._crc if self._checksum else 0).to_bytes(8, "little")

    def _add(self, data: _P) -> _P:
        if self._ended or (not self.bytes and data[:9] != self.target.magic):
            raise ProtocolError("a file begins with its head and ends with its end")
        if self._checksum:
            self._crc = self._crc_of(data, self._crc)
        self.bytes += len(data)
        return data


def _attributes(record: Record) -> bytes:
    out = b""
    if record.expire_at_ms >= 0:
        out += bytes((grammar.OP_EXPIRE_MS,)) + record.expire_at_ms.to_bytes(8, "little")
    if record.idle_s >= 0:
        out += bytes((grammar.OP_IDLE,)) + length_bytes(record.idle_s)
    if record.freq >= 0:
        if record.freq > 255:
            raise EncodeError(f"a frequency of {record.freq} is not possible")
        out += bytes((grammar.OP_FREQ, record.freq))
    return out


def _aux(name: str, value: str | int) -> bytes:
    label, text = name.encode(), str(value).encode()
    if len(label) > AUX_NAME_BYTES_MAX or len(text) > AUX_VALUE_BYTES_MAX:
        raise EncodeError(f"the aux field {name[:40]!r} is too long")
    body = raw_string_bytes(text) if isinstance(value, str) else string_bytes(text)
    return bytes((grammar.OP_AUX,)) + raw_string_bytes(label) + body
