"""Tables of runs (an audit of jobs) and of the nodes that identify clusters."""

from __future__ import annotations

import pyarrow as pa

from schemas.table import CLUSTER, FLAG, INTEGER, LONG, TEXT, TIME, Table, by_name, optional, required, several

FORMAT = 2
"""Format of the tables, in every row of silver/runs."""
OLDEST_FORMAT = max(2, FORMAT - 1)
"""Oldest format that is read: one before the current one.  Format 1 has no number; ``slotscope tables migrate`` upgrades older formats."""

CHECK = pa.struct(
    [
        required("name", TEXT, "figure"),
        required("of", TEXT, "table of the figure"),
        optional("value", LONG, "value; null if unknown"),
    ]
)

RUNS = Table(
    "silver/runs",
    "Runs of jobs, written after their tables: an audit of the last run of each job and snapshot.",
    pa.schema(
        [
            required("snapshot_id", TEXT, "snapshot name or plan id"),
            CLUSTER,
            required("run_id", TEXT, "id of the run"),
            required("job", TEXT, "job"),
            required("state", TEXT, "running (or killed), complete, failed or set aside"),
            required("version", TEXT, "program version"),
            required("started_at", TIME, "start, by the clock of the job"),
            optional("ended_at", TIME, "end; null while running, or if killed"),
            optional("data_at", TIME, "latest time in its inputs"),
            optional("partial", FLAG, "whether some input was unreadable"),
            optional("inputs", by_name(LONG), "input files and their bytes"),
            optional("rows", by_name(LONG), "rows written, by table"),
            optional("checks", several(CHECK), "figures that were equal when it completed"),
            optional("reason", TEXT, "reason of a failure"),
            optional(
                "began_at", LONG, "number of the run; of two runs of a snapshot the one with the greater number wins"
            ),
            required("format", INTEGER, "format of its tables"),
        ]
    ),
    key=("run_id",),
    of_runs=False,
)

CLUSTERS = Table(
    "silver/clusters",
    "Nodes that identify a cluster without a name.",
    pa.schema(
        [
            required("cluster", TEXT, "name of the cluster"),
            required("node_id", TEXT, "node of the cluster"),
            required("since", TIME, "first seen, by the clock of the job"),
        ]
    ),
    key=("cluster", "node_id"),
    of_runs=False,
)
