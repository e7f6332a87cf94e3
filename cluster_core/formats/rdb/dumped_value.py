"""A value as DUMP answers it and RESTORE takes it: type byte, value, RDB version, CRC64 (`createDumpPayload`)."""

from __future__ import annotations

from typing import Final

from cluster_core.formats.rdb.grammar import DIALECT_REDIS, DIALECT_VALKEY, VERSIONS
from cluster_core.formats.rdb.target import Target

TAIL_BYTES: Final = 10
"""RDB version and CRC64."""


def without_tail(payload: bytes) -> bytes:
    """Type byte and value alone."""
    return payload[:-TAIL_BYTES]


def target_of_dump(payload: bytes) -> Target:
    """The dialect and RDB version that the server has that answered *payload*."""
    version = int.from_bytes(payload[-TAIL_BYTES : -TAIL_BYTES + 2], "little")
    return Target(DIALECT_VALKEY if version >= VERSIONS[DIALECT_VALKEY][0] else DIALECT_REDIS, version)
