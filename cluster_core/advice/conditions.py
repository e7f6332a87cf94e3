"""Conditions under which the memory of keys is measured once more: a server version, an allocator, its limits of packed values."""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.memory.layouts import layout_named
from cluster_core.memory.model import MemoryModel
from cluster_core.memory.structures import ALLOCATORS

SERVERS = ("redis-6.2", "redis-7.0", "redis-7.2", "redis-8.0", "valkey-8.0", "valkey-8.1", "valkey-9.0", "valkey-9.1")
"""Layouts that are compared."""


class PackedLimits(NamedTuple):
    """Up to how many entries, and how long ones, a server packs; its own settings' defaults.  *list_bytes* is ``list-max-listpack-size -2``."""

    hash_entries: int = 512
    hash_value: int = 64
    zset_entries: int = 128
    zset_value: int = 64
    set_integers: int = 512
    set_entries: int = 128
    set_value: int = 64
    list_bytes: int = 8192


class Condition(NamedTuple):
    """A server version with its allocator, in which all keys are as loaded from a dump, and its limits of packed values."""

    model: MemoryModel
    limits: PackedLimits = PackedLimits()

    @property
    def server(self) -> str:
        """The version, ``redis 7.0``."""
        return self.model.layout.name

    @property
    def allocator(self) -> str:
        """The allocator's name."""
        return ALLOCATORS[self.model.allocator]

    def rules(self) -> tuple[int, ...]:
        """The numbers that `cluster_core.rdb.shapes` decides encodings by, in the order of its names."""
        limits, types = self.limits, self.model.layout.types
        packs_sets = "SET_LISTPACK" in types
        sets = (limits.set_entries, limits.set_value) if packs_sets else (0, 0)
        embstr_rule = self.model.layout.embeds_max or 2
        return (
            limits.hash_entries, limits.hash_value, limits.zset_entries, limits.zset_value, limits.set_integers, *sets, limits.list_bytes if packs_sets else 0, int("HASH_LISTPACK" not in types), embstr_rule,
        )  # fmt: skip


def condition_subject(server: str, allocator: str) -> bytes:
    """What a change to that server and allocator is called."""
    return f"{server}, {allocator}".encode()


def conditions_for(own: MemoryModel) -> list[Condition]:
    """Return the conditions to compare: the dump's own server after a load first, then it with each other allocator, then all `SERVERS`.

    Other versions are measured with the allocator that the dump's server has.
    """
    loaded = own._replace(loaded=True)
    allocators = [loaded._replace(allocator=code) for code in range(len(ALLOCATORS)) if code != own.allocator]
    layouts = [layout_named(name) for name in SERVERS]
    versions = [loaded._replace(layout=layout) for layout in layouts if layout != own.layout]
    return [Condition(model) for model in (loaded, *allocators, *versions)]
