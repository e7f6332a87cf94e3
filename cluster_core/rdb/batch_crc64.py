"""CRC-64/Redis of large buffers: `cluster_core.rdb.crc64`, compiled, for their ends.

Sixteen bytes a step by sixteen tables (slicing, Kounavis and Berry 2005).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import compiled, njit
from cluster_core.rdb import crc64 as plain
from cluster_core.rdb.crc64 import TABLE, combine_crc64

__all__ = ["combine_crc64", "crc64"]

_SLICES = 16


def _tables() -> NDArray[np.uint64]:
    rows = [list(TABLE)]
    for _ in range(_SLICES - 1):
        rows.append([TABLE[entry & 0xFF] ^ entry >> 8 for entry in rows[-1]])
    return np.array(rows, dtype=np.uint64).reshape(-1)


_TABLES = _tables()
_BYTE = np.uint64(0xFF)


_bytes = compiled(plain, "crc64", known={"TABLE": _TABLES}, boundscheck=False)["crc64"]


@njit(boundscheck=False)
def _words(data: Any, crc: np.uint64) -> np.uint64:
    """Return the CRC after the words of *data* (uint64, an even number of them)."""
    for i in range(0, data.size, 2):
        a = data[i] ^ crc
        b = data[i + 1]
        crc = (
            _TABLES[np.uint64(15 * 256) + (a & _BYTE)]
            ^ _TABLES[np.uint64(14 * 256) + ((a >> np.uint64(8)) & _BYTE)]
            ^ _TABLES[np.uint64(13 * 256) + ((a >> np.uint64(16)) & _BYTE)]
            ^ _TABLES[np.uint64(12 * 256) + ((a >> np.uint64(24)) & _BYTE)]
            ^ _TABLES[np.uint64(11 * 256) + ((a >> np.uint64(32)) & _BYTE)]
            ^ _TABLES[np.uint64(10 * 256) + ((a >> np.uint64(40)) & _BYTE)]
            ^ _TABLES[np.uint64(9 * 256) + ((a >> np.uint64(48)) & _BYTE)]
            ^ _TABLES[np.uint64(8 * 256) + (a >> np.uint64(56))]
            ^ _TABLES[np.uint64(7 * 256) + (b & _BYTE)]
            ^ _TABLES[np.uint64(6 * 256) + ((b >> np.uint64(8)) & _BYTE)]
            ^ _TABLES[np.uint64(5 * 256) + ((b >> np.uint64(16)) & _BYTE)]
            ^ _TABLES[np.uint64(4 * 256) + ((b >> np.uint64(24)) & _BYTE)]
            ^ _TABLES[np.uint64(3 * 256) + ((b >> np.uint64(32)) & _BYTE)]
            ^ _TABLES[np.uint64(2 * 256) + ((b >> np.uint64(40)) & _BYTE)]
            ^ _TABLES[np.uint64(1 * 256) + ((b >> np.uint64(48)) & _BYTE)]
            ^ _TABLES[b >> np.uint64(56)]
        )
    return crc


def crc64(data: NDArray[np.uint8], crc: int = 0) -> int:
    """Return the CRC of *data*, a contiguous uint8 array, after bytes whose CRC is *crc*."""
    head = min(-data.ctypes.data % 8, len(data))
    whole = (len(data) - head) // 16 * 16
    value = _bytes(data[:head], np.uint64(crc))
    value = _words(data[head : head + whole].view(np.uint64), np.uint64(value))
    return int(_bytes(data[head + whole :], np.uint64(value)))
