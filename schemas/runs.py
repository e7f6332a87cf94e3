"""Tables of who wrote what: runs of jobs, and the nodes by which clusters are known again."""

from __future__ import annotations

import pyarrow as pa

from schemas.table import CLUSTER, FLAG, INTEGER, LONG, TEXT, TIME, Table, by_name, optional, required, several

FORMAT = 2
"""Form of the tables; a root of an older form is brought to it by ``slotscope migrate``."""

CHECK = pa.struct(
    [
        required("name", TEXT, "the figure"),
        required("of", TEXT, "table that it was read from"),
        optional("value", LONG, "what it comes to there; null where it is not known"),
    ]
)

RUNS = Table(
    "silver/runs",
    "One row a run of a job, written after its tables: an audit.",
    pa.schema(
        [
            required("snapshot_id", TEXT, "name of the snapshot, or id of the plan, that it wrote"),
            CLUSTER,
            required("run_id", TEXT, "id of the run in the other tables"),
            required("job", TEXT, "what ran"),
            required(
                "state", TEXT, "running (or killed), complete, replaced (by a later run of the same name) or failed"
            ),
            required("version", TEXT, "version of the program"),
            required("started_at", TIME, "when it began, UTC: by the clock of the job"),
            optional("ended_at", TIME, "when it ended; null while it runs, or where it was killed"),
            optional("data_at", TIME, "latest time that its inputs tell of"),
            optional("partial", FLAG, "whether something of its inputs could not be read"),
            optional("inputs", by_name(LONG), "input files and their bytes"),
            optional("rows", by_name(LONG), "rows that it wrote, by table"),
            optional("checks", several(CHECK), "figures that were found equal before it was called complete"),
            optional("reason", TEXT, "why it failed"),
            optional(
                "began_at",
                LONG,
                "version of this table at which it began: of two runs of a snapshot the later one stays",
            ),
            required("format", INTEGER, "form of the tables that it wrote"),
        ]
    ),
    key=("run_id",),
    of_runs=False,
)

CLUSTERS = Table(
    "silver/clusters",
    "Nodes by which a cluster is known again where nobody names it.",
    pa.schema(
        [
            required("cluster", TEXT, "name of the cluster"),
            required("node_id", TEXT, "a node that was seen in it"),
            required("since", TIME, "when it was first seen there, UTC: by the clock of the job"),
        ]
    ),
    key=("cluster", "node_id"),
    of_runs=False,
)
