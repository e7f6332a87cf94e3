"""Limits that no placement can keep, and what proves it: prices for all slots at once, or one by one for the cases that large slots make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from cluster_core.kernels.linear_program import Floats
from cluster_core.rebalance.bound.conflict import (
    Conflict,
    ConflictKind,
    Limit,
    Proof,
    at_tolerance,
    least_limits,
    least_tolerance,
    limits_at,
    only_limits,
    plain_conflicts,
    prove,
)
from cluster_core.rebalance.bound.room import (
    cases_of,
    host_cases,
    make_bins,
    rooms_left,
    suffices,
    where_fits,
    zones_left,
)
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, find_targets
from cluster_core.rebalance.search.account import Account
from cluster_core.rebalance.search.room_prices import find_prices

WORK_MAX = 4_000_000_000
"""Work of one program, in about nanoseconds."""
PLACED_MAX = 256
"""The largest slots that are placed one by one."""
LOOKS_MAX, LOAD_WORK = 2_000_000, 2_000
"""Loads, of slots and masters, that are looked at for all cases together, and the work that a program takes a load of a slot besides its own."""
PROGRAMS_MAX = 256
"""Programs for all cases together; the work of one is divided among them."""
CASES_MAX = 4_096
LARGE, PROGRAMS_FEW = 0.25, 16
"""Slots above this part of a limit are placed one by one where tolerances may be at odds, in so many programs."""


def find_conflicts(
    scaled: Scaled, targets: Targets, known: Sequence[Conflict] = (), account: Account | None = None
) -> tuple[Conflict, ...]:
    """Return what is proven to contradict itself; where nothing is found, whether the limits can be kept is not known.

    *known* are conflicts of the same problem with other tolerances; least tolerances need not be looked for again.
    """
    account = account or Account()
    plain = plain_conflicts(scaled, targets)
    sums = any(one.least is None and one.kind is not ConflictKind.MASTERS for one in plain)
    hard = [] if sums else _beyond_capacity(scaled, account)
    never = sums or bool(hard)
    return (
        *plain,
        *hard,
        *(one for one in _together(scaled, targets, known, account) if not never or one.least is not None),
    )


def at_odds(scaled: Scaled, account: Account) -> bool:
    """Return whether tolerances and other limits of *scaled* are proven to contradict each other."""
    return _solve(scaled, Fraction(0), account) is not None


def _beyond_capacity(scaled: Scaled, account: Account) -> list[Conflict]:
    """Return the proof that no balance at all lets capacities and zones be kept with what is pinned and drained, if one is found."""
    proof = _prove_impossible(scaled, account)
    if proof is None:
        return []
    found = [proof]

    def impossible(fewer: Scaled) -> bool:
        again = _prove_impossible(fewer, account)
        if again is not None:
            found.append(again)
        return again is not None

    limits = least_limits(scaled, impossible)
    few = only_limits(scaled, limits)
    return [_described(few, limits_at(few, None), found[-1], limits)]


def _prove_impossible(scaled: Scaled, account: Account) -> Proof | None:
    """Return prices that prove that no placement keeps the limits that no tolerance changes; None where none are found."""
    targets = limits_at(scaled, None)
    if targets.zone_share is None and all(most is None for row in targets.capacity for most in row):
        return None
    wholes = [sum(load) or 1 for load in scaled.loads]
    parts = np.array([[v / whole for v in load] for load, whole in zip(scaled.loads, wholes, strict=True)]).T
    heaviest = parts.max(1).tolist()
    order = sorted((s for s in range(len(heaviest)) if s not in scaled.fixed), key=lambda s: (-heaviest[s], s))
    if any(_packs(scaled, targets, parts, order, stay=stay) for stay in (True, False)):
        return None
    for by_zone in (False, True) if targets.zone_share is not None else (False,):
        prices = _refute(scaled, targets, order[:PLACED_MAX], PROGRAMS_MAX, account, by_zone=by_zone)
        if prices is not None:
            placed = tuple(order[:PLACED_MAX]) if () in prices else ()
            return Proof(None, by_zone, prices, placed)
    return None


def _packs(scaled: Scaled, targets: Targets, parts: Floats, order: Sequence[int], *, stay: bool) -> bool:
    """Return whether the slots find room in this *order*, each where most is left, or where it is if they *stay*.

    *parts* [slot, resource] are their loads, as parts of all.
    """
    wholes = np.array([sum(load) or 1 for load in scaled.loads], float)
    rooms, zones = rooms_left(scaled, targets, {}), zones_left(scaled, targets, {})
    masters, names = list(rooms), list(zones)
    left = np.array([rooms[n] for n in masters], float) / wholes
    shared = np.array([zones[name] for name in names], float).reshape(-1, len(wholes)) / wholes
    zone = [names.index(scaled.masters[n].zone) for n in masters] if zones else []
    home = {n: k for k, n in enumerate(masters)}
    for s in order:
        spare = ((np.minimum(left, shared[zone]) if zones else left) - parts[s]).min(1)
        k = home.get(scaled.owner[s], -1) if stay else -1
        k = k if k >= 0 and spare[k] >= 0 else int(spare.argmax())
        if spare[k] < 0:
            return False
        left[k] -= parts[s]
        if zones:
            shared[zone[k]] -= parts[s]
    return True


def _refute(
    scaled: Scaled, targets: Targets, order: Sequence[int], programs: int, account: Account, *, by_zone: bool
) -> tuple[tuple[int, ...], ...] | None:
    """Return prices for all cases that slots placed in this *order* make, an empty row where the next is placed; None where that ends unproven."""
    stack = host_cases(scaled, targets)
    if stack is None:
        return None
    stack.reverse()
    rows: list[tuple[int, ...]] = []
    looks, most = LOOKS_MAX, programs
    slots, each = len(scaled.owner), len(scaled.masters) * len(scaled.resources)
    while stack:
        hosts = stack.pop()
        cases = cases_of(scaled, targets, hosts, order[len(hosts)]) if len(hosts) < len(order) else None
        looks -= each + len(hosts) * len(scaled.resources)
        prices = None
        if cases is None or len(cases) > 1 or not hosts:
            looks, programs = looks - slots * each, programs - 1
            bins = make_bins(scaled, targets, hosts, by_zone=by_zone)
            account.spend(slots * len(scaled.resources) * LOAD_WORK)
            prices = find_prices(scaled, hosts, bins, WORK_MAX // most if hosts else WORK_MAX, account)
            if prices is not None and not suffices(scaled, hosts, bins, prices):
                prices = None
        if prices is None and (
            cases is None or min(looks, programs) < 0 or account.is_over() or len(rows) >= CASES_MAX
        ):
            return None
        rows.append(prices or ())
        stack += [] if prices is not None or cases is None else cases[::-1]
    return tuple(rows)


def _together(scaled: Scaled, targets: Targets, known: Sequence[Conflict], account: Account) -> list[Conflict]:
    asked = _solve(scaled, Fraction(0), account)
    if asked is None:
        return []
    for one in known:
        same = replace(one, proofs=(asked, *one.proofs[1:]))
        if one.kind is ConflictKind.TOGETHER and one.least is not None and prove(scaled, same):
            return [same]
    last = [asked]

    def impossible(tolerance: Fraction) -> bool:
        found = _solve(scaled, tolerance, account)
        if found is not None:
            last.append(found)
        return found is not None

    least = least_tolerance(impossible, scaled)
    if least is not None and last[-1].tolerance != least:
        last.append(asked._replace(tolerance=least))  # nothing above what is asked
    names, nodes, placed = _named(scaled, last[-1])
    slots = tuple(sorted(placed.union(h.slot for h in targets.heavy)))
    return [Conflict(ConflictKind.TOGETHER, names, nodes, slots, least, None, (asked, last[-1]))]


def _solve(scaled: Scaled, tolerance: Fraction, account: Account) -> Proof | None:
    """Return prices that prove that no placement keeps the limits; None where none are found."""
    scaled = at_tolerance(scaled, tolerance)
    targets = find_targets(scaled)
    order = [] if targets.heavy else _largest(scaled, targets)
    for by_zone in (False, True) if targets.zone_share is not None and not targets.heavy else (False,):
        prices = _refute(scaled, targets, order, PROGRAMS_FEW, account, by_zone=by_zone)
        if prices is not None:
            return Proof(tolerance, by_zone, prices, tuple(order) if () in prices else ())
    return None


def _largest(scaled: Scaled, targets: Targets) -> list[int]:
    """Return the slots that are the largest part of a master's limit, those of which it has room for few."""
    most = [max(row[r] for row in targets.common) or 1 for r in range(len(scaled.resources))]
    parts = [max(load[s] / cap for load, cap in zip(scaled.loads, most, strict=True)) for s in range(len(scaled.owner))]
    return sorted(
        (s for s, part in enumerate(parts) if part > LARGE and s not in scaled.fixed), key=lambda s: (-parts[s], s)
    )


