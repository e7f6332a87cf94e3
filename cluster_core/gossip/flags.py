"""Node flags (R20) as plain integers, because enum arithmetic is too slow for 40,000 messages per second."""

from __future__ import annotations

from typing import Final

MASTER: Final = 0x1
REPLICA: Final = 0x2
PFAIL: Final = 0x4
FAIL: Final = 0x8
MYSELF: Final = 0x10
HANDSHAKE: Final = 0x20
NOADDR: Final = 0x40
MEET: Final = 0x80
MIGRATE_TO: Final = 0x100
NOFAILOVER: Final = 0x200
EXTENSIONS_SUPPORTED: Final = 0x400
LIGHT_HEADER_PUBLISH: Final = 0x800
LIGHT_HEADER_MODULE: Final = 0x1000
MY_PRIMARY_FAIL: Final = 0x2000

ROLES: Final = MASTER | REPLICA
FAILURES: Final = PFAIL | FAIL
LIGHT_HEADERS: Final = LIGHT_HEADER_PUBLISH | LIGHT_HEADER_MODULE
PRINTED: Final = MYSELF | ROLES | FAILURES | HANDSHAKE | NOADDR | NOFAILOVER
"""Flags printed by CLUSTER NODES (R128)."""
