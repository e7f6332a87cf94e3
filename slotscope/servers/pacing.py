"""Commands to one server at a bounded rate: few at once, so that nothing that the server does for us is felt by others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from slotscope.servers.node_link import NodeLink, Word

TOGETHER_MAX: Final = 20
"""Commands sent at once: a server serves them one after the other, some tens of microseconds in all."""
BURSTS_A_SECOND: Final = 10


class PacedLink:
    """A connection that sends *rate* commands a second at most; *sent* counts them by name, as INFO commandstats does."""

    def __init__(self, link: NodeLink, rate: float) -> None:
        self.sent: Counter[str] = Counter()
        self._link = link
        self._rate = rate
        self._together = max(1, min(TOGETHER_MAX, int(rate / BURSTS_A_SECOND)))
        self.due_s = 0.0
        """When more may be sent, by the monotonic clock."""

    def ask(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """A reply to each of *commands*; errors of the server are values, what goes wrong otherwise is a LinkError."""
        replies: list[Any] = []
        for start in range(0, len(commands), self._together):
            some = commands[start : start + self._together]
            self._wait(len(some))
            replies += self._link.ask(some)
            self.sent.update(map(name_of, some))
        return replies

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine."""
        return self._link.is_local

    @property
    def together(self) -> int:
        """How many commands go out at once."""
        return self._together

    def close(self) -> None:
        """Hang up."""
        self._link.close()

    def _wait(self, count: int) -> None:
        now_s = time.monotonic()
        if now_s < self.due_s:
            time.sleep(self.due_s - now_s)
        self.due_s = max(now_s, self.due_s) + count / self._rate


def name_of(command: Sequence[Word]) -> str:
    """The name of a command as INFO commandstats has it: ``memory|usage`` for a subcommand."""
    words = [str(word).lower() for word in command[:2]]
    return "|".join(words) if words[0] in ("client", "cluster", "memory", "object") else words[0]
