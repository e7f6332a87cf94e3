"""What connections of a live machine share: how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

CONNECT_S_MAX: Final = 30.0


class Connection:
    """A numbered connection, from before it is up until it is gone; *lost* hears of an end that we did not ask for."""

    def __init__(self, number: int, lost: Callable[[int], None]) -> None:
        self.number = number
        self.task: asyncio.Task[None] | None = None
        self.writer: asyncio.StreamWriter | None = None
        self._lost = lost
        self._closed = False

    async def _open(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect; None where that failed, which is a lost connection, or where it was closed meanwhile."""
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                reader, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError, ValueError):
            self._end()
            return None
        if self._closed:
            writer.close()
            return None
        return reader, writer

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
