"""What may be configured of a sentinel: its port, its dialect, and its periods (S2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from cluster_core.sentinel.instance import DEFAULT_DOWN_AFTER_MS, DEFAULT_FAILOVER_TIMEOUT_MS

DESYNC_MS: Final = 1000
"""Elections are put off by a random time below this (SENTINEL_MAX_DESYNC)."""
PENDING_COMMANDS_MAX: Final = 100
"""More unanswered commands on a link, and none that is not critical is sent (SENTINEL_MAX_PENDING_COMMANDS)."""
TICKS_PER_S: Final = 10
"""The timer runs 10 to 19 times a second, at random, so that sentinels do not keep step (CONFIG_DEFAULT_HZ)."""


@dataclass(frozen=True, slots=True)
class SentinelSettings:
    """Of one process; *dialect* says whose commands and texts a client finds."""

    port: int = 26379
    dialect: Literal["redis-7.0", "valkey-9.1"] = "valkey-9.1"

    @property
    def keeps_opinions(self) -> bool:
        """Whether what others said of a master is forgotten only while we hold it for down ourselves, as in Valkey 9."""
        return self.dialect == "valkey-9.1"


@dataclass(slots=True)
class Periods:
    """Times of the protocol in milliseconds, with the server's defaults; SENTINEL DEBUG changes them (S2)."""

    info_ms: int = 10_000
    ping_ms: int = 1000
    ask_ms: int = 1000
    publish_ms: int = 2000
    default_down_after_ms: int = DEFAULT_DOWN_AFTER_MS
    default_failover_timeout_ms: int = DEFAULT_FAILOVER_TIMEOUT_MS
    tilt_trigger_ms: int = 2000
    tilt_period_ms: int = 30_000
    reconf_timeout_ms: int = 10_000
    min_reconnect_ms: int = 15_000
    election_timeout_ms: int = 10_000
    script_runtime_ms: int = 60_000
    script_retry_ms: int = 30_000


DEBUG_NAMES: Final = {
    "info-period": "info_ms",
    "ping-period": "ping_ms",
    "ask-period": "ask_ms",
    "publish-period": "publish_ms",
    "default-down-after": "default_down_after_ms",
    "default-failover-timeout": "default_failover_timeout_ms",
    "tilt-trigger": "tilt_trigger_ms",
    "tilt-period": "tilt_period_ms",
    "slave-reconf-timeout": "reconf_timeout_ms",
    "min-link-reconnect-period": "min_reconnect_ms",
    "election-timeout": "election_timeout_ms",
    "script-max-runtime": "script_runtime_ms",
    "script-retry-delay": "script_retry_ms",
}
"""Names of SENTINEL DEBUG, in the order in which it lists them, and the fields of `Periods`."""
