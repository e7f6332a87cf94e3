"""`Table`: everything that is fixed about a Delta table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.types import BinaryType, BooleanType, DataType, StringType, StructField, StructType


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table at ``ROOT/<name>``; *name* is ``layer/table``, *key* identifies a row, *about* is its one sentence."""

    name: str
    about: str
    schema: StructType
    key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Column names in their order."""
        return list(self.schema.names)


def required(name: str, kind: DataType, about: str) -> StructField:
    """A column that always has a value; *about* is its comment."""
    return StructField(name, kind, nullable=False, metadata={"comment": about})


def optional(name: str, kind: DataType, about: str) -> StructField:
    """A column that is null where no source knows the value; *about* is its comment."""
    return StructField(name, kind, nullable=True, metadata={"comment": about})


PARTIAL = optional(
    "partial",
    BooleanType(),
    "whether something of the snapshot's inputs could not be read: sums are then too small, ranks and shares may be wrong",
)


def with_texts(fields: Iterable[StructField]) -> list[StructField]:
    """*fields* with a text column behind each that holds bytes: ``NAME_text``, escaped as reports show it (`slotscope.reports.text.shown`)."""
    found: list[StructField] = []
    for field in fields:
        found.append(field)
        if isinstance(field.dataType, BinaryType):
            found.append(
                optional(f"{field.name}_text", StringType(), f"{field.name} as text, escaped as in the reports")
            )
    return found
