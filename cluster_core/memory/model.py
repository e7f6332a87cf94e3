"""The memory model: a layout, an allocator, and the resulting sizes of a key's structures."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from cluster_core.memory.layouts import Layout, layout_named, layout_of, nearest_layout
from cluster_core.memory.structures import (
    ALLOCATORS,
    JEMALLOC_16,
    LIBC,
    SMALL_ALLOCATION_BYTES,
    allocated_bytes,
    small_allocations,
)
from cluster_core.rdb.head import RdbHead


class Exactness(StrEnum):
    """Accuracy of memory figures."""

    MODEL = "model"
    """Every key is measured by the model of its server version."""
    NAMED = "named"
    """The user chose the model."""
    NEAREST = "nearest"
    """Some servers have no model: the nearest version's is used, with unknown error."""
    PARTIAL = "partial"
    """Some keys are not measured."""


class MemoryBasis(NamedTuple):
    """Names of the models (``redis 7.0, jemalloc-16``), their accuracy, and the number of unmeasured keys."""

    model: str
    exactness: Exactness
    unmeasured_keys: int

    @property
    def caveat(self) -> str:
        """Return the caveat of a memory figure; empty if the writers' own models gave it."""
        if self.exactness == Exactness.PARTIAL:
            return f"without {self.unmeasured_keys:,} key{'' if self.unmeasured_keys == 1 else 's'} that no model knows"
        if self.exactness == Exactness.NEAREST:
            return f"by the nearest model, {self.model}; error not known"
        return f"as {self.model} would hold it" if self.exactness == Exactness.NAMED else ""


MODEL, NEAREST, NAMED = range(3)
"""Model of a key's size: its server version's, the nearest version's or the user's choice."""

ESTIMATES = ("model", "nearest", "named")
"""Names of the codes."""

UNMEASURED = -1
"""Size of a key without a model."""

OBJECT_BYTES = 16
ENTRY_BYTES = 24
QUICKLIST_BYTES = 40
LZF_BYTES = 8
PENDING_BYTES = 24
LISTPACKEX_BYTES = 32
STREAM_NODE_BYTES = 4096
"""Preallocated bytes of a stream's last node (``STREAM_LISTPACK_MAX_PRE_ALLOCATE``)."""

SKIPLIST_HEADER_BYTES = 24 + 32 * 16
EMBEDDED_NODE_BYTES = 16 + 1
ENTRY_EMBEDS_BYTES_MAX = 128
EXPIRY_RESERVED_KEY_BYTES = 128
LONG_ELEMENT_BYTES = 65
"""Element length that converts a packed value to a table by default (``hash-max-listpack-value`` 64)."""

GUESSED_NODE_BYTES = 4 + 30 * 8
ID_BYTES = 16
TREE_BYTES = 32
LEAF_BYTES = 16
"""Bytes of the parts of a radix tree (``rax``): an id, the head, a node that ends an id."""


class MemorySettings(NamedTuple):
    """Server settings that a dump does not record.

    *allocator*: ``auto`` or one of `ALLOCATORS`; *cluster*: cluster mode; *loaded*: keys loaded from a file, not built by
    commands; *server*: layout (`LAYOUT_NAMES`), empty for the writer's.
    """

    allocator: str = "auto"
    cluster: bool = False
    loaded: bool = False
    server: str = ""


class MemoryModel(NamedTuple):
    """Sizes of keys and their parts in bytes, or in units of 2**-14 byte where they are expected values."""

    layout: Layout
    allocator: int
    cluster: bool = False
    loaded: bool = False
    estimate: int = MODEL

    def allocated(self, size: int) -> int:
        """Return the bytes allocated for *size*."""
        if size < SMALL_ALLOCATION_BYTES:
            return small_allocations(self.allocator)[size]
        return allocated_bytes(self.allocator, size)

    def zset_bytes(self) -> int:
        """Return the bytes of a sorted set besides its object, table and members."""
        header = 0 if self.layout.zset_embeds else self.allocated(SKIPLIST_HEADER_BYTES)
        return self.layout.zset + header


def model_of(head: RdbHead, settings: MemorySettings) -> MemoryModel | None:
    """Return the model of the dump's server version, or the nearest; None for 32-bit or unknown servers."""
    layout, estimate = layout_of(head.server), MODEL
    if settings.server:
        named = layout_named(settings.server)
        layout, estimate = named, MODEL if named == layout else NAMED
    elif layout is None:
        layout, estimate = nearest_layout(head.server, head.version), NEAREST
    if layout is None or head.bits != 64:
        return None
    allocator = allocator_of(layout, settings.allocator)
    return MemoryModel(layout, allocator, settings.cluster, settings.loaded, estimate)


def model_name(model: MemoryModel | None) -> str:
    """Return the model's name, ``redis 7.0, jemalloc-16`` or ``none``."""
    return f"{model.layout.name}, {ALLOCATORS[model.allocator]}" if model else "none"


def model_named(name: str, settings: MemorySettings) -> MemoryModel:
    """Return the model with this `model_name`, other settings from *settings*; KeyError or ValueError if unknown."""
    layout, _, allocator = name.partition(", ")
    return MemoryModel(
        layout_named(layout.replace(" ", "-")),
        ALLOCATORS.index(allocator),
        settings.cluster,
        settings.loaded,
    )


def allocator_of(layout: Layout, name: str) -> int:
    """Return the allocator's code; ``auto`` is the allocator of the measured builds."""
    if name in ALLOCATORS:
        return ALLOCATORS.index(name)
    return LIBC if layout.name.startswith("valkey") else JEMALLOC_16
