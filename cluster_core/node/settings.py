"""What an operator configures of a node, under the names and with the defaults of the servers' directives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from cluster_core.gossip.profile import VALKEY_9_1, Profile
from cluster_core.routing.view import Settings

BUS_PORT_STEP: Final = 10_000
"""The bus port is so far above the client port (R1)."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of one node; times in milliseconds, 0 for "as the rules say"."""

    profile: Profile = VALKEY_9_1
    node_timeout_ms: int = 15_000
    """`cluster-node-timeout`."""
    port: int = 6379
    cport: int = 0
    """`cluster-port`; 0 is the client port plus 10000 (R1)."""
    announce_ip: str = ""
    """`cluster-announce-ip`: written into every header; empty lets receivers look at the socket (R3, R49)."""
    hostname: str = ""
    nodename: str = ""
    client_ipv4: str = ""
    """`cluster-announce-client-ipv4`, -ipv6: where clients of that family find the node (R15)."""
    client_ipv6: str = ""
    ping_interval_ms: int = 0
    """`cluster-ping-interval`; 0 is half the node timeout (R32)."""
    gossip_percent: int = 10
    """`cluster-message-gossip-perc` (R38)."""
    validity_factor: int = 10
    """`cluster-replica-validity-factor`; 0 switches the check off (R85)."""
    migration_barrier: int = 1
    """`cluster-migration-barrier` (R104)."""
    allow_replica_migration: bool = True
    require_full_coverage: bool = True
    no_failover: bool = False
    """`cluster-replica-no-failover` (R84)."""
    manual_failover_ms: int = 5000
    """`cluster-manual-failover-timeout` (R97, R133)."""
    blacklist_ms: int = 60_000
    """`cluster-blacklist-ttl` (R61)."""
    repl_ping_period_s: int = 10
    """`repl-ping-replica-period` (R85)."""
    routing: Settings = field(default_factory=Settings)
    """What decides redirections (R118, R120)."""

    @property
    def bus_port(self) -> int:
        """The port of the bus (R1)."""
        return self.cport or self.port + BUS_PORT_STEP

    @property
    def ping_due_ms(self) -> int:
        """The age of the last pong from which on a node is pinged (R32)."""
        return self.ping_interval_ms or self.node_timeout_ms // 2
