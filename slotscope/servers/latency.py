"""What a client of some nodes waits for an answer, measured all the while with PING on connections of its own."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from slotscope.servers.node_link import Access, Address, LinkError

INTERVAL_S: Final = 0.02
"""Between two questions to a node, with `NODES_USUAL` nodes; with more of them it grows, so that we do no more."""
NODES_USUAL: Final = 10
LATELY_S: Final = 3.0
SHARE: Final = 0.99
SAMPLES_MIN: Final = 20
MISSED_MAX: Final = 1000


class LatencyProbe:
    """Asks each of *addresses* until it is closed; a node that cannot be asked says nothing."""

    def __init__(self, access: Access, addresses: Mapping[str, Address]) -> None:
        self._access = access
        self._interval_s = INTERVAL_S * max(1.0, len(addresses) / NODES_USUAL)
        self._samples: dict[str, deque[tuple[float, float]]] = {node: deque() for node in addresses}
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(node, address), name="latency", daemon=True)
            for node, address in addresses.items()
        ]
        for thread in self._threads:
            thread.start()

    def p99_ms(self) -> float | None:
        """Milliseconds within which 99 of 100 questions of the last seconds were answered, at the slowest node; None if too few were asked."""
        since_s = time.monotonic() - LATELY_S
        found = []
        for samples in self._samples.values():
            waited = sorted(wait_s for at_s, wait_s in tuple(samples) if at_s >= since_s)
            if len(waited) >= SAMPLES_MIN:
                found.append(waited[int(len(waited) * SHARE)] * 1000)
        return max(found, default=None)

    def close(self) -> None:
        """End."""
        self._stop.set()
        for thread in self._threads:
            thread.join(self._access.timeout_s)

    def _ask(self, node: str, address: Address) -> None:
        samples = self._samples[node]
        while not self._stop.is_set():
            with suppress(LinkError):
                link = self._access.connect(address)
                try:
                    while not self._stop.wait(self._interval_s):
                        begun_s = time.monotonic()
                        link.ask([("PING",)])
                        self._note(samples, begun_s)
                finally:
                    link.close()
            self._stop.wait(1.0)

    def _note(self, samples: deque[tuple[float, float]], begun_s: float) -> None:
        """A question that waited long stands for those that could not be asked meanwhile: a client would have asked them."""
        now_s = time.monotonic()
        waits = [now_s - begun_s]
        while waits[-1] > self._interval_s and len(waits) < MISSED_MAX:
            waits.append(waits[-1] - self._interval_s)
        samples.extend((now_s, wait_s) for wait_s in waits)
        while samples and samples[0][0] < now_s - LATELY_S:
            samples.popleft()
