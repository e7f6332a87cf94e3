"""Owner of each slot."""

from __future__ import annotations

from collections.abc import Mapping

from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet


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
