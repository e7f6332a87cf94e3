"""What the data sources of captures share: a series of files is one piece of work, and what is not understood is a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from slotscope.sources.options import choice

if TYPE_CHECKING:
    from slotscope.sources.bus.files import CaptureFile

BAD = StructType(
    [
        StructField("source", StringType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("reason", StringType(), nullable=False),
        StructField("skipped_bytes", LongType()),
    ]
)
"""Schema of ``rows=bad``."""
OPTIONS = {"path", "paths", "rows", "mode"}


@dataclass
class SeriesPartition(InputPartition):
    """One series of files."""

    files: tuple[CaptureFile, ...]


class CaptureReader(DataSourceReader):
    """Finds the files on the driver; a subclass names the *schemas* by kind of row and decodes a series in one Python worker."""

    schemas: ClassVar[Mapping[str, StructType]]

    def __init__(self, options: dict[str, str]) -> None:
        self.rows = choice(options, "rows", tuple(self.schemas))
        self.permissive = choice(options, "mode", ("strict", "permissive")) == "permissive"
        self.path = options.get("path", "")

    def partitions(self) -> list[InputPartition]:
        """Return the series; raises DecodeError for a path that names nothing."""
        from slotscope.sources.bus.files import find_captures, survey

        return [SeriesPartition(tuple(survey(find_captures([self.path]))))]
