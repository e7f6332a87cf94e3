"""HyperLogLogs as both servers keep them in a string: its length depends on the runs of its registers (`hyperloglog.c`).

Sparse: ``ZERO`` (00xxxxxx, 1 to 64 registers of zero), ``XZERO`` (01xxxxxx yyyyyyyy, 1 to 16384), ``VAL`` (1vvvvvxx, value 1 to
32 in 1 to 4 registers).  Dense: 16384 registers of six bits.  A sparse one turns dense when it is longer than
``hll-sparse-max-bytes`` or a register exceeds 32.
"""

from __future__ import annotations

from collections.abc import Iterable

REGISTERS = 16384
HEADER_BYTES = 16
DENSE_BYTES = HEADER_BYTES + REGISTERS * 6 // 8
HLL_BYTES_MAX = DENSE_BYTES
SPARSE_BYTES_MAX = 3000
"""``hll-sparse-max-bytes``, as both servers have it by default; the header counts."""
SPARSE_VALUE_MAX = 32
EMPTY = b"HYLL\x01\0\0\0" + bytes(8) + b"\x7f\xff"
_SEED = 0xADC83B19
_MASK = (1 << 64) - 1
_M = 0xC6A4A7935BD1E995


def is_hyperloglog(value: bytes) -> bool:
    """Whether a server takes the string for one (`isHLLObjectOrReply`)."""
    if len(value) < HEADER_BYTES or value[:4] != b"HYLL" or value[4] > 1:
        return False
    return value[4] == 1 or len(value) == DENSE_BYTES


def murmur64a(data: bytes, seed: int = _SEED) -> int:
    """MurmurHash64A, 64 bits, as the servers seed it."""
    digest = seed ^ (len(data) * _M & _MASK)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        word = int.from_bytes(data[at : at + 8], "little") * _M & _MASK
        word = (word ^ word >> 47) * _M & _MASK
        digest = (digest ^ word) * _M & _MASK
    if whole < len(data):
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    digest = (digest ^ digest >> 47) * _M & _MASK
    return digest ^ digest >> 47


def place_of(element: bytes) -> tuple[int, int]:
    """The register that an element belongs to, and its run of zeros (`hllPatLen`)."""
    digest = murmur64a(element)
    rest = digest >> 14 | 1 << 50
    return digest & (REGISTERS - 1), (rest & -rest).bit_length()


def registers_of(value: bytes) -> bytearray:
    """The 16384 registers of a HyperLogLog; raises ValueError for a damaged one."""
    if value[4] == 0:
        return _dense_registers(value)
    found = bytearray()
    at = HEADER_BYTES
    while at < len(value):
        byte = value[at]
        if byte & 0x80:
            found += bytes([(byte >> 2 & 31) + 1]) * ((byte & 3) + 1)
        elif byte & 0x40:
            found += bytes(((byte & 63) << 8 | value[at + 1]) + 1)
            at += 1
        else:
            found += bytes((byte & 63) + 1)
        at += 1
        if len(found) > REGISTERS:
            break
    if len(found) != REGISTERS:
        raise ValueError("not 16384 registers")
    return found


