"""Tables of simulations: what came of every run, of every shard that lost its master, and how the runs are distributed."""

from __future__ import annotations

import pyarrow as pa

from schemas.table import DOUBLE, INTEGER, LONG, TEXT, optional, required, snapshot_table

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

OUTCOMES: list[pa.Field] = [
    optional("detected_ms", DOUBLE, "from the fault until the last failed master was FAIL for somebody; null: never"),
    optional("elected_ms", DOUBLE, "until the last shard that was hit had a new master; null: never in this run"),
    optional("converged_ms", DOUBLE, "until every running node knew; null: never in this run"),
    required("shards_hit", INTEGER, "shards that lost their master"),
    required("shards_recovered", INTEGER, "of these the ones that got a new master"),
    required("elections", INTEGER, "requests for votes"),
    required("votes", INTEGER, "votes that were given"),
    required("refusals", INTEGER, "votes that voting masters refused"),
    required("false_failures", INTEGER, "running nodes that somebody held for FAIL"),
    optional("acknowledged", LONG, "writes that clients were told are done; null: no clients, nothing was measured"),
    optional("lost", LONG, "of these the ones that are gone; null: not measured"),
    optional(
        "unavailable",
        LONG,
        "of these the ones that no running node serves at the end, but a process holds; null: not measured",
    ),
    required("messages", LONG, "messages on the bus in the whole run, warming up included"),
    required("bus_bytes", LONG, "their bytes"),
    required("simulated_s", DOUBLE, "virtual seconds of the whole run"),
    required("violations", INTEGER, "invariants of the protocol that broke; more than 0 is a defect"),
]

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
        required("master", TEXT, "the master that was lost: M1, M2 …, or its address in a recorded cluster"),
        required("replicas", INTEGER, "its replicas that ran after the fault"),
        optional("detected_ms", DOUBLE, "until somebody held it for FAIL; null: never"),
        optional("elected_ms", DOUBLE, "until a replica had won; null: never in this run"),
        required("attempts", INTEGER, "requests for votes of its replicas"),
        required("hindrance", TEXT, "why there is no new master; empty if there is one"),
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
