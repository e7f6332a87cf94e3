"""Can the executors of a cluster run this program's tasks?  One small task checks that before anything is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED: Final = ("deltalake", "numba", "numpy", "pandas", "pyarrow", "cluster_core.kernels.compiled")
_LACKS: Final = "the executors' Python lacks {}: install it there"
_REASONS: Final = {
    r'Cannot run program "([^"]+)"': "executors have no Python at {}: set PYSPARK_PYTHON to the one that they have",
    r"No module named '([\w.]+)'": _LACKS,
    r"PACKAGE_NOT_INSTALLED\]\s*(\w+)": _LACKS,
    r"PYTHON_VERSION_MISMATCH\]\s*([^\n]{0,120})": (
        "the executors' Python is another version than the driver's ({}): set PYSPARK_PYTHON to one of the same"
    ),
}


def check_executors(spark: SparkSession) -> None:
    """Run one task that imports what all tasks need; raises InputError with what is missing, and how to bring it."""
    try:
        spark.range(0, 1, 1, 1).mapInArrow(_import_all, "id long").collect()
    except (PySparkException, Py4JError) as error:
        for sign, reason in _REASONS.items():
            if match := re.search(sign, str(error)):
                raise InputError(f"{reason.format(match[1])}; docs/clusters.md says what executors need") from error
        raise


def _import_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for name in NEEDED:
        import_module(name)
    yield from batches
