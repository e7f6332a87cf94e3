"""What holds for every table: names that are bytes can be read as text, and rows of a snapshot say whether it is partial."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from itertools import pairwise

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import schemas
from schemas.rebalance import PLAN_STEPS, REBALANCE_HEAVY, REBALANCE_MOVES, REBALANCE_PLANS
from schemas.table import Table
from slotscope.runtime.storage.delta_files import append_rows

TABLES = sorted(
    {
        value.name: value
        for iter_module in pkgutil.iter_modules(schemas.__path__)
        for value in vars(importlib.import_module(f"schemas.{iter_module.name}")).values()
        if isinstance(value, Table)
    }.items()
)
NO_NAMES = {("silver/replay_state", "state")}
"""Bytes that are no name."""
SNAPSHOT_TABLES = {
    "bronze/keys", "silver/slot_load", "silver/sources", "silver/snapshots", "silver/write_load", "gold/node_load", "gold/big_keys",
    "gold/hash_tags", "gold/key_prefixes", "gold/key_types", "gold/key_sizes", "gold/ttl_buckets", "gold/command_load", "gold/write_keys",
    "gold/uncertain_keys",
}  # fmt: skip


def comment(field: pa.Field) -> str:
    """What a column says it holds."""
    return (field.metadata or {}).get(b"comment", b"").decode()


def uncommented(fields: Iterable[pa.Field], prefix: str = "") -> list[str]:
    """Columns, and fields of columns, without a comment."""
    result = []
    for field in fields:
        name = f"{prefix}{field.name}"
        result += [] if comment(field) else [name]
        inner = field.type
        while pa.types.is_list(inner) or pa.types.is_map(inner):
            inner = inner.value_type if pa.types.is_list(inner) else inner.item_type
        result += uncommented(inner, f"{name}.") if pa.types.is_struct(inner) else []
    return result


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_every_column_has_a_description(name, table):
    """Its comment stands in the table, for whoever reads it with SQL."""
    assert uncommented(table.schema) == []


@pytest.mark.parametrize("table", [REBALANCE_PLANS, REBALANCE_MOVES, REBALANCE_HEAVY, PLAN_STEPS], ids=lambda t: t.name)
def test_tables_that_are_written_without_spark_have_their_comments(tmp_path, table):
    append_rows(str(tmp_path), table, [])

    written = DeltaTable(f"{tmp_path}/{table.name}").schema().fields
    assert {field.name: field.metadata.get("comment") for field in written} == {
        field.name: comment(field) for field in table.schema
    }


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_a_name_in_bytes_has_its_text_behind_it(name, table):
    """So that SQL finds keys that are no text."""
    fields = list(table.schema)
    bare = [
        field.name
        for field, following in pairwise([*fields, None])
        if field.type == pa.binary() and (name, field.name) not in NO_NAMES
        if following is None or (following.name, following.type) != (f"{field.name}_text", pa.string())
    ]

    assert bare == []


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_tables_of_key_snapshots_and_plans_have_a_partial_flag(name, table):
    """A dashboard on one of them alone must not show a part as the whole."""
    wanted = name in SNAPSHOT_TABLES or name.startswith("gold/rebalance_")

    assert not wanted or table.schema.field("partial").type == pa.bool_()
