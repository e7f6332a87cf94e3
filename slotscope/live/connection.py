"""What connections of a live machine share: how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Connection:
    """A numbered connection, from before it is up until it is gone; *lost* hears of an end that we did not ask for."""

    def __init__(self, number: int, lost: Callable[[int], None]) -> None:
        self.number = number
        self.task: asyncio.Task[None] | None = None
        self.writer: asyncio.StreamWriter | None = None
        self._lost = lost
        self._closed = False

    def close(self) -> None:
        """End the connection without saying so."""
        self._closed = True
        if self.writer is not None:
            self.writer.transport.abort()
        elif self.task is not None:
            self.task.cancel()

    def _end(self) -> None:
        if not self._closed:
            self.close()
            self._lost(self.number)
