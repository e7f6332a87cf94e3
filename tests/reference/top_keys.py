"""The largest keys of each group, one key at a time: what `cluster_core.kernels.keys.top_keys` is compared with."""

from __future__ import annotations

from cluster_core.kernels.keys.top_keys import TopKey


class TopKeys:
    """The *count* largest keys of each group.

    Of equally large keys the one that came first stays, so the result does not depend on how the input was cut.
    """

    def __init__(self, group_count: int, count: int) -> None:
        self._count = count
        self._groups: list[list[TopKey]] = [[] for _ in range(group_count)]

    def add(self, key: TopKey) -> None:
        """Offer one key."""
        held = self._groups[key.group]
        if len(held) == self._count:
            if not held or weight(key) <= weight(held[-1]):
                return
            held.pop()
        place = len(held)
        while place and weight(held[place - 1]) < weight(key):
            place -= 1
        held.insert(place, key)

    def rows(self) -> list[TopKey]:
        """Return the keys held, by group, largest first."""
        return [key for held in self._groups for key in held]


def weight(key: TopKey) -> int:
    """Bytes in memory where they are known, else those of the record."""
    return key.memory_bytes if key.memory_bytes >= 0 else key.serialized_bytes
