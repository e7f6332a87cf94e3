"""The search for a plan: a seeded, iteration-bounded walk over placements at rising prices, then a repair.

How this works.  A placement costs what it moves (plus a little for every moved slot and every border between two owners); load above a
limit costs a price per unit, one price a master and resource.  Prices start at those of the bound (`cover.price`), grow while a limit is
broken and fall while it is kept, so that the walk learns which resource of which master is scarce; in the last part they only grow.
A step relocates a slot, brings it home, swaps two, lets one make room for another, or grows or shrinks a run at its end.  It is taken
when it costs less than a threshold drawn at the falling temperature.  `mend` then repairs what is left, the cheapest way first.

Everything is arithmetic on flat arrays: ``w[s * R + r]``, ``load[n * R + r]``.  The same code runs interpreted and compiled
(`cluster_core.kernels.rebalance_engine`), with the same result: only + - * / and comparisons of float64, and a 32-bit shift register.
"""

from __future__ import annotations

from typing import Any

Numbers = Any
CHUNK = 1024
MENDS_MAX = 300


def step(x: int) -> int:
    """Return the number after *x* of a 32-bit xorshift sequence (Marsaglia 2003)."""
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    return x


def pick(x: int, turn: int) -> int:
    """Return *x* below 2**32, every other turn drawn towards 0 where the heavy slots of a master are."""
    k = turn & 3
    if k == 0:
        return x
    y = (x >> 1) * (x >> 1) >> 30  # squares of 32 bits do not fit 63
    if k == 1:
        return y
    y = (y >> 1) * (y >> 1) >> 30
    if k == 2:
        return y
    return (y >> 1) * (x >> 1) >> 30


def measure(
    s: int, b: int, size: int, w: Numbers, cap: Numbers, load: Numbers, price: Numbers, cost: Numbers, owner: Numbers,
    at: Numbers, border: float,
) -> float:  # fmt: skip
    """Return what it costs to put slot *s* on master *b*."""
    a = at[s]
    d = 0.0
    if a == owner[s]:
        d += cost[s]
    elif b == owner[s]:
        d -= cost[s]
    for r in range(size):
        x = w[s * size + r]
        o = load[a * size + r] - cap[a * size + r]
        if o > 0:
            d -= price[a * size + r] * min(o, x)
        o = load[b * size + r] - cap[b * size + r] + x
        if o > 0:
            d += price[b * size + r] * min(o, x)
    if border > 0.0:
        if s > 0:
            p = at[s - 1]
            if p == a:
                d += border
            elif p == b:
                d -= border
        if s < len(owner) - 1:
            p = at[s + 1]
            if p == a:
                d += border
            elif p == b:
                d -= border
    return d


def shift(
    s: int, b: int, size: int, w: Numbers, cap: Numbers, load: Numbers, owner: Numbers, at: Numbers, count: Numbers,
    moved: Numbers, where: Numbers, meta: Numbers,
) -> None:  # fmt: skip
    """Put slot *s* on master *b*; *meta* counts moved slots and broken limits."""
    a = at[s]
    over = 0
    for r in range(size):
        x = w[s * size + r]
        i = a * size + r
        if load[i] > cap[i]:
            over -= 1
        load[i] -= x
        if load[i] > cap[i]:
            over += 1
        i = b * size + r
        if load[i] > cap[i]:
            over -= 1
        load[i] += x
        if load[i] > cap[i]:
            over += 1
    meta[1] += over
    count[a] -= 1
    count[b] += 1
    at[s] = b
    if a == owner[s]:
        where[s] = meta[0]
        moved[meta[0]] = s
        meta[0] += 1
    elif b == owner[s]:
        k = where[s]
        last = moved[meta[0] - 1]
        moved[k] = last
        where[last] = k
        where[s] = -1
        meta[0] -= 1


