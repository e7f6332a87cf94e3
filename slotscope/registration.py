"""Registration of the data sources in a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from slotscope.runtime.spark.session import ship_code
from slotscope.sources.aof.data_source import AofDataSource
from slotscope.sources.bus.data_source import ClusterBusDataSource
from slotscope.sources.rdb.data_source import RdbDataSource


def register(spark: SparkSession) -> None:
    """Register the sources ``redis-rdb``, ``redis-aof`` and ``cluster-bus``; ship the code to executors.

    Executors need numpy, numba, pandas and pyarrow.  The first read compiles native code for about a minute.
    """
    ship_code(spark)
    for source in (RdbDataSource, AofDataSource, ClusterBusDataSource):
        spark.dataSource.register(source)
