"""Where the search begins: slots that have to leave, put where there is room, one by one or run by run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush

from cluster_core.rebalance.search.arrays import ProblemArrays

LOOKS_AT_MASTERS = 24
"""How many of the emptiest masters are tried for a slot."""


def with_hosts(arrays: ProblemArrays, owner: Sequence[int], evicted: Mapping[int, int]) -> dict[int, int]:
    """Return the slots that leave, *evicted* and for a heavy slot its host; a host sends away whatever weighs in that resource."""
    leaving = dict(evicted)
    hosts = dict(arrays.targets.hosts)
    for s, n in hosts.items():
        for h in arrays.targets.heavy:
            if h.slot == s:
                row = arrays.shares[arrays.scaled.resources.index(h.resource)]
                leaving |= {t: -1 for t, m in enumerate(owner) if m == n and t != s and row[t] > 0}
    for s, n in hosts.items():
        leaving.pop(s, None)
        if owner[s] != n:
            leaving[s] = n
    return {s: n for s, n in leaving.items() if s not in arrays.scaled.fixed}


def pack(arrays: ProblemArrays, owner: Sequence[int], leaving: dict[int, int]) -> list[int]:
    """Put the slots that leave, the heaviest first, where most room is."""
    at, size = list(owner), arrays.size
    load = arrays.loads_of(at)
    for s in leaving:
        for r in range(size):
            load[at[s] * size + r] -= arrays.shares[r][s]
    weight = {s: max(arrays.shares[r][s] * arrays.scale[r] for r in range(size)) for s in leaving}
    empty = [(max(_full(load[n * size + r], arrays.caps[n * size + r]) for r in range(size)), n) for n in arrays.takers]
    heapify(empty)
    for s in sorted(leaving, key=lambda s: (leaving[s] < 0, -weight[s], s)):
        best = leaving[s]
        near = [] if best >= 0 else [heappop(empty) for _ in range(min(LOOKS_AT_MASTERS, len(empty)))]
        least = math.inf
        for _, n in near:
            if n == owner[s] and len(arrays.takers) > 1:
                continue
            full = max(_full(load[n * size + r] + arrays.shares[r][s], arrays.caps[n * size + r]) for r in range(size))
            if best < 0 or full < least:
                best, least = n, full
        at[s] = best
        for r in range(size):
            load[best * size + r] += arrays.shares[r][s]
        for full, n in near:
            if n == best:
                full = max(_full(load[n * size + r], arrays.caps[n * size + r]) for r in range(size))
            heappush(empty, (full, n))
    return at


def pack_runs(arrays: ProblemArrays, owner: Sequence[int]) -> list[int]:
    """Cut what is too much off the end of every master's slots, and fill the emptiest masters run by run."""
    at, size = list(owner), arrays.size
    load = arrays.loads_of(at)
    caps, cut = arrays.caps, []
    held: list[list[int]] = [[] for _ in arrays.held]
    for s, n in enumerate(owner):
        held[n].append(s)
    for n, slots in enumerate(held):
        while slots and (not arrays.keeps[n] or any(load[n * size + r] > caps[n * size + r] for r in range(size))):
            if len(slots) == 1 and arrays.keeps[n]:
                break
            s = slots.pop()
            if s in arrays.scaled.fixed:
                continue
            cut.append(s)
            for r in range(size):
                load[n * size + r] -= arrays.shares[r][s]
    full = [max(_full(load[n * size + r], caps[n * size + r]) for r in range(size)) for n in range(len(arrays.held))]
    target = -1
    for s in sorted(cut):
        fits = target >= 0 and target != owner[s] and all(
            load[target * size + r] + arrays.shares[r][s] <= caps[target * size + r] for r in range(size)
        )  # fmt: skip
        if not fits:
            target = min([n for n in arrays.takers if n != owner[s]] or arrays.takers, key=full.__getitem__)
        at[s] = target
        for r in range(size):
            load[target * size + r] += arrays.shares[r][s]
        full[target] = max(_full(load[target * size + r], caps[target * size + r]) for r in range(size))
    return at


def _full(load: float, cap: float) -> float:
    return load / cap if cap else (math.inf if load else 0.0)


def cut_runs(arrays: ProblemArrays, owner: Sequence[int]) -> list[int]:
    """Cut what is too much of the cost off the end of every master's slots, and fill those with most room to one level, run by run."""
    cost, size = arrays.scaled.cost, arrays.size
    row, at = arrays.shares[cost], list(owner)
    load = arrays.loads_of(at)[cost::size]
    caps = arrays.caps[cost::size]
    held: list[list[int]] = [[] for _ in arrays.held]
    for s, n in enumerate(owner):
        held[n].append(s)
    out: list[int] = []
    for n, slots in enumerate(held):
        while slots and (not arrays.keeps[n] or (load[n] > caps[n] and len(slots) > 1)):
            s = slots.pop()
            if s not in arrays.scaled.fixed:
                out.append(s)
                load[n] -= row[s]
    level = _level([caps[n] for n in arrays.takers], [load[n] for n in arrays.takers], sum(row[s] for s in out))
    order = sorted(arrays.takers, key=lambda n: (_full(load[n], caps[n]), n))
    k = 0
    for s in sorted(out):
        while k < len(order) - 1 and load[order[k]] + row[s] / 2 > level * caps[order[k]]:
            k += 1
        at[s] = order[k]
        load[order[k]] += row[s]
    return at


def _level(caps: Sequence[float], load: Sequence[float], more: float) -> float:
    """Return how full masters are, as a part of their limits, when *more* is filled into the emptiest."""
    low, high = 0.0, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(max(0.0, middle * cap - held) for cap, held in zip(caps, load, strict=True)) < more:
            low = middle
        else:
            high = middle
    return high