def anneal(
    size: int, w: Numbers, cap: Numbers, load: Numbers, price: Numbers, least: Numbers, cost: Numbers, owner: Numbers,
    at: Numbers, count: Numbers, keeps: Numbers, movable: Numbers, targets: Numbers, sources: Numbers,
    home_start: Numbers, home: Numbers, moved: Numbers, where: Numbers, meta: Numbers, hot: Numbers, dice: Numbers,
    best: Numbers, border: float, warm: float, cold: float, up: float, down: float, close: float, closing: float,
    chunks: int, seed: int,
) -> float:  # fmt: skip
    """Walk *chunks* times 1024 steps; return the least cost of a placement within all limits (it is then in *best*).

    *keeps* [n]: 0 takes nothing, 1 may end empty, 2 may not; *targets* may receive; *sources* were over a limit at the start; *home* lists every
    owner's slots, heavy ones first, from *home_start*.  *dice* is -log of 1024 evenly spaced chances.  Returns 1e300 when no placement
    within the limits was met; *at* and *load* are left where the walk ended.
    """
    slots = len(owner)
    x = seed
    least_cost = 1e300
    decay = (cold / warm) ** (1.0 / max(chunks, 1))
    heat = warm
    for chunk in range(chunks):
        last = chunk >= closing * chunks
        q = 0
        for n in range(len(count)):
            broken = False
            for r in range(size):
                i = n * size + r
                if load[i] > cap[i]:
                    broken = True
                    price[i] *= up
                    if last:
                        price[i] *= close
                elif not last and price[i] * down > least[r]:
                    price[i] *= down
            if broken:
                hot[q] = n
                q += 1
        for turn in range(1024):
            x = step(x)
            kind = x & 255
            x = step(x)
            limit = heat * dice[x & 1023]
            s2 = -1
            b2 = -1
            held = meta[0]
            if kind < 60 or held == 0:
                x = step(x)
                if q > 0 and kind < 30:
                    a = hot[(x * q) >> 32]
                elif len(sources) > 0 and kind < 50:
                    a = sources[(x * len(sources)) >> 32]
                else:
                    a = (x * len(count)) >> 32
                h = home_start[a + 1] - home_start[a]
                if h == 0:
                    continue
                x = step(x)
                s = home[home_start[a] + (pick(x, turn) * h >> 32)]
                if at[s] != owner[s]:
                    continue
                x = step(x)
                b = targets[(x * len(targets)) >> 32]
            else:
                x = step(x)
                s = moved[(x * held) >> 32]
                x = step(x)
                if kind < 80:  # home again
                    b = owner[s]
                elif kind < 105:
                    b = targets[(x * len(targets)) >> 32]
                elif kind < 155:  # another slot of its owner goes instead
                    b = owner[s]
                    h = home_start[b + 1] - home_start[b]
                    s2 = home[home_start[b] + (pick(x, turn) * h >> 32)]
                    b2 = at[s]
                    if at[s2] != b:
                        continue
                elif kind < 190:  # two moved slots change places
                    s2 = moved[(x * held) >> 32]
                    b = at[s2]
                    b2 = at[s]
                elif kind < 215:  # a slot at home makes room
                    b = targets[(x * len(targets)) >> 32]
                    if q > 0 and kind & 1 == 1:
                        b = hot[(x * q) >> 32]
                    h = home_start[b + 1] - home_start[b]
                    if h == 0:
                        continue
                    x = step(x)
                    s2 = home[home_start[b] + (pick(x, turn) * h >> 32)]
                    if at[s2] != b:
                        continue
                    if kind < 200:
                        b2 = at[s]
                    elif kind < 208:
                        b2 = owner[s]
                    else:
                        x = step(x)
                        b2 = targets[(x * len(targets)) >> 32]
                elif kind < 235:  # a run grows or shrinks at its end
                    b = at[s]
                    s = s + 1 if x & 1 == 1 else s - 1
                    if s < 0 or s >= slots:
                        continue
                else:
                    b = s + 1 if x & 1 == 1 else s - 1
                    if b < 0 or b >= slots:
                        continue
                    b = at[b]
            a = at[s]
            if a == b or movable[s] == 0 or keeps[b] == 0 or (count[a] == 1 and keeps[a] == 2):
                continue
            if s2 < 0:
                if measure(s, b, size, w, cap, load, price, cost, owner, at, border) < limit:
                    shift(s, b, size, w, cap, load, owner, at, count, moved, where, meta)
                continue
            if s2 == s or movable[s2] == 0 or at[s2] == b2 or keeps[b2] == 0:
                continue
            d = measure(s, b, size, w, cap, load, price, cost, owner, at, border)
            shift(s, b, size, w, cap, load, owner, at, count, moved, where, meta)
            a2 = at[s2]
            d += measure(s2, b2, size, w, cap, load, price, cost, owner, at, border)
            if d < limit and not (count[a2] == 1 and keeps[a2] == 2):
                shift(s2, b2, size, w, cap, load, owner, at, count, moved, where, meta)
            else:
                shift(s, a, size, w, cap, load, owner, at, count, moved, where, meta)
        if meta[1] == 0:
            c = 0.0
            for k in range(meta[0]):
                c += cost[moved[k]]
            if border > 0.0:
                for s in range(1, slots):
                    if at[s] != at[s - 1]:
                        c += border
            if c < least_cost:
                least_cost = c
                for s in range(slots):
                    best[s] = at[s]
        heat *= decay
    return least_cost


