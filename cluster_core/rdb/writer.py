"""Write an RDB file from records of another one or from DUMP values, in pieces and without IO.

    writer = RdbWriter(Target("REDIS", 10))
    file.write(writer.head({"redis-ver": "7.0.15"}))
    file.write(writer.database(0, keys=2, expires=0))
    file.write(writer.raw(bytes_of_another_files_record))
    file.write(writer.end())

Values are copied: a server of the target's version, or a newer one of that family, loads the file (`rdbSaveRio`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from cluster_core.errors import EncodeError, ProtocolError
from cluster_core.rdb import grammar
from cluster_core.rdb.crc64 import crc64
from cluster_core.rdb.grammar import (
    AUX_NAME_BYTES_MAX,
    AUX_VALUE_BYTES_MAX,
    DATABASES_MAX,
    DIALECT_REDIS,
    DIALECT_VALKEY,
    VERSIONS,
)

TAIL_BYTES: Final = 10
"""RDB version and CRC64."""


INTEGER_DIGITS_MAX = 11
"""Maximum digits of a string written as an integer (`rdbSaveRawString`)."""
LISTPACK_INTEGER_DIGITS_MAX = 20


class Target(NamedTuple):
    """Dialect and version of a file to be written."""

    dialect: str
    version: int

    @property
    def magic(self) -> bytes:
        """Return the first nine bytes."""
        return self.dialect.encode() + b"%0*d" % (9 - len(self.dialect), self.version)


def length_bytes(value: int) -> bytes:
    """Return a length or count, 0 to 2**64 - 1 (`rdbSaveLen`)."""
    if value < 0x40:
        if value < 0:
            raise EncodeError(f"{value} is not a length")
        return bytes((value,))
    if value < 0x4000:
        return bytes((0x40 | value >> 8, value & 0xFF))
    if value < 1 << 32:
        return b"\x80" + value.to_bytes(4, "big")
    if value < 1 << 64:
        return b"\x81" + value.to_bytes(8, "big")
    raise EncodeError(f"{value} is longer than a length can say")


def raw_string_bytes(data: bytes) -> bytes:
    """Return a string as length and bytes."""
    return length_bytes(len(data)) + data


def string_bytes(data: bytes) -> bytes:
    """Encode a string, as an integer if it is one of up to 32 bits, else uncompressed (`rdbSaveRawString`)."""
    if 0 < len(data) <= INTEGER_DIGITS_MAX:
        number = canonical_integer(data)
        if number is not None:
            for form, code in enumerate("bhi"):
                limit = 1 << (8 << form) - 1
                if -limit <= number < limit:
                    return bytes((0xC0 | form,)) + struct.pack(f"<{code}", number)
    return length_bytes(len(data)) + data


def canonical_integer(text: bytes) -> int | None:
    """Return the 64-bit integer that *text* is, written as a server writes it (`string2ll`), or None."""
    if not 0 < len(text) <= LISTPACK_INTEGER_DIGITS_MAX:
        return None
    digits = text[1:] if text[0] == 45 else text
    if not digits.isdigit() or (digits[0] == 48 and len(text) > 1):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def target_of_dump(payload: bytes) -> Target:
    """Return the dialect and RDB version of the server with the DUMP reply *payload*."""
    version = int.from_bytes(payload[-TAIL_BYTES : -TAIL_BYTES + 2], "little")
    return Target(DIALECT_VALKEY if version >= VERSIONS[DIALECT_VALKEY][0] else DIALECT_REDIS, version)


CRC_VERSION_MIN = 5
_P = TypeVar("_P", bytes, bytearray)


class RdbWriter:
    """One file of *target*, from `head` to `end`; *bytes* counts the output. Calls out of order raise ProtocolError.

    With *checksum* false the CRC64 at the end is 0, which servers read as unknown.
    """

    def __init__(self, target: Target, *, checksum: bool = True) -> None:
        self.target = target
        self.bytes = 0
        self._checksum = checksum
        self._crc = 0
        self._db: int | None = None
        self._ended = False

    def head(self, aux: Mapping[str, str | int] | None = None) -> bytes:
        """Return magic, version and aux fields; the first call."""
        if self.bytes:
            raise ProtocolError("the head of a file comes first, once")
        return self._add(self.target.magic + b"".join(_aux(name, value) for name, value in (aux or {}).items()))

    def database(self, db: int, *, keys: int | None = None, expires: int = 0) -> bytes:
        """Return the beginning of database *db*, with the number of its *keys* (a hint for the server's tables) if given."""
        if not 0 <= db < DATABASES_MAX:
            raise EncodeError(f"database number {db} is not possible")
        out = bytes((grammar.OP_SELECTDB,)) + length_bytes(db)
        if keys is not None:
            out += bytes((grammar.OP_RESIZEDB,)) + length_bytes(keys) + length_bytes(expires)
        self._db = db
        return self._add(out)

    def dumped(self, key: bytes, payload: bytes, expire_at_ms: int) -> bytes:
        """Return a key with a DUMP payload of a server of the target's version."""
        value = payload[:-TAIL_BYTES]
        expiry = bytes((grammar.OP_EXPIRE_MS,)) + expire_at_ms.to_bytes(8, "little") if expire_at_ms >= 0 else b""
        return self.raw(expiry + value[:1] + string_bytes(key) + value[1:])

    def raw(self, data: _P) -> _P:
        """Return whole records of a file of the same dialect and at most the target's version, unchanged."""
        if self._db is None:
            raise ProtocolError("a key needs a database")
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
            self._crc = crc64(data, self._crc)
        self.bytes += len(data)
        return data


def _aux(name: str, value: str | int) -> bytes:
    label, text = name.encode(), str(value).encode()
    if len(label) > AUX_NAME_BYTES_MAX or len(text) > AUX_VALUE_BYTES_MAX:
        raise EncodeError(f"the aux field {name[:40]!r} is too long")
    body = raw_string_bytes(text) if isinstance(value, str) else string_bytes(text)
    return bytes((grammar.OP_AUX,)) + raw_string_bytes(label) + body
