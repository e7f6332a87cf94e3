"""The report on a fleet: one `ClusterState` a cluster, the worst first, and its document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slotscope.reports.document import Cell, Column, Document, Facts, Format, Place, Section, Table, Tile, how_to_read
from slotscope.reports.index import FLEET
from slotscope.runtime import text

UNEVEN: Final = 1.25
"""A fullest master above this much of the mean is trouble."""
OLD_MS: Final = 2 * 24 * 3_600_000
"""Dumps that are older tell of another day."""
UNNAMED: Final = "(no cluster named)"
DAYS: Final = 7
"""Days of the sparkline of incidents."""
DAY_MS: Final = 24 * 3_600_000
_BARS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that failed after the last one of its job that did not."""

    job: str
    ended_at_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterState:
    """One cluster, by its newest snapshot of the key space, its newest history, and its last runs; None is not known.

    *skew* is the fullest master over the mean of all, by *skew_by*.
    """

    cluster: str
    snapshot: str | None = None
    taken_at_ms: int | None = None
    is_partial: bool = False
    masters: int | None = None
    keys: int | None = None
    serialized_bytes: int | None = None
    memory_bytes: int | None = None
    skew: float | None = None
    skew_by: str = ""
    history: str | None = None
    recorded_until_ms: int | None = None
    incidents: int = 0
    open_incidents: int = 0
    open_summary: str = ""
    """Of the newest open incident."""
    last_incident_ms: int | None = None
    """Start of the newest incident."""
    per_day: tuple[int, ...] = ()
    """Incidents that began in each of the last seven days, today last."""
    failed: tuple[Failed, ...] = ()

    @property
    def size_bytes(self) -> int | None:
        """In memory where that is known, else in the dumps."""
        return self.memory_bytes if self.memory_bytes is not None else self.serialized_bytes


@dataclass(frozen=True, slots=True)
class FleetReport:
    """All clusters, the worst first; *pages* are the addresses of the pages of snapshots and histories, from the page of the fleet."""

    now_ms: int
    clusters: Sequence[ClusterState]
    pages: dict[str, str]

    @property
    def verdict(self) -> str:
        """How many clusters have which trouble, and which is the most uneven, in one sentence."""
        if not self.clusters:
            return "No cluster has a finished or a failed run."
        counts = (
            (sum(bool(cluster.open_incidents) for cluster in self.clusters), "with open incidents"),
            (sum(bool(cluster.failed) for cluster in self.clusters), "with a failed last run"),
            (sum(cluster.is_partial for cluster in self.clusters), "read in part"),
            (sum((cluster.skew or 0) > UNEVEN for cluster in self.clusters), f"with a master above {UNEVEN}× the mean"),
            (
                sum(is_old(cluster.taken_at_ms, self.now_ms) for cluster in self.clusters),
                "with dumps older than two days",
            ),
        )
        problems = [f"{text.count(number)} {problem}" for number, problem in counts if number]
        whole = text.plural(len(self.clusters), "cluster")
        worst = max(self.clusters, key=lambda cluster: cluster.skew or 0)
        uneven = (
            ""
            if worst.skew is None
            else f"; the most uneven is {text.printable(worst.cluster, 60)} with {worst.skew:.2f}× the mean {worst.skew_by}"
        )
        return f"{whole}: {', '.join(problems) or 'no trouble'}{uneven}."


def is_old(at_ms: int | None, now_ms: int) -> bool:
    """Whether dumps of *at_ms* are old."""
    return at_ms is not None and now_ms - at_ms > OLD_MS


def rank(state: ClusterState) -> tuple[bool | float | str, ...]:
    """What puts worse clusters before others: open incidents, a failed last run, what was read in part, then skew, then age."""
    return (
        -state.open_incidents, not state.failed, not state.is_partial, -(state.skew or 0), state.taken_at_ms or 0, state.cluster,
    )  # fmt: skip


def troubles(state: ClusterState, now_ms: int) -> list[str]:
    """What is wrong with a cluster, a few words each."""
    return [
        *([f"{text.count(state.open_incidents)} open: {state.open_summary}"] if state.open_incidents else []),
        *(
            f"{failed.job} failed {text.duration(age_s(failed.ended_at_ms, now_ms))} ago: {failed.reason}"
            for failed in state.failed
        ),
        *(["read in part"] if state.is_partial else []),
        *([f"fullest master {state.skew:.2f}× the mean {state.skew_by}"] if state.skew and state.skew > UNEVEN else []),
        *(
            [f"dumps are {text.duration(age_s(state.taken_at_ms, now_ms))} old"]
            if is_old(state.taken_at_ms, now_ms)
            else []
        ),
    ]


