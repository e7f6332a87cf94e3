"""What holds for every table: names that are bytes can be read as text, and rows of a snapshot say whether it is partial."""

from __future__ import annotations

import importlib
import pkgutil
from itertools import pairwise

import pytest
from pyspark.sql.types import BinaryType, BooleanType, StringType

import schemas
from schemas.table import Table

TABLES = sorted(
    {
        value.name: value
        for found in pkgutil.iter_modules(schemas.__path__)
        for value in vars(importlib.import_module(f"schemas.{found.name}")).values()
        if isinstance(value, Table)
    }.items()
)
NO_NAMES = {("silver/replay_state", "state")}
"""Bytes that are no name."""
SNAPSHOT_TABLES = {
    "bronze/keys", "silver/slot_load", "silver/sources", "silver/snapshots", "silver/write_load", "gold/node_load", "gold/big_keys",
    "gold/hash_tags", "gold/key_prefixes", "gold/ttl_buckets", "gold/command_load", "gold/write_keys", "gold/log_savings",
    "gold/uncertain_keys",
}  # fmt: skip


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_a_name_in_bytes_has_its_text_behind_it(name, table):
    """So that SQL finds keys that are no text."""
    fields = list(table.schema.fields)
    bare = [
        field.name
        for field, following in pairwise([*fields, None])
        if isinstance(field.dataType, BinaryType) and (name, field.name) not in NO_NAMES
        if following is None or (following.name, following.dataType) != (f"{field.name}_text", StringType())
    ]

    assert bare == []


@pytest.mark.parametrize(("name", "table"), TABLES)
def test_tables_of_key_snapshots_and_of_plans_say_whether_something_could_not_be_read(name, table):
    """A dashboard on one of them alone must not show a part as the whole."""
    wanted = name in SNAPSHOT_TABLES or name.startswith("gold/rebalance_")

    assert not wanted or table.schema["partial"].dataType == BooleanType()
