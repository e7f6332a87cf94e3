"""Slots of many keys at once, as `cluster_core.slots.key_slot.key_slot`.

CRC16/XMODEM starts at 0, so leading zero bytes change nothing: keys are padded in front and hashed eight bytes a step
by eight tables (slicing, Kounavis and Berry 2005), up to twelve bytes without a branch. Braces are found 32 or 64 bytes a
step as bits of a mask. Keys near an end of the buffer are hashed byte by byte. `slot_of` and `tag_bounds` are for other
kernels.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.slots.key_slot import SLOT_COUNT

if TYPE_CHECKING:
    import pyarrow as pa

_STEP = 64
_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U3 = np.uint64(3)
_U7 = np.uint64(7)
_U8 = np.uint64(8)
_U16 = np.uint64(16)
_U24 = np.uint64(24)
_U32 = np.uint64(32)
_U40 = np.uint64(40)
_U48 = np.uint64(48)
_U56 = np.uint64(56)
_U64 = np.uint64(64)
_BYTE = np.uint64(0xFF)
_SLOT_MASK = np.uint64(SLOT_COUNT - 1)
_signed: Any = np.int64  # numba turns a mix of signed and unsigned integers into a float
_OPEN = np.uint8(ord("{"))
_CLOSE = np.uint8(ord("}"))

# Row k, entry b: the CRC of byte b followed by k zero bytes.
_TABLES = np.array(
    [binascii.crc_hqx(bytes([byte]) + bytes(zeros), 0) for zeros in range(12) for byte in range(256)],
    dtype=np.uint16,
)
_LAST_BYTES = np.array([(1 << 64) - (1 << (64 - 8 * count)) for count in range(9)], dtype=np.uint64)
"""Entry n keeps the last n bytes of a word."""
_SHORT = np.uint64(12)
_BEFORE = 16
"""Bytes before the end of a tag read by the step for short tags."""
_ROW11, _ROW10, _ROW9, _ROW8 = (np.uint64(256 * row) for row in range(11, 7, -1))
_ROW7, _ROW6, _ROW5, _ROW4, _ROW3, _ROW2, _ROW1 = (np.uint64(256 * row) for row in range(7, 0, -1))


intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = extending.intrinsic

# Numba counts references to an array around every call that takes one, which costs more than hashing a
# key.  So the functions below take the address of the bytes; the caller of `slot_of` keeps the array alive.


@intrinsic
def _address(typing_context: Any, data: Any) -> Any:
    """Return the address of the first byte of *data*, a uint8 array, as uint64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(array.data, ir.IntType(64))

    return types.uint64(data), build


@intrinsic
def _word(typing_context: Any, address: Any) -> Any:
    """Return the eight bytes at *address* as a word."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(types.uint64), build


def _compare(builder: Any, address: Any, byte: Any, step: int) -> Any:
    """Build a comparison of the *step* bytes at *address* with *byte*: bit i of a uint64 for byte i."""
    row = ir.VectorType(ir.IntType(8), step)
    pointer = builder.inttoptr(address, row.as_pointer())
    lane = builder.insert_element(ir.Constant(row, ir.Undefined), byte, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), step), [0] * step)
    wanted = builder.shuffle_vector(lane, ir.Constant(row, ir.Undefined), lanes)
    same = builder.icmp_unsigned("==", builder.load(pointer, align=1), wanted)
    mask = builder.bitcast(same, ir.IntType(step))
    return mask if step == _STEP else builder.zext(mask, ir.IntType(_STEP))


@intrinsic
def _places(typing_context: Any, address: Any, byte: Any) -> Any:
    """Return which of the 64 bytes at *address* equal *byte*: bit i of a uint64 for byte i."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _compare(builder, arguments[0], arguments[1], _STEP)

    return types.uint64(types.uint64, types.uint8), build


@intrinsic
def _places_near(typing_context: Any, address: Any, byte: Any) -> Any:
    """Return the same as `_places` for 32 bytes."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _compare(builder, arguments[0], arguments[1], _STEP // 2)

    return types.uint64(types.uint64, types.uint8), build


@intrinsic
def _lowest(typing_context: Any, mask: Any) -> Any:
    """Return the index of the lowest set bit of *mask*, or 64."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), build


@njit(forceinline=True)
def _fold(word: np.uint64, crc: np.uint64) -> np.uint64:
    """Return the CRC after the eight bytes of *word*."""
    word ^= (crc >> _U8) | ((crc & _BYTE) << _U8)
    return np.uint64(
        _TABLES[_ROW7 + (word & _BYTE)]
        ^ _TABLES[_ROW6 + ((word >> _U8) & _BYTE)]
        ^ _TABLES[_ROW5 + ((word >> _U16) & _BYTE)]
        ^ _TABLES[_ROW4 + ((word >> _U24) & _BYTE)]
        ^ _TABLES[_ROW3 + ((word >> _U32) & _BYTE)]
        ^ _TABLES[_ROW2 + ((word >> _U40) & _BYTE)]
        ^ _TABLES[_ROW1 + ((word >> _U48) & _BYTE)]
        ^ _TABLES[word >> _U56]
    )


