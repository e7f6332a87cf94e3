"""Fees found for all slots: light ones at what room costs elsewhere, heavy ones so that what they prove is as much as possible.

How this works.  At a price list of all limits every light slot's fee is what its room costs at the cheapest other master.  A `HoldingProgram` of heavy
slots looks for theirs; each master's light slots, its own and all others, are its own columns there, bundled by what they weigh for what
they cost.  The cases of one last look, with the prices that close them, are the certificates (`FeeProof`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cluster_core.kernels.mixed_knapsack import Choice, Floats, Integers, fill, room_for_proof
from cluster_core.kernels.whole_costs import WholeColumns
from cluster_core.rebalance.bound.certificates import Certificate, ProofKind, proven
from cluster_core.rebalance.bound.cover import PRICE_BITS
from cluster_core.rebalance.bound.fees import FeeProof, fee_cover, leave, room_fees
from cluster_core.rebalance.search.holding_program import COLUMN_WORK, SLACK, HoldingProgram
from cluster_core.rebalance.search.layout import Layout, bundle
from cluster_core.rebalance.search.price_lists import PriceLists

BUNDLES = 512
"""Bundles of a master's own light slots, and of all others', as one master sees them."""
WORK_MAX, WORK_PART = 1.5e9, 0.3
"""Most work of the search, in about nanoseconds, and most part of what is left."""
CLOSE = 0.001
"""Share of what the best mixture costs by which fees may prove less."""
CASES_MAX = 1_000
"""Cases of one certificate."""
SLOT_WORK = 600
"""Work of a slot and a master for bundles, and for what a certificate proves."""


class Sight(NamedTuple):
    """What a master sees of the slots: what light columns cost where it holds them, the *loads* [resource, column] of heavy slots and of these,
    and the room for all."""

    costs: Floats
    loads: Floats
    room: Floats


class SlotFees:
    """One search for the *heavy* slots of *layout* at list *number* of *lists*."""

    def __init__(self, layout: Layout, lists: PriceLists, number: int, heavy: Sequence[int]) -> None:
        self.layout, self._heavy = layout, list(heavy)
        self._scaled = layout.arrays.scaled
        self._unit = float(layout.mean[self._scaled.cost])
        self._prices = lists.whole(number)
        fees = room_fees(self._scaled, self._prices)
        self._fees = np.array([fees.get(s, 0) for s in layout.slots]) / self._unit
        self._light = np.array(layout.free)
        self._light[self._heavy] = False
        self._home = np.array(layout.home)
        self._whole = lists.heavy_loads
        price = lists.price(number).reshape(len(layout.takers), -1)
        self._worth = (lists.heavy_fees + (self._whole * price).sum(2)).min(1)
        self._by_room = fees

    def search(self) -> HoldingProgram:
        """Look for the best fees of the heavy slots; return the program, whose mixture says which of them masters hold at these."""
        layout, account, masters = self.layout, self.layout.arrays.account, len(self.layout.takers)
        account.spend(SLOT_WORK * masters * len(layout.slots))
        self._seen = self._sights()
        costs = layout.costs[self._heavy]
        away = self._home[self._heavy][:, None] != np.arange(masters)
        light = self._light & (self._home >= 0)
        base = float((self._fees + layout.costs)[light].sum() + (self._fees + layout.costs)[self._home < 0].sum())
        program = HoldingProgram(
            [sight.loads for sight in self._seen], np.array([sight.room for sight in self._seen]), away * costs[:, None],
            [sight.costs for sight in self._seen], self._worth, account.spend, base,
        )  # fmt: skip
        program.search(min(WORK_MAX, WORK_PART * account.left), CLOSE)
        self._found = np.maximum(0.0, program.prices - costs)
        self._slack = SLACK * max(0.0, program.proven) / masters
        return program

    def proof(self) -> FeeProof:
        """Return what is proven by the fees found, master by master, each but for its slack."""
        fees = {
            self.layout.slots[s]: max(1, int(fee * self._unit))
            for s, fee in zip(self._heavy, self._found.tolist(), strict=True)
        }
        return self._certify(fees)

    def _sights(self) -> list[Sight]:
        """Return what every master sees of all slots."""
        layout, found = self.layout, list[Sight]()
        rows = np.column_stack([self._fees, layout.rows])
        wanted, stays = self._light & (self._fees > 0), ~np.array(layout.free)
        group = np.empty(len(rows), np.int64)
        for k, column in enumerate(bundle(np.flatnonzero(wanted).tolist(), rows, BUNDLES)):
            group[column] = BUNDLES + k
        for n in range(len(layout.takers)):
            at_home = self._home == n
            own = self._light & at_home
            values = np.column_stack([self._fees + np.where(at_home, layout.costs, 0.0), layout.rows])
            number = group.copy()
            for k, column in enumerate(bundle(np.flatnonzero(own).tolist(), values, BUNDLES)):
                number[column] = k
            which = own | wanted
            sums = np.stack([np.bincount(number[which], column) for column in values[which].T])
            sums = sums[:, np.bincount(number[which]) > 0]
            room = np.maximum(0.0, layout.limits[n] - layout.rows[at_home & stays].sum(0))
            loads = np.ascontiguousarray(np.hstack([self._whole[:, n].T, sums[1:]]))
            found.append(Sight(-sums[0], loads, room))
        return found

    def _certify(self, fees: Mapping[int, int]) -> FeeProof:
        scaled, layout = self._scaled, self.layout
        every, held = self._by_room | dict(fees), scaled.held()
        own = np.array([fees[layout.slots[s]] for s in self._heavy]) / self._unit
        total = sum(leave(scaled, held[n], every) for n, m in enumerate(scaled.masters) if m.drained)
        certificates = []
        for k, (cost, loads, room) in enumerate(self._seen):
            n = layout.takers[k]
            heavy = -own - np.where(self._home[self._heavy] == k, layout.costs[self._heavy], 0.0)
            costs, proof = np.append(heavy, cost), room_for_proof(CASES_MAX, len(room))
            _, _, steps = fill(Choice(costs, loads, room), len(heavy), 0.0, self._slack, np.zeros(len(costs)), proof)
            layout.arrays.account.spend(COLUMN_WORK * len(costs) * steps)
            cover = fee_cover(scaled, layout.arrays.targets, n, held[n], every)
            columns = WholeColumns(cover.costs, cover.loads)
            unit = self._unit / layout.mean * (1 << PRICE_BITS)
            order, entries = _preorder(proof.tree, [layout.slots[s] for s in self._heavy])
            whole = [columns.coarse([int(p) for p in (proof.lists[j] * unit).tolist()], PRICE_BITS) for j in order]
            certificate = Certificate(
                scaled.masters[n].id, ProofKind.CASES, 0, whole[0], len(entries), tuple(whole[1:]), entries
            )
            value = proven(cover, certificate)
            assert value is not None
            certificates.append(replace(certificate, value=value))
            total += value
        return FeeProof(total, tuple(fees.items()), tuple(certificates), self._prices)


def _preorder(tree: Integers, slots: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """Return the lists in use, and the *tree* of `fill` as one of a certificate: a slot not held first, then held."""
    number: dict[int, int] = {}
    entries: list[int] = []
    below = [0]
    while below:
        entry, first = tree[below.pop()].tolist()
        if entry >= 0:
            entries.append(slots[entry])
            below += [first, first + 1]
        else:
            entries.append(-1 - number.setdefault(-1 - entry, len(number)))
    return list(number), tuple(entries)
