"""What scenarios by chance are made of: draws, the plot of one run, and the faults that befall any process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from random import Random

T = TypeVar("T")


def below(rng: Random, limit: int) -> int:
    """A whole number from 0 to *limit*, which it is not."""
    return int(rng.random() * limit)


def pick(rng: Random, choices: Sequence[T]) -> T:
    """One of *choices*."""
    return choices[below(rng, len(choices))]


class Plot:
    """Steps so far; *repairs* puts right at the end what is not put right before.  Subclasses say whom faults hit, and for how long."""

    def __init__(self, rng: Random, names: Sequence[str], zones: int) -> None:
        self.rng, self.names, self.zones = rng, list(names), zones
        self.steps: list[tuple[float, str]] = []
        self.repairs: list[str] = []

    def add(self, at_s: float, text: str) -> None:
        """Put a step into the plot."""
        self.steps.append((at_s, text))

    def victim(self) -> str:
        """Whom a fault hits."""
        return pick(self.rng, self.names)

    def some(self) -> list[str]:
        """Up to half of all."""
        return [name for name in self.names if self.rng.random() < 0.3][: len(self.names) // 2] or [self.victim()]

    def rest(self) -> float:
        """For how many seconds a fault lasts."""
        raise NotImplementedError

    def unfold(
        self, faults: Sequence[Callable[[Any, float], None]], least: int, first_s: float, within_s: float
    ) -> float:
        """Add *faults* by chance until there are *least* steps and some; return when peace begins, in seconds."""
        while len(self.steps) < least + 2 * below(self.rng, 5):
            pick(self.rng, faults)(self, first_s + self.rng.random() * within_s)
        return max([at_s for at_s, _ in self.steps] + [first_s + within_s]) + 1

    def lines(self, peace_s: float) -> list[str]:
        """The steps in their order, and what makes peace."""
        return [
            *(f"at {at_s:.3f}s {text}" for at_s, text in sorted(self.steps, key=lambda step: step[0])),
            f"at {peace_s:.3f}s heal",
            *(f"at {peace_s:.3f}s {text}" for text in self.repairs),
        ]


def crash(plot: Plot, at_s: float) -> None:
    """A process or its machine goes, and comes back."""
    victim = plot.victim()
    plot.add(at_s, f"{pick(plot.rng, ('crash', 'switch-off'))} {victim}")
    plot.add(at_s + plot.rest(), f"restart {victim}")


def stop(plot: Plot, at_s: float) -> None:
    """A process is stopped, and goes on."""
    victim = plot.victim()
    plot.add(at_s, f"stop {victim}")
    plot.add(at_s + plot.rest(), f"resume {victim}")
    plot.repairs.append(f"resume {victim}")


def cut(plot: Plot, at_s: float) -> None:
    """A wall around some, in one direction or both."""
    one = plot.some()
    ways = "" if plot.rng.random() < 0.6 else " one-way"
    plot.add(at_s, f"cut {','.join(one)} from others{ways}")
    plot.add(at_s + plot.rest(), "heal")


def cut_zone(plot: Plot, at_s: float) -> None:
    """A wall around a zone."""
    plot.add(at_s, f"cut Z{1 + below(plot.rng, plot.zones)} from others")
    plot.add(at_s + plot.rest(), "heal")


def lose(plot: Plot, at_s: float) -> None:
    """Lossy paths to some."""
    plot.add(at_s, f"lose 0.05 between {','.join(plot.some())} and others")
