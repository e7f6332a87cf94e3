"""From when on something counts: factors of the node timeout T, and what the servers' clocks set."""

from __future__ import annotations

from typing import Final, NamedTuple

from cluster_core.history.statements import TICK_NS

MS: Final = 1_000_000
RANDOM_PING_NS: Final = 1_000 * MS
"""Every tenth cron sends a ping to somebody (R31)."""
ORDER_NS: Final = 50 * MS
"""Headers that were built one after the other may leave in another order within one event-loop pass (R161)."""
MANUAL_FAILOVER_NS: Final = 5_000 * MS
"""How long a manual failover may take (R97)."""
PAUSE_NS: Final = 5_000 * MS
"""Changes that are closer belong together where the node timeout is not known."""
FLAPS_MIN: Final = 3
"""So many spells of doubt make a flapping node."""


class Thresholds(NamedTuple):
    """The thresholds of a cluster with one node timeout, in ns."""

    timeout_ns: int
    is_known: bool = True
    """Whether the node timeout is known; else it is the servers' default."""

    @property
    def silence_ns(self) -> int:
        """No node that lives says nothing for so long: due pings (R32), random pings (R31), two ticks."""
        return max(self.timeout_ns // 2, RANDOM_PING_NS) + 2 * TICK_NS

    @property
    def together_ns(self) -> int:
        """Nodes that go or return this close do so together: the spread of pings and pongs (R31, R32)."""
        return max(self.timeout_ns // 2, RANDOM_PING_NS) if self.is_known else RANDOM_PING_NS

    @property
    def lasting_ns(self) -> int:
        """What contradicts for longer is reported; propagation takes about T/2 (R32)."""
        return self.timeout_ns

    @property
    def grave_ns(self) -> int:
        """And for longer than this it is a warning: elections are retried by then (R83)."""
        return 4 * self.timeout_ns

    @property
    def pause_ns(self) -> int:
        """Changes of membership or of unowned slots that are closer belong together."""
        return 2 * self.timeout_ns if self.is_known else PAUSE_NS

    @property
    def resharding_pause_ns(self) -> int:
        """The same for slots that move, because keys are moved between them."""
        return 5 * self.timeout_ns if self.is_known else 2 * PAUSE_NS

    @property
    def flap_window_ns(self) -> int:
        """Spells of doubt count as flapping when they begin within this time."""
        return 60 * self.timeout_ns
