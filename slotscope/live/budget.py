"""What all connections of a live machine may take together."""

from __future__ import annotations

from typing import Final

CONNECTIONS_BYTES_MAX: Final = 128 << 20
"""Bytes that wait on all connections: of commands and messages that are not whole, and of replies that are not taken."""
CLIENTS_MAX: Final = 10_000
"""The servers' default of maxclients."""
CLIENT_IDLE_S: Final = 300.0
"""A client that says nothing for so long, and listens to no channel, is hung up on."""
BUS_IDLE_S: Final = 60.0
"""A link of the bus that brings no whole message for so long, or for some node timeouts, is no peer's: peers ping twice in one."""
BUS_IDLE_TIMEOUTS: Final = 4


class OverBudgetError(OSError):
    """All connections together hold more than they may."""


class Budget:
    """Bytes that connections hold; each tells how many it does, and is told whether all together may."""

    def __init__(self, bytes_max: int = CONNECTIONS_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._held: dict[object, int] = {}

    def hold(self, connection: object, size: int) -> bool:
        """Note that *connection* holds *size* bytes now; return whether that may be."""
        self.used += size - self._held.pop(connection, 0)
        if size:
            self._held[connection] = size
        return self.used <= self.bytes_max

    def largest(self) -> object:
        """Return the connection that holds most; there must be one."""
        return max(self._held, key=self._held.__getitem__)
