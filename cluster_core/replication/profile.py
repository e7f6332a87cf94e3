"""Where the servers differ in replication: one frozen profile a version (`replication.c`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

JEMALLOC_BLOCK_BYTES: Final = 20440
"""A block of the replication buffer: 16 KiB are asked for, the allocator's whole size class is used
(`feedReplicationBuffer`, `zmalloc_usable`); 20480 less the block's own 40 bytes with jemalloc.
"""
LIBC_BLOCK_BYTES: Final = 16384
"""The same where the allocator gives what was asked for."""


@dataclass(frozen=True, slots=True)
class ReplicationProfile:
    """What a version does.  *block_bytes* 0: the backlog is one circle of bytes (before Redis 7.0).

    *dual_channel*: a replica can load the dump from a connection of its own.  *loads_later*: a background thread takes the
    dump, the replica loads it at its next cron and is up with its next acknowledgement (Valkey 9).
    """

    name: str
    backlog_bytes: int
    block_bytes: int = JEMALLOC_BLOCK_BYTES
    dual_channel: bool = False
    loads_later: bool = False


REDIS_6_2: Final = ReplicationProfile("redis-6.2", 1 << 20, block_bytes=0)
REDIS_7_0: Final = ReplicationProfile("redis-7.0", 1 << 20)
VALKEY_8_0: Final = ReplicationProfile("valkey-8.0", 10 << 20, dual_channel=True)
VALKEY_9_1: Final = ReplicationProfile("valkey-9.1", 10 << 20, dual_channel=True, loads_later=True)


def profile_of(version: str) -> ReplicationProfile:
    """The profile of a server that calls itself *version*: ``7.0.15``, or ``valkey 9.1.2``; unknown ones are Redis 7.0.

    >>> profile_of("valkey 9.1.2").name
    'valkey-9.1'
    """
    name, _, digits = version.rpartition(" ")
    major = int(digits.split(".")[0]) if digits.split(".")[0].isdigit() else 0
    if name == "valkey":
        return VALKEY_9_1 if major >= 9 else VALKEY_8_0
    return REDIS_6_2 if 0 < major < 7 else REDIS_7_0
