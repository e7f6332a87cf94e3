"""A Spark session that somebody else made, without Delta Lake."""

from __future__ import annotations

import subprocess
import sys

import pytest

from schemas.silver import SLOT_LOAD
from tests.builders.stored_rows import store

PROGRAM = """
import sys
from pyspark.sql import SparkSession
import slotscope
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    slotscope.register_views(spark, sys.argv[1])
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.slow
@pytest.mark.processes
def test_views_in_a_session_without_delta_are_refused_in_one_line_that_says_how_to_make_one(tmp_path):
    store(str(tmp_path), "a", {SLOT_LOAD: [{"slot": 1, "keys": 1}]}, job="key-slots")

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=300, check=True
    )

    (line,) = done.stdout.splitlines()
    assert line.startswith(
        "InputError: this Spark session cannot read Delta tables: build it with delta.configure_spark_with_"
    )
