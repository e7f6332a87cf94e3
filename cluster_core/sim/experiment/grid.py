"""A grid of trials: every combination of parameters, each with as many seeds; the number of a run gives its trial."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Final

from cluster_core.sim.experiment.runs import Trial, TrialError, check_trial

RUNS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Grid:
    """Values of each parameter of `Trial` that varies, and how many seeds; *base* holds the others."""

    base: Trial = field(default_factory=Trial)
    seeds: int = 100
    first_seed: int = 1
    profile: tuple[str, ...] = ()
    node_timeout_ms: tuple[int, ...] = ()
    shards: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    zones: tuple[int, ...] = ()
    validity_factor: tuple[int, ...] = ()
    migration_barrier: tuple[int, ...] = ()
    fault: tuple[str, ...] = ()
    hit: tuple[str, ...] = ()
    delay_ms: tuple[float, ...] = ()

    def axes(self) -> list[tuple[str, tuple[object, ...]]]:
        """The parameters that are given, with their values; the last varies fastest."""
        return [(name, getattr(self, name)) for name in AXES if getattr(self, name)]

    @property
    def cases(self) -> int:
        """How many combinations there are."""
        count = 1
        for _, values in self.axes():
            count *= len(values)
        return count

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return self.cases * self.seeds

    def trial(self, run: int) -> Trial:
        """The trial of run number *run*.

        >>> grid = Grid(seeds=2, shards=(3, 5))
        >>> [(grid.trial(n).shards, grid.trial(n).seed) for n in range(grid.runs)]
        [(3, 1), (3, 2), (5, 1), (5, 2)]
        """
        case, offset = divmod(run, self.seeds)
        chosen: dict[str, object] = {}
        for name, values in reversed(self.axes()):
            case, at = divmod(case, len(values))
            chosen[name] = values[at]
        return replace(self.base, seed=self.first_seed + offset, **chosen)  # type: ignore[arg-type]


def check_grid(grid: Grid) -> None:
    """Raise TrialError or LayoutError for a grid of which a trial cannot be made."""
    if grid.seeds < 1 or grid.runs > RUNS_MAX:
        raise TrialError(f"{grid.runs} runs: there must be 1 to {RUNS_MAX}")
    for case in range(grid.cases):
        check_trial(grid.trial(case * grid.seeds))


AXES: Final = tuple(one.name for one in fields(Grid) if one.name not in ("base", "seeds", "first_seed"))
