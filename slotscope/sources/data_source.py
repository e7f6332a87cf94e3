"""The base of the Data Sources: a name, the schemas of the rows that option ``rows`` chooses from, and units of work read as Arrow batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from cluster_core.errors import DecodeError
from slotscope.runtime.spark.spark_schema import spark_schema

T = TypeVar("T")


@dataclass
class UnitPartition(InputPartition):
    """One unit of work."""

    unit: Any


class UnitReader(DataSourceReader):
    """Finds units on the driver, reads them in Python workers; a subclass says how."""

    schemas: ClassVar[Mapping[str, pa.Schema]]
    """Kinds of rows, the default first."""
    known: ClassVar[frozenset[str]]
    """Options beside ``path``, ``paths``, ``rows`` and ``mode``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.rows = choice(options, "rows", tuple(self.schemas))
        self.permissive = choice(options, "mode", ("strict", "permissive")) == "permissive"
        self.path = options.get("path", "")
        self.paths = _paths(options)
        self.schema = self.schema_of(options)

    def units(self) -> Iterable[Any]:
        """The units of work; raises DecodeError for a path that names nothing."""
        raise NotImplementedError

    def batches(self, unit: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one unit; raises DecodeError in strict mode."""
        raise NotImplementedError

    def partitions(self) -> list[InputPartition]:
        """Return a partition a unit."""
        return [UnitPartition(unit) for unit in self.units()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition."""
        assert isinstance(partition, UnitPartition)
        return self.batches(partition.unit)

    @classmethod
    def schema_of(cls, options: Mapping[str, str]) -> pa.Schema:
        """The schema of the rows that *options* ask for."""
        return cls.schemas[choice(options, "rows", tuple(cls.schemas))]

    def until_damage(self, items: Iterable[T]) -> Iterator[T]:
        """*items* up to the first bad byte, which is an error in strict mode only."""
        try:
            yield from items
        except DecodeError:
            if not self.permissive:
                raise


def _paths(options: Mapping[str, str]) -> list[str]:
    """The paths to read: one, a list as ``load([...])`` hands it over, or several separated by commas."""
    paths = options.get("paths", "")
    if "path" in options:
        return [options["path"]]
    return json.loads(paths) if paths.startswith("[") else [path for path in paths.split(",") if path]


class UnitSource(DataSource):
    """A Data Source that a `UnitReader` reads."""

    format: ClassVar[str]
    reads: ClassVar[type[UnitReader]]

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return cls.format

    def schema(self) -> StructType:
        """Return the schema of the rows asked for."""
        return spark_schema(self.reads.schema_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of all partitions; raises DecodeError for an option that is not known."""
        unknown = sorted(set(self.options) - {"path", "paths", "rows", "mode"} - self.reads.known)
        if unknown:
            raise DecodeError(
                f"no option {unknown[0]!r} of {self.format}", offset=0, source=self.options.get("path", "")
            )
        return self.reads(dict(self.options))


def choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Return option *name*, the first of *allowed* when it is not given; raises DecodeError for another word."""
    value = str(options.get(name, allowed[0])).lower()
    if value not in allowed:
        raise DecodeError(
            f"option {name} is {value!r}, not {' or '.join(allowed)}", offset=0, source=options.get("path", "")
        )
    return value
