"""Where heavy slots go so that windows of neighbouring light ones fill the rest: the beginning of a search for few ranges where limits are tight.

How this works.  A window of many light slots has the mixture of resources that its owner's light slots have together.  Heavy slots leave room
of another mixture, so light slots must be picked one by one as well, and each is a range of its own.  One program with whole numbers says how much
of each owner's mixture goes where, and which heavy slots, so that the fewest are picked within limits and a budget of cost.  Light slots of like
proportions are one column; more of it than of the mixture is picked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.linear_program import INFINITE
from cluster_core.kernels.whole_program import LOOK_WORK, Entries, Limits, solve_whole
from cluster_core.rebalance.search.division import MARGIN
from cluster_core.rebalance.search.layout import Layout, bundle

WHOLE = 100
"""Heavy slots times masters that are whole."""
BROKEN_COST = 1e4
"""What a mean slot above a limit or the budget costs, in picked slots."""
BROKEN_MIN = 1e-3
"""Less above limits and budget than this (mean slots) is none; with more, walks come to nothing."""
CASES_MAX = 100
LOOKS_MAX = 1_000
"""Cases that the program looks at, and how often it asks whether to end."""


def mix(layout: Layout, budget: float, kinds_max: int) -> list[int] | None:
    """Return a placement in windows, beside heavy slots, that moves at most *budget* (mean slots); None if none within it and the limits is found.

    Light slots are in *kinds_max* columns an owner.  The placement misses limits by what would have to be picked.
    """
    masters, size = len(layout.takers), layout.size
    pinned = [s for s, free in enumerate(layout.free) if not free and layout.home[s] >= 0]
    heavy = layout.singles[: max(1, WHOLE // masters)]
    apart = {*heavy, *pinned}
    owned: dict[int, list[int]] = {}
    for s, home in enumerate(layout.home):
        if s not in apart:
            owned.setdefault(home, []).append(s)
    columns, mixture = [[s] for s in heavy], []
    for k, home in enumerate(sorted(owned)):
        weighs = [s for s in owned[home] if layout.rows[s].any()]
        kinds = bundle(weighs, layout.rows, kinds_max)
        columns += kinds
        mixture += [k] * len(kinds)
    if not columns:
        return None
    loads = np.array([layout.rows[column].sum(0) for column in columns])
    homes = np.array([layout.home[column[0]] for column in columns])
    room = layout.caps * (1 - MARGIN)
    for s in pinned:
        room[layout.home[s]] -= layout.rows[s]
    away = (homes[:, None] != np.arange(masters)) * np.array([[layout.costs[column].sum()] for column in columns])
    many, count, owners = len(heavy), len(columns), len(owned)

    # rows: every column is somewhere, so is every mixture; what is picked, by column and master; limits; the budget
    first_pick, first_limit = count + owners, count + owners + (count - many) * masters
    last = first_limit + masters * size
    entries: list[list[tuple[int, float]]] = []
    fees: list[float] = []
    for k in range(count):
        for n in range(masters):
            column = [(k, 1.0), *((first_limit + n * size + r, float(loads[k, r])) for r in range(size))]
            if k >= many:
                column.append((first_pick + (k - many) * masters + n, 1.0))
            entries.append([*column, (last, float(away[k, n]))])
            fees.append(float(k < many and n != homes[k]))
    for k in range(owners):
        for n in range(masters):
            picked = [(first_pick + i * masters + n, -1.0) for i, own in enumerate(mixture) if own == k]
            entries.append([(count + k, 1.0), *picked])
            fees.append(0.0)
    for i in range((count - many) * masters):
        entries.append([(first_pick + i, -1.0)])
        fees.append(float(len(columns[many + i // masters])))
    for row in range(first_limit, last + 1):
        entries.append([(row, -1.0)])
        fees.append(BROKEN_COST)
    upper = np.ones(len(entries))
    upper[-(masters * size + 1) :] = INFINITE
    least = np.concatenate([np.ones(first_pick), np.full(last + 1 - first_pick, -INFINITE)])
    most = np.concatenate(
        [np.ones(first_pick), np.zeros(first_limit - first_pick), room.ravel(), [min(budget, INFINITE)]]
    )
    account = layout.arrays.account
    looks = iter(range(LOOKS_MAX))

    def is_over() -> bool:
        account.spend(LOOK_WORK)
        return next(looks, None) is None or account.is_over()

    found = solve_whole(
        np.array(fees), Limits(upper, least, most),
        Entries(
            np.cumsum([0, *map(len, entries)]), np.array([row for column in entries for row, _ in column]),
            np.array([value for column in entries for _, value in column]),
        ),
        many * masters, cases_max=CASES_MAX, stop=is_over,
    )  # fmt: skip
    if not found.known or found.values[-(masters * size + 1) :].sum() > BROKEN_MIN:
        return None
    parts = found.values[: (count + owners) * masters].reshape(-1, masters)
    return _placed(layout, dict(zip(heavy, parts[:many].argmax(1).tolist(), strict=True)), owned, parts[count:])


def _placed(
    layout: Layout, hosts: dict[int, int], owned: dict[int, list[int]], parts: NDArray[np.float64]
) -> list[int]:
    """Return the placement with heavy slots at *hosts*, and of each owner's light ones first those it keeps, then windows for the others."""
    masters, placed = len(layout.takers), list(layout.home)
    for s, n in hosts.items():
        placed[s] = n
    for home, part in zip(sorted(owned), parts, strict=True):
        order = [home, *(n for n in range(masters) if n != home)] if home >= 0 else list(range(masters))
        ends = np.cumsum(part[order])
        weight = np.cumsum(layout.rows[owned[home]].sum(1))
        cuts = np.searchsorted(ends, weight / max(float(weight[-1]), 1e-9) - 1e-9).clip(max=masters - 1)
        for s, k in zip(owned[home], cuts.tolist(), strict=True):
            placed[s] = order[k]
    return placed
