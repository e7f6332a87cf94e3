"""``slotscope.register`` in sessions of our own and of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import slotscope

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
DUMP = DATA / "valkey-9.1" / "before" / "node-7003.rdb"

NOTEBOOK = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pyspark.sql import SparkSession
spark = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").getOrCreate()
import slotscope
slotscope.register(spark)
slotscope.register(spark)
print(spark.read.format("redis-rdb").load({str(DUMP)!r}).count())
"""


def test_every_data_source_is_registered(spark):
    slotscope.register(spark)

    sources = ("redis-rdb", "redis-aof", "cluster-bus")
    assert all(spark.read.format(name).load(str(DUMP)).columns for name in sources)
    assert spark.read.format("redis-rdb").load(str(DUMP)).count() == 1346


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("master", ["local[1]", "local-cluster[1,1,1024]"])
def test_a_foreign_session_gets_the_sources_and_the_code(tmp_path, master):
    """Away from the project's folder, where its workers would not find it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, master], cwd=tmp_path, capture_output=True, text=True, timeout=600,
        env={**environment, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip

    assert done.stdout.split()[-1:] == ["1346"], done.stderr
