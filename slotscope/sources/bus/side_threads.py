"""Work of a task that other threads do meanwhile: kernels and compression run without the GIL.  Results come in the order of the work, not of the threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, TypeVar

from slotscope.runtime.priority import step_back

T = TypeVar("T")
AHEAD: Final = 2
"""So many items are made before they are asked for."""
WAITING_MAX: Final = 4
"""So much work may wait for its turn, with all that it holds in memory."""
_END: Final = object()


def ahead(items: Iterator[T], count: int = AHEAD, prepare: Callable[[], None] | None = None) -> Iterator[T]:
    """*items*, of which a thread makes so many while the ones before are used; what making raises is raised in its turn."""
    with ThreadPoolExecutor(1, "ahead", prepare) as thread:
        made: deque[Future[Any]] = deque(thread.submit(next, items, _END) for _ in range(count))
        try:
            while (item := made.popleft().result()) is not _END:
                made.append(thread.submit(next, items, _END))
                yield item
        finally:
            for one in made:
                one.cancel()


class SideWork:
    """Pieces of work for threads, each of which yields items; those are handed out in the order in which the work was given."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "side", step_back)
        self._given: deque[Future[list[Any]]] = deque()

    def __enter__(self) -> SideWork:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def give(self, work: Callable[[], Iterator[Any]]) -> None:
        """Let a thread do *work*."""
        self._given.append(self._threads.submit(lambda: list(work())))

    def done(self) -> Iterator[Any]:
        """What has its turn and is there, and more where too much waits."""
        while self._given and (self._given[0].done() or len(self._given) > WAITING_MAX):
            yield from self._given.popleft().result()

    def rest(self) -> Iterator[Any]:
        """All that was given."""
        while self._given:
            yield from self._given.popleft().result()
