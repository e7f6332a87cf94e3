"""Load limits of masters: fair shares under capacities, tolerance, and floors of indivisible slots; checks of placements.

A master short of capacity in one resource takes the same smaller share of all; the others take the rest by weight.
Of the k·N + 1 heaviest slots one of N masters holds k + 1 (pigeonhole), so the sum of the k + 1 lightest of them is a
floor for the heaviest load, and limits are relaxed to it. A slot heavier than the common limit gets a host that holds
no other load of that resource.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from cluster_core.rebalance.goal.problem import ScaledProblem, exact

LEVELS_MAX = 64
"""Largest k tried with masters of unequal shares; smaller with many different shares."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Proof that some master holds at least *ratio* of its fair share of a resource: the *count* heaviest slots."""

    resource: str
    ratio: Fraction
    count: int


@dataclass(frozen=True, slots=True)
class HeavySlot:
    """A slot above any tolerance: *ratio* fair shares on its own; it fits if its keys are split into *pieces*."""

    slot: int
    resource: str
    ratio: Fraction
    pieces: int


@dataclass(frozen=True, slots=True)
class Targets:
    """Limits in whole units: *common* [n][r] for masters without a heavy slot, *caps* [n][r] including hosts.

    Capacities are raised only by pinned slots, and for *small* masters by their lightest slot.
    """

    fair: tuple[tuple[Fraction, ...], ...]
    common: tuple[tuple[int, ...], ...]
    caps: tuple[tuple[int, ...], ...]
    relaxed: tuple[Fraction, ...]
    floors: tuple[Floor, ...]
    heavy: tuple[HeavySlot, ...]
    hosts: tuple[tuple[int, int], ...]
    zone_share: Fraction | None
    zone_relaxed: bool
    small: tuple[int, ...] = ()


