"""Activity of slots over time: the table, and the rows of samples that tasks return."""

from __future__ import annotations

import pyarrow as pa

from schemas.table import DOUBLE, INTEGER, LONG, TEXT, optional, required, snapshot_table

SLOT_ACTIVITY = snapshot_table(
    "silver/slot_activity",
    "Operations, CPU time, traffic and counts of every slot, combined over several windows.",
    [
        required("metric", TEXT, "ops, cpu_usec, network_bytes_in or _out (a second), keys, memory_bytes"),
        required("slot", INTEGER, "0 to 16383"),
        required("value", DOUBLE, "combined over the windows"),
        required("windows", INTEGER, "windows with a measurement"),
        required("restarted", INTEGER, "windows left out because the counter restarted at 0"),
        optional("combined", TEXT, "last, mean, p95 or ewma"),
    ],
    key=("metric", "slot"),
)

SAMPLE, BAD = range(2)
"""Kinds of rows of `SLOT_SAMPLES`."""

SLOT_SAMPLES = pa.schema(
    [
        pa.field("kind", INTEGER, nullable=False),
        pa.field("metric", TEXT),
        pa.field("slot", INTEGER),
        pa.field("ts_ns", LONG),
        pa.field("node", TEXT),
        pa.field("value", LONG),
        pa.field("source", TEXT),
        pa.field("offset", LONG),
        pa.field("reason", TEXT),
    ]
)
"""Arrow schema of the samples of one file, no table on disk.  *ts_ns* of a file without times is its number."""
