"""Nodes of a skip list, whose height is drawn: the expected allocation."""

from __future__ import annotations

from cluster_core.memory.allocators import allocated_bytes

LEVEL_BYTES = 16
LEVEL_WEIGHTS = (12_288, 3072, 768, 192, 48, 12, 3, 1)
"""Chances of the heights 1, 2, 3, … in units (``ZSKIPLIST_P`` = 1/4); the last stands for all above."""


def node_units(allocator: int, fixed_bytes: int) -> int:
    """Return the expected allocation of a node of *fixed_bytes* and 16 bytes a level, in units of `tables.UNIT_BITS`."""
    units = 0
    for level, weight in enumerate(LEVEL_WEIGHTS, 1):
        units += weight * allocated_bytes(allocator, fixed_bytes + level * LEVEL_BYTES)
    return units
