"""Rows of simulation outcomes."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cluster_core.columns import Small


class ShardOutcome(NamedTuple):
    """A shard that lost its master; times in ms since the fault, None for never."""

    master: Annotated[str, "lost master: M1, M2 …"]
    replicas: Annotated[Small, "replicas that ran after the fault"]
    detected_ms: Annotated[float | None, "until the first FAIL mark; null: never"]
    elected_ms: Annotated[float | None, "until a replica won; null: never in this run"]
    attempts: Annotated[Small, "vote requests of its replicas"]
    hindrance: Annotated[str, "reason for no new master; empty if there is one"]


class Outcome(NamedTuple):
    """Outcome of one run; times in ms since the fault, None for never within the run."""

    detected_ms: Annotated[
        float | None, "from the fault until a node had marked the last failed master FAIL; null: never"
    ]
    elected_ms: Annotated[float | None, "until the last affected shard had a new master; null: never in this run"]
    converged_ms: Annotated[float | None, "until all running nodes agreed; null: never in this run"]
    shards_hit: Annotated[Small, "shards that lost their master"]
    shards_recovered: Annotated[Small, "shards of these with a new master"]
    elections: Annotated[Small, "requests for votes"]
    votes: Annotated[Small, "votes granted"]
    refusals: Annotated[Small, "votes refused by voting masters"]
    false_failures: Annotated[Small, "running nodes that were marked FAIL"]
    acknowledged: Annotated[int | None, "acknowledged writes; null: no clients"]
    lost: Annotated[int | None, "acknowledged writes that are lost; null: not measured"]
    unavailable: Annotated[
        int | None,
        "acknowledged writes that only processes out of service hold at the end; null: not measured",
    ]
    messages: Annotated[int, "bus messages of the whole run, warm-up included"]
    bus_bytes: Annotated[int, "bytes of these messages"]
    simulated_s: Annotated[float, "virtual seconds of the whole run"]
    violations: Annotated[Small, "broken invariants of the protocol; more than 0 is a defect"]
    failed_shards: Annotated[tuple[ShardOutcome, ...], "each shard that lost its master"]
