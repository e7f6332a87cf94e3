"""Partial sums of tasks: the same rows on the driver and in pieces of Spark; small frames in, small frames out."""

from __future__ import annotations

import pyarrow as pa
import pytest

from cluster_core.kernels.keys.slot_tally import USES
from schemas.interim import BAD, PARTIAL, SLOT, TAG, UNIT
from slotscope.runtime.spark.spark_schema import spark_frame, spark_schema
from slotscope.sources.inputs import find_inputs
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.transforms.partial_sums import ROWS_HERE_MAX, PartialSums, are_few, sums, with_amounts, with_node
from tests.builders.partial_rows import assert_rows, partial_table

A, B = "a" * 40, "b" * 40
ROWS = partial_table(
    {"kind": SLOT, "slot": 1, "owner_id": B, "keys": 2, "serialized_bytes": 10},
    {"kind": SLOT, "slot": 1, "owner_id": B, "keys": 3, "part": 1},
    {"kind": SLOT, "slot": 2, "owner_id": B, "keys": 4, "source": "list.txt"},
    {"kind": SLOT, "slot": 3, "keys": 1, "source": "list.txt"},
    {"kind": TAG, "name": b"\xff", "name_text": "\\xff", "keys": 5},
    {"kind": BAD, "offset": 7, "text": "ends"},
)
NODES = {"a.rdb": A, "list.txt": None}


@pytest.fixture(params=["driver", "pieces"])
def partial(request, spark):
    """The same rows where they are few, and where Spark keeps them."""
    rows = ROWS if request.param == "driver" else spark_frame(spark, ROWS).repartition(3)
    return PartialSums(rows, ROWS.slice(0, 0), pieces=2)


def by_slot(rows: pa.Table) -> pa.Table:
    return sums(rows, ("slot",), ("keys", "serialized_bytes"))


def test_a_step_sees_all_rows_of_its_kinds_with_one_key_and_sums_of_nulls_are_null(spark, partial):
    actual = partial.of(SLOT, step=by_slot, by="slot")

    rows = ((1, 5, 10), (2, 4, None), (3, 1, None))
    assert_rows(spark_frame(spark, actual), "slot int, keys bigint, serialized_bytes bigint", *rows)


def test_a_kind_without_rows_has_the_columns_of_the_step(spark, partial):
    assert_rows(spark_frame(spark, partial.of(UNIT, step=by_slot, by="slot")), "slot int, keys bigint")


def test_a_row_belongs_to_the_node_of_its_file_else_to_the_owner_of_its_slot(spark, partial):
    frame = partial.frame(spark, NODES, SLOT)

    assert frame.schema.names == [*PARTIAL.names, "node_id"]
    assert [field.dataType for field in frame.schema][:-1] == [field.dataType for field in spark_schema(PARTIAL)]
    schema = "slot int, keys bigint, node_id string, name binary"
    assert_rows(frame, schema, (1, 2, A, None), (1, 3, A, None), (2, 4, B, None), (3, 1, None, None))


def test_without_a_topology_no_row_has_a_node(spark):
    actual = with_node(ROWS, None)

    assert_rows(spark_frame(spark, actual), "node_id string", *[(None,)] * len(ROWS))


def test_rows_of_other_inputs_stay_when_one_is_read_again(spark, partial):
    rest = partial.without(spark, ["a.rdb"])

    assert rest.schema.names == PARTIAL.names
    assert_rows(rest, "source string, slot int, keys bigint", ("list.txt", 2, 4), ("list.txt", 3, 1))


def test_amounts_become_columns_and_are_0_where_a_row_has_none(spark):
    amounts = list(range(1, len(USES) + 1))
    actual = with_amounts(partial_table({"kind": SLOT, "slot": 1, "amounts": amounts}, {"kind": SLOT, "slot": 2}))

    schema = f"slot int, {', '.join(f'{name} bigint' for name in USES)}"
    assert_rows(spark_frame(spark, actual), schema, (1, *amounts), (2, *[0] * len(USES)))
    assert "amounts" not in actual.column_names


def test_small_files_and_few_units_are_few_and_large_files_of_many_units_are_not(tmp_path):
    def inputs(size):
        (tmp_path / "dump.rdb").write_bytes(b"REDIS0011")
        with (tmp_path / "dump.rdb").open("r+b") as file:
            file.truncate(size)
        return find_inputs([str(tmp_path / "dump.rdb")], [], None)

    options = TallyOptions()

    assert are_few(inputs(1000), options, units=100)
    assert are_few(inputs(50 * ROWS_HERE_MAX), options, units=2)
    assert not are_few(inputs(50 * ROWS_HERE_MAX), options, units=100)
