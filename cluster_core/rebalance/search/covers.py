"""Certificates found, master by master: by cases where there are many slots, by prices and a search over whole slots where there are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.linear_program import INFINITE, Floats, LinearProgram
from cluster_core.rebalance.bound.certificates import Certificate, ProofKind, make_cover, proven
from cluster_core.rebalance.bound.cover import PRICE_BITS
from cluster_core.rebalance.bound.dive import NODES_MAX, SLOTS_MAX, PricedCover, Room, dive, price
from cluster_core.rebalance.bound.hosts import HostProof, add_up_hosts, host_cover, single_heavy
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets
from cluster_core.rebalance.search.account import Account
from cluster_core.rebalance.search.cover_search import STEPS_MAX, CoverSearch

PASSES = 10
"""Halvings between what is proven and what was found."""
SOLVES_ALL = 8_000
"""Programs that are solved for masters of many slots, all in all."""
SOLVES_OF_HOSTS = 600
"""The same for all hosts that a heavy slot may have."""
SAFE = 1e-9
"""Share by which sums of floats are trusted."""
_dive = njit()(dive)


class Overload(NamedTuple):
    """Master *n*, its *slots*, and by how much it is over the common limit in each resource (negative: room)."""

    n: int
    slots: Sequence[int]
    need: Sequence[int]


def certify(
    scaled: Scaled, overloads: Sequence[Overload], account: Account | None = None
) -> list[tuple[Certificate, list[int]]]:
    """Return the certificate of every overloaded master, and the slots that it had best give away."""
    few = [one for one in overloads if len(one.slots) <= SLOTS_MAX]
    prices = dict(zip((one.n for one in few), find_prices(scaled, few), strict=True))
    mean, unit = scales(scaled)
    found = []
    for one in overloads:
        if one.n in prices:
            found.append(_certify(scaled, one, prices[one.n]))
            continue
        search = CoverSearch(make_cover(scaled, one.slots, one.need), mean, unit, SOLVES_ALL // len(overloads))
        if account is not None:
            account.spend(search.work)
        found.append((search.certificate(scaled.masters[one.n].id), search.slots()))
    return found


def certify_hosts(scaled: Scaled, targets: Targets, certificates: Sequence[Certificate]) -> HostProof | None:
    """Return what is proven of every host that the one heavy slot may have; None where there is not just one."""
    heavy = single_heavy(scaled, targets)
    if heavy is None:
        return None
    mean, unit = scales(scaled)
    held = scaled.held()
    takers = scaled.takers()
    found = []
    for n in takers:
        search = CoverSearch(
            host_cover(scaled, targets, heavy, n, held[n]), mean, unit, SOLVES_OF_HOSTS // len(takers) + 1
        )
        certificate = search.certificate(scaled.masters[n].id)
        found.append(replace(certificate, value=max(0, certificate.value)))
    return HostProof(add_up_hosts(certificates, found), tuple(found))


def scales(scaled: Scaled) -> tuple[Floats, float]:
    """Return the mean load of a slot by resource, and that of the cost."""
    mean = np.array([max(1, sum(load)) / len(load) for load in scaled.loads])
    return mean, float(mean[scaled.cost])


def _certify(scaled: Scaled, overload: Overload, prices: Sequence[int]) -> tuple[Certificate, list[int]]:
    plain_cover = make_cover(scaled, overload.slots, overload.need)
    cover = price(plain_cover, prices)
    plain = Certificate(scaled.masters[overload.n].id, ProofKind.PRICES, 0, tuple(cover.prices))
    value = max(0, proven(plain_cover, plain) or 0)
    plain = replace(plain, value=value)
    chosen = _greedy(cover)
    worth = sum(b for b, x in zip(cover.b, chosen, strict=True) if x)
    if worth <= value << PRICE_BITS:
        return plain, [s for s, x in zip(cover.slots, chosen, strict=True) if x]
    floats, room = _in_floats(cover), _room(cover)
    complete, high, nodes = _dive(floats, room, worth * (1 + 1e-12), NODES_MAX, True)
    if high < worth:
        chosen = room.best.tolist()
    high = min(high, float(worth))
    low, nodes = (high, nodes) if complete else (float(cover.base), 0)
    if not complete:
        for _ in range(PASSES):
            middle = (low + high) / 2
            complete, _, visited = _dive(floats, room, middle, NODES_MAX, False)
            if complete:
                low, nodes = middle, visited
            else:
                high = middle
    shown = int(low * (1 - SAFE)) >> PRICE_BITS
    evicted = [s for s, x in zip(cover.slots, chosen, strict=True) if x]
    if shown <= value:
        return plain, evicted
    return Certificate(plain.node, ProofKind.SEARCH, shown, plain.prices, nodes), evicted


def _in_floats(cover: PricedCover) -> PricedCover:
    whole = {name: np.array(getattr(cover, name), np.int64) for name in ("slots", "x0")}
    arrays = {name: np.array(value, float) for name, value in cover._asdict().items() if name not in whole}
    return PricedCover(**{**arrays, **whole, "base": float(cover.base)})


def _room(cover: PricedCover) -> Room:
    depth, size = len(cover.slots) + 2, len(cover.need)
    return Room(
        np.zeros(depth, np.int64), np.zeros(depth * size), np.zeros(depth * size), np.zeros(2 * depth),
        np.zeros(len(cover.slots), np.int64),
    )  # fmt: skip


def find_prices(scaled: Scaled, overloads: Sequence[Overload]) -> list[list[int]]:
    """Return the prices of every master's covering program, found in floats and made whole: 2**-60 units of cost a unit of the resource.

    The masters share no slots, so one program has them all: a row a master and resource, a column a slot.
    """
    if not overloads:
        return []
    mean, cost = scales(scaled)
    needs = np.array([one.need for one in overloads], float) / mean
    size = len(mean)
    program = LinearProgram()
    least = np.maximum(needs, 0.0).ravel()
    program.add_rows(np.where(needs.ravel() > 0, least, -INFINITE), np.full(len(least), INFINITE))
    slots = [s for one in overloads for s in one.slots]
    owner = np.repeat(np.arange(len(overloads)), [len(one.slots) for one in overloads])
    loads = np.array([[load[s] for s in slots] for load in scaled.loads], float).T / mean
    rows = owner[:, None] * size + np.arange(size)
    program.add_columns(
        loads[:, scaled.cost], np.ones(len(slots)), np.arange(len(slots)) * size, rows.ravel(), loads.ravel()
    )
    found: Floats = np.maximum(0.0, program.solve(STEPS_MAX).prices).reshape(-1, size)
    unit = cost / mean * (1 << PRICE_BITS)
    return [[int(p) for p in row] for row in (found * unit).tolist()]


def _greedy(cover: PricedCover) -> list[int]:
    """Complete the choice at the prices to a cover: cheapest for what it adds first; then drop what is not needed."""
    size, chosen, surplus = len(cover.need), list(cover.x0), list(cover.surplus)
    scale = [max(1, v) for v in cover.need]
    lacking = [r for r, g in enumerate(surplus) if g < 0]
    gains = [sum(cover.w[j * size + r] / scale[r] for r in lacking) for j in range(len(chosen))]
    useful = [j for j, x in enumerate(chosen) if not x and gains[j] > 0]
    for j in sorted(useful, key=lambda j: (cover.b[j] / gains[j], cover.slots[j])):
        row = cover.w[j * size : (j + 1) * size]
        if any(g < 0 < v for g, v in zip(surplus, row, strict=True)):
            chosen[j] = 1
            surplus = [g + v for g, v in zip(surplus, row, strict=True)]
    for j in sorted(range(len(chosen)), key=lambda j: (-cover.b[j], cover.slots[j])):
        row = cover.w[j * size : (j + 1) * size]
        if chosen[j] and all(g >= v for g, v in zip(surplus, row, strict=True)):
            chosen[j] = 0
            surplus = [g - v for g, v in zip(surplus, row, strict=True)]
    return chosen