def mend(
    size: int, w: Numbers, cap: Numbers, scale: Numbers, load: Numbers, cost: Numbers, owner: Numbers, at: Numbers,
    count: Numbers, keeps: Numbers, movable: Numbers, targets: Numbers, grain: float, looks_max: int, moved: Numbers,
    where: Numbers, meta: Numbers,
) -> int:  # fmt: skip
    """Repair broken limits, the worst master first, by the relocation or swap that costs least for what it mends.

    *scale* makes overload of different resources comparable; *grain* is a small cost that keeps free repairs apart from none.  Looks at
    about *looks_max* pairs a repair (every k-th, when there are more).  Returns how many repairs were made.
    """
    slots = len(owner)
    for done in range(MENDS_MAX):
        a = -1
        most = 0.0
        for n in range(len(count)):
            v = 0.0
            for r in range(size):
                o = load[n * size + r] - cap[n * size + r]
                if o > 0:
                    v += o * scale[r]
            if v > most:
                most = v
                a = n
        if a < 0:
            return done
        stride = count[a] * slots // looks_max + 1
        top = 1e300
        best_s = -1
        best_b = -1
        best_t = -1
        phase = 0
        for s in range(slots):
            if at[s] != a or movable[s] == 0:
                continue
            away = cost[s] if owner[s] == a else 0.0
            if count[a] > 1 or keeps[a] != 2:
                for k in range(len(targets)):
                    b = targets[k]
                    if b == a:
                        continue
                    d = away
                    if owner[s] == b:
                        d -= cost[s]
                    v = 0.0
                    for r in range(size):
                        x = w[s * size + r]
                        o = load[a * size + r] - cap[a * size + r]
                        if o > 0:
                            v -= min(o, x) * scale[r]
                        o = load[b * size + r] + x - cap[b * size + r]
                        if o > 0:
                            v += min(o, x) * scale[r]
                    if v < -1e-9 * most:
                        c = max(d + grain, 0.0) / min(1.0, -v / most)
                        if c < top:
                            top = c
                            best_s = s
                            best_b = b
                            best_t = -1
            phase += 1
            for t in range(phase % stride, slots, stride):
                b = at[t]
                if b == a or movable[t] == 0 or keeps[b] == 0 or keeps[a] == 0:
                    continue
                d = away
                if owner[s] == b:
                    d -= cost[s]
                if owner[t] == b:
                    d += cost[t]
                elif owner[t] == a:
                    d -= cost[t]
                if d >= top:
                    continue
                v = 0.0
                for r in range(size):
                    x = w[s * size + r] - w[t * size + r]
                    o = load[a * size + r] - cap[a * size + r]
                    v += (max(o - x, 0.0) - max(o, 0.0)) * scale[r]
                    o = load[b * size + r] - cap[b * size + r]
                    v += (max(o + x, 0.0) - max(o, 0.0)) * scale[r]
                if v < -1e-9 * most:
                    c = max(d + grain, 0.0) / min(1.0, -v / most)
                    if c < top:
                        top = c
                        best_s = s
                        best_b = b
                        best_t = t
        if best_s < 0:
            return done
        shift(best_s, best_b, size, w, cap, load, owner, at, count, moved, where, meta)
        if best_t >= 0:
            shift(best_t, a, size, w, cap, load, owner, at, count, moved, where, meta)
    return MENDS_MAX