@lru_cache(maxsize=4)
def find_targets(scaled: ScaledProblem) -> Targets:
    """Return the limits of all masters, a pure function of loads, masters and (for heavy slots) owners."""
    takers = scaled.takers()
    free = scaled.shared()
    fair = fair_shares(scaled, [sum(load[s] for s in free) for load in scaled.loads])
    orders = [sorted((load[s] for s in free), reverse=True) for load in scaled.loads]
    floors, relaxed, heavy = [], [], []
    for r, name in enumerate(scaled.resources):
        load, order = scaled.loads[r], orders[r]
        shares = sorted((fair[n][r] for n in takers if fair[n][r]), reverse=True) or [Fraction(0)]
        whole = find_floor(name, order, shares, least=1)
        single = find_floor(name, order[:1], shares)
        floors.append(whole if whole.ratio > single.ratio else single)
        ratio = max(1 + scaled.tolerance[r], whole.ratio)
        limit = int(ratio * shares[0])
        giants = [s for s in free if load[s] > limit] if shares[0] else []
        if 0 < len(giants) < len(shares):
            rest = find_floor(name, order[len(giants) :], shares[len(giants) :], least=1)
            ratio = max(ratio, min(rest.ratio, Fraction(load[min(giants, key=lambda s: load[s])]) / shares[0]))
        limit = int(ratio * shares[0])
        giants = [s for s in giants if load[s] > limit]
        relaxed.append(ratio)
        target = (1 + scaled.tolerance[r]) * shares[0]
        heavy += [HeavySlot(s, name, load[s] / shares[0], int(-(-load[s] // target)) if target else 1) for s in giants]
    limits = _limits(scaled, fair, relaxed)
    small = [] if heavy else too_small(scaled, limits)
    common = _with_least(scaled, limits, small)
    hosts = _host(scaled, common, heavy)
    share, forced = _zone_share(scaled, common, heavy, orders)
    return Targets(
        tuple(tuple(row) for row in fair),
        tuple(tuple(row) for row in common),
        _caps_of(scaled, common, heavy, hosts),
        tuple(relaxed),
        tuple(floors),
        tuple(heavy),
        tuple(sorted(hosts.items())),
        share,
        forced,
        tuple(small),
    )


class Shares:
    """Fair shares above 0 of masters, with pigeonhole floors."""

    def __init__(self, shares: Sequence[Fraction]) -> None:
        self.most = max(shares, default=Fraction(0))
        self.count, self.are_equal = len(shares), len(set(shares)) == 1
        self._common = math.lcm(*(share.numerator for share in set(shares)))
        self._factors = [
            (share.denominator * (self._common // share.numerator), n) for share, n in Counter(shares).items()
        ]

    @property
    def levels(self) -> int:
        """Return the number of slots above one per master to examine."""
        return 16384 if self.are_equal else max(1, min(LEVELS_MAX, 8 * LEVELS_MAX // len(self._factors)))

    def least_ratio(self, sums: Sequence[int], count: int) -> Fraction:
        """Return the least ratio at which these masters can hold the *count* heaviest slots (running *sums*)."""
        held = (count - 1) // self.count + 1
        if self.are_equal:
            return (sums[count] - sums[count - held]) / self.most
        ratios = []
        for factor, masters in self._factors:
            for k in range(1, min(count, 4 * held + 1) + 1):
                ratios.append(((sums[count] - sums[count - k]) * factor, masters))
        room = 0
        for ratio, masters in sorted(ratios):
            room += masters
            if room >= count:
                return Fraction(ratio, self._common)
        return Fraction(0)


def find_floor(name: str, order: Sequence[int], shares: Sequence[Fraction], *, least: int = 0) -> Floor:
    """Return the pigeonhole floor for slots in falling *order* on masters of fair *shares*, for k >= *least*."""
    best = Floor(name, Fraction(1) if not least else Fraction(0), 0)
    shares = [share for share in shares if share]
    if not shares:
        return best
    known = Shares(shares)
    sums = list(accumulate(order, initial=0))
    levels = range(least, min((len(order) - 1) // len(shares), known.levels) + 1 if order else 0)
    if known.are_equal and levels:
        lightest = [sums[k * len(shares) + 1] - sums[k * (len(shares) - 1)] for k in levels]
        k = levels[lightest.index(max(lightest))]
        levels = range(k, k + 1)  # all shares are equal, so the largest sum has the largest ratio
    for k in levels:
        count = k * len(shares) + 1
        ratio = known.least_ratio(sums, count)
        if ratio > best.ratio:
            best = Floor(name, ratio, count)
    return best


def fair_shares(scaled: ScaledProblem, totals: Sequence[int]) -> list[list[Fraction]]:
    """Return the fair share of every master and resource: one part of all data, limited by capacities.

    If these parts do not add up to all data, each resource is divided on its own.
    """
    takers = scaled.takers()
    fair = [[Fraction(0)] * len(totals) for _ in scaled.masters]
    most = [
        min((Fraction(int(m), total) for m, total in zip(scaled.capacity[n], totals, strict=True) if m < math.inf and total), default=math.inf)
        for n in takers
    ]  # fmt: skip
    parts = share_out(1, [(scaled.weights[n], part) for n, part in zip(takers, most, strict=True)])
    whole = sum(parts, Fraction(0)) == 1
    for r, total in enumerate(totals):
        if not whole:
            parts = share_out(total, [(scaled.weights[n], scaled.capacity[n][r]) for n in takers])
        for n, part in zip(takers, parts, strict=True):
            fair[n][r] = part * total if whole else part
    return fair


def fair_parts(scaled: ScaledProblem, resource: str) -> dict[str, float]:
    """Return each master's fair share, by id, as a part of all load of *resource*; omit masters without one."""
    r = scaled.resources.index(resource)
    fair = {master.id: row[r] for master, row in zip(scaled.masters, find_targets(scaled).fair, strict=True) if row[r]}
    whole = sum(fair.values())
    return {node: float(share / whole) for node, share in fair.items()}


def share_out(total: int, masters: Sequence[tuple[Fraction, Fraction | float]]) -> list[Fraction]:
    """Divide *total* among *masters* (weight, capacity) by weight within capacities.

    If all capacity together is less than *total*, all masters are full.
    """
    shares = [Fraction(0)] * len(masters)
    left, weight = Fraction(total), sum((w for w, _ in masters), Fraction(0))
    bounded = sorted((Fraction(cap) / w, n) for n, (w, cap) in enumerate(masters) if cap < math.inf)
    full = set()
    for level, n in bounded:
        if level * weight >= left:
            break
        shares[n] = level * masters[n][0]
        full.add(n)
        left, weight = left - shares[n], weight - masters[n][0]
    for n, (own, _) in enumerate(masters):
        if n not in full:
            shares[n] = left * own / weight
    return shares


def _limits(scaled: ScaledProblem, fair: list[list[Fraction]], relaxed: list[Fraction]) -> list[list[int]]:
    """Return limits in whole units: relaxed fair shares within capacity, down to sums of slots."""
    limits = [[0] * len(scaled.resources) for _ in scaled.masters]
    grains = [math.gcd(*load) or 1 for load in scaled.loads]
    for n in scaled.takers():
        for r, most in enumerate(scaled.capacity[n]):
            limit = int(min(int(relaxed[r] * fair[n][r]), most))
            limits[n][r] = limit - limit % grains[r]
    return limits


def _with_least(scaled: ScaledProblem, limits: list[list[int]], small: Sequence[int]) -> list[list[int]]:
    """Return *limits* raised to pinned loads, and for *small* masters to their lightest slot."""
    kept = pinned_loads(scaled)
    for n in small:
        kept[n] = [load[_lightest(scaled, n)] for load in scaled.loads]
    return [[max(a, b) for a, b in zip(x, y, strict=True)] for x, y in zip(limits, kept, strict=True)]


def too_small(scaled: ScaledProblem, limits: Sequence[Sequence[int]]) -> list[int]:
    """Return masters that must keep a slot (else they become replicas) but have *limits* below every slot."""
    least = [min(load) for load in scaled.loads]
    pinned = {scaled.owner[s] for s in scaled.fixed}
    stay = [n for n in sorted(set(scaled.owner) - pinned) if not scaled.masters[n].drained]
    return [n for n in stay if any(most < weight for most, weight in zip(limits[n], least, strict=True))]


def _lightest(scaled: ScaledProblem, n: int) -> int:
    """Return master *n*'s slot with the smallest share of load, in its heaviest resource."""
    totals = [sum(load) or 1 for load in scaled.loads]
    return min(
        (s for s, owner in enumerate(scaled.owner) if owner == n),
        key=lambda s: max(Fraction(load[s], total) for load, total in zip(scaled.loads, totals, strict=True)),
    )


def pinned_loads(scaled: ScaledProblem) -> list[list[int]]:
    """Return the load of slots that must not move, ``[n][r]``."""
    pinned = [[0] * len(scaled.resources) for _ in scaled.masters]
    for s in scaled.fixed:
        for r, load in enumerate(scaled.loads):
            pinned[scaled.owner[s]][r] += load[s]
    return pinned


def fillers(scaled: ScaledProblem, targets: Targets) -> list[tuple[int, int]]:
    """Return the slots that fill their host, with the resource."""
    return [(h.slot, scaled.resources.index(h.resource)) for h in targets.heavy]


def rehost(scaled: ScaledProblem, targets: Targets, owner: Sequence[int]) -> Targets:
    """Return *targets* with the heavy slots' masters in *owner* as hosts, if they have capacity."""
    if not targets.heavy:
        return targets
    takers, at = scaled.takers(), {h.slot: owner[h.slot] for h in targets.heavy}
    hosts = {s: n for s, n in at.items() if n in takers and fits(scaled, s, n)}
    return replace(
        targets, hosts=tuple(sorted(hosts.items())), caps=_caps_of(scaled, targets.common, targets.heavy, hosts)
    )


def _caps_of(
    scaled: ScaledProblem, common: Sequence[Sequence[int]], heavy: Sequence[HeavySlot], hosts: Mapping[int, int]
) -> tuple[tuple[int, ...], ...]:
    caps = [list(row) for row in common]
    for h in heavy:
        if h.slot in hosts:
            n, r = hosts[h.slot], scaled.resources.index(h.resource)
            caps[n][r] = max(caps[n][r], scaled.loads[r][h.slot])
    return tuple(tuple(row) for row in caps)


def _host(scaled: ScaledProblem, common: list[list[int]], heavy: list[HeavySlot]) -> dict[int, int]:
    """Assign each heavy slot to a master with capacity, at least cost of moves."""
    ratio: dict[int, Fraction] = {}
    for h in heavy:
        ratio[h.slot] = max(ratio.get(h.slot, h.ratio), h.ratio)
    cost = scaled.loads[scaled.cost]
    hosts: dict[int, int] = {}
    for s in sorted(ratio, key=lambda s: (s not in scaled.fixed, -ratio[s], s)):
        filled = [scaled.loads[scaled.resources.index(h.resource)] for h in heavy if h.slot == s]
        held, leaves = [0] * len(scaled.masters), [0] * len(scaled.masters)
        for t, n in enumerate(scaled.owner):
            if t != s:
                held[n] += cost[t]
                leaves[n] += cost[t] if any(load[t] for load in filled) else 0
        home, more = scaled.owner[s], {}
        for n in scaled.takers():
            if n not in hosts.values() and (n == home if s in scaled.fixed else fits(scaled, s, n)):
                own = cost[s] if n == home else 0
                more[n] = cost[s] - own + leaves[n] - max(0, held[n] + own - common[n][scaled.cost])
        if more:
            hosts[s] = min(more, key=lambda n: (more[n], n != home, n))
    return hosts


def fits(scaled: ScaledProblem, s: int, n: int) -> bool:
    """Return whether master *n* has the capacity for slot *s*."""
    return all(load[s] <= most for load, most in zip(scaled.loads, scaled.capacity[n], strict=True))


def _zone_share(
    scaled: ScaledProblem, common: list[list[int]], heavy: list[HeavySlot], orders: list[list[int]]
) -> tuple[Fraction | None, bool]:  # fmt: skip
    """Return the requested zone share, or the smallest one not proven impossible.

    Loads of excluded masters stay in their zones; the rest is checked against room and pigeonhole floors. Heavy slots fit
    any zone.
    """
    asked = scaled.problem.zone_share_max
    if asked is None:
        return None, False
    share, takers = exact(asked, "zone_share_max"), scaled.takers()
    names = list(dict.fromkeys(scaled.masters[n].zone for n in takers))
    least = share
    for r, name in enumerate(scaled.resources):
        load, total = scaled.loads[r], sum(scaled.loads[r])
        if not total:
            continue
        stays = dict.fromkeys(names, 0)
        for s in scaled.fixed:
            master = scaled.masters[scaled.owner[s]]
            if master.excluded:
                stays[master.zone] = stays.get(master.zone, 0) + load[s]
        giants = sum(load[h.slot] for h in heavy if h.resource == name)
        rooms = {zone: held + giants for zone, held in stays.items()}
        for n in takers:
            rooms[scaled.masters[n].zone] += common[n][r]
        whole = find_floor(name, orders[r], [Fraction(total, len(names))] * len(names), least=1).ratio / len(names)
        least = max(least, _least_share(sorted(rooms.values()), total), Fraction(max(stays.values()), total), whole)
    return least, least > share


def _least_share(rooms: list[int], total: int) -> Fraction:
    """Return the least t with sum(min(t * total, room)) >= total; 1 if there is none."""
    left = total
    for number, room in enumerate(rooms):
        if room * (len(rooms) - number) >= left:
            return Fraction(left, (len(rooms) - number) * total)
        left -= room
    return Fraction(1)


def ratios(scaled: ScaledProblem, targets: Targets, owner: Sequence[int]) -> list[Fraction]:
    """Return per resource the heaviest load of a remaining master over its fair share; 0 without load."""
    worst = [Fraction(0)] * len(scaled.resources)
    for n, row in enumerate(scaled.totals(owner)):
        for r, load in enumerate(row):
            if targets.fair[n][r]:
                worst[r] = max(worst[r], load / targets.fair[n][r])
    return worst


def must_drain(scaled: ScaledProblem, owner: Sequence[int]) -> bool:
    """Return whether a drained master holds slots."""
    return any(scaled.masters[n].drained for n in set(owner))


def excess_by_resource(
    scaled: ScaledProblem, targets: Targets, owner: Sequence[int], sums: Sequence[Sequence[int]]
) -> list[Fraction]:  # fmt: skip
    """Return per resource the largest excess over a limit of a master, in fair shares, with its loads *sums* [n][r].

    The owner of a heavy slot is its host.
    """
    worst, caps = [Fraction(0)] * len(scaled.resources), rehost(scaled, targets, owner).caps
    for n, row in enumerate(sums):
        if scaled.masters[n].excluded or scaled.masters[n].drained:
            continue
        for r, load in enumerate(row):
            if load > caps[n][r]:
                worst[r] = max(worst[r], (load - caps[n][r]) / (targets.fair[n][r] or Fraction(1)))
    return worst


def excess(scaled: ScaledProblem, targets: Targets, owner: Sequence[int]) -> Fraction:
    """Return the largest excess over a limit of a master or zone, in fair shares; 0 for none."""
    sums = scaled.totals(owner)
    worst = max(excess_by_resource(scaled, targets, owner, sums))
    if targets.zone_share is not None:
        for r in range(len(scaled.resources)):
            total = sum(scaled.loads[r])
            zones: dict[str, int] = {}
            for n, row in enumerate(sums):
                zones[scaled.masters[n].zone] = zones.get(scaled.masters[n].zone, 0) + row[r]
            if total:
                worst = max(worst, Fraction(max(zones.values()), total) - targets.zone_share)
    return worst


def keeps(scaled: ScaledProblem, targets: Targets, owner: Sequence[int]) -> bool:
    """Return whether a placement is within all limits and empties all drained masters."""
    return not must_drain(scaled, owner) and excess(scaled, targets, owner) == 0


def kept(scaled: ScaledProblem, targets: Targets, owner: Sequence[int]) -> Targets:
    """Return the limits that a placement keeps: *targets* with its hosts or, if missed, the placement's own maxima."""
    if keeps(scaled, targets, owner):
        return rehost(scaled, targets, owner)
    sums = scaled.totals(owner)
    common = tuple(tuple(map(max, row, held)) for row, held in zip(targets.common, sums, strict=True))
    return replace(targets, common=common, caps=common, heavy=(), hosts=(), zone_share=None)


def overload(scaled: ScaledProblem, owner: Sequence[int]) -> Fraction:
    """Return the share of all load above capacities of masters that may give it away, summed over resources."""
    over = Fraction(0)
    if any(most < math.inf for row in scaled.capacity for most in row):
        for n, row in enumerate(scaled.totals(owner)):
            for r, most in enumerate(scaled.capacity[n]):
                if row[r] > most and not scaled.masters[n].excluded:
                    over += Fraction(row[r] - int(most), sum(scaled.loads[r]))
    return over


def above_capacity(scaled: ScaledProblem, sums: Sequence[Sequence[int]]) -> list[int]:
    """Return the masters above a capacity."""
    return [
        n for n, row in enumerate(sums) if any(load > most for load, most in zip(row, scaled.capacity[n], strict=True))
    ]
