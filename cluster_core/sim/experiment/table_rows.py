"""Rows of simulation outcomes."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from cluster_core.columns import Small


class ShardOutcome(NamedTuple):
    """A shard that lost its master; times in ms since the fault, None for never."""

    master: Annotated[str, "the master that was lost: M1, M2 …"]
    replicas: Annotated[Small, "its replicas that ran after the fault"]
    detected_ms: Annotated[float | None, "until somebody held it for FAIL; null: never"]
    elected_ms: Annotated[float | None, "until a replica had won; null: never in this run"]
    attempts: Annotated[Small, "requests for votes of its replicas"]
    hindrance: Annotated[str, "why there is no new master; empty if there is one"]


class Outcome(NamedTuple):
    """Outcome of one run; times in ms since the fault, None for never within the run."""

    detected_ms: Annotated[
        float | None, "from the fault until the last failed master was FAIL for somebody; null: never"
    ]
    elected_ms: Annotated[float | None, "until the last shard that was hit had a new master; null: never in this run"]
    converged_ms: Annotated[float | None, "until every running node knew; null: never in this run"]
    shards_hit: Annotated[Small, "shards that lost their master"]
    shards_recovered: Annotated[Small, "of these the ones that got a new master"]
    elections: Annotated[Small, "requests for votes"]
    votes: Annotated[Small, "votes that were given"]
    refusals: Annotated[Small, "votes that voting masters refused"]
    false_failures: Annotated[Small, "running nodes that somebody held for FAIL"]
    acknowledged: Annotated[
        int | None, "writes that clients were told are done; null: no clients, nothing was measured"
    ]
    lost: Annotated[int | None, "of these the ones that are gone; null: not measured"]
    unavailable: Annotated[
        int | None,
        "of these the ones that no running node serves at the end, but a process holds; null: not measured",
    ]
    messages: Annotated[int, "messages on the bus in the whole run, warming up included"]
    bus_bytes: Annotated[int, "their bytes"]
    simulated_s: Annotated[float, "virtual seconds of the whole run"]
    violations: Annotated[Small, "invariants of the protocol that broke; more than 0 is a defect"]
    failed_shards: Annotated[tuple[ShardOutcome, ...], "each shard that lost its master"]
