"""Virtual time: a heap of actions ordered by time, then by planning."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any, Final

US_PER_S: Final = 1_000_000
START_US: Final = 1_767_225_600 * US_PER_S
"""True time at the start: 2026-01-01, UTC."""

Action = Callable[[Any, Any], None]


class Clock:
    """Microseconds since the start, and planned actions."""

    def __init__(self) -> None:
        self.now_us = 0
        self.sequence = 0
        self.heap: list[tuple[int, int, Action, Any, Any]] = []

    def call_at(self, at_us: int, action: Action, first: Any = None, second: Any = None) -> None:
        """Schedule *action* after those already planned for that time."""
        self.sequence += 1
        heappush(self.heap, (at_us, self.sequence, action, first, second))

    def run_to(self, end_us: int) -> None:
        """Run until *end_us*."""
        heap = self.heap
        with collector_at_rest():
            while heap and heap[0][0] <= end_us:
                self.now_us, _, action, first, second = heappop(heap)
                action(first, second)
        self.now_us = end_us

    def run_while(self, goes_on: Callable[[], bool], look_us: int, end_us: int) -> None:
        """Run until *end_us*, or until *goes_on*, checked every *look_us* without side effects, returns False."""
        while self.now_us < end_us and goes_on():
            self.run_to(min(self.now_us + look_us, end_us))


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Disable the garbage collector: events leave no reference cycles."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
