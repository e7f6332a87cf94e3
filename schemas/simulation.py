"""Tables of simulations: runs, shards that lost their master, and distributions over runs."""

from __future__ import annotations

import pyarrow as pa

from cluster_core.sim.experiment.table_rows import Outcome, ShardOutcome
from schemas.table import DOUBLE, INTEGER, LONG, TEXT, fields_of, optional, required, snapshot_table

PARAMETERS: list[pa.Field] = [
    required("profile", TEXT, "server version of the nodes"),
    required("node_timeout_ms", LONG, "cluster-node-timeout"),
    required("shards", INTEGER, "masters with slots"),
    required("replicas", INTEGER, "replicas of each master"),
    required("zones", INTEGER, "number of zones of the nodes"),
    required("validity_factor", INTEGER, "cluster-replica-validity-factor"),
    required("migration_barrier", INTEGER, "cluster-migration-barrier"),
    required("fault", TEXT, "crash, power, freeze, zone, partition or none"),
    required("hit", TEXT, "number of masters, or the zone; empty for a random zone"),
    required("delay_ms", DOUBLE, "network delay, one way"),
    required("clients", INTEGER, "writing clients"),
]
"""Parameters of a run; equal for the runs of one row of gold/simulated_quantiles."""

OUTCOMES: list[pa.Field] = [field for field in fields_of(Outcome) if field.name != "failed_shards"]

SIMULATED_RUNS = snapshot_table(
    "gold/simulated_runs",
    "Simulated runs: parameters, seed, results.",
    [
        required("run", LONG, "0, 1, 2 … in the order of the grid"),
        required("seed", LONG, "seed; with the parameters it repeats the run exactly"),
        *PARAMETERS,
        *OUTCOMES,
    ],
    key=("run",),
)

SIMULATED_SHARDS = snapshot_table(
    "gold/simulated_shards",
    "Shards that lost their master in a run.",
    [
        required("run", LONG, "row of gold/simulated_runs"),
        *fields_of(ShardOutcome),
    ],
    key=("run", "master"),
)

SIMULATED_QUANTILES = snapshot_table(
    "gold/simulated_quantiles",
    "Distribution of a figure over the runs of equal parameters; known < runs if some runs lack it.",
    [
        required("case", INTEGER, "number of the parameter combination, in the order of the grid"),
        *PARAMETERS,
        required("figure", TEXT, "detected_ms, elected_ms, converged_ms, lost, unavailable, bus_bytes or elections"),
        required("runs", LONG, "runs of the case"),
        required("known", LONG, "runs with the figure"),
        optional("mean", DOUBLE, "mean"),
        optional("p10", DOUBLE, "10th percentile"),
        optional("p50", DOUBLE, "median"),
        optional("p90", DOUBLE, "90th percentile"),
        optional("p99", DOUBLE, "99th percentile"),
        optional("worst", DOUBLE, "maximum"),
    ],
    key=("case", "figure"),
)
