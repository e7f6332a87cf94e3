"""CRC-64/Redis: the checksum at the end of an RDB file (`crc64.c`): Jones' polynomial, reflected, starting at 0."""

from __future__ import annotations

POLYNOMIAL = 0x95AC9329AC4BC9B5
"""0xad93d23594c935a9 with its bits reversed."""

_MASK = (1 << 64) - 1


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        entries.append(crc)
    return tuple(entries)


TABLE = _table()


def crc64(data: bytes | bytearray, crc: int = 0) -> int:
    """Return the CRC of *data* after bytes whose CRC is *crc*.

    >>> hex(crc64(b"123456789"))
    '0xe9c6d914c4b8d9ca'
    """
    table = TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc


def combine_crc64(first: int, second: int, second_bytes: int) -> int:
    """Return the CRC of two pieces joined, from the CRC of each and the length of the second.

    Appending n zero bytes multiplies a CRC by x**8n modulo the polynomial; squaring finds that factor in log n steps.
    """
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
