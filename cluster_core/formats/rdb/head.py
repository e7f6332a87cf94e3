"""The first bytes of a file: which dialect and version of RDB it is, or what else it is."""

from __future__ import annotations

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.formats.rdb.opcodes import (
    DIALECT_REDIS,
    DIALECT_VALKEY,
    REDIS_VERSION_MAX,
    REDIS_VERSION_MIN,
    VALKEY_VERSION_MAX,
    VALKEY_VERSION_MIN,
    RdbHead,
)

MAGIC_BYTES = 9
"""Bytes of magic and version: ``REDIS0011`` or ``VALKEY080``."""

_OTHERS = (
    (b"*", "this is an AOF, not an RDB"),
    (b"$", "this is an AOF, not an RDB"),
    (b"#", "this is an AOF, not an RDB"),
    (b"\x1f\x8b", "this is compressed data (gzip), not an RDB"),
    (b"\x28\xb5\x2f\xfd", "this is compressed data (zstd), not an RDB"),
)


def read_magic(first: bytes, source: str) -> RdbHead:
    """Return dialect and version of the file whose first `MAGIC_BYTES` are *first*, fewer if the file is shorter.

    Raises TruncatedError for a file that ends within them, DecodeError for what is no RDB or has an unknown version.
    """
    if not first:
        raise TruncatedError("the file is empty", offset=0, source=source)
    for magic, reason in _OTHERS:
        if first.startswith(magic):
            raise DecodeError(reason, offset=0, source=source)
    for dialect, low, high in (
        (DIALECT_REDIS, REDIS_VERSION_MIN, REDIS_VERSION_MAX),
        (DIALECT_VALKEY, VALKEY_VERSION_MIN, VALKEY_VERSION_MAX),
    ):
        name = dialect.encode()
        digits = first[len(name) :]
        if first.startswith(name) and digits.isdigit() and len(first) == MAGIC_BYTES:
            return RdbHead(dialect, _checked_version(int(digits), low, high, source))
        if len(first) < MAGIC_BYTES and (name.startswith(first) or (first.startswith(name) and digits.isdigit())):
            raise TruncatedError("the file ends within its first 9 bytes", offset=len(first), source=source)
    raise DecodeError(f"this is not an RDB: it begins with {first!r}", offset=0, source=source)


def _checked_version(version: int, low: int, high: int, source: str) -> int:
    if version > high:
        raise DecodeError(f"RDB version {version} is newer than this reader knows ({high})", offset=0, source=source)
    if version < low:
        raise DecodeError(f"RDB version {version} is older than any that exists ({low})", offset=0, source=source)
    return version
