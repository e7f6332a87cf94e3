"""Numbers for what has no place in an array: sets of slots, shard ids, addresses, paths of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_core.sim.fast import gossip_fields as at
from cluster_core.wire.bus import SLOT_BITMAP_BYTES

if TYPE_CHECKING:
    from cluster_core.sim.fast.store import Store
    from cluster_core.sim.network_paths import Path


class Numbers:
    """Gives each value a number, in the order in which they come; the store is told what the loop must know of them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.addresses: list[tuple[str, int, int, int]] = []
        self.shards: list[str] = [""]
        self.sets: list[int] = [0]
        self._bitmaps: list[bytes] = [bytes(SLOT_BITMAP_BYTES)]
        self._of_slots: dict[int, int] = {0: 0}
        self._of_shards: dict[str, int] = {"": 0}
        self._of_addresses: dict[tuple[str, int, int, int], int] = {}
        self._of_paths: dict[tuple[int, int, float], int] = {}

    def slots(self, slots: int) -> int:
        """The number of a set of slots."""
        number = self._of_slots.get(slots)
        if number is None:
            number = self._of_slots[slots] = len(self.sets)
            self.sets.append(slots)
            self._bitmaps.append(b"")
            self.store.count_slots(number, slots.bit_count())
        return number

    def bitmap(self, number: int) -> bytes:
        """The bitmap of a set of slots."""
        raw = self._bitmaps[number]
        if not raw:
            raw = self._bitmaps[number] = self.sets[number].to_bytes(SLOT_BITMAP_BYTES, "little")
        return raw

    def shard(self, shard: str) -> int:
        """The number of a shard id."""
        number = self._of_shards.get(shard)
        if number is None:
            number = self._of_shards[shard] = len(self.shards)
            self.shards.append(shard)
        return number

    def address(self, ip: str, port: int, cport: int, pport: int) -> int:
        """The number of an address."""
        value = (ip, port, cport, pport)
        number = self._of_addresses.get(value)
        if number is None:
            number = self._of_addresses[value] = len(self.addresses)
            self.addresses.append(value)
        return number

    def path(self, path: Path) -> int:
        """The number of a path, NONE for one that the loop does not know."""
        if path.is_blocked or path.duplicate or path.reorder:
            return at.NONE
        key = (path.delay_us, path.jitter_us, path.loss)
        number = self._of_paths.get(key)
        if number is None:
            number = len(self._of_paths)
            if not self.store.set_path(number, *key):
                return at.NONE
            self._of_paths[key] = number
        return number
