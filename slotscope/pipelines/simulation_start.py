"""What a simulation starts from: the grid of its cases, and the nodes of a cluster that was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster_core.incidents.past_views import find_observer, view_at
from cluster_core.instants import write_instant
from cluster_core.sim.experiment.runs import Grid, Trial, TrialError, layout_of, settings_for
from cluster_core.sim.layouts import Place, names_of
from cluster_core.sim.recording import recorded_places
from slotscope.pipelines.bus.past_views import instant_ns, views_at
from slotscope.requests.nodes import EVERYBODY
from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from slotscope.requests.simulate import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A recorded cluster to start from: the view of *observer* in a replay at a time, and what is in which zone."""

    snapshot: str
    at: str | None = None
    observer: str = EVERYBODY
    zones: Sequence[str] = ()


def start_of(request: Request) -> Start | None:
    """The recorded cluster that *request* names, None for clusters by layout; raises InputError for options that do not go together."""
    single = (request.profile, request.node_timeout_ms, request.validity_factor, request.migration_barrier)
    if request.from_snapshot is not None:
        if max(map(len, single)) > 1:
            raise InputError(
                "a recorded cluster is simulated with one profile, node timeout, validity factor and barrier"
            )
        return Start(snapshot=request.from_snapshot, at=request.at, observer=request.observer, zones=request.zone)
    if request.at is not None or request.zone or request.observer != EVERYBODY:
        raise InputError("--at, --observer and --zone belong to --from-snapshot")
    return None


def grid_of(request: Request) -> Grid:
    """Every combination of the options with several values."""
    trial = Trial(
        profile=request.profile[0],
        node_timeout_ms=request.node_timeout_ms[0],
        validity_factor=request.validity_factor[0],
        migration_barrier=request.migration_barrier[0],
        clients=request.clients,
        limit_s=request.limit_s,
    )
    return Grid(
        trial, request.seeds, request.first_seed, request.profile, request.node_timeout_ms, request.shards, request.replicas,
        request.zones, request.validity_factor, request.migration_barrier, request.fault, request.hit, request.delay_ms,
    )  # fmt: skip


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
