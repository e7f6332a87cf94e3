"""Heavy groups of keys, one key at a time: what `cluster_core.kernels.keys.group_tally` is compared with."""

from __future__ import annotations

from cluster_core.kernels.keys.group_tally import NAME_BYTES_MAX, GroupRow


class GroupTally:
    """The same rows for the same additions."""

    def __init__(self, capacity: int = 65536) -> None:
        if capacity < 16:
            raise ValueError("a group tally needs room for at least 16 groups")
        self.capacity = capacity
        self.missed_keys = 0
        self.missed_bytes = 0
        self.missed_memory = 0
        self.untracked_keys = 0
        self._groups: dict[bytes, list[int]] = {}

    def reserve(self, count: int) -> None:
        """Make room for *count* new groups, dropping light ones if the table could overflow."""
        if len(self._groups) + count > self.capacity:
            self._prune()

    def add(self, name: bytes, depth: int, *counts: int) -> None:
        """Count one key of the group *name*; *counts* are its bytes, its bytes in memory, and 1 if it expires."""
        if len(name) > NAME_BYTES_MAX:
            self.untracked_keys += 1
            return
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = [
                depth, 0, 0, 0, 0, self.missed_keys, self.missed_bytes, self.missed_memory,
            ]  # fmt: skip
        for column, count in enumerate((1, *counts), start=1):
            group[column] += max(count, 0)

    def add_tagged(self, hash_tag: bytes, *counts: int) -> None:
        """Count one key under its hash tag."""
        if len(hash_tag) <= NAME_BYTES_MAX:
            self.reserve(1)
        self.add(hash_tag, 0, *counts)

    def add_prefixes(self, key: bytes, separators: bytes, depth_max: int, *counts: int) -> None:
        """Count one key under each of its first *depth_max* prefixes that end in a byte of *separators*."""
        self.reserve(depth_max)
        depth = 0
        for index, byte in enumerate(key):
            if byte in separators:
                depth += 1
                self.add(key[: index + 1], depth, *counts)
                if depth == depth_max:
                    return

    def rows(self) -> list[GroupRow]:
        """Return all groups held, in the order of their names."""
        return [GroupRow(name, *self._groups[name]) for name in sorted(self._groups)]

    def _prune(self) -> None:
        keep = self.capacity // 4
        cuts = [
            sorted((group[column] for group in self._groups.values()), reverse=True)[keep - 1] for column in (1, 2, 3)
        ]
        kept = {}
        for name, group in self._groups.items():
            if any(weight > cut for weight, cut in zip(group[1:4], cuts, strict=True)):
                kept[name] = group
            else:
                self.missed_keys = max(self.missed_keys, group[1] + group[5])
                self.missed_bytes = max(self.missed_bytes, group[2] + group[6])
                self.missed_memory = max(self.missed_memory, group[3] + group[7])
        self._groups = kept
