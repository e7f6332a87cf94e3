"""Partial sums to the tables of a snapshot: small frames in, small frames out, and the same tables on both ways of reading."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from cluster_core.kernels.keys.slot_tally import USES
from cluster_core.load.key_use import TTL_LABELS
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import (
    BAD,
    LOG_COMMAND,
    LOG_KEY,
    LOG_SLOT,
    LOG_UNCERTAIN,
    OWNER,
    PARTIAL,
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
from slotscope.sources.inputs import find_inputs, load_topology
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.sources.keys.tally import tally_units
from slotscope.transforms import snapshot_tables
from slotscope.transforms.partial_sums import ROWS_HERE_MAX, PartialSums, are_few, stepped, with_amounts
from slotscope.transforms.snapshot_tables import SnapshotTables
from slotscope.transforms.snapshot_warnings import ForeignKeys
from tests.builders.partial_rows import assert_rows, assert_table, frame, partial, partial_table, table
from tests.conftest import DATA

A, B = "a" * 40, "b" * 40
SIZED = ("serialized_bytes",)
RECORDED = DATA / "valkey-9.1"


def tables(*rows, nodes=None, known=(), top=5, top_per_slot=1, groups=5):
    """Makes the tables of partial rows."""
    return SnapshotTables(sums(partial_table(*rows)), nodes, frozenset(known), top, top_per_slot, groups)


def sums(rows):
    return PartialSums(rows, rows.filter(pc.equal(rows["kind"], UNIT)))


LOADS = "keys long, serialized_bytes long, memory_bytes long, expires long, ops long"
SLOTS = f"slot int, node_id string, owner_id string, {LOADS}"


def test_keys_are_summed_where_they_lie_and_idle_slots_have_a_row_of_their_owner():
    """Slot 1 in two parts, slot 2 on a node that does not own it, slot 3 without keys, slot 4 without an owner."""
    made = tables(
        {"kind": SLOT, "slot": 1, "owner_id": A, "keys": 2, "serialized_bytes": 10, "expires": 1},
        {"kind": SLOT, "slot": 1, "owner_id": A, "keys": 3, "serialized_bytes": 5, "expires": 0, "part": 1},
        {"kind": SLOT, "slot": 2, "owner_id": B, "keys": 1, "serialized_bytes": 7, "expires": 0},
        nodes={"a.rdb": A},
        known=("serialized_bytes", "expires"),
    )

    assert_table(
        made.slot_load([A, A, B, B, None]), SLOTS,
        (1, A, A, 5, 15, None, 1, None), (2, A, B, 1, 7, None, 0, None), (2, B, B, 0, 0, None, 0, None),
        (3, B, B, 0, 0, None, 0, None), (0, A, A, 0, 0, None, 0, None), (4, None, None, 0, 0, None, 0, None),
    )  # fmt: skip


def test_sums_are_selected_by_kind_and_by_input(spark):
    """On the driver and in Spark; those of a kind have the node of their input."""
    rows = partial_table(
        {"kind": SLOT, "slot": 1, "keys": 2}, {"kind": UNIT}, {"kind": SLOT, "slot": 3, "source": "b.rdb"}
    )
    for held in (rows, spark_frame(spark, rows)):
        found = PartialSums(held, rows.filter(pc.equal(rows["kind"], UNIT)))

        slots, others = found.frame(spark, {"a.rdb": A, "b.rdb": None}, SLOT), found.without(spark, ["a.rdb"])

        assert_rows(
            slots, "source string, slot int, keys long, node_id string", ("a.rdb", 1, 2, A), ("b.rdb", 3, None, None)
        )
        assert_rows(others, "source string, kind int, slot int", ("b.rdb", SLOT, 3))


def test_a_step_runs_over_each_partition_also_an_empty_one(spark):
    """The columns are those that the step makes of a table without rows."""
    before = pa.schema([("slot", pa.int32()), ("keys", pa.int64())])
    rows = frame(spark, before, (1, 2), (1, 3)).repartition(2, "slot")

    actual = stepped(rows, lambda piece: piece.group_by([]).aggregate([("slot", "max"), ("keys", "sum")]), before)

    assert_rows(actual, "slot_max int, keys_sum long", (1, 5), (None, None))


def test_a_slot_without_owner_that_a_node_holds_has_no_empty_row():
    made = tables({"kind": SLOT, "slot": 0, "keys": 1, "serialized_bytes": 9}, nodes={"a.rdb": A}, known=SIZED)

    assert_table(made.slot_load([None]), SLOTS, (0, A, None, 1, 9, None, None, None))


def test_writes_of_a_log_are_operations_and_their_bytes_no_size_of_keys():
    """A slot with writes only has no keys; one of a base without writes has no row of its own."""
    made = tables(
        {"kind": LOG_SLOT, "slot": 0, "owner_id": A, "ops": 4, "serialized_bytes": 400},
        {"kind": LOG_SLOT, "slot": 1, "owner_id": A, "ops": 0, "serialized_bytes": 100},
        nodes={"a.rdb": A},
        known=("ops",),
    )

    assert_table(made.slot_load([A, A]), SLOTS, (0, A, A, 0, None, None, None, 4), (1, A, A, 0, None, None, None, 0))


def test_a_node_has_the_sums_of_its_slots_and_its_share_of_all():
    """B holds a key of a slot that A owns: the key counts for B, the slot for A; C holds nothing."""
    rows = [(1, A, A, 6, 30), (2, B, B, 1, 8), (1, B, A, 1, 2)]
    slots = table(SLOTS, *((*row, None, None, None) for row in rows))

    actual = snapshot_tables.node_load(slots, {A: "h:1", B: "h:2", "c": "h:3"}, {B: 0.25, "c": None})

    assert_table(
        actual,
        "node_id string, address string, slots int, keys long, keys_share double, keys_over_mean double, bytes_share double,"
        " bytes_over_mean double, unread_share double",
        (A, "h:1", 1, 6, 0.75, 2.25, 0.75, 2.25, 0.0), (B, "h:2", 1, 2, 0.25, 0.75, 0.25, 0.75, 0.25),
        ("c", "h:3", 0, 0, 0.0, 0.0, 0.0, 0.0, None),
    )  # fmt: skip


BIG = "scope string, scope_value string, rank int, key binary, serialized_bytes long, db int"


def top(kind, name, size, **more):
    return {"kind": kind, "name": name, "serialized_bytes": size, "slot": 1, "owner_id": A, "type": "string", **more}


def test_big_keys_are_ranked_in_the_cluster_and_in_each_node_slot_and_type():
    """A key that is listed for its type and for its owner is ranked once a node."""
    made = tables(
        top(TOP_TYPE, b"s", 9, offset=1), top(TOP_TYPE, b"h", 5, type="hash", offset=2, db=3),
        top(TOP_OWNER, b"s", 9, offset=1), top(TOP_SLOT, b"s", 9, offset=1),
        nodes={"a.rdb": A}, top=2,
    )  # fmt: skip

    assert_table(
        made.big_keys(), BIG,
        ("cluster", "", 1, b"s", 9, 0), ("cluster", "", 2, b"h", 5, 3), ("node", A, 1, b"s", 9, 0), ("node", A, 2, b"h", 5, 3),
        ("slot", "1", 1, b"s", 9, 0), ("type", "string", 1, b"s", 9, 0), ("type", "hash", 1, b"h", 5, 3),
    )  # fmt: skip


def test_equal_keys_are_ranked_by_file_order_and_keys_without_size_not_at_all():
    actual = tables(
        top(TOP_TYPE, b"late", 7, offset=8), top(TOP_TYPE, b"early", 7, offset=2),
        top(TOP_TYPE, b"other file", 7, source="b.rdb", offset=1), top(TOP_TYPE, b"unknown", None, offset=0), top=2,
    ).big_keys()  # fmt: skip

    in_cluster = actual.filter(pc.equal(actual["scope"], "cluster"))
    assert_table(in_cluster, BIG, ("cluster", "", 1, b"early", 7, 0), ("cluster", "", 2, b"late", 7, 0))


def group(kind, name, keys, size, **more):
    errors = dict.fromkeys(("keys_error", "bytes_error", "memory_error"), 0)
    return {"kind": kind, "name": name, "keys": keys, "serialized_bytes": size, **errors, **more}


def unit(noun, keys, size, **more):
    """The facts of a part that may have missed that much of a group which it does not list."""
    bounds = {f"missed_{noun}_keys": keys, f"missed_{noun}_bytes": size, f"missed_{noun}_memory": 2 * size}
    return {"kind": UNIT, "facts": bounds, **more}


TAGS = "hash_tag binary, keys long, serialized_bytes long, keys_error long, bytes_error long, rank_keys int, rank_bytes int"


def test_a_tag_that_a_part_does_not_list_may_have_been_missed_there():
    """Both parts list t; u is listed by the second alone, so the first may have up to its bound more of it."""
    made = tables(
        group(TAG, b"t", 5, 50), group(TAG, b"t", 5, 50, part=1), group(TAG, b"u", 3, 900, part=1),
        unit("tag", 2, 20), unit("tag", 1, 10, part=1), known=SIZED,
    )  # fmt: skip

    assert_table(made.hash_tags(), TAGS, (b"t", 10, 100, 0, 0, 1, 2), (b"u", 3, 900, 2, 20, 2, 1))


def test_the_heaviest_by_keys_and_the_heaviest_by_bytes_are_kept_and_ties_go_by_name():
    tags = (group(TAG, name, keys, size) for name, keys, size in (
        (b"many", 9, 1), (b"big", 1, 99), (b"\xff", 9, 1), (b"small", 1, 1),
    ))  # fmt: skip

    made = tables(unit("tag", 0, 0), *tags, known=SIZED, groups=1)

    assert_table(made.hash_tags(), TAGS, (b"many", 9, 1, 0, 0, 1, 2), (b"big", 1, 99, 0, 0, 2, 1))


def test_tags_and_prefixes_are_ranked_by_known_memory():
    """A small record can be large in memory; the bound of a missed group is known in memory, too."""
    made = tables(
        unit("tag", 0, 0), unit("tag", 1, 10, part=1),
        group(TAG, b"packed", 1, 99, memory_bytes=10), group(TAG, b"spread", 1, 1, memory_bytes=500),
        group(PREFIX, b"p:", 1, 99, memory_bytes=10, number=1), group(PREFIX, b"s:", 1, 1, memory_bytes=500, number=1),
        known=(*SIZED, "memory_bytes"),
    )  # fmt: skip

    tags = "hash_tag binary, memory_bytes long, memory_error long, rank_bytes int"
    assert_table(made.hash_tags(), tags, (b"spread", 500, 20, 1), (b"packed", 10, 20, 2))
    prefixes = snapshot_tables.key_prefixes(made.prefixes())
    assert_table(prefixes, "prefix binary, memory_bytes long, rank_bytes int", (b"s:", 500, 1), (b"p:", 10, 2))


def test_prefixes_are_ranked_by_depth_and_a_single_key_is_a_group_only_at_the_top():
    made = tables(
        unit("prefix", 0, 0), group(PREFIX, b"a:", 3, 30, number=1), group(PREFIX, b"b:", 1, 10, number=1),
        group(PREFIX, b"a:x:", 2, 20, number=2), group(PREFIX, b"a:y:", 1, 99, number=2), known=SIZED,
    )  # fmt: skip

    schema = "prefix binary, depth int, keys long, rank_bytes int"
    assert_table(
        snapshot_tables.key_prefixes(made.prefixes()),
        schema,
        (b"a:", 1, 3, 1),
        (b"b:", 1, 1, 2),
        (b"a:x:", 2, 2, 1),
    )


def test_times_to_live_add_up_by_node_and_bucket():
    made = tables(
        {"kind": TTL, "number": 0, "keys": 2, "serialized_bytes": 4, "owner_id": A},
        {"kind": TTL, "number": 0, "keys": 3, "owner_id": A, "part": 1}, {"kind": TTL, "number": 1, "keys": 1, "owner_id": B},
        nodes={"a.rdb": None},
    )  # fmt: skip

    schema = "node_id string, bucket int, label string, keys long, serialized_bytes long"
    assert_table(made.ttl_buckets(), schema, (A, 0, TTL_LABELS[0], 5, 4), (B, 1, TTL_LABELS[1], 1, None))


def test_ranges_of_sizes_add_up_by_node_type_and_measure():
    lists = {"kind": RANGE, "type": "list", "text": "elements", "owner_id": A}
    made = tables(
        lists | {"number": 0, "keys": 2, "offset": 0}, lists | {"number": 4, "keys": 3, "offset": 30},
        lists | {"number": 4, "keys": 1, "offset": 8, "part": 1},
        lists | {"number": 4, "keys": 7, "offset": 70, "text": "memory_bytes"}, nodes={"a.rdb": None},
    )  # fmt: skip

    assert_table(
        made.key_sizes(), "node_id string, type string, measure string, at_least long, keys long, total long",
        (A, "list", "elements", 0, 2, 0), (A, "list", "elements", 8, 4, 38), (A, "list", "memory_bytes", 8, 7, 70),
    )  # fmt: skip


def test_writes_stand_for_keys_only_where_a_log_is_not_replayed():
    """A log with keys of its own was replayed: its writes are no keys."""
    rows = partial_table(
        {"kind": OWNER, "owner_id": A, "keys": 2}, {"kind": LOG_SLOT, "slot": 1, "owner_id": A, "ops": 50},
        {"kind": LOG_SLOT, "slot": 2, "owner_id": B, "ops": 7, "source": "b.aof"}, {"kind": OWNER, "keys": 1},
    )  # fmt: skip

    expected = {ForeignKeys("a.rdb", A, 2), ForeignKeys("a.rdb", None, 1), ForeignKeys("b.aof", B, 7)}
    assert set(snapshot_tables.keys_by_owner(sums(rows))) == expected


def test_unreadable_places_keep_their_offset_and_reason(spark):
    rows = partial(spark, {"kind": BAD, "offset": 7, "text": "ends", "serialized_bytes": 3}, {"kind": SLOT, "slot": 1})

    schema = "job string, source string, offset bigint, reason string, skipped_bytes bigint"
    assert_rows(snapshot_tables.bad_records(rows, "key-slots"), schema, ("key-slots", "a.rdb", 7, "ends", 3))


HOUR_S = 1_700_000_000 // 3600 * 3600
HOUR = datetime.fromtimestamp(HOUR_S)
LOG = {"source": "a.aof", "node_id": A}


def test_writes_add_up_by_slot_node_and_hour(spark):
    written = {"kind": LOG_SLOT, "slot": 1, **LOG}
    rows = partial(
        spark, written | {"ops": 2, "serialized_bytes": 20, "offset": HOUR_S},
        written | {"ops": 3, "serialized_bytes": 30, "offset": HOUR_S, "part": 1}, written | {"ops": 1, "serialized_bytes": 9},
    )  # fmt: skip

    schema = "slot int, node_id string, hour timestamp, ops bigint, log_bytes bigint"
    assert_rows(snapshot_tables.write_load(rows), schema, (1, A, HOUR, 5, 50), (1, A, None, 1, 9))
    assert_rows(snapshot_tables.write_load(partial(spark)), schema)


def test_commands_are_known_when_any_log_shows_that_servers_have_them(spark):
    known = {"kind": LOG_COMMAND, "text": "set", "number": 1, **LOG}
    rows = partial(
        spark, known | {"ops": 2, "serialized_bytes": 20}, known | {"ops": 1, "serialized_bytes": 10, "part": 1},
        known | {"text": "bf.add", "ops": 1, "serialized_bytes": 5, "number": 0},
    )  # fmt: skip

    schema = "node_id string, command string, minute timestamp, commands bigint, log_bytes bigint, known boolean"
    actual = snapshot_tables.command_load(rows)
    assert_rows(actual, schema, (A, "set", None, 3, 30, True), (A, "bf.add", None, 1, 5, False))


KEYS = "key binary, ops bigint, log_bytes bigint, ops_error bigint, bytes_error bigint, rank_ops int, rank_bytes int"


def test_most_written_keys_are_ranked_by_writes_and_bytes_with_error_bounds(spark):
    """The second part does not list k and may have missed 2 writes of it; ties go by name, hostile names stay bytes."""
    part = {"kind": UNIT, "text": "aof", **LOG}
    key = {"kind": LOG_KEY, "keys_error": 0, "bytes_error": 0, **LOG}
    rows = partial(
        spark, part | {"facts": {"missed_log_keys": 0, "missed_log_bytes": 0}},
        part | {"facts": {"missed_log_keys": 2, "missed_log_bytes": 7}, "part": 1},
        key | {"name": b"k", "ops": 9, "serialized_bytes": 9}, key | {"name": b"\xff", "ops": 1, "serialized_bytes": 99},
        key | {"name": b"\xff", "ops": 1, "serialized_bytes": 1, "part": 1},
        key | {"name": b"\x00", "ops": 2, "serialized_bytes": 20, "part": 1},
        key | {"name": b"rare", "ops": 1, "serialized_bytes": 1},
    )  # fmt: skip

    actual = snapshot_tables.write_keys(rows, count=2)

    assert_rows(actual, KEYS, (b"k", 9, 9, 2, 7, 1, 3), (b"\xff", 2, 100, 0, 0, 2, 1), (b"\x00", 2, 20, 0, 0, 3, 2))
    assert_rows(snapshot_tables.write_keys(partial(spark), count=2), KEYS)


def test_uncertain_keys_are_named_with_the_command(spark):
    uncertain = {
        "kind": LOG_UNCERTAIN,
        "name": b"\x1b",
        "name_text": "\\x1b",
        "slot": 3,
        "db": 0,
        "text": "bf.add",
        **LOG,
    }

    actual = snapshot_tables.uncertain_keys(partial(spark, uncertain))

    schema = "source string, db int, key binary, key_text string, slot int, command string"
    assert_rows(actual, schema, ("a.aof", 0, b"\x1b", "\\x1b", 3, "bf.add"))


def recorded_rows():
    """The partial sums of three dumps, a task each; two of them hold the same slots."""
    inputs = find_inputs([str(RECORDED / "before"), str(RECORDED / "after" / "node-7001.rdb")], [], None)
    topology = load_topology(str(RECORDED / "topology/nodes.txt"))
    options = TallyOptions(top=7, groups_max=50, topology=topology)
    units = inputs.units(4, split=False)
    batches = tally_units(iter([pa.record_batch([pa.array(range(len(units)))], ["id"])]), units, options)
    return pa.Table.from_batches(batches, PARTIAL)


def counted(table):
    return Counter(tuple(sorted(row.items())) for row in table.to_pylist())


def test_rows_in_spark_and_local_rows_make_the_same_tables(spark):
    rows, known = recorded_rows(), frozenset({"serialized_bytes", "memory_bytes", "expires", "idle"})
    units = rows.filter(pc.equal(rows["kind"], UNIT))
    nodes = {source: A for source in set(rows["source"].to_pylist()) if "7001" in source}
    kept = PartialSums(spark_frame(spark, rows).repartition(3), units, pieces=3)
    here, other = (SnapshotTables(sums, nodes, known, 5, 1, 6) for sums in (PartialSums(rows, units), kept))
    owners, prefixes = [None] * SLOT_COUNT, here.prefixes()

    assert counted(here.slot_load(owners)) == counted(other.slot_load(owners))
    assert counted(here.key_use(prefixes)) == counted(other.key_use(prefixes))
    for name in ("big_keys", "hash_tags", "prefixes", "key_types", "key_sizes", "ttl_buckets"):
        assert counted(getattr(here, name)()) == counted(getattr(other, name)()), name
    assert set(snapshot_tables.keys_by_owner(here.partial)) == set(snapshot_tables.keys_by_owner(kept))


def test_amounts_become_columns_and_are_0_where_a_row_has_none():
    amounts = range(1, len(USES) + 1)
    actual = with_amounts(partial_table({"kind": SLOT, "amounts": [*amounts]}, {"kind": SLOT}))

    assert actual.select(USES).to_pylist() == [dict(zip(USES, amounts, strict=True)), dict.fromkeys(USES, 0)]
    assert "amounts" not in actual.column_names


def test_only_large_files_of_many_units_count_as_many(tmp_path):
    def inputs(size):
        (tmp_path / "dump.rdb").write_bytes(b"REDIS0011")
        with (tmp_path / "dump.rdb").open("r+b") as file:
            file.truncate(size)
        return find_inputs([str(tmp_path / "dump.rdb")], [], None)

    options = TallyOptions()

    assert are_few(inputs(1000), options, units=100)
    assert are_few(inputs(50 * ROWS_HERE_MAX), options, units=2)
    assert not are_few(inputs(50 * ROWS_HERE_MAX), options, units=100)
