"""Each structure of the memory model against what servers replied to MEMORY USAGE, or what their source says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.memory.layouts import DICT, layout_of
from cluster_core.memory.model import MemoryModel
from cluster_core.memory.structures import (
    BUCKET_BYTES,
    JEMALLOC,
    JEMALLOC_16,
    LIBC,
    UNIT_BITS,
    allocated_bytes,
)
from cluster_core.rdb.grammar import EMBSTR, INT, RAW
from cluster_core.rdb.memory_sizes import TABLE, TABLE_KIND, field_size, model_array, string_size, table_units
from cluster_core.rdb.skim_state import STATE_LENGTH
from cluster_core.rdb.walk_packed import add_to_tree, begin_tree, end_tree


class Model:
    """What a walk takes values of one server and allocator for."""

    def __init__(self, server: str, allocator: int) -> None:
        layout = layout_of(server)
        assert layout is not None
        self._numbers = model_array(MemoryModel(layout, allocator))

    def string_bytes(self, key_length: int, expires: bool, encoding: int, length: int) -> int:
        return int(string_size(self._numbers, key_length, expires, (INT, EMBSTR, RAW)[encoding], length))

    def field_bytes(self, length: int, value_length: int, expires: bool) -> int:
        return int(field_size(self._numbers, length, value_length, expires))

    def slots(self, count: int, steps: int, presized: bool) -> float:
        """Slots, or buckets with their chains, of a table of *count* elements."""
        m = self._numbers
        units = int(table_units(m, count, steps, presized)) - (int(m[TABLE]) << UNIT_BITS)
        return units / ((8 if m[TABLE_KIND] == DICT else BUCKET_BYTES) << UNIT_BITS)

    def tree_bytes(self, ids: list[bytes]) -> int:
        """What a radix tree of *ids* takes, which rise."""
        state = np.zeros(STATE_LENGTH, np.int64)
        begin_tree(state)
        for id_ in ids:
            add_to_tree(np.frombuffer(id_, np.uint8), 0, state, self._numbers)
        return int(end_tree(state, self._numbers))


@pytest.mark.parametrize(
    ("allocator", "sizes"),
    [
        (JEMALLOC, {1: 8, 9: 16, 17: 24, 33: 40, 49: 56, 64: 64, 65: 80, 129: 160, 1025: 1280, 100_000: 114_688}),
        (JEMALLOC_16, {1: 8, 9: 16, 17: 32, 33: 48, 49: 64, 65: 80, 129: 160, 14_337: 16_384, 1_000_000: 1_048_576}),
        (LIBC, {1: 24, 24: 24, 25: 40, 41: 56, 1000: 1000, 1001: 1016, 200_009: 200_688, 1_000_009: 1_003_504}),
    ],
)
def test_an_allocation_takes_its_size_class(allocator: int, sizes: dict[int, int]):
    assert {size: allocated_bytes(allocator, size) for size in sizes} == sizes


def test_redis_strings_are_as_redis_7_0_15_replied():
    """Key ``k``; lengths of the value and MEMORY USAGE, recorded on a build with jemalloc of quantum 16."""
    redis = Model("redis 7.0.15", JEMALLOC_16)
    embedded = {length: redis.string_bytes(1, False, 1, length) for length in (1, 12, 13, 28, 29, 44)}
    raw = {length: redis.string_bytes(1, False, 2, length) for length in (45, 60, 61, 127, 256, 100_000, 1_000_000)}

    assert embedded == {1: 64, 12: 64, 13: 80, 28: 80, 29: 96, 44: 96}
    assert raw == {45: 112, 60: 112, 61: 128, 127: 208, 256: 368, 100_000: 114_736, 1_000_000: 1_048_624}
    assert [redis.string_bytes(length, False, 0, 1) for length in (1, 7, 15, 31, 255)] == [48, 56, 72, 88, 360]


def test_valkey_strings_are_as_valkey_9_1_2_replied():
    """Keys of ``k``; recorded on a build with glibc's malloc."""
    valkey = Model("valkey 9.1.2", LIBC)
    embedded = {length: valkey.string_bytes(1, False, 1, length) for length in (1, 8, 9, 24, 25, 100)}
    raw = {length: valkey.string_bytes(1, False, 2, length) for length in (127, 256, 1000, 200_000, 1_000_000)}

    assert embedded == {1: 24, 8: 24, 9: 40, 24: 40, 25: 56, 100: 120}
    assert raw == {127: 160, 256: 288, 1000: 1040, 200_000: 200_712, 1_000_000: 1_003_528}
    assert [valkey.string_bytes(length, False, 0, 1) for length in (1, 6, 22, 127, 128)] == [24, 40, 56, 152, 168]
    assert [valkey.string_bytes(length, True, 0, 1) for length in (1, 14, 30, 128)] == [40, 56, 72, 168]


@pytest.mark.parametrize(
    ("field", "value", "expires", "size"),
    [(2, 0, False, 24), (2, 100, False, 120), (2, 124, False, 160), (10, 0, True, 40), (10, 12, True, 40)],
)
def test_a_field_of_valkey_9_embeds_values_that_fit(field: int, value: int, expires: bool, size: int):
    """`entryMemUsage`: up to 128 bytes are one allocation; beyond, the value is a string of its own."""
    assert Model("valkey 9.1.2", LIBC).field_bytes(field, value, expires) == size


@given(
    st.sets(st.binary(min_size=16, max_size=16) | st.integers(0, 700).map(lambda n: n.to_bytes(16, "big")), max_size=60)
)
def test_a_tree_has_the_nodes_of_the_tree_that_was_built(ids: set[bytes]):
    nodes: list[int] = []
    _build(sorted(ids), 0, nodes)
    expected = sum(allocated_bytes(JEMALLOC, size) for size in nodes) + allocated_bytes(JEMALLOC, 32)

    assert Model("valkey 9.1.2", JEMALLOC).tree_bytes(sorted(ids)) == expected


def _build(ids: list[bytes], depth: int, nodes: list[int]) -> None:
    """Build a compressed tree by its definition: chains between branches, leaves at the end."""
    if not ids:
        nodes.append(8)
        return
    end = depth
    while end < 16 and all(id_[end] == ids[0][end] for id_ in ids):
        end += 1
    if end > depth:
        nodes.append(8 + ((4 + end - depth + 7) & ~7))  # `raxNodeCurrentLength`
    if end == 16:
        nodes.append(16)
        return
    heads = sorted({id_[end] for id_ in ids})
    nodes.append(8 * len(heads) + ((4 + len(heads) + 7) & ~7))
    for head in heads:
        _build([id_ for id_ in ids if id_[end] == head], end + 1, nodes)
