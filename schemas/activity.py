"""What slots do over time, as servers and clients tell it: the table, and the samples that tasks pass on."""

from __future__ import annotations

from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from schemas.bronze import SNAPSHOT_ID
from schemas.table import Table, optional, required

SLOT_ACTIVITY = Table(
    "silver/slot_activity",
    "Operations, CPU time, traffic and counts of every slot, several windows combined into one figure.",
    StructType(
        [
            SNAPSHOT_ID,
            required("metric", StringType(), "ops, cpu_usec, network_bytes_in or _out (a second), keys, memory_bytes"),
            required("slot", IntegerType(), "0 to 16383"),
            required("value", DoubleType(), "combined over the windows"),
            required("windows", IntegerType(), "windows that it was measured in"),
            required("restarted", IntegerType(), "windows left out because the slot's counter began again at 0"),
            optional("combined", StringType(), "last, mean, p95 or ewma"),
        ]
    ),
    key=("snapshot_id", "metric", "slot"),
    partition_by=("snapshot_id",),
)

SAMPLE, BAD = range(2)
"""Kinds of rows of `SLOT_SAMPLES`."""

SLOT_SAMPLES = StructType(
    [
        StructField("kind", IntegerType(), nullable=False),
        StructField("metric", StringType()),
        StructField("slot", IntegerType()),
        StructField("ts_ns", LongType()),
        StructField("node", StringType()),
        StructField("value", LongType()),
        StructField("source", StringType()),
        StructField("offset", LongType()),
        StructField("reason", StringType()),
    ]
)
"""What a task reads from a file; not a table on disk.  *ts_ns* of a file without times is the number of the file."""