def _named(scaled: Scaled, proof: Proof) -> tuple[tuple[str, ...], tuple[str, ...], set[int]]:
    """Return the resources, the masters of capacity and the slots placed that *proof* says are at odds."""
    targets, size = limits_at(scaled, proof.tolerance), len(scaled.resources)
    names: set[str] = set()
    nodes: set[str] = set()
    placed: set[int] = set()
    for hosts, row in _priced(scaled, targets, proof):
        placed |= hosts.keys()
        for b, one in enumerate(make_bins(scaled, targets, hosts, by_zone=proof.by_zone)):
            for r, name in enumerate(scaled.resources):
                if not row[b * size + r]:
                    continue
                names.add(name)
                for n in one.masters:
                    most = targets.capacity[n][r]
                    if most is not None and targets.common[n][r] >= most:
                        nodes.add(scaled.masters[n].id)
        for s in hosts:
            names |= {h.resource for h in targets.heavy if h.slot == s}
    return tuple(name for name in scaled.resources if name in names), tuple(sorted(nodes)), placed


def _priced(scaled: Scaled, targets: Targets, proof: Proof) -> Iterator[tuple[dict[int, int], tuple[int, ...]]]:
    """Yield the cases of *proof* that have prices: where slots are placed, and the prices."""
    cases = (host_cases(scaled, targets) or [])[::-1]
    for row in proof.prices:
        hosts = cases.pop()
        if row:
            yield hosts, row
        else:
            cases += cases_of(scaled, targets, hosts, proof.placed[len(hosts)])[::-1]


