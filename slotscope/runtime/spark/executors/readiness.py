"""Can the executors of a cluster run this program's tasks?  Asked by one small task, before anything is read."""

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
_PAGE: Final = "docs/clusters.md says what executors need"
_SIGNS: Final = (
    (
        re.compile(r'Cannot run program "(?P<what>[^"]+)"'),
        "executors have no Python at {what}: set PYSPARK_PYTHON to the one that they have",
    ),
    (re.compile(r"No module named '(?P<what>[\w.]+)'"), "the executors' Python lacks {what}: install it there"),
    (
        re.compile(r"PACKAGE_NOT_INSTALLED\]\s*(?P<what>\w+)"),
        "the executors' Python lacks {what}: install it there",
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH\]\s*(?P<what>[^\n]{0,120})"),
        "the executors' Python is another version than the driver's ({what}): set PYSPARK_PYTHON to one of the same",
    ),
)


def check_executors(spark: SparkSession) -> None:
    """Run one task that imports what all tasks need; raises InputError with what is missing, and how to bring it."""
    try:
        spark.range(0, 1, 1, 1).mapInArrow(_import_all, "told string").collect()
    except (PySparkException, Py4JError) as error:
        text = str(error)
        for sign, words in _SIGNS:
            if found := sign.search(text):
                raise InputError(f"{words.format(what=found['what'])}; {_PAGE}") from error
        raise


def _import_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for name in NEEDED:
        import_module(name)
    for batch in batches:
        yield pa.record_batch({"told": pa.array(["ready"] * batch.num_rows)})
