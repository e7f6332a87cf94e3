"""What stands in the place of a generator of chance and of a node's failure reports while the arrays of the loop hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cluster_core.sim.fast import gossip_fields as at

if TYPE_CHECKING:
    from cluster_core.sim.fast.state import SteadyState
    from cluster_core.sim.fast.store import Store


class ArrayRandom:
    """The generator of one row: what `random.Random` would draw."""

    def __init__(self, store: Store, who: int) -> None:
        self.random = store.chance_of(who)
        self._word = store.words_of(who)

    def getrandbits(self, bits: int) -> int:
        """A number of so many bits."""
        number, shift = 0, 0
        while bits > 0:
            word = self._word()
            number |= (word >> (32 - bits) if bits < 32 else word) << shift
            bits -= 32
            shift += 32
        return number


class Reports:
    """The failure reports about one peer, as a mapping from reporters to times."""

    def __init__(self, steady: SteadyState, cell: int) -> None:
        self._steady, self._cell = steady, cell

    def _time_of(self, value: int) -> int:
        return value - at.FIRST_MS + self._steady.base_ms

    def _block(self) -> int:
        return self._steady.store.narrow[at.REPORTS][self._cell]

    def __len__(self) -> int:
        block = self._block()
        return self._steady.store.report_count(block) if block else 0

    def __contains__(self, reporter: object) -> bool:
        return self.get(reporter) is not None

    def get(self, reporter: object, default: int | None = None) -> int | None:
        """When *reporter* reported."""
        block = self._block()
        node = self._steady.index_of.get(str(reporter), -1) if block else -1
        place = self._steady.store.scratch[at.REPORTER_OF][node] if node >= 0 else 0
        value = self._steady.store.report_row(block)[place - 1] if place else 0
        return self._time_of(value) if value else default

    def __setitem__(self, reporter: str, time_ms: int) -> None:
        row, subject = divmod(self._cell, self._steady.nodes)
        node = self._steady.index_of[reporter]
        self._steady.store.add_report(row, subject, node, time_ms - self._steady.base_ms + at.FIRST_MS)

    def __delitem__(self, reporter: str) -> None:
        row, subject = divmod(self._cell, self._steady.nodes)
        self._steady.store.drop_report(row, subject, self._steady.index_of[reporter])

    def pop(self, reporter: str, default: int | None = None) -> int | None:
        """Take a report back."""
        time_ms = self.get(reporter)
        if time_ms is None:
            return default
        del self[reporter]
        return time_ms

    def clear(self) -> None:
        """Forget all reports."""
        for reporter, _ in list(self.items()):
            del self[reporter]

    def items(self) -> Iterator[tuple[str, int]]:
        """Reporters and times."""
        block = self._block()
        if not block or not self._steady.store.report_count(block):
            return
        row, places = self._steady.store.report_row(block), self._steady.store.scratch[at.REPORTER_OF]
        for node, name in enumerate(self._steady.ids):
            value = row[places[node] - 1] if places[node] else 0
            if value:
                yield name, self._time_of(value)

    def __iter__(self) -> Iterator[str]:
        return (reporter for reporter, _ in self.items())