def _described(scaled: Scaled, targets: Targets, proof: Proof, limits: tuple[Limit, ...]) -> Conflict:
    """Return what *proof* proves, with the resources, masters and slots that it speaks of: slots placed one by one, or that fit only there."""
    size = len(scaled.resources)
    priced: set[int] = set()
    among: set[int] = set()
    slots: set[int] = set()
    for hosts, row in _priced(scaled, targets, proof):
        slots |= hosts.keys()
        priced |= {i % size for i, p in enumerate(row) if p}
        bins = make_bins(scaled, targets, hosts, by_zone=proof.by_zone)
        dear = {b for b in range(len(bins)) if any(row[b * size : (b + 1) * size])}
        among |= {n for b in dear for n in bins[b].masters}
        free = [s for s in range(len(scaled.owner)) if s not in scaled.fixed and s not in hosts]
        slots |= {free[k] for k, places in where_fits(scaled, bins, free).items() if dear.issuperset(places)}
    limited = {n: {r for r, most in enumerate(row) if most is not None} for n, row in enumerate(targets.capacity)}
    priced = priced or {r for row in limited.values() for r in row}
    nodes = sorted(scaled.masters[n].id for n in among or limited if limited[n] & priced)
    names = tuple(name for r, name in enumerate(scaled.resources) if r in priced)
    return Conflict(ConflictKind.CAPACITY, names, tuple(nodes), tuple(sorted(slots)), None, None, (proof,), limits)