@njit(forceinline=True)
def _crc16_short(length: np.uint64, last: np.uint64) -> np.uint64:
    """Return the CRC of the *length* bytes before *last*, at most 12; sixteen bytes before it are readable."""
    word: np.uint64 = _word(last - _U8) & _LAST_BYTES[min(length, _U8)]
    lead: np.uint64 = _word(last - _U16) & _LAST_BYTES[max(length, _U8) - _U8]
    return np.uint64(
        _TABLES[_ROW11 + ((lead >> _U32) & _BYTE)]
        ^ _TABLES[_ROW10 + ((lead >> _U40) & _BYTE)]
        ^ _TABLES[_ROW9 + ((lead >> _U48) & _BYTE)]
        ^ _TABLES[_ROW8 + (lead >> _U56)]
        ^ _fold(word, _U0)
    )


@njit(forceinline=True)
def _crc16(first: np.uint64, last: np.uint64) -> np.uint64:
    """Return CRC16/XMODEM of the bytes between two addresses (R112); 16 bytes before and 8 after *last* are readable."""
    if last - first <= _SHORT:
        short: np.uint64 = _crc16_short(last - first, last)
        return short
    head: np.uint64 = ((last - first - _U1) & _U7) + _U1  # 1 to 8 bytes, so that whole words remain
    crc: np.uint64 = _fold(_word(first) << ((_U8 - head) << _U3), _U0)
    first += head
    while first < last:
        crc = _fold(_word(first), crc)
        first += _U8
    return crc


@njit(forceinline=True)
def _find(first: np.uint64, last: np.uint64, byte: np.uint8) -> np.uint64:
    """Return the address of the first *byte* between two addresses, or *last*; 64 more bytes are readable."""
    while first < last:
        places: np.uint64 = _places(first, byte)
        if places:
            result: np.uint64 = min(first + _lowest(places), last)
            return result
        first += _U64
    return last


