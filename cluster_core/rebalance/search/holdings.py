"""Where the heavy slots go among many masters, and what all masters together must move, by what each can hold as a whole.

How this works.  A `WayProgram` solves the placement of all slots with fractions: its best price list is a `JointProof`.  A `HoldingProgram` of heavy
slots and a few bundles an owner begins at its prices.  Masters then get the heavy slots of the holding that most of its mixture is, a few
masters at a time, and the others look again for what they can hold beside that.  With these decided, the ways say where all light slots go.
"""

from __future__ import annotations

import numpy as np

from cluster_core.kernels.placement_program import Floats
from cluster_core.rebalance.bound.fees import FeeProof
from cluster_core.rebalance.bound.joint_proof import JointProof
from cluster_core.rebalance.search.holding_program import NEVER, HoldingProgram
from cluster_core.rebalance.search.layout import OVER_COST, Layout, gather, settle
from cluster_core.rebalance.search.price_lists import PriceLists
from cluster_core.rebalance.search.slot_fees import SlotFees
from cluster_core.rebalance.search.way_program import WayProgram

HEAVY, HEAVIEST = 32, 80
"""Slots above this part of a limit in any resource are heavy, the heaviest so many of them."""
BUNDLES = 2, 4, 8
"""Bundles of light slots an owner: first few, then more where there is work left."""
MARGIN = 0.0005
"""Part of a limit that stays free: light slots are whole, too."""
WORK_MAX, WORK_PART, COARSE_PART = 4e9, 0.5, 0.5
"""Most work of the search for prices, in about nanoseconds, most part of what is left, and the part of what is left of that for all but the finest bundles."""
CLOSE = 0.005
"""Share of what a mixture costs by which its prices may prove less."""
ROUNDS, SURE = 4, 0.8
"""Rounds after some masters were decided; parts of the mixture from which on several are decided at once."""


class Holdings:
    """One search: `decided` are the masters of the heavy slots that it found, `proof` is what it proved."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.heavy = [s for s in layout.singles if layout.part[s] > 1 / HEAVY][:HEAVIEST]
        self._account = layout.arrays.account
        self.lists = PriceLists(layout, self.heavy)
        self._ways = WayProgram(self.lists, OVER_COST, self._account.spend)
        self._ways.solve({}, layout.work_max())
        self.root = self.lists.best(())[1]
        self._decided: dict[int, int] = {}
        if self.heavy and not self._account.is_over():
            self._search(min(WORK_MAX, WORK_PART * self._account.left))

    def _search(self, work_max: float) -> None:
        """Decide by ever finer bundles, as long as the best prices are found, and keep the cheapest placement."""
        least, end = np.inf, self._account.left - work_max
        for bundles in BUNDLES:
            program = self._program(bundles)
            left = min(work_max, self._account.left - end)
            found = program.search(left if bundles == BUNDLES[-1] else left * COARSE_PART, CLOSE)
            decided = self._decide(program)
            held = {h: decided[s] for h, s in enumerate(self.heavy) if s in decided}
            most = self._ways.work + self.layout.work_max()
            spread = settle(self._ways, self._ways.solve(held, most), held, len(self.heavy), most)
            if spread.cost < least:
                least, self._decided = spread.cost, dict(zip(self.heavy, spread.at.tolist(), strict=True))
            if not found or self._account.left <= end or self._account.is_over():
                break

    def _program(self, bundles: int) -> HoldingProgram:
        layout, masters = self.layout, len(self.layout.takers)
        columns, pinned = gather(layout, layout.home, alone=self.heavy, bundles=bundles)
        room, fees = layout.caps * (1 - MARGIN), layout.fees(columns, layout.home, 0.0)
        for k, n in pinned.items():
            fees[k] = np.where(np.arange(masters) == n, fees[k], NEVER)
        bulk = np.array([layout.rows[column].sum(0) for column in columns])
        loads = np.repeat(bulk[None], masters, 0)
        own = self.lists.heavy_loads.transpose(1, 0, 2)
        full = own >= layout.limits[:, None]
        loads[:, : len(self.heavy)] = np.where(full, np.minimum(own, room[:, None]), own)
        prices = self.lists.price(self.root).reshape(masters, -1)
        worth = (fees + np.einsum("nkr,nr->kn", loads, prices)).min(1)
        each = [np.ascontiguousarray(rows.T) for rows in loads]
        return HoldingProgram(each, room, fees, len(self.heavy), worth, self._account.spend)

    def _decide(self, program: HoldingProgram) -> dict[int, int]:
        """Decide what heavy slots every master holds: return their masters."""
        decided: dict[int, int] = {}
        taken: set[int] = set()
        open_masters = set(range(len(self.layout.takers)))
        while open_masters and not self._account.is_over():
            places: dict[int, frozenset[int]] = {}
            for part, n, heavy in program.shares():
                if n not in places and not heavy & taken and (part >= SURE or not places):
                    places[n] = heavy
                    taken |= heavy
            if not places:
                break
            open_masters -= set(places)
            decided |= {self.heavy[h]: n for n, heavy in places.items() for h in heavy}
            program.decide(places, ROUNDS)
        return decided

    def decided(self) -> dict[int, int]:
        """Return the masters of the heavy slots, as the layout numbers both; none where too little work was left."""
        return self._decided

    def parts(self) -> Floats:
        """Return what part of every slot is on every master where the decided ones are whole; of a decided one, nothing."""
        held = {h: self._decided[s] for h, s in enumerate(self.heavy) if self._decided}
        self._ways.solve(held, self._ways.work + self.layout.work_max())
        return self._ways.parts()

    def fees(self) -> FeeProof | None:
        """Return what fees of all slots prove, the heavy ones' being the best found."""
        if not self.heavy or self._account.is_over():
            return None
        return SlotFees(self.layout, self.lists, self.root, self.heavy).proof()

    def proof(self) -> JointProof | None:
        """Return what the best price list proves; None where that is less than nothing."""
        return self.lists.proof(self.lists.best((), self.root)[0], [self.root], [-1])
