"""Progress of work on the error stream: a line for steps of more than a few seconds.

On a terminal the line is drawn in place and vanishes; elsewhere (a log file, CI) a plain line comes now and
then.  Shorter steps print nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PATIENCE_SECONDS = 3.0
"""Time without output before the first line."""
LOG_SECONDS = 30.0
"""Time between two plain lines."""


_silent = ContextVar("silent", default=False)
_causes: list[Callable[[float], str]] = []


@contextmanager
def silence() -> Iterator[None]:
    """Let `progress` say nothing while the ``with`` block runs."""
    before = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(before)


@contextmanager
def progress(step: str, how_far: Callable[[], str] = str) -> Iterator[None]:
    """Show *step* ("reading") while the ``with`` block runs, and *how_far* it has come ("3 of 8 runs"), if known."""
    if _silent.get() or sys.stderr is None or sys.stderr.closed:
        yield
        return
    done = threading.Event()
    teller = threading.Thread(target=_tell, args=(step, how_far, done), name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def explain(cause: Callable[[float], str]) -> None:
    """Set *cause*: it returns the reason why a step, begun at a Unix time, is slower than the next time, or an empty text."""
    _causes[:] = [cause]


def _tell(step: str, how_far: Callable[[], str], done: threading.Event) -> None:
    start, began_at = time.monotonic(), time.time()

    def so_far(joint: str) -> str:
        parts = (how_far(), *(cause(began_at) for cause in _causes))
        return "".join((step, *(f"{joint}{part}" for part in parts if part)))

    if done.wait(PATIENCE_SECONDS):
        return
    from rich.console import Console  # short steps draw nothing

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{step} …") as status:
            while not done.wait(1.0):
                status.update(f"{so_far(' … ')} … {time.monotonic() - start:.0f} s")
        return
    while True:
        sys.stderr.write(f"slotscope: {so_far(', ')}, {time.monotonic() - start:.0f} s so far\n")
        sys.stderr.flush()
        if done.wait(LOG_SECONDS):
            return
