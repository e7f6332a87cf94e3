"""What ``simulate`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Common, Fractions, Numbers, Paths, options


@options
class Request(Common):
    """Which clusters, which faults, and how often."""

    snapshot: str = "simulation"
    """Name of these runs in the tables; the same name replaces them."""
    seeds: int = 100
    """Runs of each case."""
    first_seed: int = 1
    """The first seed; a run is its parameters and its seed."""
    profile: Paths = ("valkey-9.1",)
    """Server versions: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1."""
    node_timeout_ms: Numbers = (15_000,)
    """cluster-node-timeout."""
    shards: Numbers = (3,)
    """Masters with slots."""
    replicas: Numbers = (1,)
    """Replicas of each master."""
    zones: Numbers = (3,)
    """Zones over which the nodes are spread; a shard has its nodes in different ones."""
    validity_factor: Numbers = (10,)
    """cluster-replica-validity-factor."""
    migration_barrier: Numbers = (1,)
    """cluster-migration-barrier."""
    fault: Paths = ("crash",)
    """crash (processes of masters are killed), power (their machines go), freeze (they are stopped), zone (all of a zone
    goes), partition (a zone is cut off), or none.
    """
    hit: Paths = ("1",)
    """How many masters the fault takes; for zone and partition the zone, or a number for one by chance."""
    delay_ms: Fractions = (0.25,)
    """Delay of the network, one way."""
    clients: int = 0
    """Clients that write ten times a second each."""
    limit_s: float = 160.0
    """A run ends so many virtual seconds after the fault at the latest."""
    from_snapshot: str | None = None
    """Start from the cluster that history recorded under this name, instead of shards, replicas and zones."""
    at: str | None = None
    """When: ISO 8601 (UTC unless it says otherwise). Default: the last evidence."""
    observer: str = "all"
    """Whose view: a node id, the beginning of one, host:port or port."""
    zone: Paths = ()
    """NAME=ADDRESSES: what is in a zone of a recorded cluster: ips, ip:port, networks, beginnings of ids."""
    html: str | None = None
    """Where to write the report. Default: ROOT/reports."""