@njit(forceinline=True)
def _tag(first: np.uint64, last: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the bounds of the hashed part of a key (R113); 64 bytes from *last* on are readable."""
    if last - first < _U64:  # one step and one jump: the position of tags is hard to predict
        inside = (_U1 << (last - first)) - _U1
        near = last - first <= _U32
        opens = (_places_near(first, _OPEN) if near else _places(first, _OPEN)) & inside
        if not opens:
            return first, last
        closes = (_places_near(first, _CLOSE) if near else _places(first, _CLOSE)) & inside
        closes &= ~(opens ^ (opens - _U1))  # only those after the first open
        opened = first + _lowest(opens) + _U1
        closed = first + _lowest(closes)
    else:
        opened = _find(first, last, _OPEN) + _U1
        closed = _find(opened, last, _CLOSE)
        closes = np.uint64(closed < last)
    tagged = (closes != _U0) & (closed != opened)
    return (opened if tagged else first), (closed if tagged else last)


@njit()
def _tag_at_end(data: NDArray[np.uint8], start: int, end: int) -> tuple[int, int]:
    """Return the same as `tag_bounds`, byte by byte."""
    opened = start
    while opened < end and data[opened] != _OPEN:
        opened += 1
    closed = opened + 1
    while closed < end and data[closed] != _CLOSE:
        closed += 1
    if closed >= end or closed == opened + 1:
        return start, end
    return opened + 1, closed


@njit()
def _slot_at_end(data: NDArray[np.uint8], start: int, end: int) -> int:
    """Return the same as `slot_of`, byte by byte."""
    first, last = _tag_at_end(data, start, end)
    crc: int = 0
    for index in range(first, last):
        crc = ((crc << 8) & 0xFFFF) ^ int(_TABLES[(crc >> 8) ^ int(data[index])])
    return crc & (SLOT_COUNT - 1)


@njit(forceinline=True)
def tag_bounds(data: NDArray[np.uint8], start: int, end: int) -> tuple[int, int]:
    """Return the bounds of the hash tag of the key ``data[start:end]`` (R113); ``(start, end)`` hashes the whole key.

    *data* is a contiguous uint8 array, and the caller has checked ``0 <= start <= end <= data.size``.
    """
    if end + _STEP > data.size:
        bounds: tuple[int, int] = _tag_at_end(data, start, end)
        return bounds
    base: np.uint64 = _address(data)
    first, last = _tag(base + np.uint64(start), base + np.uint64(end))
    return _signed(first - base), _signed(last - base)


@njit(forceinline=True)
def slot_of(data: NDArray[np.uint8], start: int, end: int) -> int:
    """Return the slot, int64, of the key ``data[start:end]`` (R112, R113); preconditions as in `tag_bounds`."""
    if start < _BEFORE or end + _STEP > data.size:
        late: int = _slot_at_end(data, start, end)
        return late
    base: np.uint64 = _address(data)
    first, last = _tag(base + np.uint64(start), base + np.uint64(end))
    slot: int = _signed(_crc16(first, last) & _SLOT_MASK)
    return slot


@njit()
def _rise(offsets: NDArray[np.int64]) -> bool:
    """Return whether no offset is below its predecessor."""
    falls = 0
    for index in range(offsets.size - 1):
        falls |= offsets[index + 1] < offsets[index]
    return falls == 0


@njit()
def _fill(data: NDArray[np.uint8], offsets: NDArray[np.int64], slots: NDArray[np.uint16]) -> None:
    """Write the slot of every key; the offsets rise within *data*."""
    roomy = slots.size  # number of keys far from the buffer's end
    while roomy > 0 and offsets[roomy] + _STEP > data.size:
        roomy -= 1
    early = 0
    while early < roomy and offsets[early] < _BEFORE:
        early += 1
    for index in range(early):
        slots[index] = _slot_at_end(data, np.int64(offsets[index]), np.int64(offsets[index + 1]))
    _fill_roomy(data, offsets[early : roomy + 1], slots[early:roomy])
    for index in range(roomy, slots.size):
        slots[index] = _slot_at_end(data, np.int64(offsets[index]), np.int64(offsets[index + 1]))


@njit()
def _fill_roomy(data: NDArray[np.uint8], offsets: NDArray[np.int64], slots: NDArray[np.uint16]) -> None:
    """Write the slot of every key, each with room around it."""
    base: np.uint64 = _address(data)
    for index in range(slots.size):
        first, last = _tag(base + np.uint64(offsets[index]), base + np.uint64(offsets[index + 1]))
        slots[index] = _crc16(first, last) & _SLOT_MASK


def key_slots_of(data: NDArray[np.uint8], offsets: NDArray[np.int32] | NDArray[np.int64]) -> NDArray[np.uint16]:
    """Return the slots, uint16, of the keys ``data[offsets[i]:offsets[i + 1]]``.

    *data* is contiguous uint8, *offsets* int32 or int64. ValueError for decreasing or invalid offsets.
    """
    slots: NDArray[np.uint16] = np.empty(max(len(offsets) - 1, 0), dtype=np.uint16)
    if not len(slots):
        return slots
    if offsets[0] < 0 or offsets[-1] > len(data) or not _rise(offsets):
        raise ValueError(f"the offsets do not rise within the {len(data)} bytes of the keys")
    _fill(data, offsets, slots)
    return slots


def key_slots(keys: pa.Array | pa.ChunkedArray) -> NDArray[np.uint16]:
    """Return the slot of every key of an Arrow column, uint16, in its order (R112, R113).

    Takes binary and string arrays (hashed as UTF-8) in all variants, dictionaries, slices and chunked arrays. Raises
    ValueError with the row of the first null, TypeError for any other type.
    """
    import pyarrow as pa  # 50 ms that skims do not need

    if keys.null_count:
        raise ValueError(f"row {keys.is_null().index(True).as_py()} of the keys is null")
    if isinstance(keys, pa.ChunkedArray):
        chunks = [key_slots(chunk) for chunk in keys.chunks]
        return np.concatenate(chunks) if chunks else np.empty(0, dtype=np.uint16)
    if pa.types.is_dictionary(keys.type):
        return _key_slots_of_dictionary(keys)
    return key_slots_of(*_buffers(keys))


def _key_slots_of_dictionary(keys: pa.DictionaryArray) -> NDArray[np.uint16]:
    """Hash each value once; a null value is an error only where a row uses it."""
    import pyarrow as pa

    used = keys.dictionary
    if used.null_count:
        nulls = keys.dictionary_decode().is_null()
        if nulls.true_count:
            raise ValueError(f"row {nulls.index(True).as_py()} of the keys is null")
        used = used.fill_null(b"" if pa.types.is_binary(used.type) or pa.types.is_large_binary(used.type) else "")
    slots: NDArray[np.uint16] = key_slots(used)[keys.indices.to_numpy(zero_copy_only=False)]
    return slots


def _buffers(keys: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int32] | NDArray[np.int64]]:
    """Return data and offsets of *keys*, without a copy if its layout has both."""
    import pyarrow as pa

    kind = keys.type
    wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not wide and not pa.types.is_binary(kind) and not pa.types.is_string(kind):
        if not (pa.types.is_binary_view(kind) or pa.types.is_string_view(kind) or pa.types.is_fixed_size_binary(kind)):
            raise TypeError(f"keys are binary or string, not {kind}")
        keys = keys.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
        wide = True
    if not len(keys):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    _, offsets, data = keys.buffers()
    kind = np.int64 if wide else np.int32
    rows: NDArray[Any] = np.frombuffer(offsets, dtype=kind, count=keys.offset + len(keys) + 1)
    return np.frombuffer(data if data is not None else b"", dtype=np.uint8), rows[keys.offset :]
