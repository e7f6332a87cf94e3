"""`Table`: everything that is fixed about a Delta table."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType, StructField, StructType


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
