"""Cuts of a dump: found, proved, and refused where they only look right."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rdb.crc64 import combine_crc64
from cluster_core.rdb.head import SplitError
from cluster_core.rdb.splits import find_splits
from tests.builders import rdb_builder as build
from tests.builders.rdb_rows import skim_all

VALUE = build.string("v" * 4000)


def reader(data: bytes):
    return lambda offset, count: data[offset : offset + count]


def plain(*, keys: int = 2400, dbs: int = 1) -> bytes:
    """A dump of strings, compressed ones, hashes, some that expire, in one database or several; slot info stands before some."""
    kinds = [
        lambda i: build.key(f"key-{i}", 0, build.string(b"v%d" % i * (i % 60))),
        lambda i: build.key(
            f"{{tag-{i % 7}}}:{i}", 0, build.compressed(b"ab" * (40 + i % 50)), expire_ms=2_000_000_000_000 + i
        ),
        lambda i: build.key(
            f"h:{i}", 16, build.string(build.listpack([b"field", i, b"more", b"\x00\x01\xfc" * (i % 9)]))
        ),
        lambda i: (
            (build.slot_info if i % 8 == 3 else build.slot_info_aux)(i, 1) + build.key(f"n:{i}", 0, build.integer(i))
        ),
    ]
    records = [kinds[i % 4](i) for i in range(keys)]
    step = keys // dbs
    parts = [[build.select(db), build.resize(step, 0), *records[db * step : (db + 1) * step]] for db in range(dbs)]
    return build.rdb(*(record for part in parts for record in part), magic="REDIS0010")


PLAIN = plain()


def test_ranges_between_cuts_hold_every_key_once():
    cuts = find_splits(reader(PLAIN), len(PLAIN), 3)
    whole, skimmer, _ = skim_all(PLAIN)
    parts = [
        skim_all(PLAIN, start=start or 0, end=end, head=skimmer.head if start else None)
        for start, end in pairwise([0, *cuts, None])
    ]

    assert len(cuts) == 2
    assert [abs(cut * 3 - len(PLAIN) * part) < len(PLAIN) // 4 for part, cut in enumerate(cuts, 1)] == [True] * 2
    assert [error for _, _, error in parts] == [None] * 3
    assert [row for rows, _, _ in parts for row in rows] == whole
    crc = 0
    for start, (_, part, _) in zip([0, *cuts], parts, strict=True):
        crc = combine_crc64(crc, part.crc, part.position - start)
    assert crc == skimmer.stored_crc


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(st.data())
def test_two_ranges_without_fault_are_the_whole_wherever_it_is_cut_and_whatever_is_damaged(data):
    """What begins in the midst of a value, or lies behind damage, is never taken for keys: the range before it does not end there.

    The checksum, 0 here and so not checked, is of all ranges together: who joins them checks it.
    """
    damaged = bytearray(PLAIN[:-8] + bytes(8))
    for _ in range(data.draw(st.integers(0, 2))):
        damaged[data.draw(st.integers(20, len(damaged) - 9))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.one_of(st.just(len(damaged)), st.integers(100, len(damaged)))) :]
    whole, skimmer, fault = skim_all(bytes(damaged))
    boundaries = st.sampled_from([row[11] for row in whole] or [100])
    cut = data.draw(st.one_of(boundaries, st.integers(100, len(damaged))))

    first, _, first_fault = skim_all(bytes(damaged), end=cut)
    second, _, second_fault = skim_all(bytes(damaged), start=cut, head=skimmer.head)

    is_taken = first_fault is None and second_fault is None
    is_right = fault is None and cut in {row[11] for row in whole}
    assert not is_taken or (fault is None and first + second == whole)
    assert is_taken or not is_right


def test_a_dump_stored_in_a_value_is_rejected_by_the_range_before():
    stored = b"".join(build.key(f"inner-{i}", 0, VALUE) for i in range(200))
    data = build.rdb(build.select(0), build.key("k", 0, build.string(stored)), magic="REDIS0009")

    cuts = find_splits(reader(data), len(data), 2)
    _, _, error = skim_all(data, end=cuts[0])

    assert isinstance(error, SplitError)
    assert error.reason == "split point is inside a record"


def test_a_database_that_begins_before_the_last_range_refuses_the_cut():
    data = plain(dbs=2)
    (cut,) = find_splits(reader(data), len(data), 2)
    late = next(row[11] for row in skim_all(data)[0] if row[11] > cut + 1000)

    _, _, error = skim_all(data, end=late)

    assert isinstance(error, SplitError)
    assert "database 1 begins" in error.reason
