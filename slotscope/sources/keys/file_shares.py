"""Which files share a task where they are many."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Protocol, TypeVar

TASK_BYTES = 256 << 20
TASKS_PER_CORE_MAX = 4
FILE_BYTES = 1 << 16
"""To open a file costs as much as to read so many bytes of it."""


class Unit(Protocol):
    """A file, or a piece of one; *size* is that of the file."""

    @property
    def path(self) -> str:
        """Its path or URI."""

    @property
    def size(self) -> int:
        """Its bytes as stored."""

    @property
    def start(self) -> int:
        """Where in the file it begins."""


U = TypeVar("U", bound=Unit)


def shared(units: Sequence[U], parallelism: int) -> list[tuple[U, ...]]:
    """Return the units of each task, in the order of their paths: what a task returns is as much for one file as for all.

    A task gets the largest file that is left while it has the fewest bytes; there are more tasks than cores only where there is much to read.
    """
    turns = sum(unit.size for unit in units) // (parallelism * TASK_BYTES)
    count = min(len(units), parallelism * min(max(turns, 1), TASKS_PER_CORE_MAX))
    loads = [(0, number) for number in range(count)]
    chosen: list[list[U]] = [[] for _ in loads]
    for unit in sorted(units, key=lambda unit: -unit.size):
        held, number = heapq.heappop(loads)
        chosen[number].append(unit)
        heapq.heappush(loads, (held + unit.size + FILE_BYTES, number))
    return [tuple(sorted(mine, key=lambda unit: (unit.path, unit.start))) for mine in chosen]
