"""Partial sums to the rows of a snapshot: small frames in, small frames out."""

from __future__ import annotations

from cluster_core.load.ttl import TTL_LABELS
from schemas.interim import (
    BAD,
    DECLARED,
    FLAW,
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
from slotscope.transforms import key_distribution, key_kinds
from slotscope.transforms.key_distribution import Missed
from tests.builders.partial_rows import assert_rows, frame, partial

A, B = "a" * 40, "b" * 40
OWNERS = "slot int, owner_id string"
SOURCES = "source string, node_id string"
NODES = "node_id string, address string"
LOADS = "keys bigint, serialized_bytes bigint, memory_bytes bigint, expires bigint, ops bigint"
SLOTS = f"slot int, node_id string, owner_id string, {LOADS}"
HOSTILE = (b"\xff\x00", b"\x1b[2J", b"<script>", b"")


# -- whose data a row is -----------------------------------------------------------------------------------------------


def test_a_row_belongs_to_the_node_of_its_file_else_to_the_owner_of_its_slot(spark):
    rows = partial(
        spark, {"kind": SLOT, "slot": 1, "owner_id": B}, {"kind": SLOT, "slot": 2, "owner_id": B, "source": "list.txt"},
        {"kind": SLOT, "slot": 3, "source": "list.txt"},
    )  # fmt: skip
    sources = frame(spark, SOURCES, ("a.rdb", A), ("list.txt", None))

    found = key_distribution.with_node(rows, sources)

    assert_rows(found, "slot int, node_id string", (1, A), (2, B), (3, None))


def test_without_a_topology_no_row_has_a_node(spark):
    rows = partial(spark, {"kind": SLOT, "slot": 1, "owner_id": B})

    assert_rows(key_distribution.with_node(rows, None), "slot int, node_id string", (1, None))


# -- slots -------------------------------------------------------------------------------------------------------------


def test_keys_are_summed_where_they_lie_and_idle_slots_have_a_row_of_their_owner(spark):
    """Slot 1 in two parts, slot 2 on a node that does not own it, slot 3 without keys, slot 4 of nobody."""
    rows = partial(
        spark, {"kind": SLOT, "slot": 1, "owner_id": A, "keys": 2, "serialized_bytes": 10, "expires": 1},
        {"kind": SLOT, "slot": 1, "owner_id": A, "keys": 3, "serialized_bytes": 5, "expires": 0, "part": 1},
        {"kind": SLOT, "slot": 2, "owner_id": B, "keys": 1, "serialized_bytes": 7, "expires": 0},
    )  # fmt: skip
    sources = frame(spark, SOURCES, ("a.rdb", A))
    owners = frame(spark, OWNERS, (1, A), (2, B), (3, B), (4, None))

    found = key_distribution.slot_load(rows, sources, owners, known=frozenset({"serialized_bytes", "expires"}))

    assert_rows(
        found, SLOTS, (1, A, A, 5, 15, None, 1, None), (2, A, B, 1, 7, None, 0, None), (2, B, B, 0, 0, None, 0, None),
        (3, B, B, 0, 0, None, 0, None), (4, None, None, 0, 0, None, 0, None),
    )  # fmt: skip


def test_the_empty_row_of_nobody_goes_when_somebody_holds_the_slot(spark):
    rows = partial(spark, {"kind": SLOT, "slot": 4, "keys": 1, "serialized_bytes": 9})
    sources, owners = frame(spark, SOURCES, ("a.rdb", A)), frame(spark, OWNERS, (4, None))

    found = key_distribution.slot_load(rows, sources, owners, known=frozenset({"serialized_bytes"}))

    assert_rows(found, SLOTS, (4, A, None, 1, 9, None, None, None))


def test_writes_of_a_log_are_operations_and_their_bytes_no_size_of_keys(spark):
    """A slot that was only written has no keys; one of a base without writes has no row of its own."""
    rows = partial(
        spark, {"kind": LOG_SLOT, "slot": 1, "owner_id": A, "ops": 4, "serialized_bytes": 400},
        {"kind": LOG_SLOT, "slot": 2, "owner_id": A, "ops": 0, "serialized_bytes": 100},
    )  # fmt: skip
    owners = frame(spark, OWNERS, (1, A), (2, A))

    found = key_distribution.slot_load(rows, frame(spark, SOURCES, ("a.rdb", A)), owners, known=frozenset({"ops"}))

    assert_rows(found, SLOTS, (1, A, A, 0, None, None, None, 4), (2, A, A, 0, None, None, None, 0))


def test_without_any_keys_every_slot_is_idle(spark):
    owners = frame(spark, OWNERS, (0, A), (1, A))

    found = key_distribution.slot_load(partial(spark), frame(spark, SOURCES), owners, known=frozenset())

    assert_rows(found, SLOTS, (0, A, A, 0, None, None, None, None), (1, A, A, 0, None, None, None, None))


def test_slot_counts_add_up_over_files_and_leave_other_kinds_out(spark):
    rows = partial(
        spark, {"kind": SLOT, "slot": 1, "keys": 2, "serialized_bytes": 10},
        {"kind": SLOT, "slot": 1, "keys": 3, "source": "b.rdb"}, {"kind": TAG, "slot": 1, "keys": 99},
    )  # fmt: skip

    assert_rows(key_distribution.slot_counts(rows), "slot int, keys bigint, serialized_bytes bigint", (1, 5, 10))
    assert_rows(key_distribution.slot_counts(partial(spark)), "slot int, keys bigint, serialized_bytes bigint")


# -- nodes -------------------------------------------------------------------------------------------------------------

NODE_LOADS = (
    "node_id string, address string, slots int, keys bigint, keys_share double, keys_over_mean double, bytes_share double, "
    "bytes_over_mean double, unread_share double"
)


def test_a_node_has_the_sums_of_its_slots_and_its_share_of_all(spark):
    """B holds a key of a slot that A owns: the key counts for B, the slot for A; C holds nothing."""
    slots = frame(
        spark,
        SLOTS,
        (1, A, A, 6, 30, None, None, None),
        (2, B, B, 1, 8, None, None, None),
        (1, B, A, 1, 2, None, None, None),
    )
    nodes = frame(spark, NODES, (A, "h:1"), (B, "h:2"), ("c", "h:3"))

    found = key_distribution.node_load(slots, nodes, {B: 0.25, "c": None})

    assert_rows(
        found, NODE_LOADS, (A, "h:1", 1, 6, 0.75, 2.25, 0.75, 2.25, 0.0), (B, "h:2", 1, 2, 0.25, 0.75, 0.25, 0.75, 0.25),
        ("c", "h:3", 0, 0, 0.0, 0.0, 0.0, 0.0, None),
    )  # fmt: skip


def test_one_node_has_everything_and_without_sizes_no_share_of_bytes(spark):
    slots = frame(spark, SLOTS, (1, A, A, 3, None, None, None, None))

    found = key_distribution.node_load(slots, frame(spark, NODES, (A, "h:1")), {})

    assert_rows(found, NODE_LOADS, (A, "h:1", 1, 3, 1.0, 1.0, None, None, 0.0))


def test_a_cluster_without_keys_has_no_shares(spark):
    """Nothing is divided by zero."""
    slots = frame(spark, SLOTS, (1, A, A, 0, 0, None, None, None), (2, B, B, 0, 0, None, None, None))

    found = key_distribution.node_load(slots, frame(spark, NODES, (A, "h:1"), (B, "h:2")), {})

    assert_rows(found, NODE_LOADS, *((n, a, 1, 0, 0.0, 0.0, 0.0, 0.0, 0.0) for n, a in ((A, "h:1"), (B, "h:2"))))


# -- the largest -------------------------------------------------------------------------------------------------------

BIG = "scope string, scope_value string, rank int, key binary, serialized_bytes bigint, db int"


def top(kind, name, size, **more):
    return {"kind": kind, "name": name, "serialized_bytes": size, "slot": 1, "owner_id": A, "type": "string", **more}


def test_big_keys_are_ranked_in_the_cluster_and_in_each_node_slot_and_type(spark):
    """A key that is listed for its type and for its owner is ranked once a node."""
    rows = partial(
        spark, top(TOP_TYPE, b"s", 9, offset=1), top(TOP_TYPE, b"h", 5, type="hash", offset=2, db=3), top(TOP_OWNER, b"s", 9, offset=1),
        top(TOP_SLOT, b"s", 9, offset=1),
    )  # fmt: skip

    found = key_distribution.big_keys(rows, frame(spark, SOURCES, ("a.rdb", A)), top=2, top_per_slot=1)

    assert_rows(
        found, BIG, ("cluster", "", 1, b"s", 9, 0), ("cluster", "", 2, b"h", 5, 3), ("node", A, 1, b"s", 9, 0), ("node", A, 2, b"h", 5, 3),
        ("slot", "1", 1, b"s", 9, 0), ("type", "string", 1, b"s", 9, 0), ("type", "hash", 1, b"h", 5, 3),
    )  # fmt: skip


def test_of_equals_the_first_in_the_files_is_larger_and_a_key_without_size_is_not_ranked(spark):
    rows = partial(
        spark, top(TOP_TYPE, b"late", 7, offset=8), top(TOP_TYPE, b"early", 7, offset=2), top(TOP_TYPE, b"other file", 7, source="b.rdb", offset=1),
        top(TOP_TYPE, b"unknown", None, offset=0),
    )  # fmt: skip

    found = key_distribution.big_keys(rows, None, top=2, top_per_slot=1).where("scope = 'cluster'")

    assert_rows(found, BIG, ("cluster", "", 1, b"early", 7, 0), ("cluster", "", 2, b"late", 7, 0))


def test_without_keys_nothing_is_large(spark):
    assert_rows(key_distribution.big_keys(partial(spark), None, top=5, top_per_slot=1), BIG)


def test_hostile_keys_stay_the_bytes_that_they_are(spark):
    rows = partial(spark, *(top(TOP_TYPE, name, 9 - at, offset=at) for at, name in enumerate(HOSTILE)))

    found = key_distribution.big_keys(rows, None, top=9, top_per_slot=1).where("scope = 'cluster'")

    assert_rows(found, BIG, *(("cluster", "", at + 1, name, 9 - at, 0) for at, name in enumerate(HOSTILE)))


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
TAGS = "hash_tag binary, keys bigint, serialized_bytes bigint, keys_error bigint, bytes_error bigint, rank_keys int, rank_bytes int"


def test_a_tag_that_a_part_does_not_list_may_have_been_missed_there(spark):
    """Both parts list t; u is listed by the second alone, so the first may have up to its bound more of it."""
    rows = partial(
        spark,
        group(TAG, b"t", 5, 50),
        group(TAG, b"t", 5, 50, part=1),
        group(TAG, b"u", 3, 900, part=1),
        unit("tag", 2, 20),
        unit("tag", 1, 10, part=1),
    )

    found = key_distribution.hash_tags(rows, missed=Missed(3, 30, 60), count=5, known=SIZED)

    assert_rows(found, TAGS, (b"t", 10, 100, 0, 0, 1, 2), (b"u", 3, 900, 2, 20, 2, 1))


def test_the_heaviest_by_keys_and_the_heaviest_by_bytes_are_kept_and_ties_go_by_name(spark):
    rows = partial(
        spark,
        unit("tag", 0, 0),
        group(TAG, b"many", 9, 1),
        group(TAG, b"big", 1, 99),
        group(TAG, b"\xff", 9, 1),
        group(TAG, b"small", 1, 1),
    )

    found = key_distribution.hash_tags(rows, missed=Missed(), count=1, known=SIZED)

    assert_rows(found, TAGS, (b"many", 9, 1, 0, 0, 1, 2), (b"big", 1, 99, 0, 0, 2, 1))


def test_where_memory_is_known_tags_and_prefixes_are_ranked_by_it(spark):
    """A small record can be large in memory; what a part may have missed of a group is said in memory, too."""
    rows = partial(
        spark, unit("tag", 0, 0), unit("tag", 1, 10, part=1),
        group(TAG, b"packed", 1, 99, memory_bytes=10), group(TAG, b"spread", 1, 1, memory_bytes=500),
        group(PREFIX, b"p:", 1, 99, memory_bytes=10, number=1), group(PREFIX, b"s:", 1, 1, memory_bytes=500, number=1),
    )  # fmt: skip
    known = (*SIZED, "memory_bytes")

    tags = key_distribution.hash_tags(rows, missed=Missed(1, 10, 20), count=5, known=known)
    prefixes = key_distribution.key_prefixes(rows, missed=Missed(), count=5, known=known)

    columns = "hash_tag binary, memory_bytes bigint, memory_error bigint, rank_bytes int"
    assert_rows(tags, columns, (b"spread", 500, 20, 1), (b"packed", 10, 20, 2))
    assert_rows(prefixes, "prefix binary, memory_bytes bigint, rank_bytes int", (b"s:", 500, 1), (b"p:", 10, 2))


def test_tags_of_a_list_have_no_bytes(spark):
    rows = partial(spark, unit("tag", 0, 0), group(TAG, b"t", 2, None), group(TAG, b"u", 1, None))

    found = key_distribution.hash_tags(rows, missed=Missed(), count=5, known=())

    assert_rows(found, TAGS, (b"t", 2, None, 0, 0, 1, 1), (b"u", 1, None, 0, 0, 2, 2))


def test_prefixes_are_ranked_by_depth_and_one_key_is_no_group_but_at_the_top(spark):
    rows = partial(
        spark, unit("prefix", 0, 0), group(PREFIX, b"a:", 3, 30, number=1), group(PREFIX, b"b:", 1, 10, number=1),
        group(PREFIX, b"a:x:", 2, 20, number=2), group(PREFIX, b"a:y:", 1, 99, number=2),
    )  # fmt: skip

    found = key_distribution.key_prefixes(rows, missed=Missed(), count=5, known=SIZED)

    assert_rows(
        found,
        "prefix binary, depth int, keys bigint, rank_bytes int",
        (b"a:", 1, 3, 1),
        (b"b:", 1, 1, 2),
        (b"a:x:", 2, 2, 1),
    )


def test_without_groups_there_are_no_tags_and_no_prefixes(spark):
    assert_rows(key_distribution.hash_tags(partial(spark), missed=Missed(), count=5, known=SIZED), TAGS)
    assert_rows(key_distribution.key_prefixes(partial(spark), missed=Missed(), count=5, known=SIZED), "prefix binary")


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_times_to_live_add_up_by_node_and_bucket(spark):
    rows = partial(
        spark, {"kind": TTL, "number": 0, "keys": 2, "serialized_bytes": 4, "owner_id": A},
        {"kind": TTL, "number": 0, "keys": 3, "owner_id": A, "part": 1}, {"kind": TTL, "number": 1, "keys": 1, "owner_id": B},
    )  # fmt: skip
    sources = frame(spark, SOURCES, ("a.rdb", None))

    found = key_kinds.ttl_buckets(rows, sources)

    columns = "node_id string, bucket int, label string, keys bigint, serialized_bytes bigint"
    assert_rows(found, columns, (A, 0, TTL_LABELS[0], 5, 4), (B, 1, TTL_LABELS[1], 1, None))
    assert_rows(key_kinds.ttl_buckets(partial(spark), sources), columns)


def test_what_could_not_be_read_keeps_its_place_and_reason(spark):
    rows = partial(spark, {"kind": BAD, "offset": 7, "text": "ends", "serialized_bytes": 3}, {"kind": SLOT, "slot": 1})

    found = key_distribution.bad_records(rows, "key-slots")

    columns = "job string, source string, offset bigint, reason string, skipped_bytes bigint"
    assert_rows(found, columns, ("key-slots", "a.rdb", 7, "ends", 3))


def test_a_flaw_says_what_is_counted_and_what_is_there(spark):
    rows = partial(
        spark, {"kind": FLAW, "name": b"\x1b", "name_text": "\\x1b", "slot": 5, "type": "hash", "offset": 9, "elements": 4, "keys": 3,
                "text": "lies", "flaw": "count"},
    )  # fmt: skip

    found = key_distribution.value_flaws(rows)

    columns = "key binary, key_text string, flaw string, header_count bigint, real_count bigint, detail string"
    assert_rows(found, columns, (b"\x1b", "\\x1b", "count", 4, 3, "lies"))


def test_writes_stand_for_keys_only_where_a_log_is_not_replayed(spark):
    """A log with keys of its own was replayed: its writes are no keys."""
    rows = partial(
        spark, {"kind": OWNER, "owner_id": A, "keys": 2}, {"kind": LOG_SLOT, "slot": 1, "owner_id": A, "ops": 50},
        {"kind": LOG_SLOT, "slot": 2, "owner_id": B, "ops": 7, "source": "b.aof"}, {"kind": OWNER, "keys": 1},
    )  # fmt: skip

    found = key_distribution.keys_by_owner(rows)

    columns = "source string, owner_id string, keys bigint"
    assert_rows(found, columns, ("a.rdb", A, 2), ("a.rdb", None, 1), ("b.aof", B, 7))


def test_slots_that_declare_another_number_or_are_in_two_dumps_are_suspicious(spark):
    """Slot 1 lies, slot 2 is whole in one dump and empty in another, slot 3 is in two."""
    rows = partial(
        spark, {"kind": DECLARED, "slot": 1, "keys": 2, "number": 3}, {"kind": DECLARED, "slot": 2, "keys": 2, "number": 2},
        {"kind": DECLARED, "slot": 2, "keys": 0, "number": 0, "source": "b.rdb"}, {"kind": DECLARED, "slot": 3, "keys": 1, "number": 1},
        {"kind": DECLARED, "slot": 3, "keys": 1, "number": 1, "source": "b.rdb"},
    )  # fmt: skip

    found = key_distribution.suspicious_slots(rows)

    assert_rows(
        found, "slot int, dumps array<struct<source string, keys bigint, declared bigint>>", (1, [("a.rdb", 2, 3)]),
        (3, [("a.rdb", 1, 1), ("b.rdb", 1, 1)]),
    )  # fmt: skip


def test_ranges_of_sizes_add_up_by_node_type_and_measure(spark):
    one = {"kind": RANGE, "type": "list", "text": "elements", "owner_id": A}
    rows = partial(
        spark, one | {"number": 0, "keys": 2, "offset": 0}, one | {"number": 4, "keys": 3, "offset": 30},
        one | {"number": 4, "keys": 1, "offset": 8, "part": 1}, one | {"number": 4, "keys": 7, "offset": 70, "text": "memory_bytes"},
    )  # fmt: skip

    found = key_kinds.key_sizes(rows, frame(spark, SOURCES, ("a.rdb", None)))

    columns = "node_id string, type string, measure string, at_least bigint, keys bigint, total bigint"
    assert_rows(
        found,
        columns,
        (A, "list", "elements", 0, 2, 0),
        (A, "list", "elements", 8, 4, 38),
        (A, "list", "memory_bytes", 8, 7, 70),
    )
