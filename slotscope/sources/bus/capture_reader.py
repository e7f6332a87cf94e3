"""What the data sources of captures share: a series of files is one unit of work, and what is not understood is a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from schemas.bronze import BAD_RECORDS
from slotscope.sources.bus.files import CaptureFile, find_captures, survey
from slotscope.sources.data_source import UnitReader

BAD = pa.schema([field for field in BAD_RECORDS.schema if field.name not in (*BAD_RECORDS.labels, "job")])
"""Schema of ``rows=bad``."""


class CaptureReader(UnitReader):
    """Finds the files of a series; a subclass decodes it."""

    known = frozenset[str]()

    def series(self) -> tuple[CaptureFile, ...]:
        """The files; raises DecodeError for a path that names nothing."""
        return tuple(survey(find_captures([self.path])))

    def units(self) -> Iterable[Any]:
        """The series is one unit."""
        return [self.series()]
