"""Replay of logged commands on strings, HyperLogLogs included.

A sparse HyperLogLog has ``ZERO`` (00xxxxxx, 1 to 64 zero registers), ``XZERO`` (01xxxxxx yyyyyyyy, 1 to 16384) and
``VAL`` (1vvvvvxx, value 1 to 32 in 1 to 4 registers). A dense one has 16384 registers of six bits. Sparse becomes dense
above ``hll-sparse-max-bytes`` or for a register above 32.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Final, NamedTuple

from cluster_core.aof.store import STRING, Refused, Sized, Store, Unsettled, length_of, lowered, number

REGISTERS = 16384
HEADER_BYTES = 16
DENSE_BYTES = HEADER_BYTES + REGISTERS * 6 // 8
HLL_BYTES_MAX = DENSE_BYTES
SPARSE_BYTES_MAX = 3000
"""Default ``hll-sparse-max-bytes`` of both servers, header included."""
SPARSE_VALUE_MAX = 32
EMPTY = b"HYLL\x01\0\0\0" + bytes(8) + b"\x7f\xff"
_SEED = 0xADC83B19
_MASK = (1 << 64) - 1
_M = 0xC6A4A7935BD1E995


def is_hyperloglog(value: bytes) -> bool:
    """Return whether a server accepts the string as HyperLogLog (`isHLLObjectOrReply`)."""
    if len(value) < HEADER_BYTES or value[:4] != b"HYLL" or value[4] > 1:
        return False
    return value[4] == 1 or len(value) == DENSE_BYTES


def murmur64a(data: bytes, seed: int = _SEED) -> int:
    """Return MurmurHash64A with the servers' seed."""
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
    """Return an element's register and run of zeros (`hllPatLen`)."""
    digest = murmur64a(element)
    rest = digest >> 14 | 1 << 50
    return digest & (REGISTERS - 1), (rest & -rest).bit_length()


def registers_of(value: bytes) -> bytearray:
    """Return the 16384 registers of a HyperLogLog; raises ValueError if damaged."""
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
    """Return the HyperLogLog after PFADD of *elements*; raises ValueError if damaged."""
    return _raise(value, (place_of(element) for element in elements))


def merge(values: Iterable[bytes], target: bytes | None) -> bytes:
    """Return PFMERGE of all *values* into *target* (None: missing); *values* include the target's."""
    values = list(values)
    highest = bytearray(REGISTERS)
    for value in values:
        highest = bytearray(map(max, highest, registers_of(value)))
    result = EMPTY if target is None else target
    if any(value[4] == 0 for value in values) and result[4] == 1:
        result = _dense(registers_of(result))
    return _raise(result, ((at, count) for at, count in enumerate(highest) if count))


def _raise(value: bytes, places: Iterable[tuple[int, int]]) -> bytes:
    """Raise registers to at least the given counts, in order."""
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
    """Return (registers, bytes, value) of the code at *at*; value 0 for a run of zeros."""
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
    """Return the code of a run; empty for no registers."""
    if not length:
        return b""
    if value:
        return bytes([0x80 | value - 1 << 2 | length - 1])
    if length > 64:
        return bytes([0x40 | length - 1 >> 8, length - 1 & 255])
    return bytes([length - 1])


def _join(sparse: bytearray, at: int) -> None:
    """Join adjacent equal values within five codes from *at*."""
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


Words = Sequence[bytes]


def expiry(option: bytes, word: bytes) -> int:
    """Return the expiry of EXAT or PXAT (epoch ms); raises Unsettled for EX and PX, which servers never log."""
    amount = number(word)
    if option == b"pxat":
        return amount
    if option == b"exat":
        return amount * 1000
    raise Unsettled  # relative to the execution, which the log does not time to the ms


def _set(store: Store, words: Words) -> None:
    key, value = words[1], words[2]
    expire, keep, at = -1, False, 3
    options = lowered(words[3:])
    while at < len(words):
        option = options[at - 3]
        if option == b"nx" and store.find(key) is not None:
            raise Refused
        if option == b"xx" and store.find(key) is None:
            raise Refused
        if option == b"keepttl":
            keep = True
        elif option == b"ifeq":
            _refuse_other(store, key, words[at + 1])
            at += 1
        elif option in (b"ex", b"px", b"exat", b"pxat"):
            expire = expiry(option, words[at + 1])
            at += 1
        elif option not in (b"nx", b"xx", b"get"):
            raise Unsettled
        at += 1
    if b"get" in options:
        store.typed(key, STRING)
    store.put(key, STRING, _content(store, value), keep_expiry=keep)
    if expire >= 0:
        store.keys[key].expire_at_ms = expire


