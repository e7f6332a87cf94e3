"""How much each master may hold: fair shares, tolerance, and the floor where slots cannot be divided.

Slots are indivisible: of the k·N + 1 heaviest slots one of N masters holds k + 1, so no placement has a heaviest load below the
sum of the k + 1 lightest of them (pigeonhole).  Where that floor is above the tolerance, the limit is relaxed to it and no further.
A slot that alone is heavier than the common limit gets a master of its own: its host may hold that slot, and nothing else of that
resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cluster_core.errors import PlanError
from cluster_core.rebalance.problem import Scaled, exact

LEVELS_MAX = 64
"""Largest k that is tried with masters of unequal weight."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Proof for one resource that some master holds at least *ratio* of its fair share: the *count* heaviest slots."""

    resource: str
    ratio: Fraction
    count: int


@dataclass(frozen=True, slots=True)
class HeavySlot:
    """A slot that no tolerance can hide: *ratio* of a fair share on its own; its keys must become *pieces* to fit."""

    slot: int
    resource: str
    ratio: Fraction
    pieces: int


@dataclass(frozen=True, slots=True)
class Targets:
    """Limits in whole units: *common* [n][r] for masters without a heavy slot, *caps* [n][r] with their hosts'."""

    fair: tuple[tuple[Fraction, ...], ...]
    common: tuple[tuple[int, ...], ...]
    caps: tuple[tuple[int, ...], ...]
    relaxed: tuple[Fraction, ...]
    floors: tuple[Floor, ...]
    heavy: tuple[HeavySlot, ...]
    hosts: tuple[tuple[int, int], ...]
    zone_share: Fraction | None
    zone_relaxed: bool


