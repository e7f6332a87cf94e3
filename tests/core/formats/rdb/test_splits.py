"""Cuts of a cluster node's dump: found, proved, and refused where they only look right."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb.crc64 import combine_crc64
from cluster_core.formats.rdb.facts import SplitError
from cluster_core.kernels.rdb.splits import find_splits, next_slot_boundary
from cluster_core.slots.key_slot import key_slot
from tests.builders import rdb_builder as build
from tests.reference.rdb.skimming import skim_all

VALUE = build.string("v" * 4000)


def slotted(info, *, keys: int = 300, wrong: int = 0) -> list[bytes]:
    """Records of *keys* keys by slot, each slot's after its info; *wrong* is added to what is declared."""
    by_slot: dict[int, list[str]] = {}
    for index in range(keys):
        by_slot.setdefault(key_slot(b"key-%d" % index), []).append(f"key-{index}")
    records = []
    for slot in sorted(by_slot):
        records.append(info(slot, len(by_slot[slot]) + wrong))
        records += [build.key(name, 0, VALUE) for name in by_slot[slot]]
    return records


def reader(data: bytes):
    return lambda offset, count: data[offset : offset + count]


DIALECTS = pytest.mark.parametrize(
    ("magic", "info"),
    [("VALKEY080", build.slot_info_aux), ("REDIS0011", build.slot_info_aux), ("REDIS0012", build.slot_info)],
)
TWINS = pytest.mark.parametrize("compiled", [True, False])


@DIALECTS
@TWINS
def test_ranges_between_cuts_hold_every_key_once(magic: str, info, compiled: bool):
    data = build.rdb(build.select(0), build.resize(300, 0), *slotted(info), magic=magic)

    cuts = find_splits(reader(data), len(data), 4)
    whole, skimmer, _ = skim_all(data)
    bounds = [0, *cuts, None]
    parts = [
        skim_all(data, start=start or 0, end=end, head=skimmer.head if start else None, compiled=compiled)
        for start, end in pairwise(bounds)
    ]

    assert len(cuts) == 3
    assert [abs(cut * 4 - len(data) * part) < len(data) // 8 for part, cut in enumerate(cuts, 1)] == [True] * 3
    assert [error for _, _, error in parts] == [None] * 4
    assert [row for rows, _, _ in parts for row in rows] == whole
    crc = 0
    for start, (_, part, _) in zip(bounds, parts, strict=False):
        crc = combine_crc64(crc, part.crc, part.position - (start or 0))
    assert crc == skimmer.stored_crc


@DIALECTS
@TWINS
def test_a_value_that_imitates_whole_slots_is_found_out_by_the_range_before_it(magic: str, info, compiled: bool):
    """No proof withstands a user who stores a piece of a dump; the reader of a range must land on its end."""
    imitation = b"".join(slotted(info))
    records = [info(key_slot(b"k"), 1), build.key("k", 0, build.string(imitation))]
    data = build.rdb(build.select(0), *records, magic=magic)

    cuts = find_splits(reader(data), len(data), 2)
    rows, _, error = skim_all(data, end=cuts[0], compiled=compiled)

    assert rows == []
    assert isinstance(error, SplitError)
    assert error.reason == "split point is inside a record"
    assert error.offset == cuts[0]


def test_a_file_without_slot_info_is_not_cut():
    data = build.rdb(build.select(0), *(build.key(f"k{i}", 0, VALUE) for i in range(200)))

    assert find_splits(reader(data), len(data), 4) == []


def test_a_small_file_is_not_cut():
    assert find_splits(reader(b"REDIS0011"), 9, 4) == []


def test_a_declared_count_that_is_wrong_is_no_boundary():
    data = build.rdb(build.select(0), *slotted(build.slot_info_aux, wrong=1), magic="VALKEY080")

    assert find_splits(reader(data), len(data), 3) == []


def test_a_value_that_looks_like_slot_info_is_no_boundary():
    fake = build.string(build.slot_info_aux(5, 1) + bytes(5000) + build.slot_info_aux(6, 1))
    records = [build.slot_info_aux(key_slot(b"k"), 60), *[build.key("k", 0, fake)] * 60]
    data = build.rdb(build.select(0), *records, magic="VALKEY080")

    assert find_splits(reader(data), len(data), 2) == []


def test_the_next_boundary_after_damage_is_found():
    records = slotted(build.slot_info_aux)
    data = build.rdb(build.select(0), *records, magic="VALKEY080")
    whole, _, _ = skim_all(data)
    boundary = next_slot_boundary(reader(data), len(data), len(data) // 2)

    assert boundary is not None
    rows, _, error = skim_all(data, start=boundary, head=skim_all(data)[1].head)
    assert error is None
    assert rows == [row for row in whole if row[11] > boundary]
    assert next_slot_boundary(reader(data), len(data), len(data) - 100) is None


def test_what_is_no_rdb_raises():
    with pytest.raises(DecodeError, match="AOF"):
        find_splits(reader(b"*" * 1_000_000), 1_000_000, 2)
