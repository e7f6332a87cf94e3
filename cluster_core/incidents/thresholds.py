"""Thresholds of incidents and findings: multiples of the node timeout T, and server constants."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.history.statements import TICK_NS

MS: Final = 1_000_000
RANDOM_PING_NS: Final = 1_000 * MS
"""Period of random pings: every tenth cron (R31)."""
ORDER_NS: Final = 50 * MS
"""Headers may be sent in another order than built within one event loop iteration (R161)."""
MANUAL_FAILOVER_NS: Final = 5_000 * MS
"""Timeout of a manual failover (R97)."""
PAUSE_NS: Final = 5_000 * MS
"""Maximum pause within a group of changes if the node timeout is unknown."""
FLAPS_MIN: Final = 3
"""Minimum PFAIL periods of a flapping node."""


class Thresholds(NamedTuple):
    """The thresholds of a cluster with one node timeout, in ns."""

    timeout_ns: int
    is_known: bool = True
    """The node timeout is known; otherwise it is the default."""

    @property
    def silence_ns(self) -> int:
        """Return the maximum silence of a live node: due pings (R32), random pings (R31), two ticks."""
        return max(self.timeout_ns // 2, RANDOM_PING_NS) + 2 * TICK_NS

    @property
    def together_ns(self) -> int:
        """Return the maximum spread of nodes failing or returning together (R31, R32)."""
        return max(self.timeout_ns // 2, RANDOM_PING_NS) if self.is_known else RANDOM_PING_NS

    @property
    def lasting_ns(self) -> int:
        """Return the minimum duration of a reported conflict; propagation takes about T/2 (R32)."""
        return self.timeout_ns

    @property
    def grave_ns(self) -> int:
        """Return the minimum duration of a warning: elections are retried by then (R83)."""
        return 4 * self.timeout_ns

    @property
    def pause_ns(self) -> int:
        """Return the maximum pause within a group of membership or slot changes."""
        return 2 * self.timeout_ns if self.is_known else PAUSE_NS

    @property
    def resharding_pause_ns(self) -> int:
        """Return the same for moved slots, with key migration between them."""
        return 5 * self.timeout_ns if self.is_known else 2 * PAUSE_NS

    @property
    def flap_window_ns(self) -> int:
        """Return the window of PFAIL periods that count as flapping."""
        return 60 * self.timeout_ns
