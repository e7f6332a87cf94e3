"""What a simulation starts from: the grid of its cases, and the nodes of a cluster that was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster_core.incidents.past_views import find_observer, view_at
from cluster_core.instants import write_instant
from cluster_core.sim.experiment.runs import Grid, TrialError, layout_of, settings_for
from cluster_core.sim.layouts import Place, names_of
from cluster_core.sim.recording import recorded_places
from slotscope.pipelines.bus.past_views import EVERYBODY, instant_ns, views_at
from slotscope.runtime.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A recorded cluster to start from: the view of *observer* in a replay at a time, and what is in which zone."""

    snapshot: str
    at: str | None = None
    observer: str = EVERYBODY
    zones: Sequence[str] = ()


def check_hits(grid: Grid, places: Sequence[Place]) -> None:
    """Refuse zones and numbers of masters that there are not, before anything runs."""
    for case in range(grid.cases):
        trial = grid.trial(case * grid.seeds)
        zones = {place.zone for place in places} or {z for z in names_of(layout_of(trial)) if z.startswith("Z")}
        masters = sum(bool(place.slots) for place in places) or trial.shards
        if trial.hit.isdecimal() and trial.fault in ("crash", "power", "freeze") and int(trial.hit) > masters:
            raise TrialError(f"{trial.hit} masters cannot fail: there are {masters}")
        if trial.fault in ("zone", "partition") and not trial.hit.isdecimal() and trial.hit and trial.hit not in zones:
            raise TrialError(f"no zone {trial.hit!r}; there are {', '.join(sorted(zones))}")


def starting_places(grid: Grid, root: str, start: Start | None) -> tuple[list[Place], str]:
    """The nodes to start with, none for clusters by layout, and where they come from in words."""
    if start is None:
        return [], "clusters made for it"
    at_ns = instant_ns(root, start.snapshot, start.at)
    rows, book = views_at(root, start.snapshot, [at_ns])
    observer = min(book) if start.observer == EVERYBODY else find_observer(start.observer, book)
    places = recorded_places(view_at(rows, observer, at_ns), settings_for(grid.base), read_zones(start.zones))
    return places, f"from what {book[observer]} believed in {start.snapshot} at {write_instant(at_ns)}"


def read_zones(given: Sequence[str]) -> dict[str, list[str]]:
    """``B=10.0.2.0/24,10.0.1.7:6379`` as zone and parts; raises InputError."""
    zones: dict[str, list[str]] = {}
    for text in given:
        name, equals, parts = text.partition("=")
        if not equals or not name or not parts:
            raise InputError(f"{text!r} is no zone of the form NAME=ADDRESS,NETWORK,…")
        zones.setdefault(name, []).extend(part for part in parts.split(",") if part)
    return zones
