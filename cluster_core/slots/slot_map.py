"""Owner of each slot, and the commands that change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cluster_core.errors import ProtocolError
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet

_LONG_LONG_MAX = 2**63 - 1


class SlotMap:
    """Owners of the 16384 slots, node ids or None, with the commands that change them.

    Commands are atomic and raise ProtocolError with the server's error text. Arguments are numbers or texts, parsed
    like the server's.
    """

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

    def add_slots(self, node_id: str, slots: Sequence[int | str]) -> None:
        """Apply CLUSTER ADDSLOTS on *node_id*: all arguments are parsed before any slot is checked."""
        self._take([(slot, slot) for slot in _slots(slots, "addslots")], node_id)

    def del_slots(self, slots: Sequence[int | str]) -> None:
        """Apply CLUSTER DELSLOTS, which unassigns slots of any owner."""
        self._take([(slot, slot) for slot in _slots(slots, "delslots")], None)

    def add_slots_range(self, node_id: str, bounds: Sequence[int | str]) -> None:
        """Apply CLUSTER ADDSLOTSRANGE to first, last, first, last…: pairs are parsed and checked one after another."""
        self._take(_pairs(bounds, "addslotsrange"), node_id)

    def del_slots_range(self, bounds: Sequence[int | str]) -> None:
        """Apply CLUSTER DELSLOTSRANGE to first, last, first, last…"""
        self._take(_pairs(bounds, "delslotsrange"), None)

    def _take(self, ranges: Iterable[tuple[int, int]], node_id: str | None) -> None:
        """Check slot by slot (`checkSlotAssignmentsOrReply`), then assign all of them."""
        named: dict[int, None] = {}
        for first, last in ranges:
            for slot in range(first, last + 1):
                if node_id is None and self._owners[slot] is None:
                    raise ProtocolError(f"ERR Slot {slot} is already unassigned")
                if node_id is not None and self._owners[slot] is not None:
                    raise ProtocolError(f"ERR Slot {slot} is already busy")
                if slot in named:
                    raise ProtocolError(f"ERR Slot {slot} specified multiple times")
                named[slot] = None
        for slot in named:
            self.assign(slot, node_id)


def _in_range(slot: int) -> int:
    if not 0 <= slot < SLOT_COUNT:
        raise IndexError(f"slot {slot} is not in 0 to {SLOT_COUNT - 1}")
    return slot


def _slots(arguments: Sequence[int | str], command: str) -> list[int]:
    if not arguments:
        raise ProtocolError(f"ERR wrong number of arguments for 'cluster|{command}' command")
    return [_slot(argument) for argument in arguments]


def _pairs(arguments: Sequence[int | str], command: str) -> Iterable[tuple[int, int]]:
    if not arguments or len(arguments) % 2:
        raise ProtocolError(f"ERR wrong number of arguments for 'cluster|{command}' command")
    for index in range(0, len(arguments), 2):
        first, last = _slot(arguments[index]), _slot(arguments[index + 1])
        if first > last:
            raise ProtocolError(f"ERR start slot number {first} is greater than end slot number {last}")
        yield first, last


def _slot(argument: int | str) -> int:
    """Parse one argument like `getSlotOrReply`: digits without sign, space or leading zero."""
    text = str(argument)
    plain = text.isascii() and text.isdigit() and len(text) <= len(str(_LONG_LONG_MAX))
    if not plain or (text[0] == "0" and text != "0") or int(text) >= SLOT_COUNT:
        raise ProtocolError("ERR Invalid or out of range slot")
    return int(text)
