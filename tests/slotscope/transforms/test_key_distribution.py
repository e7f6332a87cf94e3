"""Partial sums to the rows of a snapshot: small frames in, small frames out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cluster_core.load.key_use import TTL_LABELS
from schemas.interim import (
    BAD,
    LOG_SLOT,
    OWNER,
    PREFIX,
    RANGE,
    SLOT,
    TAG,
    TOP_OWNER,
    TOP_SLOT,
    TOP_TYPE,
    TTL,
    UNIT,
)
from slotscope.runtime.spark.spark_schema import spark_frame
from slotscope.transforms import snapshot_tables
from slotscope.transforms.partial_sums import LOADS, PartialSums, with_node
from slotscope.transforms.snapshot_tables import SnapshotTables
from slotscope.transforms.snapshot_warnings import Foreign
from tests.builders import partial_rows
from tests.builders.partial_tables import assert_rows, partial_table

A, B = "a" * 40, "b" * 40
SLOTS = ", ".join(("slot", "node_id", "owner_id", *LOADS))


@pytest.fixture(params=["here", pytest.param("kept by Spark", marks=pytest.mark.spark)])
def sums(request):
    """What holds the rows: the driver, or Spark in two pieces; every test that asks for it runs both ways."""
    spark = None if request.param == "here" else request.getfixturevalue("spark")

    def hold(rows):
        told = rows.filter(pc.equal(rows["kind"], UNIT))
        return PartialSums(rows if spark is None else spark_frame(spark, rows), told, pieces=2)

    return hold


@pytest.fixture
def tables(sums):
    """What makes the tables of rows."""

    def make(rows, nodes=None, known=(), top=5, top_per_slot=1, groups=5):
        return SnapshotTables(sums(rows), nodes, frozenset(known), top, top_per_slot, groups)

    return make


def slot_loads(*rows):
    """Rows of ``silver/slot_load``, in the order of `SLOTS`."""
    types = [pa.int32(), pa.string(), pa.string(), *[pa.int64()] * len(LOADS)]
    schema = pa.schema(list(zip(SLOTS.split(", "), types, strict=True)))
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


# -- whose data a row is -----------------------------------------------------------------------------------------------


def test_a_row_belongs_to_the_node_of_its_file_else_to_the_owner_of_its_slot():
    rows = partial_table(
        {"kind": SLOT, "slot": 1, "owner_id": B}, {"kind": SLOT, "slot": 2, "owner_id": B, "source": "list.txt"},
        {"kind": SLOT, "slot": 3, "source": "list.txt"},
    )  # fmt: skip
    found = with_node(rows, {"a.rdb": A, "list.txt": None})

    assert_rows(found, "slot, node_id", (1, A), (2, B), (3, None))


# -- slots -------------------------------------------------------------------------------------------------------------


def test_keys_are_summed_where_they_lie_and_idle_slots_have_a_row_of_their_owner(tables):
    """Slot 1 in two parts, slot 2 on a node that does not own it, slot 3 without keys, slot 4 of nobody."""
    rows = partial_table(
        {"kind": SLOT, "slot": 1, "owner_id": A, "keys": 2, "serialized_bytes": 10, "expires": 1},
        {"kind": SLOT, "slot": 1, "owner_id": A, "keys": 3, "serialized_bytes": 5, "expires": 0, "part": 1},
        {"kind": SLOT, "slot": 2, "owner_id": B, "keys": 1, "serialized_bytes": 7, "expires": 0},
    )  # fmt: skip
    found = tables(rows, {"a.rdb": A}, ("serialized_bytes", "expires")).slot_load([A, A, B, B, None])

    assert_rows(
        found, SLOTS, (1, A, A, 5, 15, None, 1, None), (2, A, B, 1, 7, None, 0, None), (2, B, B, 0, 0, None, 0, None),
        (3, B, B, 0, 0, None, 0, None), (0, A, A, 0, 0, None, 0, None), (4, None, None, 0, 0, None, 0, None),
    )  # fmt: skip


def test_the_empty_row_of_nobody_goes_when_somebody_holds_the_slot(tables):
    rows = partial_table({"kind": SLOT, "slot": 0, "keys": 1, "serialized_bytes": 9})
    found = tables(rows, {"a.rdb": A}, ("serialized_bytes",)).slot_load([None])

    assert_rows(found, SLOTS, (0, A, None, 1, 9, None, None, None))


def test_writes_of_a_log_are_operations_and_their_bytes_no_size_of_keys(tables):
    """A slot that was only written has no keys; one of a base without writes has no row of its own."""
    rows = partial_table(
        {"kind": LOG_SLOT, "slot": 0, "owner_id": A, "ops": 4, "serialized_bytes": 400},
        {"kind": LOG_SLOT, "slot": 1, "owner_id": A, "ops": 0, "serialized_bytes": 100},
    )  # fmt: skip
    found = tables(rows, {"a.rdb": A}, ("ops",)).slot_load([A, A])

    assert_rows(found, SLOTS, (0, A, A, 0, None, None, None, 4), (1, A, A, 0, None, None, None, 0))


# -- nodes -------------------------------------------------------------------------------------------------------------

NODE_LOADS = "node_id, address, slots, keys, keys_share, keys_over_mean, bytes_share, bytes_over_mean, unread_share"


def test_a_node_has_the_sums_of_its_slots_and_its_share_of_all():
    """B holds a key of a slot that A owns: the key counts for B, the slot for A; C holds nothing."""
    slots = slot_loads(
        (1, A, A, 6, 30, None, None, None),
        (2, B, B, 1, 8, None, None, None),
        (1, B, A, 1, 2, None, None, None),
    )
    nodes = {A: "h:1", B: "h:2", "c": "h:3"}

    found = snapshot_tables.node_load(slots, nodes, {B: 0.25, "c": None})

    assert_rows(
        found, NODE_LOADS, (A, "h:1", 1, 6, 0.75, 2.25, 0.75, 2.25, 0.0), (B, "h:2", 1, 2, 0.25, 0.75, 0.25, 0.75, 0.25),
        ("c", "h:3", 0, 0, 0.0, 0.0, 0.0, 0.0, None),
    )  # fmt: skip


# -- the largest -------------------------------------------------------------------------------------------------------

BIG = "scope, scope_value, rank, key, serialized_bytes, db"


def top(kind, name, size, **more):
    return {"kind": kind, "name": name, "serialized_bytes": size, "slot": 1, "owner_id": A, "type": "string", **more}


def in_cluster(found):
    return found.filter(pc.equal(found["scope"], "cluster"))


def test_big_keys_are_ranked_in_the_cluster_and_in_each_node_slot_and_type(tables):
    """A key that is listed for its type and for its owner is ranked once a node."""
    rows = partial_table(
        top(TOP_TYPE, b"s", 9, offset=1), top(TOP_TYPE, b"h", 5, type="hash", offset=2, db=3), top(TOP_OWNER, b"s", 9, offset=1),
        top(TOP_SLOT, b"s", 9, offset=1),
    )  # fmt: skip

    found = tables(rows, {"a.rdb": A}, top=2).big_keys()

    assert_rows(
        found, BIG, ("cluster", "", 1, b"s", 9, 0), ("cluster", "", 2, b"h", 5, 3), ("node", A, 1, b"s", 9, 0), ("node", A, 2, b"h", 5, 3),
        ("slot", "1", 1, b"s", 9, 0), ("type", "string", 1, b"s", 9, 0), ("type", "hash", 1, b"h", 5, 3),
    )  # fmt: skip


def test_of_equals_the_first_in_the_files_is_larger_and_a_key_without_size_is_not_ranked(tables):
    rows = partial_table(
        top(TOP_TYPE, b"late", 7, offset=8), top(TOP_TYPE, b"early", 7, offset=2), top(TOP_TYPE, b"other file", 7, source="b.rdb", offset=1),
        top(TOP_TYPE, b"unknown", None, offset=0),
    )  # fmt: skip

    found = in_cluster(tables(rows, top=2).big_keys())

    assert_rows(found, BIG, ("cluster", "", 1, b"early", 7, 0), ("cluster", "", 2, b"late", 7, 0))


# -- hash tags and prefixes --------------------------------------------------------------------------------------------


def group(kind, name, keys, size, **more):
    return {
        "kind": kind,
        "name": name,
        "keys": keys,
        "serialized_bytes": size,
        "keys_error": 0,
        "bytes_error": 0,
        "memory_error": 0,
        **more,
    }


def unit(noun, keys, size, **more):
    """The facts of a part that may have missed that much of a group which it does not list."""
    bounds = {f"missed_{noun}_keys": keys, f"missed_{noun}_bytes": size, f"missed_{noun}_memory": 2 * size}
    return {"kind": UNIT, "facts": bounds, **more}


SIZED = ("serialized_bytes",)
TAGS = "hash_tag, keys, serialized_bytes, keys_error, bytes_error, rank_keys, rank_bytes"


def test_a_tag_that_a_part_does_not_list_may_have_been_missed_there(tables):
    """Both parts list t; u is listed by the second alone, so the first may have up to its bound more of it."""
    rows = partial_table(
        group(TAG, b"t", 5, 50),
        group(TAG, b"t", 5, 50, part=1),
        group(TAG, b"u", 3, 900, part=1),
        unit("tag", 2, 20),
        unit("tag", 1, 10, part=1),
    )

    found = tables(rows, known=SIZED, groups=5).hash_tags()

    assert_rows(found, TAGS, (b"t", 10, 100, 0, 0, 1, 2), (b"u", 3, 900, 2, 20, 2, 1))


def test_the_heaviest_by_keys_and_the_heaviest_by_bytes_are_kept_and_ties_go_by_name(tables):
    rows = partial_table(
        unit("tag", 0, 0),
        group(TAG, b"many", 9, 1),
        group(TAG, b"big", 1, 99),
        group(TAG, b"\xff", 9, 1),
        group(TAG, b"small", 1, 1),
    )

    found = tables(rows, known=SIZED, groups=1).hash_tags()

    assert_rows(found, TAGS, (b"many", 9, 1, 0, 0, 1, 2), (b"big", 1, 99, 0, 0, 2, 1))


def test_where_memory_is_known_tags_and_prefixes_are_ranked_by_it(tables):
    """A small record can be large in memory; what a part may have missed of a group is said in memory, too."""
    rows = partial_table(
        unit("tag", 0, 0), unit("tag", 1, 10, part=1),
        group(TAG, b"packed", 1, 99, memory_bytes=10), group(TAG, b"spread", 1, 1, memory_bytes=500),
        group(PREFIX, b"p:", 1, 99, memory_bytes=10, number=1), group(PREFIX, b"s:", 1, 1, memory_bytes=500, number=1),
    )  # fmt: skip
    known = (*SIZED, "memory_bytes")

    tags = tables(rows, known=known, groups=5).hash_tags()
    prefixes = snapshot_tables.key_prefixes(tables(rows, known=known, groups=5).prefixes())

    columns = "hash_tag, memory_bytes, memory_error, rank_bytes"
    assert_rows(tags, columns, (b"spread", 500, 20, 1), (b"packed", 10, 20, 2))
    assert_rows(prefixes, "prefix, memory_bytes, rank_bytes", (b"s:", 500, 1), (b"p:", 10, 2))


def test_prefixes_are_ranked_by_depth_and_one_key_is_no_group_but_at_the_top(tables):
    rows = partial_table(
        unit("prefix", 0, 0), group(PREFIX, b"a:", 3, 30, number=1), group(PREFIX, b"b:", 1, 10, number=1),
        group(PREFIX, b"a:x:", 2, 20, number=2), group(PREFIX, b"a:y:", 1, 99, number=2),
    )  # fmt: skip

    found = snapshot_tables.key_prefixes(tables(rows, known=SIZED, groups=5).prefixes())

    assert_rows(
        found,
        "prefix, depth, keys, rank_bytes",
        (b"a:", 1, 3, 1),
        (b"b:", 1, 1, 2),
        (b"a:x:", 2, 2, 1),
    )


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_times_to_live_add_up_by_node_and_bucket(tables):
    rows = partial_table(
        {"kind": TTL, "number": 0, "keys": 2, "serialized_bytes": 4, "owner_id": A},
        {"kind": TTL, "number": 0, "keys": 3, "owner_id": A, "part": 1}, {"kind": TTL, "number": 1, "keys": 1, "owner_id": B},
    )  # fmt: skip
    found = tables(rows, {"a.rdb": None}).ttl_buckets()

    columns = "node_id, bucket, label, keys, serialized_bytes"
    assert_rows(found, columns, (A, 0, TTL_LABELS[0], 5, 4), (B, 1, TTL_LABELS[1], 1, None))
    assert_rows(tables(partial_table(), {}).ttl_buckets(), columns)


def test_what_could_not_be_read_keeps_its_place_and_reason(spark):
    rows = partial_rows.partial(
        spark, {"kind": BAD, "offset": 7, "text": "ends", "serialized_bytes": 3}, {"kind": SLOT, "slot": 1}
    )

    found = snapshot_tables.bad_records(rows, "key-slots")

    columns = "job string, source string, offset bigint, reason string, skipped_bytes bigint"
    partial_rows.assert_rows(found, columns, ("key-slots", "a.rdb", 7, "ends", 3))


def test_writes_stand_for_keys_only_where_a_log_is_not_replayed(sums):
    """A log with keys of its own was replayed: its writes are no keys."""
    rows = partial_table(
        {"kind": OWNER, "owner_id": A, "keys": 2}, {"kind": LOG_SLOT, "slot": 1, "owner_id": A, "ops": 50},
        {"kind": LOG_SLOT, "slot": 2, "owner_id": B, "ops": 7, "source": "b.aof"}, {"kind": OWNER, "keys": 1},
    )  # fmt: skip

    found = snapshot_tables.keys_by_owner(sums(rows))

    assert sorted(found, key=str) == sorted(
        [Foreign("a.rdb", A, 2), Foreign("a.rdb", None, 1), Foreign("b.aof", B, 7)], key=str
    )


def test_ranges_of_sizes_add_up_by_node_type_and_measure(tables):
    one = {"kind": RANGE, "type": "list", "text": "elements", "owner_id": A}
    rows = partial_table(
        one | {"number": 0, "keys": 2, "offset": 0}, one | {"number": 4, "keys": 3, "offset": 30},
        one | {"number": 4, "keys": 1, "offset": 8, "part": 1}, one | {"number": 4, "keys": 7, "offset": 70, "text": "memory_bytes"},
    )  # fmt: skip

    found = tables(rows, {"a.rdb": None}).key_sizes()

    columns = "node_id, type, measure, at_least, keys, total"
    assert_rows(
        found,
        columns,
        (A, "list", "elements", 0, 2, 0),
        (A, "list", "elements", 8, 4, 38),
        (A, "list", "memory_bytes", 8, 7, 70),
    )