def sparkline(counts: Sequence[int]) -> str:
    """One bar a day; the highest is the day with the most."""
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // max(*counts, 1))] for count in counts)


def age_s(at_ms: int | None, now_ms: int) -> int | None:
    """Seconds since *at_ms*."""
    return None if at_ms is None else max(now_ms - at_ms, 0) // 1000


CLUSTERS_ON_PAGE: Final = 2_000
CLUSTERS_ON_TERMINAL: Final = 100


def to_document(report: FleetReport) -> Document:
    """Return *report* as a document."""
    troubled = {state.cluster: troubles(state, report.now_ms) for state in report.clusters}
    problems = [(cluster, trouble) for cluster, items in troubled.items() for trouble in items]
    table = Table(
        "cluster-table", "Worst first: open incidents, failed runs, partial input, skew, age", _columns(report), report.clusters,
        "slotscope fleet --json", on_page=CLUSTERS_ON_PAGE, on_terminal=CLUSTERS_ON_TERMINAL,
    )  # fmt: skip
    reading = (
        "Max/mean compares the fullest master with the mean of all masters: by memory, else by dump bytes, else by keys."
        f" A value above {UNEVEN} is listed as a problem. So is a dump older than {text.duration(OLD_MS // 1000)}.",
        "Dump and Bus are the ages of the newest snapshot and history. An incident is open if its recording ends before the incident does.",
        f"The bars count incidents by the day on which they began, over the last {DAYS} days.",
        "A failed run is listed until a later run of the same job and cluster succeeds; see silver/runs.",
    )
    counted = [state.keys for state in report.clusters if state.keys is not None]
    sections = [
        Section("clusters", "Clusters", [table], about="worst first"),
        Section("problems", "Problems", [Facts(problems)], on=Place.TERMINAL),
        how_to_read(*reading),
    ]
    return Document(
        FLEET,
        "Fleet",
        report.verdict,
        sections,
        of_ms=report.now_ms,
        subtitle=f" · {text.moment(report.now_ms)}",
        is_calm=not problems,
        tiles=[
            Tile(
                "total-clusters",
                "Clusters",
                len(report.clusters),
                note=f"{text.count(sum(map(bool, troubled.values())))} with problems",
            ),
            Tile("total-open", "Open incidents", sum(state.open_incidents for state in report.clusters)),
            *([Tile("total-keys", "Keys", sum(counted), note=f"snapshots of {len(counted)}")] if counted else []),
        ],
    )


def _columns(report: FleetReport) -> list[Column]:
    def age(state: ClusterState, kind: str) -> Cell:
        name, at_ms = (
            (state.snapshot, state.taken_at_ms) if kind == "snapshot" else (state.history, state.recorded_until_ms)
        )
        note = "time unknown" if name is not None and at_ms is None else ""
        return Cell(age_s(at_ms, report.now_ms), note, link=report.pages.get(f"{kind} {name}", ""))

    def last_incident(state: ClusterState) -> Cell:
        return Cell(age_s(state.last_incident_ms, report.now_ms), link=report.pages.get(f"history {state.history}", ""))

    return [
        Column("Cluster", Format.KEY, lambda state: state.cluster.encode("utf-8", "surrogateescape")),
        Column("Problems", Format.LONG, lambda state: Cell(None, "\n".join(troubles(state, report.now_ms)) or "none")),
        Column("Max/mean", Format.RATIO, "skew"),
        Column("Masters", Format.COUNT, "masters", on=Place.TERMINAL),
        Column("Keys", Format.COUNT, "keys"),
        Column("Size", Format.SIZE, "size_bytes"),
        Column("Dump", Format.DURATION, lambda state: age(state, "snapshot")),
        Column("Bus", Format.DURATION, lambda state: age(state, "history")),
        Column(
            "Open",
            Format.COUNT,
            lambda state: Cell(
                None if state.history is None else state.open_incidents, style="alarm" if state.open_incidents else ""
            ),
        ),
        Column(
            "Incidents",
            Format.COUNT,
            lambda state: None if state.history is None else state.incidents,
            on=Place.TERMINAL,
        ),
        Column(f"{DAYS} days", Format.TEXT, lambda state: sparkline(state.per_day) or None, on=Place.PAGE),
        Column("Last incident", Format.DURATION, last_incident, on=Place.PAGE),
    ]
