"""A set of slots (bitmap of bus messages, ranges of CLUSTER NODES), and the owner of each slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.slots.key_slot import SLOT_COUNT

WIRE_BYTES: Final = SLOT_COUNT // 8
"""Bytes of the bitmap in a bus message (R4)."""

Key = TypeVar("Key")

_EVERY_BIT = (1 << SLOT_COUNT) - 1
_DIGITS_MAX = len(str(SLOT_COUNT - 1))


class SlotSet:
    """An immutable set of slots with the operators of a frozenset; ValueError for a slot out of range."""

    __slots__ = ("_bits",)
    _bits: int

    def __init__(self, slots: Iterable[int] = ()) -> None:
        marks = bytearray(WIRE_BYTES)
        for slot in slots:
            marks[_checked(slot) >> 3] |= 1 << (slot & 7)
        object.__setattr__(self, "_bits", int.from_bytes(marks, "little"))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a SlotSet does not change")

    def __reduce__(self) -> tuple[object, ...]:
        return SlotSet.from_wire, (self.to_wire(),)

    @classmethod
    def _of(cls, bits: int) -> SlotSet:
        made = object.__new__(cls)
        object.__setattr__(made, "_bits", bits)
        return made

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[int, int]]) -> SlotSet:
        """Return the union of inclusive (first, last) pairs; ValueError if reversed or outside 0 to 16383."""
        bits = 0
        for first, last in ranges:
            if _checked(first) > _checked(last):
                raise ValueError(f"the range {first}-{last} ends before it begins")
            bits |= (1 << (last + 1)) - (1 << first)
        return cls._of(bits)

    @classmethod
    def from_wire(cls, raw: bytes, *, source: str = "<bytes>") -> SlotSet:
        """Decode a 2048-byte bitmap (R4); TruncatedError for fewer bytes, DecodeError for more."""
        if len(raw) < WIRE_BYTES:
            reason = f"a slot bitmap of {len(raw)} bytes, not {WIRE_BYTES}"
            raise TruncatedError(reason, offset=len(raw), source=source)
        if len(raw) > WIRE_BYTES:
            raise DecodeError(f"{len(raw) - WIRE_BYTES} bytes after a slot bitmap", offset=WIRE_BYTES, source=source)
        return cls._of(int.from_bytes(raw, "little"))

    def to_wire(self) -> bytes:
        """Return the 2048-byte bitmap (R4)."""
        return self._bits.to_bytes(WIRE_BYTES, "little")

    @classmethod
    def parse(cls, text: str, *, source: str = "<slots>") -> SlotSet:
        """Parse ranges as in CLUSTER NODES, ``0-5460 5500`` in any order (R128); DecodeError with the offset in *text*."""
        ranges = []
        offset = 0
        for word in text.split(" "):
            if word:
                ranges.append(parse_range(word, offset=offset, source=source))
            offset += len(word) + 1
        return cls.from_ranges(ranges)

    def __str__(self) -> str:
        return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in self.ranges())

    def __repr__(self) -> str:
        return f"SlotSet.parse({str(self)!r})"

    def ranges(self) -> list[tuple[int, int]]:
        """Return maximal (first, last) ranges, ascending."""
        result: list[tuple[int, int]] = []
        rest, base = self._bits, 0
        while rest:
            gap = (rest & -rest).bit_length() - 1
            rest >>= gap
            length = (rest ^ (rest + 1)).bit_length() - 1
            rest >>= length
            base += gap
            result.append((base, base + length - 1))
            base += length
        return result

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return self._bits.bit_count()

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, int) and 0 <= slot < SLOT_COUNT and bool(self._bits >> slot & 1)

    def __eq__(self, other: object) -> bool:
        return self._bits == other._bits if isinstance(other, SlotSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._bits)

    def __or__(self, other: SlotSet) -> SlotSet:
        return SlotSet._of(self._bits | other._bits) if isinstance(other, SlotSet) else NotImplemented

    def __and__(self, other: SlotSet) -> SlotSet:
        return SlotSet._of(self._bits & other._bits) if isinstance(other, SlotSet) else NotImplemented

    def __sub__(self, other: SlotSet) -> SlotSet:
        return SlotSet._of(self._bits & ~other._bits) if isinstance(other, SlotSet) else NotImplemented

    def __xor__(self, other: SlotSet) -> SlotSet:
        return SlotSet._of(self._bits ^ other._bits) if isinstance(other, SlotSet) else NotImplemented

    def __invert__(self) -> SlotSet:
        return SlotSet._of(self._bits ^ _EVERY_BIT)

    def isdisjoint(self, other: SlotSet) -> bool:
        """Return whether the sets have no common slot."""
        return not self._bits & other._bits

    def issubset(self, other: SlotSet) -> bool:
        """Return whether every slot is in *other*."""
        return not self._bits & ~other._bits


def slots_text(bits: int) -> str:
    """Format slots as in CLUSTER NODES; bit s of *bits* is slot s."""
    return str(SlotSet.from_wire(bits.to_bytes(WIRE_BYTES, "little")))


def slot_bits(text: str) -> int:
    """Parse `slots_text`."""
    return int.from_bytes(SlotSet.parse(text).to_wire(), "little") if text else 0


def slots_by(pairs: Iterable[tuple[Key, int]]) -> dict[Key, SlotSet]:
    """Return the slots of each key of (key, slot) *pairs*, keys in order of appearance."""
    slots: dict[Key, list[int]] = {}
    for key, slot in pairs:
        slots.setdefault(key, []).append(slot)
    return {key: SlotSet(listed) for key, listed in slots.items()}


def parse_range(word: str, *, offset: int = 0, source: str = "<slots>") -> tuple[int, int]:
    """Return (first, last) of a word of CLUSTER NODES, ``5500`` or ``0-5460``; DecodeError for other words."""
    first, dash, last = word.partition("-")
    bounds = [_number(first), _number(last) if dash else _number(first)]
    if bounds[0] is None or bounds[1] is None:
        raise DecodeError(f"{word[:40]!r} is not a slot or range of slots", offset=offset, source=source)
    if bounds[0] > bounds[1]:
        raise DecodeError(f"the range {word} ends before it begins", offset=offset, source=source)
    return bounds[0], bounds[1]


def _number(digits: str) -> int | None:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        return None
    return int(digits) if int(digits) < SLOT_COUNT else None


def _checked(slot: int) -> int:
    if not 0 <= slot < SLOT_COUNT:
        raise ValueError(f"slot {slot} is not in 0 to {SLOT_COUNT - 1}")
    return slot


class SlotMap:
    """Owners of the 16384 slots: node ids or None."""

    __slots__ = ("_owners",)

    def __init__(self, owners: Mapping[str, SlotSet] | None = None) -> None:
        """Create from slot sets by node; ValueError if two overlap."""
        self._owners: list[str | None] = [None] * SLOT_COUNT
        for node_id, slots in (owners or {}).items():
            for slot in slots:
                if self._owners[slot] is not None:
                    raise ValueError(f"slot {slot} belongs to {self._owners[slot]} and to {node_id}")
                self.assign(slot, node_id)

    def __getitem__(self, slot: int) -> str | None:
        """Return the owner of *slot*; IndexError when out of range."""
        return self._owners[_in_range(slot)]

    def __eq__(self, other: object) -> bool:
        return self._owners == other._owners if isinstance(other, SlotMap) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def assign(self, slot: int, node_id: str | None) -> None:
        """Set or clear the owner of *slot*; IndexError when out of range."""
        self._owners[_in_range(slot)] = node_id

    def owners(self) -> list[str | None]:
        """Return the owner of every slot, by slot."""
        return list(self._owners)

    def slots_of(self, node_id: str) -> SlotSet:
        """Return the slots that *node_id* owns."""
        return SlotSet(slot for slot, owner in enumerate(self._owners) if owner == node_id)

    def covered(self) -> SlotSet:
        """Return the slots that have an owner."""
        return SlotSet(slot for slot, owner in enumerate(self._owners) if owner is not None)


def _in_range(slot: int) -> int:
    if not 0 <= slot < SLOT_COUNT:
        raise IndexError(f"slot {slot} is not in 0 to {SLOT_COUNT - 1}")
    return slot
