"""Commands to one server in small batches, slowed down by how long the server takes for them.

A batch takes the server about `BATCH_S`, which is what another client waits at most because of us.  After it the server is left alone so
long that we use `SHARE` of its time: a server that is slow, or busy with others, is asked less by itself.  The time for a command is the
shortest of the last `REMEMBERED` batches, without the way: what a busy machine or network adds to one of them does not count.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from slotscope.servers.node_link import NodeLink, Word

BATCH_S: Final = 0.001
"""Time for one batch, ours for its replies included; ten times more would show in the 99th percentile of other clients."""
SHARE: Final = 0.5
"""Part of the time in which a server has a batch of ours; about half of that is our reading of its replies."""
TOGETHER_MIN: Final = 20
TOGETHER_MAX: Final = 400
"""Commands sent at once; fewer only where the rate asks for it."""
REMEMBERED: Final = 16
BURSTS_A_SECOND: Final = 10
REST_S_MAX: Final = 1.0


class PacedLink:
    """A connection that takes `SHARE` of its server's time and sends *rate* commands a second at most; *sent* counts them by name, as INFO commandstats does."""

    def __init__(self, link: NodeLink, rate: float = math.inf) -> None:
        self.sent: Counter[str] = Counter()
        self._link = link
        self._rate = rate
        self._most = max(1, min(TOGETHER_MAX, int(min(rate, 1e6) / BURSTS_A_SECOND)))
        self._together = self._least = min(TOGETHER_MIN, self._most)
        self._quickest_s = math.inf
        self._each_s: deque[float] = deque(maxlen=REMEMBERED)
        self.due_s = 0.0
        """When more may be sent, by the monotonic clock."""

    def ask(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """A reply to each of *commands*; errors of the server are values, what goes wrong otherwise is a LinkError."""
        replies: list[Any] = []
        while len(replies) < len(commands):
            some = commands[len(replies) : len(replies) + self._together]
            self._wait()
            begun_s = time.monotonic()
            replies += self._link.ask(some)
            self._adapt(len(some), begun_s, time.monotonic() - begun_s)
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

    def _wait(self) -> None:
        left_s = self.due_s - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)

    def _adapt(self, count: int, begun_s: float, took_s: float) -> None:
        """Size of the next batch, and when it may go out; the quickest batch so far tells what the way to the server takes."""
        self._quickest_s = min(self._quickest_s, took_s)
        self._each_s.append((took_s - self._quickest_s) / count)
        each_s = min(self._each_s)
        wanted = int(BATCH_S / each_s) if each_s else self._most
        self._together = max(self._least, min(self._most, wanted, 2 * self._together))
        rest_s = min(count * each_s * (1 / SHARE - 1), REST_S_MAX)
        self.due_s = max(self.due_s, begun_s + count / self._rate, begun_s + took_s + rest_s)


_GROUPS: Final = frozenset(("CLIENT", "CLUSTER", "MEMORY", "OBJECT"))


def name_of(command: Sequence[Word]) -> str:
    """The name of a command as INFO commandstats has it: ``memory|usage`` for a subcommand."""
    return _name(command[0], command[1] if command[0] in _GROUPS else None)


@cache
def _name(command: Word, subcommand: Word | None) -> str:
    return str(command).lower() if subcommand is None else f"{command!s}|{subcommand!s}".lower()
