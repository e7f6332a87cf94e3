"""Tables of simulations: what came of every run, of every shard that lost its master, and how the runs are distributed."""

from __future__ import annotations

from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from schemas.bronze import SNAPSHOT_ID
from schemas.table import Table, optional, required

PARAMETERS: list[StructField] = [
    required("profile", StringType(), "server version whose rules the nodes follow"),
    required("node_timeout_ms", LongType(), "cluster-node-timeout"),
    required("shards", IntegerType(), "masters with slots"),
    required("replicas", IntegerType(), "replicas of each master; of a recorded cluster on average, rounded"),
    required("zones", IntegerType(), "zones over which the nodes are spread"),
    required("validity_factor", IntegerType(), "cluster-replica-validity-factor"),
    required("migration_barrier", IntegerType(), "cluster-migration-barrier"),
    required("fault", StringType(), "crash, power, freeze, zone, partition or none"),
    required("hit", StringType(), "how many masters, or which zone; empty for a zone by chance"),
    required("delay_ms", DoubleType(), "network delay, one way"),
    required("clients", IntegerType(), "clients that wrote"),
]
"""What a run was made with; equal in the runs of one row of gold/simulated_quantiles."""

OUTCOMES: list[StructField] = [
    optional(
        "detected_ms", DoubleType(), "from the fault until the last failed master was FAIL for somebody; null: never"
    ),
    optional("elected_ms", DoubleType(), "until the last shard that was hit had a new master; null: never in this run"),
    optional("converged_ms", DoubleType(), "until every running node knew; null: never in this run"),
    required("shards_hit", IntegerType(), "shards that lost their master"),
    required("shards_recovered", IntegerType(), "of these the ones that got a new master"),
    required("elections", IntegerType(), "requests for votes"),
    required("votes", IntegerType(), "votes that were given"),
    required("refusals", IntegerType(), "votes that voting masters refused"),
    required("false_failures", IntegerType(), "running nodes that somebody held for FAIL"),
    optional(
        "acknowledged", LongType(), "writes that clients were told are done; null: no clients, nothing was measured"
    ),
    optional("lost", LongType(), "of these the ones that are gone; null: not measured"),
    optional(
        "unavailable",
        LongType(),
        "of these the ones that no running node serves at the end, but a process holds; null: not measured",
    ),
    required("messages", LongType(), "messages on the bus in the whole run, warming up included"),
    required("bus_bytes", LongType(), "their bytes"),
    required("simulated_s", DoubleType(), "virtual seconds of the whole run"),
    required("violations", IntegerType(), "invariants of the protocol that broke; more than 0 is a defect"),
]

SIMULATED_RUNS = Table(
    "gold/simulated_runs",
    "One row a simulated run: its parameters, its seed, and what came of it.",
    StructType(
        [
            SNAPSHOT_ID,
            required("run", LongType(), "0, 1, 2 … in the order of the grid"),
            required("seed", LongType(), "with the parameters it gives the run again, event by event"),
            *PARAMETERS,
            *OUTCOMES,
        ]
    ),
    key=("snapshot_id", "run"),
    partition_by=("snapshot_id",),
)

SIMULATED_SHARDS = Table(
    "gold/simulated_shards",
    "One row a shard that lost its master in a run.",
    StructType(
        [
            SNAPSHOT_ID,
            required("run", LongType(), "row of gold/simulated_runs"),
            required(
                "master", StringType(), "the master that was lost: M1, M2 …, or its address in a recorded cluster"
            ),
            required("replicas", IntegerType(), "its replicas that ran after the fault"),
            optional("detected_ms", DoubleType(), "until somebody held it for FAIL; null: never"),
            optional("elected_ms", DoubleType(), "until a replica had won; null: never in this run"),
            required("attempts", IntegerType(), "requests for votes of its replicas"),
            required("hindrance", StringType(), "why there is no new master; empty if there is one"),
        ]
    ),
    key=("snapshot_id", "run", "master"),
    partition_by=("snapshot_id",),
)

SIMULATED_QUANTILES = Table(
    "gold/simulated_quantiles",
    "How a figure is distributed over the runs of equal parameters; runs in which it never came count as known < runs.",
    StructType(
        [
            SNAPSHOT_ID,
            required("case", IntegerType(), "0, 1, 2 …: the combination of parameters, in the order of the grid"),
            *PARAMETERS,
            required(
                "figure",
                StringType(),
                "detected_ms, elected_ms, converged_ms, lost, unavailable, bus_bytes or elections",
            ),
            required("runs", LongType(), "runs of the case"),
            required("known", LongType(), "runs in which there is a figure"),
            optional("mean", DoubleType(), "mean over these"),
            optional("p10", DoubleType(), "a tenth of them is not above"),
            optional("p50", DoubleType(), "half of them is not above"),
            optional("p90", DoubleType(), "nine tenths of them are not above"),
            optional("p99", DoubleType(), "99 of 100 are not above"),
            optional("worst", DoubleType(), "the greatest"),
        ]
    ),
    key=("snapshot_id", "case", "figure"),
    partition_by=("snapshot_id",),
)
