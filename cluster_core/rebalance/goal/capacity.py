"""Capacities before balance: a placement is changed, in whole numbers, until no master is above one if that can be found.

The slots leave a master above its capacity that harm other limits least: first what moved in, then what reaches the capacity with least
load moved.  Where no single slot helps, two change places; where that does not help, all slots are packed anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.rebalance.goal.limits import above_capacity, excess
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets

PACK_LOOKS = 4
"""Places a slot that are looked at on average when all slots are packed anew."""
LOOKS_MAX = 3_000_000
"""Pairs of slots and masters, or of two slots, that are looked at."""


def keep_capacities(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> tuple[int, ...]:
    """Return *owner* changed so that fewer masters, at best none, are above a capacity, and none of those that are gets a slot."""
    owner = _with_a_slot(scaled, owner)
    if all(most is None for row in targets.capacity for most in row):
        return tuple(owner)
    before = set(above_capacity(targets, scaled.totals(scaled.owner)))
    repair = _Repair(scaled, targets, owner)
    repair.empty()
    if repair.over():
        repair.pack()
    repair.send_home()
    done = _with_a_slot(scaled, repair.at)
    strict = _Repair(scaled, targets, done)
    strict.turn_away(before)
    if excess(scaled, targets, strict.at) <= excess(scaled, targets, done):
        return tuple(strict.at)
    return done


def _with_a_slot(scaled: Scaled, owner: Sequence[int]) -> tuple[int, ...]:
    """Return *owner* with a slot, its lightest, left to every master that would lose its last: it would become a replica."""
    at, holding = list(owner), set(owner)
    scale = [1.0 / (sum(load) or 1) for load in scaled.loads]
    for n, master in enumerate(scaled.masters):
        if n not in holding and not master.drained:
            own = [s for s, m in enumerate(scaled.owner) if m == n]
            if own:
                at[
                    min(own, key=lambda s: (max(load[s] * v for load, v in zip(scaled.loads, scale, strict=True)), s))
                ] = n
    return tuple(at)


class _Repair:
    """A placement with its loads, in whole units."""

    def __init__(self, scaled: Scaled, targets: Targets, owner: Sequence[int]) -> None:
        self.scaled, self.targets, self.at = scaled, targets, list(owner)
        self.takers = scaled.takers()
        self.sums = scaled.totals(owner)
        self.count = [0] * len(scaled.masters)
        for n in owner:
            self.count[n] += 1
        self.looks = LOOKS_MAX
        self._scale = [1.0 / (sum(load) or 1) for load in scaled.loads]

    def _move(self, s: int, n: int) -> None:
        for r, load in enumerate(self.scaled.loads):
            self.sums[self.at[s]][r] -= load[s]
            self.sums[n][r] += load[s]
        self.count[self.at[s]] -= 1
        self.count[n] += 1
        self.at[s] = n

    def _room(self, n: int, extra: Sequence[int]) -> bool:
        caps, row = self.targets.capacity[n], self.sums[n]
        return all(most is None or row[r] + extra[r] <= most for r, most in enumerate(caps))

    def _harm(self, n: int, extra: Sequence[int]) -> float:
        """By how much of all load master *n* would be further above its limits."""
        caps, row = self.targets.caps[n], self.sums[n]
        return sum(
            (max(0, row[r] + extra[r] - caps[r]) - max(0, row[r] - caps[r])) * scale
            for r, scale in enumerate(self._scale)
        )

    def _over(self, n: int) -> list[int]:
        return [
            max(0, self.sums[n][r] - most) if most is not None else 0 for r, most in enumerate(self.targets.capacity[n])
        ]

    def _loads(self, s: int) -> list[int]:
        return [load[s] for load in self.scaled.loads]

    def _movable(self, n: int) -> list[int]:
        return [s for s, m in enumerate(self.at) if m == n and s not in self.scaled.fixed]

    def empty(self) -> None:
        """Bring every master to its capacity, as far as single slots and exchanges do."""
        for n in self.over():
            while any(self._over(n)) and (self._give(n) or self._exchange(n)):
                pass

    def over(self) -> list[int]:
        """Return the masters above a capacity that may give slots away."""
        return [n for n in above_capacity(self.targets, self.sums) if n in self.takers]

    def pack(self) -> None:
        """Look for a placement of all slots within the capacities, heavy slots first, each where it is if it can be."""
        caps = self.targets.capacity
        weight = [max(load[s] * scale for load, scale in zip(self.scaled.loads, self._scale, strict=True))
                  for s in range(len(self.at))]  # fmt: skip
        free = [s for s, n in enumerate(self.at) if s not in self.scaled.fixed]
        free.sort(key=lambda s: (-weight[s], s))
        held = self.scaled.totals(self.scaled.owner)
        for s in free:
            for r, load in enumerate(self.scaled.loads):
                held[self.scaled.owner[s]][r] -= load[s]
        places = [sorted(self.takers, key=lambda n: (n != self.at[s], n != self.scaled.owner[s], n)) for s in free]
        chosen: list[int] = []
        turn, looks = [0] * (len(free) + 1), PACK_LOOKS * len(free) + LOOKS_MAX // 100
        need = {n for n in self.takers if n in self.scaled.owner} - {self.scaled.owner[s] for s in self.scaled.fixed}
        while len(chosen) < len(free) or not need <= set(chosen):  # a master without slots becomes a replica
            depth = len(chosen)
            looks -= 1
            if looks < 0:
                return
            if depth == len(free) or turn[depth] == len(self.takers):
                if not chosen:
                    return
                n, s = chosen.pop(), free[depth - 1]
                for r, load in enumerate(self.scaled.loads):
                    held[n][r] -= load[s]
                continue
            n, s = places[depth][turn[depth]], free[depth]
            turn[depth] += 1
            loads = self._loads(s)
            if all(most is None or held[n][r] + loads[r] <= most for r, most in enumerate(caps[n])):
                for r, v in enumerate(loads):
                    held[n][r] += v
                chosen.append(n)
                turn[depth + 1] = 0
        for s, n in zip(free, chosen, strict=True):
            if self.at[s] != n:
                self._move(s, n)

    def _give(self, n: int) -> bool:
        over, cost = self._over(n), self.scaled.loads[self.scaled.cost]
        best: tuple[float, ...] | None = None
        move = (-1, -1)
        slots = self._movable(n)
        if len(slots) < 2 and self.count[n] < 2:
            return False
        for s in slots:
            loads = self._loads(s)
            gain = sum(min(o, v) * scale for o, v, scale in zip(over, loads, self._scale, strict=True))
            if not gain:
                continue
            came = self.scaled.owner[s] != n
            for b in self.takers:
                self.looks -= 1
                if b == n or self.looks < 0 or not self._room(b, loads):
                    continue
                price = -cost[s] if self.scaled.owner[s] == b else 0 if came else cost[s]
                rank = (self._harm(b, loads), not came, price / gain, s, b)
                if best is None or rank < best:
                    best, move = rank, (s, b)
        if best is None:
            return False
        self._move(*move)
        return True

    def _exchange(self, n: int) -> bool:
        """Give a slot for one that is lighter in what is above the capacity."""
        over = self._over(n)
        best: tuple[float, ...] | None = None
        pair = (-1, -1)
        others = [t for t, m in enumerate(self.at) if m != n and m in self.takers and t not in self.scaled.fixed]
        for s in self._movable(n):
            mine = self._loads(s)
            for t in others:
                self.looks -= 1
                if self.looks < 0:
                    return False
                change = [a - b for a, b in zip(mine, self._loads(t), strict=True)]
                gain = sum((o - max(0, o - c)) * scale for o, c, scale in zip(over, change, self._scale, strict=True))
                stays = all(o or c >= 0 or most is None or self.sums[n][r] - c <= most for r, (o, c, most) in enumerate(
                    zip(over, change, self.targets.capacity[n], strict=True)))  # fmt: skip
                if gain <= 0 or not stays or not self._room(self.at[t], change):
                    continue
                rank = (self._harm(self.at[t], change), -gain, s, t)
                if best is None or rank < best:
                    best, pair = rank, (s, t)
        if best is None:
            return False
        s, t = pair
        other = self.at[t]
        self._move(t, n)
        self._move(s, other)
        return True

    def send_home(self) -> None:
        """Where a master is still above its capacity, nothing moves into it."""
        turned = True
        while turned:
            turned = False
            for n in above_capacity(self.targets, self.sums):
                for s in self._movable(n):
                    if self.scaled.owner[s] != n:
                        self._move(s, self.scaled.owner[s])
                        turned = True

    def turn_away(self, before: set[int]) -> None:
        """Let nothing move into masters that begin above their capacity: it goes home or where limits suffer least."""
        for s, n in enumerate(list(self.at)):
            if n not in before or self.scaled.owner[s] == n or self.count[n] < 2:
                continue
            loads = self._loads(s)
            home = self.scaled.owner[s]
            places = [b for b in self.takers if b not in before and self._room(b, loads)]
            best = min(places, key=lambda b: (self._harm(b, loads), b != home, b), default=-1)
            if best >= 0:
                self._move(s, best)