def _content(store: Store, value: bytes) -> Sized:
    """Return the stored form of a string: HyperLogLogs in full, as their length depends on the registers."""
    return value if value[:4] == b"HYLL" and len(value) <= HLL_BYTES_MAX else store.sized(value)


def _refuse_other(store: Store, key: bytes, expected: bytes) -> None:
    """Raise Refused if the string is known and differs."""
    value = store.typed(key, STRING)
    if value is None or (value != expected if isinstance(value, bytes) else value != len(expected)):
        raise Refused


def _setnx(store: Store, words: Words) -> None:
    if store.find(words[1]) is not None:
        raise Refused
    store.put(words[1], STRING, _content(store, words[2]))


def _setex(store: Store, words: Words) -> None:
    raise Unsettled


def _getset(store: Store, words: Words) -> None:
    store.typed(words[1], STRING)
    store.put(words[1], STRING, _content(store, words[2]))


def _getdel(store: Store, words: Words) -> None:
    if store.typed(words[1], STRING) is not None:
        store.remove(words[1])


def _delifeq(store: Store, words: Words) -> None:
    _refuse_other(store, words[1], words[2])
    store.remove(words[1])


def _getex(store: Store, words: Words) -> None:
    if store.typed(words[1], STRING) is None or len(words) < 3:
        raise Refused
    option = words[2].lower()
    store.keys[words[1]].expire_at_ms = -1 if option == b"persist" else expiry(option, words[3])


def _mset(store: Store, words: Words) -> None:
    if len(words) % 2 == 0:
        raise Refused
    for key, value in zip(words[1::2], words[2::2], strict=True):
        store.put(key, STRING, _content(store, value))


def _msetnx(store: Store, words: Words) -> None:
    if any(store.find(key) is not None for key in words[1::2]):
        raise Refused
    _mset(store, words)


def _msetex(store: Store, words: Words) -> None:
    count = number(words[1])
    keys, values = words[2 : 2 + 2 * count : 2], words[3 : 2 + 2 * count : 2]
    options = lowered(words[2 + 2 * count :])
    if b"nx" in options and any(store.find(key) is not None for key in keys):
        raise Refused
    if b"xx" in options and any(store.find(key) is None for key in keys):
        raise Refused
    expire = -1
    for at, option in enumerate(options):
        if option in (b"ex", b"px", b"exat", b"pxat"):
            expire = expiry(option, options[at + 1])
    for key, value in zip(keys, values, strict=True):
        store.put(key, STRING, _content(store, value), keep_expiry=b"keepttl" in options)
        if expire >= 0:
            store.keys[key].expire_at_ms = expire


def _change(store: Store, key: bytes, value: Sized) -> None:
    """Set a string and keep its expiry."""
    store.put(key, STRING, value, keep_expiry=True)


def _append(store: Store, words: Words) -> None:
    old = store.typed(words[1], STRING)
    _overwrite(store, words[1], 0 if old is None else length_of(old), words[2])


def _setrange(store: Store, words: Words) -> None:
    offset = number(words[2])
    if offset < 0 or (not words[3] and store.typed(words[1], STRING) is None):
        raise Refused
    if words[3]:
        _overwrite(store, words[1], offset, words[3])


def _overwrite(store: Store, key: bytes, offset: int, part: bytes) -> None:
    """Write *part* at *offset*, padding with zero bytes."""
    old = store.typed(key, STRING)
    old = b"" if old is None else old
    length = max(length_of(old), offset + len(part))
    if not isinstance(old, bytes) or not store.keeps(length):
        _change(store, key, length)
        return
    padded = old.ljust(offset, b"\0")
    _change(store, key, padded[:offset] + part + padded[offset + len(part) :])


def _incr(sign: int) -> Callable[[Store, Words], None]:
    def run(store: Store, words: Words) -> None:
        amount = number(words[2]) if len(words) > 2 else 1
        old = store.typed(words[1], STRING)
        if isinstance(old, int):
            raise Unsettled if old <= 20 else Refused
        value = (0 if old is None else number(old)) + sign * amount
        if not -(1 << 63) <= value < 1 << 63:
            raise Refused
        _change(store, words[1], b"%d" % value)

    return run


def _incrbyfloat(store: Store, words: Words) -> None:
    raise Unsettled  # servers log the result, as SET … KEEPTTL


def _setbit(store: Store, words: Words) -> None:
    bit = number(words[2])
    old = store.typed(words[1], STRING)
    old = b"" if old is None else old
    length = max(length_of(old), (bit >> 3) + 1)
    if not isinstance(old, bytes) or not store.keeps(length):
        _change(store, words[1], length)
        return
    content = bytearray(old.ljust(length, b"\0"))
    mask = 0x80 >> (bit & 7)
    content[bit >> 3] = content[bit >> 3] | mask if words[3] == b"1" else content[bit >> 3] & ~mask
    _change(store, words[1], bytes(content))


