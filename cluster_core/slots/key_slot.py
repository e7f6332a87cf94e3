"""Slot of a key: CRC16 of the key, or of its hash tag, modulo 16384."""

from __future__ import annotations

import binascii

SLOT_COUNT = 16384
"""Slots of a cluster (`CLUSTER_SLOTS`)."""

_OPEN = ord("{")
_CLOSE = ord("}")


def hash_tag(key: bytes) -> bytes | None:
    """Return the bytes between the first ``{`` and the first ``}`` after it; None if missing or empty (R113)."""
    start = key.find(_OPEN)
    if start < 0:
        return None
    end = key.find(_CLOSE, start + 1)
    if end <= start + 1:  # no closing brace (-1), or an empty tag
        return None
    return key[start + 1 : end]


def key_slot(key: bytes) -> int:
    """Return the slot (0 to 16383) of *key*: CRC16/XMODEM of its hash tag or of the whole key (R112, R113).

    For columns use `cluster_core.kernels.key_slots.key_slots`.
    """
    tag = hash_tag(key)
    return binascii.crc_hqx(key if tag is None else tag, 0) & (SLOT_COUNT - 1)
