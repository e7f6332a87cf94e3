"""From when on something counts: factors of the node timeout T, and what the servers' clocks set."""

from __future__ import annotations

from typing import Final, NamedTuple

MS: Final = 1_000_000
TICK_NS: Final = 105 * MS
"""A cron with its usual lateness (R28)."""
RANDOM_PING_NS: Final = 1_000 * MS
"""Every tenth cron sends a ping to somebody (R31)."""
ORDER_NS: Final = 50 * MS
"""Headers that were built one after the other may leave in another order within one event-loop pass (R161)."""
MANUAL_FAILOVER_NS: Final = 5_000 * MS
"""How long a manual failover may take (R97)."""
FLAPS_MIN: Final = 3
"""So many spells of doubt make a flapping node."""
FLAP_WINDOW_FACTOR: Final = 60
"""They count when they begin within this many T."""
PAUSE_FACTOR: Final = 2
"""Changes of membership or of unowned slots that are closer than this many T belong together."""
RESHARDING_PAUSE_FACTOR: Final = 5
"""The same for slots that move, because keys are moved between them."""
TOGETHER_FACTOR: Final = 0.5
"""Nodes that go or return within this many T do so together: the spread of pings and pongs (R32)."""
LASTING_FACTOR: Final = 1
"""What contradicts for longer than this many T is reported (propagation takes about T/2, R32)."""
GRAVE_FACTOR: Final = 4
"""And for longer than this it is a warning: elections are retried by then (R83)."""


class Thresholds(NamedTuple):
    """The thresholds of a cluster with one node timeout, in ns."""

    timeout_ns: int

    @property
    def silence_ns(self) -> int:
        """No node that lives says nothing for so long: due pings (R32), random pings (R31), two ticks."""
        return max(self.timeout_ns // 2, RANDOM_PING_NS) + 2 * TICK_NS

    @property
    def together_ns(self) -> int:
        """See `TOGETHER_FACTOR`; at least the time between random pings."""
        return max(int(self.timeout_ns * TOGETHER_FACTOR), RANDOM_PING_NS)

    @property
    def lasting_ns(self) -> int:
        """See `LASTING_FACTOR`."""
        return self.timeout_ns * LASTING_FACTOR

    @property
    def grave_ns(self) -> int:
        """See `GRAVE_FACTOR`."""
        return self.timeout_ns * GRAVE_FACTOR

    @property
    def pause_ns(self) -> int:
        """See `PAUSE_FACTOR`."""
        return self.timeout_ns * PAUSE_FACTOR

    @property
    def resharding_pause_ns(self) -> int:
        """See `RESHARDING_PAUSE_FACTOR`."""
        return self.timeout_ns * RESHARDING_PAUSE_FACTOR

    @property
    def flap_window_ns(self) -> int:
        """See `FLAP_WINDOW_FACTOR`."""
        return self.timeout_ns * FLAP_WINDOW_FACTOR