class _FieldWrite(NamedTuple):
    """One SET or INCRBY of BITFIELD."""

    is_set: bool
    signed: bool
    width: int
    offset: int
    amount: int
    overflow: bytes


def _field_writes(words: Words) -> list[_FieldWrite]:
    found, overflow, at = [], b"wrap", 2
    while at < len(words):
        option = words[at].lower()
        if option == b"overflow":
            overflow = words[at + 1].lower()
            at += 2
        elif option in (b"set", b"incrby"):
            width = number(words[at + 1][1:])
            place = words[at + 2]
            offset = number(place[1:]) * width if place[:1] == b"#" else number(place)
            signed = words[at + 1][:1].lower() == b"i"
            found.append(_FieldWrite(option == b"set", signed, width, offset, number(words[at + 3]), overflow))
            at += 4
        else:
            at += 3
    return found


def _bitfield(store: Store, words: Words) -> None:
    """BITFIELD: the string grows to the highest written bit, even if overflow prevents the write."""
    writes = _field_writes(words)
    if not writes:
        raise Refused
    old = store.typed(words[1], STRING)
    old = b"" if old is None else old
    highest = max(write.offset + write.width - 1 for write in writes)
    length = max(length_of(old), (highest >> 3) + 1)
    if not isinstance(old, bytes) or not store.keeps(length):
        _change(store, words[1], length)
        return
    bits = int.from_bytes(old.ljust(length, b"\0"), "big")
    for write in writes:
        shift = 8 * length - write.offset - write.width
        mask = (1 << write.width) - 1
        held = bits >> shift & mask
        if write.signed and held >> (write.width - 1):
            held -= 1 << write.width
        value = _fitted(write, write.amount if write.is_set else held + write.amount)
        if value is not None:
            bits = bits & ~(mask << shift) | (value & mask) << shift
    _change(store, words[1], bits.to_bytes(length, "big"))


def _fitted(write: _FieldWrite, value: int) -> int | None:
    """Return *value* after OVERFLOW; None if it fails."""
    low = -(1 << (write.width - 1)) if write.signed else 0
    high = (1 << (write.width - 1)) - 1 if write.signed else (1 << write.width) - 1
    if low <= value <= high or write.overflow == b"wrap":
        return value
    return min(max(value, low), high) if write.overflow == b"sat" else None


def _bitop(store: Store, words: Words) -> None:
    sources = [store.typed(key, STRING) for key in words[3:]]
    length = max((length_of(value) for value in sources if value is not None), default=0)
    if not length:
        store.remove(words[2])
        return
    contents = [value for value in sources if isinstance(value, bytes)]
    how = words[1].lower()
    if not store.keeps(length) or len(contents) + sources.count(None) < len(sources) or how not in _BIT_OPERATIONS:
        store.put(words[2], STRING, length)
        return
    numbers = [int.from_bytes((value or b"").ljust(length, b"\0"), "big") for value in sources]
    result = reduce(_BIT_OPERATIONS[how], numbers)
    if how == b"not":
        result = (1 << 8 * length) - 1 - result
    store.put(words[2], STRING, result.to_bytes(length, "big"))


_BIT_OPERATIONS: Final[dict[bytes, Callable[[int, int], int]]] = {
    b"and": operator.and_,
    b"or": operator.or_,
    b"xor": operator.xor,
    b"not": operator.or_,
}


def _hyperloglog(store: Store, key: bytes) -> bytes | None:
    value = store.typed(key, STRING)
    if value is None:
        return None
    if not isinstance(value, bytes):
        raise Unsettled
    if not is_hyperloglog(value):
        raise Refused
    return value


def _pfadd(store: Store, words: Words) -> None:
    old = _hyperloglog(store, words[1])
    _change(store, words[1], add_to(EMPTY if old is None else old, words[2:]))


def _pfmerge(store: Store, words: Words) -> None:
    found = [_hyperloglog(store, key) for key in words[1:]]
    _change(store, words[1], merge([value for value in found if value is not None], found[0]))


def _pfdebug(store: Store, words: Words) -> None:
    raise Unsettled


STRING_HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "set": _set, "setnx": _setnx, "setex": _setex, "psetex": _setex, "getset": _getset, "getdel": _getdel, "getex": _getex,
    "delifeq": _delifeq, "mset": _mset, "msetnx": _msetnx, "msetex": _msetex, "append": _append, "setrange": _setrange,
    "incr": _incr(1), "decr": _incr(-1), "incrby": _incr(1), "decrby": _incr(-1), "incrbyfloat": _incrbyfloat,
    "setbit": _setbit, "bitfield": _bitfield, "bitop": _bitop, "pfadd": _pfadd, "pfmerge": _pfmerge, "pfdebug": _pfdebug,
}  # fmt: skip
