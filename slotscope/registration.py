"""The Data Sources of this project in a session that anybody has made."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from slotscope.runtime.compiled_code import compiling_notice
from slotscope.runtime.spark.session import ship_code
from slotscope.sources.aof.data_source import AofDataSource
from slotscope.sources.bus.data_source import ClusterBusDataSource
from slotscope.sources.rdb.data_source import PushingRdbDataSource
from slotscope.sources.resp.data_source import RespStreamDataSource


def register(spark: SparkSession) -> None:
    """Let *spark* read ``redis-rdb``, ``redis-aof``, ``cluster-bus`` and ``resp-stream``; its executors get the code.

    Executors need the packages that this project stands on (numpy, numba, pyarrow), as they do for any Python that Spark runs.
    """
    sys.stderr.write(compiling_notice())
    ship_code(spark)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for source in (PushingRdbDataSource, AofDataSource, ClusterBusDataSource, RespStreamDataSource):
        spark.dataSource.register(source)