def find_targets(scaled: Scaled) -> Targets:
    """Return what each master may hold.  Pure function of loads, masters and (for hosts of heavy slots) owners."""
    takers = [n for n, m in enumerate(scaled.masters) if not m.drained and not m.excluded]
    fair = [[Fraction(0)] * len(scaled.resources) for _ in scaled.masters]
    weight = sum((scaled.weights[n] for n in takers), Fraction(0))
    free = [s for s, n in enumerate(scaled.owner) if not scaled.masters[n].excluded]
    floors, relaxed, heavy = [], [], []
    for r, name in enumerate(scaled.resources):
        load = scaled.loads[r]
        total = sum(load[s] for s in free)
        for n in takers:
            fair[n][r] = total * scaled.weights[n] / weight
        order = sorted((load[s] for s in free), reverse=True)
        shares = sorted((fair[n][r] for n in takers), reverse=True)
        floors.append(find_floor(name, order, shares))
        ratio = max(1 + scaled.tolerance[r], find_floor(name, order, shares, least=1).ratio)
        limit = int(ratio * shares[0])
        giants = [s for s in free if load[s] > limit] if shares[0] else []
        if 0 < len(giants) < len(takers):
            rest = find_floor(name, order[len(giants) :], shares[len(giants) :], least=1)
            ratio = max(ratio, min(rest.ratio, Fraction(load[min(giants, key=lambda s: load[s])]) / shares[0]))
        limit = int(ratio * shares[0])
        giants = [s for s in giants if load[s] > limit]
        relaxed.append(ratio)
        target = (1 + scaled.tolerance[r]) * shares[0]
        heavy += [HeavySlot(s, name, load[s] / shares[0], int(-(-load[s] // target)) if target else 1) for s in giants]
    common = _limits(scaled, fair, relaxed, takers)
    hosts, caps = _host(scaled, common, heavy, takers)
    share, forced = _zone_share(scaled, caps, takers)
    return Targets(
        tuple(tuple(row) for row in fair),
        tuple(tuple(row) for row in common),
        tuple(tuple(row) for row in caps),
        tuple(relaxed),
        tuple(floors),
        tuple(heavy),
        tuple(hosts),
        share,
        forced,
    )


def find_floor(name: str, order: list[int], shares: list[Fraction], *, least: int = 0) -> Floor:
    """Return the pigeonhole floor for slots of falling load *order* on masters of fair *shares* (any k >= *least*)."""
    best = Floor(name, Fraction(1) if not least else Fraction(0), 0)
    if not shares or not shares[0]:
        return best
    sums = [0]
    for value in order:
        sums.append(sums[-1] + value)
    n, equal = len(shares), shares[0] == shares[-1]
    for k in range(least, (len(order) - 1) // n + 1 if order else 0):
        if not equal and k > LEVELS_MAX:
            break
        count = k * n + 1
        ratio = floor_ratio(sums, shares, count, equal)
        if ratio > best.ratio:
            best = Floor(name, ratio, count)
    return best


def floor_ratio(sums: list[int], shares: list[Fraction], count: int, equal: bool) -> Fraction:
    """Return the least ratio at which the *count* heaviest slots (running *sums*) can fit masters of *shares* at all."""
    if equal:
        held = (count - 1) // len(shares) + 1
        return (sums[count] - sums[count - held]) / shares[0]
    ratios = []
    for share in shares:
        for held in range(1, count + 1):
            ratios.append((sums[count] - sums[count - held]) / share)
            if held > 4 * ((count - 1) // len(shares) + 1):
                break
    ratios.sort()
    return ratios[count - 1] if len(ratios) >= count else Fraction(0)


def _limits(scaled: Scaled, fair: list[list[Fraction]], relaxed: list[Fraction], takers: list[int]) -> list[list[int]]:
    """Whole-unit limits: relaxed fair shares, within capacity, but never below what is pinned."""
    limits = [[0] * len(scaled.resources) for _ in scaled.masters]
    for n in takers:
        for r, name in enumerate(scaled.resources):
            limits[n][r] = int(relaxed[r] * fair[n][r])
            if name in scaled.masters[n].capacity:
                limits[n][r] = min(limits[n][r], int(exact(scaled.masters[n].capacity[name], name) * scaled.units[r]))
    pinned = [[0] * len(scaled.resources) for _ in scaled.masters]
    for s in scaled.fixed:
        for r in range(len(scaled.resources)):
            pinned[scaled.owner[s]][r] += scaled.loads[r][s]
    return [[max(a, b) for a, b in zip(x, y, strict=True)] for x, y in zip(limits, pinned, strict=True)]


def _host(
    scaled: Scaled, common: list[list[int]], heavy: list[HeavySlot], takers: list[int]
) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Give every heavy slot a master: its own if it can stay, else the one where least has to make room."""
    caps = [list(row) for row in common]
    slots = sorted({h.slot for h in heavy}, key=lambda s: (-max(h.ratio for h in heavy if h.slot == s), s))
    held = [0] * len(scaled.masters)
    for s, n in enumerate(scaled.owner):
        held[n] += scaled.loads[scaled.cost][s]
    hosts: dict[int, int] = {}
    taken: dict[int, None] = {}
    for s in slots:
        home = scaled.owner[s]
        if home in takers and home not in taken:
            hosts[s] = home
            taken[home] = None
    free = iter(sorted((n for n in takers if n not in taken), key=lambda n: (held[n], n)))
    for s in slots:
        if s not in hosts and s not in scaled.fixed:
            n = next(free, -1)
            if n >= 0:
                hosts[s] = n
    for s, n in hosts.items():
        for r, name in enumerate(scaled.resources):
            if any(h.slot == s and h.resource == name for h in heavy):
                limit = scaled.masters[n].capacity.get(name)
                caps[n][r] = max(caps[n][r], scaled.loads[r][s])
                if limit is not None and exact(limit, name) * scaled.units[r] < scaled.loads[r][s]:
                    raise PlanError(
                        f"impossible: slot {s} alone is above the capacity of {scaled.masters[n].id} in {name}"
                    )
    return sorted(hosts.items()), caps


def _zone_share(scaled: Scaled, caps: list[list[int]], takers: list[int]) -> tuple[Fraction | None, bool]:
    """Return the share of a zone that is asked for, or the smallest one that is not proven to be impossible.

    What excluded masters hold stays in their zone; the rest needs room, and whole slots (pigeonhole, as `find_floor`).
    """
    asked = scaled.problem.zone_share_max
    if asked is None:
        return None, False
    share = exact(asked, "zone_share_max")
    names = list(dict.fromkeys(scaled.masters[n].zone for n in takers))
    least = share
    for r, name in enumerate(scaled.resources):
        load, total = scaled.loads[r], sum(scaled.loads[r])
        if not total:
            continue
        stays = dict.fromkeys(names, 0)
        for s, n in enumerate(scaled.owner):
            if scaled.masters[n].excluded:
                stays[scaled.masters[n].zone] = stays.get(scaled.masters[n].zone, 0) + load[s]
        rooms = dict(stays)
        for n in takers:
            rooms[scaled.masters[n].zone] += caps[n][r]
        free = sorted((load[s] for s, n in enumerate(scaled.owner) if not scaled.masters[n].excluded), reverse=True)
        whole = find_floor(name, free, [Fraction(total, len(names))] * len(names), least=1).ratio / len(names)
        least = max(least, _least_share(sorted(rooms.values()), total), Fraction(max(stays.values()), total), whole)
    return least, least > share


def _least_share(rooms: list[int], total: int) -> Fraction:
    """Return the least t with sum(min(t * total, room)) >= total; 1 where there is none."""
    left = total
    for number, room in enumerate(rooms):
        if room * (len(rooms) - number) >= left:
            return Fraction(left, (len(rooms) - number) * total)
        left -= room
    return Fraction(1)
