"""Tables of simulations: what came of every run, of every shard that lost its master, and how the runs are distributed."""

from __future__ import annotations

import pyarrow as pa

from cluster_core.sim.experiment.table_rows import Outcome, ShardOutcome
from schemas.table import DOUBLE, INTEGER, LONG, TEXT, fields_of, optional, required, snapshot_table

PARAMETERS: list[pa.Field] = [
    required("profile", TEXT, "server version whose rules the nodes follow"),
    required("node_timeout_ms", LONG, "cluster-node-timeout"),
    required("shards", INTEGER, "masters with slots"),
    required("replicas", INTEGER, "replicas of each master; of a recorded cluster on average, rounded"),
    required("zones", INTEGER, "zones over which the nodes are spread"),
    required("validity_factor", INTEGER, "cluster-replica-validity-factor"),
    required("migration_barrier", INTEGER, "cluster-migration-barrier"),
    required("fault", TEXT, "crash, power, freeze, zone, partition or none"),
    required("hit", TEXT, "how many masters, or which zone; empty for a zone by chance"),
    required("delay_ms", DOUBLE, "network delay, one way"),
    required("clients", INTEGER, "clients that wrote"),
]
"""What a run was made with; equal in the runs of one row of gold/simulated_quantiles."""

OUTCOMES: list[pa.Field] = [field for field in fields_of(Outcome) if field.name != "failed_shards"]

SIMULATED_RUNS = snapshot_table(
    "gold/simulated_runs",
    "One row a simulated run: its parameters, its seed, and what came of it.",
    [
        required("run", LONG, "0, 1, 2 … in the order of the grid"),
        required("seed", LONG, "with the parameters it gives the run again, event by event"),
        *PARAMETERS,
        *OUTCOMES,
    ],
    key=("run",),
)

SIMULATED_SHARDS = snapshot_table(
    "gold/simulated_shards",
    "One row a shard that lost its master in a run.",
    [
        required("run", LONG, "row of gold/simulated_runs"),
        *fields_of(ShardOutcome),
    ],
    key=("run", "master"),
)

SIMULATED_QUANTILES = snapshot_table(
    "gold/simulated_quantiles",
    "How a figure is distributed over the runs of equal parameters; runs in which it never came count as known < runs.",
    [
        required("case", INTEGER, "0, 1, 2 …: the combination of parameters, in the order of the grid"),
        *PARAMETERS,
        required("figure", TEXT, "detected_ms, elected_ms, converged_ms, lost, unavailable, bus_bytes or elections"),
        required("runs", LONG, "runs of the case"),
        required("known", LONG, "runs in which there is a figure"),
        optional("mean", DOUBLE, "mean over these"),
        optional("p10", DOUBLE, "a tenth of them is not above"),
        optional("p50", DOUBLE, "half of them is not above"),
        optional("p90", DOUBLE, "nine tenths of them are not above"),
        optional("p99", DOUBLE, "99 of 100 are not above"),
        optional("worst", DOUBLE, "the greatest"),
    ],
    key=("case", "figure"),
)
