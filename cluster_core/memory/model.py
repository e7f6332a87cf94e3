"""The memory model: a layout and an allocator, and what the structures of a key cost under them."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from cluster_core.memory.layouts import DICT, Layout, layout_named, layout_of, nearest_layout
from cluster_core.memory.structures import (
    ALLOCATORS,
    JEMALLOC_16,
    LIBC,
    SMALL_ALLOCATION_BYTES,
    UNIT_BITS,
    allocated_bytes,
    bucket_table_units,
    dict_slots,
    embedded_sds_bytes,
    node_units,
    sds_bytes,
    small_allocations,
)
from cluster_core.rdb.head import RdbHead


class Exactness(StrEnum):
    """How exact the figures are."""

    MODEL = "model"
    """Every key is measured by the model of the server that wrote it."""
    NAMED = "named"
    """By the model that the user named."""
    NEAREST = "nearest"
    """Some server has no model: its keys are measured by that of the nearest version, and the error is not known."""
    PARTIAL = "partial"
    """Some keys are in no figure."""


class MemoryBasis(NamedTuple):
    """The models' names (``redis 7.0, jemalloc-16``), how exact the figures are, and keys that are in none of them."""

    model: str
    exactness: Exactness
    unmeasured_keys: int

    @property
    def caveat(self) -> str:
        """What must stand behind a figure of memory; empty where the writers' own models gave it."""
        if self.exactness == Exactness.PARTIAL:
            return f"without {self.unmeasured_keys:,} key{'' if self.unmeasured_keys == 1 else 's'} that no model knows"
        if self.exactness == Exactness.NEAREST:
            return f"by the nearest model, {self.model}; error not known"
        return f"as {self.model} would hold it" if self.exactness == Exactness.NAMED else ""


MODEL, NEAREST, NAMED = range(3)
"""Whose model a key's size is: that of the server that wrote it, of the nearest version that is known, of the one that the user named."""

ESTIMATES = ("model", "nearest", "named")
"""Names of the codes."""

UNMEASURED = -1
"""Size of a key whose layout no model knows."""

OBJECT_BYTES = 16
ENTRY_BYTES = 24
QUICKLIST_BYTES = 40
LZF_BYTES = 8
PENDING_BYTES = 24
LISTPACKEX_BYTES = 32
STREAM_NODE_BYTES = 4096
"""What the last node of a stream is given in advance (``STREAM_LISTPACK_MAX_PRE_ALLOCATE``)."""

SKIPLIST_HEADER_BYTES = 24 + 32 * 16
EMBEDDED_NODE_BYTES = 16 + 1
ENTRY_EMBEDS_BYTES_MAX = 128
EXPIRY_RESERVED_KEY_BYTES = 128
LONG_ELEMENT_BYTES = 65
"""From this length on an element turns a packed value into a table, by default (``hash-max-listpack-value`` 64)."""

GUESSED_NODE_BYTES = 4 + 30 * 8
ID_BYTES = 16
TREE_BYTES = 32
LEAF_BYTES = 16
"""Parts of a radix tree (``rax``): an id in it, its head, a node that ends an id."""


class MemorySettings(NamedTuple):
    """What a dump does not say.

    *allocator* is ``auto`` or one of `ALLOCATORS`; *cluster* whether the server ran in cluster mode; *compress_depth* its
    ``list-compress-depth``; *loaded* whether its keys are as it loaded them from a file, not as commands made them; *server*
    names the layout (`LAYOUT_NAMES`) whatever the dump says, empty for the writer's.
    """

    allocator: str = "auto"
    cluster: bool = False
    compress_depth: int = 0
    loaded: bool = False
    server: str = ""


class MemoryModel(NamedTuple):
    """Sizes of keys and of their parts in bytes, or in units of 2**-14 byte where heights or chains are drawn by chance."""

    layout: Layout
    allocator: int
    cluster: bool = False
    compress_depth: int = 0
    loaded: bool = False
    estimate: int = MODEL

    def allocated(self, size: int) -> int:
        """Return what an allocation of *size* bytes takes."""
        if size < SMALL_ALLOCATION_BYTES:
            return small_allocations(self.allocator)[size]
        return allocated_bytes(self.allocator, size)

    def scored_member_units(self, length: int) -> int:
        """Return the expected size, in units, of a member of a sorted set that is a skip list."""
        if self.layout.zset_embeds:
            return node_units(self.allocator, EMBEDDED_NODE_BYTES + embedded_sds_bytes(length))
        member = self.layout.zset_entry + self.allocated(sds_bytes(length))
        return (member << UNIT_BITS) + node_units(self.allocator, 24)

    def zset_bytes(self) -> int:
        """Return what a sorted set has besides its object, table and members."""
        header = 0 if self.layout.zset_embeds else self.allocated(SKIPLIST_HEADER_BYTES)
        return self.layout.zset + header

    def keyspace_bytes(self, keys: int, expires: int) -> int:
        """Return what the tables of *keys* and of *expires* keys among them take besides what MEMORY USAGE tells of the keys."""
        if self.layout.table_kind == DICT:
            slots = dict_slots(keys, 1, True) + dict_slots(expires, 1, True)
            entry = self.allocated(ENTRY_BYTES)
            return 8 * slots + keys * (entry - ENTRY_BYTES) + expires * entry
        return sum(bucket_table_units(count, 1, False) for count in (keys, expires)) >> UNIT_BITS


def model_of(head: RdbHead, settings: MemorySettings) -> MemoryModel | None:
    """Return the model of the server that wrote a dump with this *head*, or the nearest; None for a 32-bit or an unknown kind of server."""
    layout, estimate = layout_of(head.server), MODEL
    if settings.server:
        named = layout_named(settings.server)
        layout, estimate = named, MODEL if named == layout else NAMED
    elif layout is None:
        layout, estimate = nearest_layout(head.server, head.version), NEAREST
    if layout is None or head.bits != 64:
        return None
    allocator = allocator_of(layout, settings.allocator)
    return MemoryModel(layout, allocator, settings.cluster, settings.compress_depth, settings.loaded, estimate)


def model_name(model: MemoryModel | None) -> str:
    """Return a model in words, ``redis 7.0, jemalloc-16`` or ``none``."""
    return f"{model.layout.name}, {ALLOCATORS[model.allocator]}" if model else "none"


def model_named(name: str, settings: MemorySettings) -> MemoryModel:
    """Return the model whose `model_name` is *name*, with all else as *settings* say; KeyError or ValueError where there is none."""
    layout, _, allocator = name.partition(", ")
    return MemoryModel(
        layout_named(layout.replace(" ", "-")),
        ALLOCATORS.index(allocator),
        settings.cluster,
        settings.compress_depth,
        settings.loaded,
    )


def allocator_of(layout: Layout, name: str) -> int:
    """Return the allocator's code for its *name*; for ``auto`` that of the builds that the model was measured on."""
    if name in ALLOCATORS:
        return ALLOCATORS.index(name)
    return LIBC if layout.name.startswith("valkey") else JEMALLOC_16
