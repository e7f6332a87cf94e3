"""Conditions for measuring keys again: server version, allocator, limits of packed values."""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.memory.layouts import layout_named
from cluster_core.memory.model import MemoryModel
from cluster_core.memory.structures import ALLOCATORS

SERVERS = ("redis-6.2", "redis-7.0", "redis-7.2", "redis-8.0", "valkey-8.0", "valkey-8.1", "valkey-9.0", "valkey-9.1")
"""Layouts to compare."""


class PackedLimits(NamedTuple):
    """Limits on entries and lengths of packed values; defaults of the server.

    *list_bytes* is ``list-max-listpack-size -2``.
    """

    hash_entries: int = 512
    hash_value: int = 64
    zset_entries: int = 128
    zset_value: int = 64
    set_integers: int = 512
    set_entries: int = 128
    set_value: int = 64
    list_bytes: int = 8192


class Condition(NamedTuple):
    """A server version, allocator and packed limits, with all keys as loaded from a dump."""

    model: MemoryModel
    limits: PackedLimits = PackedLimits()

    @property
    def server(self) -> str:
        """Return the version, ``redis 7.0``."""
        return self.model.layout.name

    @property
    def allocator(self) -> str:
        """Return the allocator's name."""
        return ALLOCATORS[self.model.allocator]

    def rules(self) -> tuple[int, ...]:
        """Return the limits that `cluster_core.rdb.shapes` uses to choose encodings, in the order of its names."""
        limits, types = self.limits, self.model.layout.types
        packs_sets = "SET_LISTPACK" in types
        sets = (limits.set_entries, limits.set_value) if packs_sets else (0, 0)
        embstr_rule = self.model.layout.embeds_max or 2
        return (
            limits.hash_entries, limits.hash_value, limits.zset_entries, limits.zset_value, limits.set_integers, *sets, limits.list_bytes if packs_sets else 0, int("HASH_LISTPACK" not in types), embstr_rule,
        )  # fmt: skip


def condition_subject(server: str, allocator: str) -> bytes:
    """Return the name of a change to this server and allocator."""
    return f"{server}, {allocator}".encode()


def conditions_for(own: MemoryModel) -> list[Condition]:
    """Return conditions to compare: the dump's server after a load, other allocators, then all `SERVERS`.

    Other versions use the allocator of the dump's server.
    """
    loaded = own._replace(loaded=True)
    allocators = [loaded._replace(allocator=code) for code in range(len(ALLOCATORS)) if code != own.allocator]
    layouts = [layout_named(name) for name in SERVERS]
    versions = [loaded._replace(layout=layout) for layout in layouts if layout != own.layout]
    return [Condition(model) for model in (loaded, *allocators, *versions)]
