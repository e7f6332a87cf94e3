"""Ctrl-C and SIGTERM while a command has something to end in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def caught_signals(subscribe: Callable[[Callable[[], None]], None]) -> Iterator[None]:
    """Call *subscribe* for SIGINT and SIGTERM while the ``with`` block runs; its argument restores their usual effect at once."""
    before = {number: signal.getsignal(number) for number in ENDING}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        for number in ENDING:
            signal.signal(number, lambda *_: subscribe(restore))
        yield
    finally:
        restore()
