"""CRC-64/Redis, the checksum of an RDB file (`crc64.c`): Jones' polynomial, reflected, starting at 0.

Slicing by sixteen bytes (Kounavis and Berry 2005), compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit

POLYNOMIAL = 0x95AC9329AC4BC9B5
"""0xad93d23594c935a9 with its bits reversed."""

_MASK = (1 << 64) - 1
_SLICES = 16


def _tables() -> NDArray[np.uint64]:
    first = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        first.append(crc)
    rows = [first]
    for _ in range(_SLICES - 1):
        rows.append([first[entry & 0xFF] ^ entry >> 8 for entry in rows[-1]])
    return np.array(rows, dtype=np.uint64).reshape(-1)


_TABLES = _tables()
_BYTE = np.uint64(0xFF)


@njit(boundscheck=False)
def _bytes(data: Any, crc: np.uint64) -> np.uint64:
    """Return the CRC after *data* (uint8), byte by byte."""
    for byte in data:
        crc = _TABLES[(crc ^ np.uint64(byte)) & _BYTE] ^ (crc >> np.uint64(8))
    return crc


@njit(boundscheck=False)
def _crc_of_words(data: Any, crc: np.uint64) -> np.uint64:
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


def crc64(data: bytes | bytearray | NDArray[np.uint8], crc: int = 0) -> int:
    """Return the CRC of *data*, bytes or a contiguous uint8 array, after bytes with the CRC *crc*.

    >>> hex(crc64(b"123456789"))
    '0xe9c6d914c4b8d9ca'
    """
    if not isinstance(data, np.ndarray):
        data = np.frombuffer(data, np.uint8)
    head = min(-data.ctypes.data % 8, len(data))
    whole = (len(data) - head) // 16 * 16
    value = _bytes(data[:head], np.uint64(crc))
    value = _crc_of_words(data[head : head + whole].view(np.uint64), np.uint64(value))
    return int(_bytes(data[head + whole :], np.uint64(value)))


def combine_crc64(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC of two joined pieces, from their CRCs and the second's length (x**8n by squaring)."""
    if second_bytes < 0:
        raise ValueError(f"a piece has no {second_bytes} bytes")
    factor = 1 << 63  # x**0: the highest bit is the lowest power
    power = 1 << 55  # x**8
    while second_bytes:
        if second_bytes & 1:
            factor = _multiply(factor, power)
        power = _multiply(power, power)
        second_bytes >>= 1
    return _multiply(first, factor) ^ second


def _multiply(a: int, b: int) -> int:
    """Return the product of two polynomials modulo `POLYNOMIAL`, bits reflected."""
    product = 0
    for _ in range(64):
        if a >> 63:
            product ^= b
        a = a << 1 & _MASK
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)
    return product
