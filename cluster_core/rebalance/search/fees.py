"""Fees found for slots that fit nowhere as it is, so that what they prove is as much as possible.

How this works.  A program chooses for every master one of the ways that are known to keep its limits (a `Way`: what it gives away, which
of these slots leave it, which come), so that whatever leaves one comes to another.  Its prices are the fees; at these, every master
looks for a cheaper way (`CoverSearch`), which is added, until none finds one (column generation, Dantzig and Wolfe 1960).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, LinearProgram
from cluster_core.rebalance.bound.certificates import Certificate, make_cover, needs, proven
from cluster_core.rebalance.bound.cover import Cover
from cluster_core.rebalance.bound.fees import FeeProof, leave
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets
from cluster_core.rebalance.search.account import Account
from cluster_core.rebalance.search.cover_search import CoverSearch
from cluster_core.rebalance.search.covers import scales

PLACES_MAX = 3
"""A slot that fits no more rooms than these may have to push others out."""
BULKY_MAX = 24
"""Slots that have a fee."""
ROUNDS_MAX = 5
CLOSE_ENOUGH = 0.0005
"""The search ends when what is proven is within this share of the best ways together."""
SLACK = 0.0003
"""Share of the bound by which all masters together may miss their cheapest ways."""
SOLVES_A_ROUND, SOLVES_ALL = 30_000, 24_000
"""Programs that are solved for all masters at most; a problem with few iterations gets fewer (`STEPS_OF_A_SOLVE`)."""
STEPS_OF_A_SOLVE = 200
SOLVES_OF_OWN = 20
OWN_MAX = 3
"""With more slots of a fee than this, a master gives the heaviest away first; else any of them."""
SEEDS_MAX = 4_000
"""Pairs of a master and a slot that it might take in that are looked at before the first round."""
STEPS_MAX = 1_000_000
NOWHERE_COST = 4.0
"""What it costs to send a slot away that nobody takes: so many times its greatest part of any resource, of all that could move."""


class Way(NamedTuple):
    """How a master may keep its limits: it gives away slots of *cost* in all; of those with a fee some *leave* and some *come*."""

    cost: int
    leave: frozenset[int]
    come: frozenset[int]
    gone: tuple[int, ...]


class FeeSearch:
    """One search: `proof` is the best it found, `ways` by master what the cheapest placement of these slots would do."""

    def __init__(self, scaled: Scaled, targets: Targets, account: Account | None = None) -> None:
        self._scaled, self._targets, self._account = scaled, targets, account or Account()
        wanted = scaled.problem.iterations // STEPS_OF_A_SOLVE or SOLVES_ALL
        self._left = max(SOLVES_ALL // 48, min(wanted, SOLVES_ALL))
        self._mean, self._unit = scales(scaled)
        self._takers = scaled.takers()
        self._held = scaled.held()
        self._needs = {n: needs(scaled, targets, n, self._held[n]) for n in self._takers}
        self.bulky = self._find_bulky()
        self.proof: FeeProof | None = None
        self.ways: dict[int, Way] = {}
        self._proofs: dict[int, tuple[dict[int, int], Certificate, bool]] = {}
        self._known: dict[int, dict[tuple[frozenset[int], frozenset[int]], Way]] = {n: {} for n in self._takers}
        if self.bulky:
            self._search()

    def _find_bulky(self) -> list[int]:
        """Return the slots of masters that must give away that fit hardly any room there is, the heaviest first."""
        scaled = self._scaled
        if self._targets.heavy:
            return []
        loads = np.array(scaled.loads, float).T
        fits, rooms = np.zeros(len(loads), int), 0
        for n in self._takers:
            room = -np.array(self._needs[n], float)
            if (room >= 0).all():
                fits += (loads <= room).all(1)
                rooms += 1
        over = {n for n in self._takers if max(self._needs[n]) > 0}
        over |= {n for n, m in enumerate(scaled.masters) if m.drained}
        rest = [
            s
            for s in np.flatnonzero(fits <= min(PLACES_MAX, rooms - 1)).tolist()
            if scaled.owner[s] in over and s not in scaled.fixed
        ]
        weight = (loads / loads.sum(0).clip(1)).max(1)
        return sorted(rest, key=lambda s: (-weight[s], s))[:BULKY_MAX]

    def _search(self) -> None:
        self._seed()
        reached, fees = self._spread()
        best, before = fees, 0
        for _ in range(ROUNDS_MAX):
            proof = self._prove(fees, SLACK * reached / len(self._takers))
            if self.proof is None or proof.value > self.proof.value:
                self.proof, best = proof, fees
            reached, found = self._spread()
            behind = proof.value < self.proof.value
            near = reached <= self.proof.value * (1 + CLOSE_ENOUGH)
            if (
                near
                or found == fees
                or self._left <= 0
                or self._account.is_over()
                or (before * (1 + CLOSE_ENOUGH) > self.proof.value > before and not behind)
            ):
                break
            before = self.proof.value
            fees = {s: (fee + best[s]) // 2 if behind else fee for s, fee in found.items()}

    def _seed(self) -> None:
        """Learn ways in which every master keeps what it has of these slots, gives one away, or takes one in."""
        scaled = self._scaled
        for n in self._takers:
            own = [s for s in self.bulky if scaled.owner[s] == n]
            for count in range(len(own) + 1):
                for gone in combinations(own, count) if len(own) <= OWN_MAX else [own[:count]]:
                    self._try(n, gone, (), SOLVES_OF_OWN if own else 1)
            for s in self.bulky if len(self._takers) * len(self.bulky) <= SEEDS_MAX else ():
                if scaled.owner[s] != n:
                    self._try(n, (), (s,), 1)

    def _try(self, n: int, gone: Sequence[int], come: Sequence[int], solves_max: int) -> None:
        """Look for the way of master *n* in which of the slots with a fee *gone* leave and *come* are taken in."""
        scaled, bulky = self._scaled, set(self.bulky)
        need = list(self._needs[n])
        for r, load in enumerate(scaled.loads):
            need[r] += sum(load[s] for s in come) - sum(load[s] for s in gone)
        slots = [s for s in self._held[n] if s not in bulky] if not come else self._held[n]
        cover = make_cover(scaled, slots, need)
        if all(sum(load) >= v for load, v in zip(cover.loads, cover.need, strict=True)):
            search = CoverSearch(cover, self._mean, self._unit, solves_max if self._left > 0 else 1)
            self._spend(search)
            self._learn(n, [*search.slots(), *gone, *(s for s in self.bulky if scaled.owner[s] != n and s not in come)])

    def _spend(self, search: CoverSearch) -> None:
        self._left -= search.solves
        self._account.spend(search.work)

    def _prove(self, fees: dict[int, int], slack: float) -> FeeProof:
        scaled = self._scaled
        certificates: list[Certificate] = []
        total = sum(leave(scaled, self._held[n], fees) for n, m in enumerate(scaled.masters) if m.drained)
        for n in self._takers:
            cover = make_cover(scaled, self._held[n], self._needs[n], fees)
            certificate = self._again(n, cover, fees)
            if certificate is None:
                most = 1 if self._account.is_over() else max(1, min(SOLVES_A_ROUND, self._left) // len(self._takers))
                search = CoverSearch(cover, self._mean, self._unit, most, slack)
                self._spend(search)
                certificate = search.certificate(scaled.masters[n].id)
                way = self._learn(n, search.slots(), fees)
                self._proofs[n] = fees, certificate, bool(way.come)
            certificates.append(certificate)
            total += certificate.value
        return FeeProof(total, tuple(fees.items()), tuple(certificates))

    def _again(self, n: int, cover: Cover, fees: dict[int, int]) -> Certificate | None:
        """Return the last certificate of master *n* if it is as good at these *fees*: it took nothing in, and would earn no more now."""
        if n not in self._proofs:
            return None
        last, certificate, took = self._proofs[n]
        if took and fees != last:
            return None
        owner = self._scaled.owner
        if any(
            fee != last[s] if owner[s] == n else fee > last[s] or bool(fee) != bool(last[s]) for s, fee in fees.items()
        ):
            return None
        value = proven(cover, certificate)
        return None if value is None else replace(certificate, value=value)

    def _learn(self, n: int, chosen: Sequence[int], fees: Mapping[int, int] | None = None) -> Way:
        """Keep and return the way of master *n* in which the *chosen* slots leave, or are refused, as are those without a fee."""
        scaled, bulky = self._scaled, set(self.bulky)
        gone = tuple(s for s in chosen if scaled.owner[s] == n)
        refused = set(chosen)
        paid = [s for s in self.bulky if fees is None or fees[s]]
        come = frozenset(s for s in paid if scaled.owner[s] != n and s not in refused)
        cost = sum(scaled.loads[scaled.cost][s] for s in gone)
        way = Way(cost, frozenset(gone) & bulky, come, gone)
        old = self._known[n].get((way.leave, way.come))
        if old is None or cost < old.cost:
            self._known[n][way.leave, way.come] = way
        return way

    def _spread(self) -> tuple[int, dict[int, int]]:
        """Return what the best mixture of known ways costs, and its fees; keep the chief way of every master."""
        scaled = self._scaled
        row = {s: k for k, s in enumerate(self.bulky)}
        size = len(row)
        ways = [(n, way) for n in self._takers for way in self._known[n].values()]
        place = {n: size + k for k, n in enumerate(self._takers)}
        drained = [s for s in self.bulky if scaled.masters[scaled.owner[s]].drained]
        least = np.zeros(size + len(self._takers))
        least[[row[s] for s in drained]] = 1.0
        least[size:] = 1.0
        most = np.full(len(least), INFINITE)
        most[size:] = 1.0
        program = LinearProgram()
        program.add_rows(least, most)
        entries = [_entries(way, row, place[n]) for n, way in ways] + [[(k, 1.0)] for k in range(size)]
        whole = [max(1, sum(load)) for load in scaled.loads]
        dear = [
            NOWHERE_COST * whole[scaled.cost] * max(load[s] / v for load, v in zip(scaled.loads, whole, strict=True))
            for s in self.bulky
        ]
        cost = np.array([way.cost for _, way in ways] + dear) / self._unit
        ends = np.cumsum([0, *(len(entry) for entry in entries)])[:-1]
        flat = [pair for entry in entries for pair in entry]
        program.add_columns(
            cost, np.full(len(cost), INFINITE), ends, [k for k, _ in flat], np.array([v for _, v in flat])
        )
        solution = program.solve(STEPS_MAX)
        for (n, way), part in zip(ways, solution.values.tolist(), strict=False):
            if part > 0.5:
                self.ways[n] = way
        base = sum(leave(scaled, self._held[n], {}) for n, m in enumerate(scaled.masters) if m.drained)
        fees = np.maximum(0.0, solution.prices[:size]) * self._unit
        return base + int(solution.cost * self._unit), {s: int(fees[row[s]]) for s in self.bulky}

    def leaving(self) -> dict[int, int]:
        """Return the slots that the chief ways give away, each with the master that takes it in, -1 where that is open."""
        places = {s: n for n, way in self.ways.items() for s in way.come}
        gone = [s for n in sorted(self.ways) for s in self.ways[n].gone]
        gone += [s for s, n in enumerate(self._scaled.owner) if self._scaled.masters[n].drained]
        return {s: places.get(s, -1) for s in gone}


def _entries(way: Way, row: dict[int, int], own: int) -> list[tuple[int, float]]:
    return [*((row[s], 1.0) for s in sorted(way.come)), *((row[s], -1.0) for s in sorted(way.leave)), (own, 1.0)]
