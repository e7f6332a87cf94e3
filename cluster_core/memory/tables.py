"""Hash tables at their growth: how large a table is that elements were inserted into one by one.

A dump does not hold table sizes.  These are the sizes right after the last insertion; whoever reads afterwards moves an unfinished
rehash on, and a server that has loaded the dump has made its tables in one go (see docs/design/memory-model.md).  A table is *presized* where
the server knew how many elements would come: it converts a packed value, or is told all members by one command.
"""

from __future__ import annotations

from functools import cache
from math import exp

UNIT_BITS = 14
"""Expectations are whole numbers of 1 / 2**14 byte, so that sums do not depend on their order."""

BUCKET_BYTES = 64
BUCKET_ENTRIES = 7
_CHILD_ENTRIES = BUCKET_ENTRIES - 1
_LOAD_MAX = 32
_CHANCE_MIN = 1e-7  # of a bucket's load: a rarer one adds nothing
_CHILDREN = tuple(max(0, -(-(load - BUCKET_ENTRIES) // _CHILD_ENTRIES)) for load in range(_LOAD_MAX + 1))
"""How many further buckets a chain has by its elements (`bucketConvertToChained`)."""

SMALL_MAX = 512
"""Up to here the chains of a bucket table are counted exactly, beyond as if elements fell independently."""

LOADS = 32
"""Steps of the average bucket load, one element, at which chains are tabulated."""


def dict_slots(count: int, steps: int, presized: bool) -> int:
    """Return the slots of the table or, while it grows, of both tables of a ``dict`` of *count* elements (`dictSlots`).

    A table doubles when it is full (`_dictExpandIfNeeded`), and every insertion moves *steps* of the buckets that are not empty,
    which are 1 - 1/e of them.
    """
    if count <= 4:
        return 4
    old = 1 << ((count - 1).bit_length() - 1)
    if presized:
        return 2 * old
    return 2 * old if (count - old - 1) * steps >= (old * 647) >> 10 else 3 * old


def bucket_table_units(count: int, steps: int, presized: bool) -> int:
    """Return the expected size of the buckets of a ``hashtable`` of *count* elements, in units (`hashtableMemUsage`).

    Buckets of 64 bytes hold 7 elements, chained ones 6; the table doubles when it has 7 elements a bucket
    (``MAX_FILL_PERCENT_SOFT``), and every insertion moves *steps* buckets.  A *presized* one has at most 6.4 elements a bucket
    (`nextBucketExp`).
    """
    if count <= SMALL_MAX:
        return small_tables(0 if presized else steps)[count]
    buckets = 1 << ((count + BUCKET_ENTRIES - 1) // BUCKET_ENTRIES - 1).bit_length()
    children = chained_units()
    old = buckets >> 1
    moved = (count - BUCKET_ENTRIES * old - 1) * steps
    if presized:
        buckets, moved = 1 << ((count * 5 - 1) // 32).bit_length(), old
    load = children[count * LOADS // buckets]
    if moved >= old:
        return (buckets << UNIT_BITS) * BUCKET_BYTES + buckets * load
    full = children[BUCKET_ENTRIES * LOADS]
    return ((buckets + old) << UNIT_BITS) * BUCKET_BYTES + (old - moved) * full + 2 * moved * load


@cache
def small_tables(steps: int) -> tuple[int, ...]:
    """Return `bucket_table_units` of 0 to `SMALL_MAX` elements; 0 *steps* are those of a presized table."""
    return tuple(_small_table(count, steps) for count in range(SMALL_MAX + 1))


def _small_table(count: int, steps: int) -> int:
    if not count:
        return 0
    buckets = 1 << ((count + BUCKET_ENTRIES - 1) // BUCKET_ENTRIES - 1).bit_length()
    old = buckets >> 1
    moved = (count - BUCKET_ENTRIES * old - 1) * steps
    if not steps:
        buckets, moved = 1 << ((count * 5 - 1) // 32).bit_length(), old
    bytes_ = buckets * (BUCKET_BYTES + _chained_bytes(count, buckets))
    if moved < old:
        bytes_ = BUCKET_BYTES * (buckets + old) + (old - moved) * _chained_bytes(BUCKET_ENTRIES * old, old)
        bytes_ += 2 * moved * _chained_bytes(count, buckets)
    return round(bytes_ * (1 << UNIT_BITS))


@cache
def _chained_bytes(count: int, buckets: int) -> float:
    """Return the expected bytes of further buckets behind one of *buckets* that *count* elements fall into."""
    if buckets == 1:
        return _CHILDREN[count] * BUCKET_BYTES
    odds = 1 / (buckets - 1)
    chance, expected = (1 - 1 / buckets) ** count, 0.0
    for load in range(1, min(count, _LOAD_MAX) + 1):
        chance *= odds * (count - load + 1) / load
        if load > BUCKET_ENTRIES:
            expected += chance * _CHILDREN[load]
            if chance < _CHANCE_MIN:
                break
    return expected * BUCKET_BYTES


@cache
def chained_units() -> tuple[int, ...]:
    """Return the expected units of further buckets behind one, by its average load in steps of 1 / `LOADS`."""
    found = []
    for step in range(BUCKET_ENTRIES * LOADS + 1):
        mean = step / LOADS
        chance, expected = exp(-mean), 0.0
        for load in range(1, _LOAD_MAX + 1):
            chance *= mean / load
            expected += chance * _CHILDREN[load]
        found.append(round(expected * BUCKET_BYTES * (1 << UNIT_BITS)))
    return tuple(found)
