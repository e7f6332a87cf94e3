"""What the network does to bytes from one host to another: delay, loss as TCP feels it, walls (R27, RFC 6298).

A link of the bus is a TCP connection, so nothing is lost or turned around within it: a lost segment holds up what is
behind it until it is sent again.  `duplicate` and `reorder` are what no TCP does; they are there to show that the
checkers see what such a network breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

RETRY_US: Final = 200_000
"""The first retransmission timeout; each further one is twice as long (RFC 6298, Linux's minimum)."""
RETRY_US_MAX: Final = 120_000_000
CONNECT_RETRY_US: Final = 1_000_000
"""After so long the first SYN is sent again (RFC 6298)."""
CONNECT_ATTEMPTS_MAX: Final = 7
"""SYNs that are sent before a connection is given up: 127 s, as Linux has it."""


class Path:
    """One direction between two hosts; times in microseconds, shares from 0 to 1."""

    __slots__ = ("delay_us", "duplicate", "is_blocked", "jitter_us", "loss", "plain", "reorder")

    def __init__(
        self,
        delay_us: int = 250,
        jitter_us: int = 50,
        *,
        loss: float = 0.0,
        duplicate: float = 0.0,
        reorder: float = 0.0,
        is_blocked: bool = False,
    ) -> None:
        self.delay_us, self.jitter_us = delay_us, jitter_us
        self.loss, self.duplicate, self.reorder = loss, duplicate, reorder
        self.is_blocked = is_blocked
        self.plain = not (loss or duplicate or reorder or is_blocked)

    def copy(self, **changes: object) -> Path:
        """This path with *changes* of the arguments of the constructor."""
        known = ("delay_us", "jitter_us", "loss", "duplicate", "reorder", "is_blocked")
        return Path(**{name: changes.get(name, getattr(self, name)) for name in known})  # type: ignore[arg-type]

    def travel_us(self, rng: Random) -> int:
        """How long a segment takes, with the retransmissions that its losses cost."""
        wait_us = self.delay_us + int(rng.random() * self.jitter_us)
        retry_us = RETRY_US
        while self.loss and rng.random() < self.loss and retry_us < RETRY_US_MAX:
            wait_us += retry_us
            retry_us *= 2
        return wait_us


def retry_after_us(held_us: int) -> int:
    """How long after a wall of *held_us* fell the sender tries again: its timeouts had doubled meanwhile.

    >>> retry_after_us(0), retry_after_us(500_000), retry_after_us(1_000_000)
    (200000, 100000, 400000)
    """
    retry_us, next_us = RETRY_US, RETRY_US
    while next_us <= held_us:
        retry_us = min(2 * retry_us, RETRY_US_MAX)
        next_us += retry_us
    return next_us - held_us
