"""Where the heavy slots go among many masters, and what all masters together must move, by what each can hold as a whole.

How this works.  A `WayProgram` solves the placement of all slots with fractions: its best price list is a `JointProof`.  At its prices of room,
fees of all slots (`SlotFees`) prove more, and say in a mixture which heavy slots each master had best hold together with light ones.  Masters get
the heavy slots of the holding that most of the mixture is, a few masters at a time, and the others look again for what they can hold beside
that; then the ways say where all light slots go.  Prices of room that suit this placement are others than those where heavy slots are divided: a
part of the way towards them fees prove more still, and say a better placement.
"""

from __future__ import annotations

import math

import numpy as np

from cluster_core.kernels.placement_program import Floats
from cluster_core.rebalance.bound.fees import FeeProof
from cluster_core.rebalance.bound.joint_proof import JointProof
from cluster_core.rebalance.search.holding_program import HoldingProgram
from cluster_core.rebalance.search.layout import OVER_COST, Layout, settle
from cluster_core.rebalance.search.price_lists import PriceLists
from cluster_core.rebalance.search.slot_fees import SlotFees
from cluster_core.rebalance.search.way_program import WayProgram

HEAVY, HEAVIEST = 32, 80
"""Slots above this part of a limit in any resource are heavy, the heaviest so many of them."""
WORK_MAX, WORK_PART = 4e9, 0.5
"""Most work of the search, in about nanoseconds, and most part of what is left."""
TURNS, NEAR = 4, 0.02
"""Price lists that are tried, and the share by which a placement may cost more than is proven."""
STEP = 0.3
"""Part of the way that is gone from the prices that prove most to those of the cheapest placement."""
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
        self._least = np.inf
        self._fees: FeeProof | None = None
        if self.heavy and not self._account.is_over():
            self._search(min(WORK_MAX, WORK_PART * self._account.left))

    def _search(self, work_max: float) -> None:
        """Let masters hold what fees at the best prices say, then at prices nearer to those of the placement that came of it."""
        end = self._account.left - work_max if math.isfinite(self._account.left) else 0.0
        number = best = self.root
        unit = float(self.layout.mean[self.layout.arrays.scaled.cost])
        for _ in range(TURNS):
            fees = SlotFees(self.layout, self.lists, number, self.heavy)
            program = fees.search()
            proof = fees.proof()
            if self._fees is None or proof.value > self._fees.value:
                self._fees, best = proof, number
            self._try(program)
            if (
                self._least * unit < self._fees.value * (1 + NEAR)
                or self._account.left <= end
                or self._account.is_over()
            ):
                break
            number = self.lists.between(best, self.lists.best(list(self._held().items()))[1], STEP)

    def _try(self, program: HoldingProgram) -> None:
        """Keep the placement of heavy slots that *program* says where no other is known to cost less with all light slots."""
        decided = self._decide(program)
        held = {h: decided[s] for h, s in enumerate(self.heavy) if s in decided}
        most = self._ways.work + self.layout.work_max()
        spread = settle(self._ways, self._ways.solve(held, most, self._least), held, len(self.heavy), most)
        if spread.cost < self._least:
            self._least, self._decided = spread.cost, dict(zip(self.heavy, spread.at.tolist(), strict=True))

    def _decide(self, program: HoldingProgram) -> dict[int, int]:
        """Decide what heavy slots every master holds: return their masters."""
        decided: dict[int, int] = {}
        taken: set[int] = set()
        open_masters = set(range(len(self.layout.takers)))
        while open_masters and not self._account.is_over():
            places: dict[int, frozenset[int]] = {}
            for part, n, columns in program.shares():
                if n not in places and not columns & taken and (part >= SURE or not places):
                    places[n] = columns
                    taken |= columns
            if not places:
                break
            open_masters -= set(places)
            decided |= {self.heavy[h]: n for n, columns in places.items() for h in columns}
            program.decide(places, ROUNDS)
        return decided

    def decided(self) -> dict[int, int]:
        """Return the masters of the heavy slots, as the layout numbers both; none where too little work was left."""
        return self._decided

    def _held(self) -> dict[int, int]:
        """Return the same by the heavy slots' ranks."""
        return {h: self._decided[s] for h, s in enumerate(self.heavy) if self._decided}

    def parts(self) -> Floats:
        """Return what part of every slot is on every master where the decided ones are whole; of a decided one, nothing."""
        self._ways.solve(self._held(), self._ways.work + self.layout.work_max())
        return self._ways.parts()

    def fees(self) -> FeeProof | None:
        """Return what fees of all slots prove, those of the heavy ones being the best found; None where too little work was left."""
        return self._fees

    def proof(self) -> JointProof | None:
        """Return what the best price list proves; None where that is less than nothing."""
        return self.lists.proof(self.lists.best((), self.root)[0], [self.root], [-1])
