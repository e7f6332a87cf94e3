"""A row of the core says what its columns hold; tables follow from it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, NamedTuple

import pyarrow as pa
import pytest

from cluster_core.columns import Instant, InstantAt, Kind, MessageRef, Small, Unsigned, columns_of
from schemas.table import TIME, UNSIGNED, Table, fields_of, rows_table, side_by_side


class Colour(StrEnum):
    RED = "red"


class Row(NamedTuple):
    colour: Annotated[Colour, "its colour"]
    port: Annotated[Small | None, "its port"]
    epoch: Annotated[Unsigned, "its epoch"]
    seen_ns: Annotated[Instant, "when it was seen"]
    ended_ns: Annotated[InstantAt | None, "when it ended"]
    ref: Annotated[MessageRef, "message that shows it"]


class Silent(NamedTuple):
    colour: str


def test_a_field_is_a_column_with_its_type_and_its_sentence() -> None:
    columns = {column.name: column for column in columns_of(Row)}

    assert columns["port"] == ("port", int, Kind.SMALL, True, "its port")
    assert (columns["colour"].type, columns["colour"].optional) == (Colour, False)


def test_times_are_columns_twice_and_a_message_may_be_missing() -> None:
    fields = {field.name: (field.type, field.nullable) for field in fields_of(Row)}

    assert fields == {
        "colour": (pa.string(), False),
        "port": (pa.int32(), True),
        "epoch": (UNSIGNED, False),
        "seen": (TIME, False),
        "seen_ns": (pa.int64(), False),
        "ended_at": (TIME, True),
        "ended_ns": (pa.int64(), True),
        "message_id": (pa.int64(), True),
    }


def test_a_field_without_a_description_is_refused() -> None:
    with pytest.raises(KeyError, match=r"Silent\.colour"):
        columns_of(Silent)


def test_columns_of_several_rows_stand_side_by_side_once() -> None:
    assert [field.name for field in side_by_side((Row, Row))] == [
        "colour", "port", "epoch", "seen_ns", "ended_ns", "message_id",
    ]  # fmt: skip


def test_rows_become_a_table_with_times_in_both_forms() -> None:
    """A number that does not fit is the greatest that does; -1 is no message; an enum is its value."""
    table = Table("silver/x", "", pa.schema(fields_of(Row)), key=(), of_runs=False)
    rows = [Row(Colour.RED, 2**40, 2**64 - 1, 1_000_001_999, None, -1), Row(Colour.RED, None, -3, 0, 5_000, 7)]

    assert rows_table(rows, Row, table).to_pylist() == [
        {
            "colour": "red",
            "port": 2**31 - 1,
            "epoch": Decimal(2**64 - 1),
            "seen": datetime(1970, 1, 1, 0, 0, 1, 1, UTC),
            "seen_ns": 1_000_001_999,
            "ended_at": None,
            "ended_ns": None,
            "message_id": None,
        },
        {
            "colour": "red",
            "port": None,
            "epoch": Decimal(0),
            "seen": datetime(1970, 1, 1, tzinfo=UTC),
            "seen_ns": 0,
            "ended_at": datetime(1970, 1, 1, 0, 0, 0, 5, UTC),
            "ended_ns": 5_000,
            "message_id": 7,
        },
    ]
    assert rows_table([], Row, table).num_rows == 0