def _dense_registers(value: bytes) -> bytearray:
    bits = int.from_bytes(value[HEADER_BYTES:DENSE_BYTES], "little")
    raw = bits.to_bytes(REGISTERS * 6 // 8, "little")
    found = bytearray(REGISTERS)
    for group in range(REGISTERS // 4):
        word = raw[3 * group] | raw[3 * group + 1] << 8 | raw[3 * group + 2] << 16
        found[4 * group : 4 * group + 4] = bytes((word >> shift & 63) for shift in (0, 6, 12, 18))
    return found


def _dense(registers: bytearray) -> bytes:
    packed = bytearray()
    for at in range(0, REGISTERS, 4):
        a, b, c, d = registers[at : at + 4]
        packed += (a | b << 6 | c << 12 | d << 18).to_bytes(3, "little")
    return b"HYLL\0\0\0\0" + bytes(8) + bytes(packed)


def add_to(value: bytes, elements: Iterable[bytes]) -> bytes:
    """The HyperLogLog after PFADD of *elements*; raises ValueError for a damaged one."""
    return _raise(value, (place_of(element) for element in elements))


def merge(values: Iterable[bytes], target: bytes | None) -> bytes:
    """What PFMERGE makes of *target* (None: there is none) and all *values*, those of *target* among them."""
    values = list(values)
    highest = bytearray(REGISTERS)
    for value in values:
        highest = bytearray(map(max, highest, registers_of(value)))
    result = EMPTY if target is None else target
    if any(value[4] == 0 for value in values) and result[4] == 1:
        result = _dense(registers_of(result))
    return _raise(result, ((at, count) for at, count in enumerate(highest) if count))


def _raise(value: bytes, places: Iterable[tuple[int, int]]) -> bytes:
    """Raise registers to at least the counts given, in their order."""
    sparse: bytearray | None = bytearray(value[HEADER_BYTES:]) if value[4] == 1 else None
    registers = None if sparse is not None else _dense_registers(value)
    for index, count in places:
        if sparse is not None and not (count <= SPARSE_VALUE_MAX and _set_sparse(sparse, index, count)):
            registers, sparse = registers_of(EMPTY[:HEADER_BYTES] + bytes(sparse)), None
        if registers is not None and registers[index] < count:
            registers[index] = count
    if registers is not None:
        return _dense(registers)
    return EMPTY[:HEADER_BYTES] + bytes(sparse or b"")


def _run_of(sparse: bytearray, at: int) -> tuple[int, int, int]:
    """(registers, bytes, value) of the code at *at*; the value is 0 for a run of zeros."""
    byte = sparse[at]
    if byte & 0x80:
        return (byte & 3) + 1, 1, (byte >> 2 & 31) + 1
    if byte & 0x40:
        return ((byte & 63) << 8 | sparse[at + 1]) + 1, 2, 0
    return (byte & 63) + 1, 1, 0


def _set_sparse(sparse: bytearray, index: int, count: int) -> bool:
    """Raise one register in place; False if the result must be dense (`hllSparseSet`)."""
    at, first, before = 0, 0, 0
    while True:
        if at >= len(sparse):
            raise ValueError("not 16384 registers")
        span, size, value = _run_of(sparse, at)
        if index < first + span:
            break
        before, at, first = at, at + size, first + span
    if value >= count:
        return True
    if span == 1 and size == 1:
        sparse[at] = _code(count, 1)[0]
    else:
        made = _code(value, index - first) + _code(count, 1) + _code(value, first + span - 1 - index)
        if len(made) > size and HEADER_BYTES + len(sparse) + len(made) - size > SPARSE_BYTES_MAX:
            return False
        sparse[at : at + size] = made
    _join(sparse, before)
    return True


def _code(value: int, length: int) -> bytes:
    """The code of a run; nothing for no registers."""
    if not length:
        return b""
    if value:
        return bytes([0x80 | value - 1 << 2 | length - 1])
    if length > 64:
        return bytes([0x40 | length - 1 >> 8, length - 1 & 255])
    return bytes([length - 1])


def _join(sparse: bytearray, at: int) -> None:
    """Join equal values that stand side by side, within five codes from *at*."""
    for _ in range(5):
        if at >= len(sparse):
            return
        byte = sparse[at]
        if not byte & 0x80:
            at += 2 if byte & 0x40 else 1
            continue
        follower = sparse[at + 1] if at + 1 < len(sparse) else 0
        length = (byte & 3) + (follower & 3) + 2
        if follower & 0x80 and follower >> 2 == byte >> 2 and length <= 4:
            sparse[at : at + 2] = bytes([(byte & 0xFC) | length - 1])
        else:
            at += 1
