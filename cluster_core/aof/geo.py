"""Positions in sorted sets, as far as commands store what they find (`geo.c`, `geohash_helper.c`).

A score holds a position: 26 bits of latitude and of longitude, interleaved.  Distances are haversines on a sphere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from cluster_core.aof.sorted_sets import Scores
from cluster_core.aof.store import ZSET, Refused, Store, Unsettled, lowered, number, real

Words = Sequence[bytes]
EARTH_RADIUS_M = 6372797.560856
LATITUDE_MAX = 85.05112878
_STEPS = 1 << 26
_UNITS: Final = {b"m": 1.0, b"km": 1000.0, b"ft": 0.3048, b"mi": 1609.34}
Position = tuple[float, float]


class _Search(NamedTuple):
    """What to look for: a circle (*radius_m*) or a box (*box_m*: width and height) around *centre*, in *unit_m*."""

    centre: Position
    radius_m: float
    box_m: tuple[float, float] | None
    unit_m: float
    at_most: int
    nearest_first: bool


def position_of(score: float) -> Position:
    """Longitude and latitude in degrees of a score (`geohashDecode`, the middle of the cell)."""
    bits = int(score)
    latitude = longitude = 0
    for step in range(26):
        latitude |= (bits >> 2 * step & 1) << step
        longitude |= (bits >> 2 * step + 1 & 1) << step
    return _middle(longitude, 180.0), _middle(latitude, LATITUDE_MAX)


def _middle(cell: int, limit: float) -> float:
    low = -limit + cell * 1.0 / _STEPS * (2 * limit)
    high = -limit + (cell + 1) * 1.0 / _STEPS * (2 * limit)
    return (low + high) / 2


def distance_m(first: Position, second: Position) -> float:
    """Metres between two positions (`geohashGetDistance`)."""
    (lon1, lat1), (lon2, lat2) = ((lon * math.pi / 180, lat * math.pi / 180) for lon, lat in (first, second))
    v = math.sin((lon2 - lon1) / 2)
    if v == 0:
        return EARTH_RADIUS_M * abs(lat2 - lat1)
    u = math.sin((lat2 - lat1) / 2)
    return 2 * EARTH_RADIUS_M * math.asin(math.sqrt(u * u + math.cos(lat1) * math.cos(lat2) * v * v))


def _distance_within(search: _Search, place: Position) -> float | None:
    """The distance of *place* from the centre if it lies within, else None."""
    if search.box_m is not None:
        width, height = search.box_m
        if EARTH_RADIUS_M * abs((place[1] - search.centre[1]) * math.pi / 180) > height / 2:
            return None
        if distance_m(place, (search.centre[0], place[1])) > width / 2:
            return None
        return distance_m(search.centre, place)
    distance = distance_m(search.centre, place)
    return distance if distance <= search.radius_m else None


def _store(store: Store, target: bytes, scores: Scores, search: _Search, *, distances: bool) -> None:
    found = []
    for member, score in scores.items():
        distance = _distance_within(search, position_of(score))
        if distance is not None:
            found.append((distance, member, score))
    if search.at_most:
        found.sort(key=lambda one: one[0], reverse=not search.nearest_first)
        found = found[: search.at_most]
    store.put(
        target, ZSET, {member: distance / search.unit_m if distances else score for distance, member, score in found}
    )


def _unit(word: bytes) -> float:
    try:
        return _UNITS[word.lower()]
    except KeyError:
        raise Refused from None


def _limits(options: list[bytes]) -> tuple[int, bool]:
    """COUNT (0: none) and whether the nearest come first; with ANY the servers take what they meet."""
    if b"count" not in options:
        return 0, True
    at = options.index(b"count")
    if b"any" in options[at:]:
        raise Unsettled
    return number(options[at + 1]), b"desc" not in options


def _member_at(scores: Scores, member: bytes) -> Position:
    if member not in scores:
        raise Refused
    return position_of(scores[member])


def _geosearchstore(store: Store, words: Words) -> None:
    """GEOSEARCHSTORE destination source FROMMEMBER|FROMLONLAT … BYRADIUS|BYBOX … [ASC|DESC] [COUNT n [ANY]] [STOREDIST]"""
    options = lowered(words)
    scores: Scores | None = store.typed(words[2], ZSET)
    if scores is None:
        store.remove(words[1])
        return
    if b"frommember" in options:
        centre = _member_at(scores, words[options.index(b"frommember") + 1])
    elif b"fromlonlat" in options:
        at = options.index(b"fromlonlat")
        centre = real(words[at + 1]), real(words[at + 2])
    else:
        raise Unsettled
    radius, box = 0.0, None
    if b"byradius" in options:
        at = options.index(b"byradius")
        unit = _unit(words[at + 2])
        radius = real(words[at + 1]) * unit
    elif b"bybox" in options:
        at = options.index(b"bybox")
        unit = _unit(words[at + 3])
        box = real(words[at + 1]) * unit, real(words[at + 2]) * unit
    else:
        raise Unsettled
    search = _Search(centre, radius, box, unit, *_limits(options[3:]))
    _store(store, words[1], scores, search, distances=b"storedist" in options[3:])


def _georadius(first: int) -> Callable[[Store, Words], None]:
    """GEORADIUS key longitude latitude radius unit …, GEORADIUSBYMEMBER key member radius unit …; *first* is the radius' place."""

    def run(store: Store, words: Words) -> None:
        options = lowered(words[first + 2 :])
        target, distances = None, False
        for at, option in enumerate(options[:-1]):
            if option in (b"store", b"storedist"):
                target, distances = words[first + 3 + at], option == b"storedist"
        if target is None:
            raise Refused
        scores: Scores | None = store.typed(words[1], ZSET)
        if scores is None:
            store.remove(target)
            return
        centre = (real(words[2]), real(words[3])) if first == 4 else _member_at(scores, words[2])
        unit = _unit(words[first + 1])
        search = _Search(centre, real(words[first]) * unit, None, unit, *_limits(options))
        _store(store, target, scores, search, distances=distances)

    return run


HANDLERS: Final[dict[str, Callable[[Store, Words], None]]] = {
    "geosearchstore": _geosearchstore, "georadius": _georadius(4), "georadiusbymember": _georadius(3),
}  # fmt: skip
