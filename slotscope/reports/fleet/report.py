"""Figures of a fleet, a cluster a row, read from the tables of a root by a few queries, and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from schemas.gold import NODE_LOAD
from schemas.incidents import INCIDENTS
from schemas.runs import RUNS
from slotscope.reports.document import Cell, Column, Document, Facts, Format, Place, Section, Table, Tile, how_to_read
from slotscope.reports.index import FLEET, SNAPSHOT, read_cards
from slotscope.runtime import text
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import any_of, exists, query_rows
from slotscope.runtime.storage.runs import FAILURES, KEY_JOBS, REPLAY_JOBS, State

UNEVEN: Final = 1.25
"""A fullest master above this much of the mean is trouble."""
OLD_MS: Final = 2 * 24 * 3_600_000
"""Largest age of current dumps."""
UNNAMED: Final = "(no cluster named)"
DAYS: Final = 7
"""Days of the sparkline of incidents."""
DAY_MS: Final = 24 * 3_600_000
_BARS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class FailedRun:
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
    failed: tuple[FailedRun, ...] = ()

    @property
    def last_day(self) -> int:
        """Incidents that began in the last 24 hours."""
        return self.per_day[-1] if self.per_day else 0

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
        old = sum(is_old(cluster.taken_at_ms, self.now_ms) for cluster in self.clusters)
        counts = (
            (sum(bool(cluster.open_incidents) for cluster in self.clusters), "with open incidents"),
            (sum(bool(cluster.failed) for cluster in self.clusters), "with a failed last run"),
            (sum(bool(cluster.last_day) for cluster in self.clusters), "with incidents in the last 24 h"),
            (sum(cluster.is_partial for cluster in self.clusters), "read in part"),
            (sum((cluster.skew or 0) > UNEVEN for cluster in self.clusters), f"with a master above {UNEVEN}× the mean"),
            (old, "with dumps older than two days"),
        )
        problems = [f"{text.count(number)} {problem}" for number, problem in counts if number]
        whole = f"{text.plural(len(self.clusters), 'cluster')}: {', '.join(problems) or 'no trouble'}"
        worst = max(self.clusters, key=lambda cluster: cluster.skew or 0)
        if worst.skew is None:
            return f"{whole}."
        name = text.printable(worst.cluster, 60)
        return f"{whole}; the most uneven is {name} with {worst.skew:.2f}× the mean {worst.skew_by}."


def is_old(at_ms: int | None, now_ms: int) -> bool:
    """Whether dumps of *at_ms* are old."""
    return at_ms is not None and now_ms - at_ms > OLD_MS


def rank(state: ClusterState) -> tuple[bool | float | str, ...]:
    """Key that sorts worse clusters first: open incidents, failed last runs, recent incidents, partial input, skew, age."""
    return (
        -state.open_incidents, not state.failed, -state.last_day, not state.is_partial, -(state.skew or 0), state.taken_at_ms or 0, state.cluster,
    )  # fmt: skip


def troubles(state: ClusterState, now_ms: int) -> list[str]:
    """Return the problems of a cluster, a few words each."""
    return [
        *([f"{text.count(state.open_incidents)} open: {state.open_summary}"] if state.open_incidents else []),
        *(
            f"{failed.job} failed {text.duration(age_s(failed.ended_at_ms, now_ms))} ago: {failed.reason}"
            for failed in state.failed
        ),
        *([f"{text.plural(state.last_day, 'incident')} in the last 24 h"] if state.last_day else []),
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
        "cluster-table", "Worst first: open incidents, failed runs, recent incidents, partial input, skew, age", _columns(report), report.clusters,
        "slotscope fleet --json", on_page=CLUSTERS_ON_PAGE, on_terminal=CLUSTERS_ON_TERMINAL,
    )  # fmt: skip
    reading = (
        "Max/mean compares the fullest master with the mean of all masters: by memory, else by dump bytes, else by keys."
        f" A value above {UNEVEN} is listed as a problem. So is a dump older than {text.duration(OLD_MS // 1000)}, and an incident of the last 24 hours.",
        "Dump and History are the ages of the newest snapshot and history. An incident is open if its recording ends before the incident does.",
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
    def age(kind: str, name: str | None, at_ms: int | None) -> Cell:
        note = "time unknown" if name is not None and at_ms is None else ""
        return Cell(age_s(at_ms, report.now_ms), note, link=report.pages.get(f"{kind} {name}", ""))

    def last_incident(state: ClusterState) -> Cell:
        return Cell(age_s(state.last_incident_ms, report.now_ms), link=report.pages.get(f"history {state.history}", ""))

    def count(state: ClusterState, number: int, style: str = "") -> Cell:
        return Cell(None if state.history is None else number, style=style)

    beside = Place.PAGE if any(state.history for state in report.clusters) else Place.EVERYWHERE
    return [
        Column("Cluster", Format.KEY, lambda state: state.cluster.encode("utf-8", "surrogateescape")),
        Column("Problems", Format.LONG, lambda state: Cell(None, "\n".join(troubles(state, report.now_ms)) or "none")),
        Column("Open", Format.COUNT, lambda it: count(it, it.open_incidents, "alarm" if it.open_incidents else "")),
        Column("Incidents", Format.COUNT, lambda state: count(state, state.incidents), on=Place.TERMINAL),
        Column(f"{DAYS} days", Format.TEXT, lambda state: sparkline(state.per_day) or None, on=Place.PAGE),
        Column("Last incident", Format.DURATION, last_incident, on=Place.PAGE),
        Column("History", Format.DURATION, lambda state: age(HISTORY, state.history, state.recorded_until_ms)),
        Column("Max/mean", Format.RATIO, "skew"),
        Column("Dump", Format.DURATION, lambda state: age(SNAPSHOT, state.snapshot, state.taken_at_ms)),
        Column("Size", Format.SIZE, "size_bytes", on=beside),
        Column("Keys", Format.COUNT, "keys", on=beside),
        Column("Masters", Format.COUNT, "masters", on=beside),
    ]


HISTORY: Final = "history"
"""The kind of the pages of histories."""
LATEST_RUNS: Final = f"""
SELECT cluster, snapshot_id, job, state, data_at, ended_at, partial, reason FROM (
    SELECT *, row_number() OVER (
        PARTITION BY cluster, job, state
        ORDER BY CASE WHEN state = '{State.COMPLETE}' THEN data_at END DESC NULLS LAST, ended_at DESC
    ) AS place FROM runs WHERE {{}} AND {any_of("state", (State.COMPLETE, *FAILURES))}
) WHERE place = 1"""
_WEIGHTS: Final = {"memory_bytes": "of memory", "serialized_bytes": "of bytes", "keys": "of keys"}
"""Loads to compare masters by; the first known one counts."""
LOADS: Final = f"""
SELECT snapshot_id, count(CASE WHEN slots > 0 OR keys > 0 THEN node_id END) AS masters, {
    ", ".join(
        f"sum({name}) AS {name}, sum(CASE WHEN node_id IS NOT NULL THEN {name} END) AS owned_{name}, "
        f"max(CASE WHEN node_id IS NOT NULL THEN {name} END) AS most_{name}"
        for name in _WEIGHTS
    )
} FROM node_load WHERE {{}} GROUP BY snapshot_id"""
STORIES: Final = """
SELECT snapshot_id, count(*) AS incidents, count(*) - count(ended_ns) AS open_incidents, max(started_ns) AS last_ns, {days},
    last_value(CASE WHEN ended_ns IS NULL THEN summary END ORDER BY ended_ns IS NULL, started_ns) AS open_summary
FROM incidents WHERE {{}} GROUP BY snapshot_id"""
_DAY: Final = "count(CASE WHEN started_ns > {} AND started_ns <= {} THEN 1 END) AS day_{}"


def load_fleet(root: str, now_ms: int) -> FleetReport:
    """Read the tables of *root* about each cluster at *now_ms*; raises InputError where no job wrote there."""
    if not exists(root, RUNS):
        raise InputError(
            f"{root}: no cluster there; is --root right? Begin with slotscope key-slots, which reads dumps, or slotscope follow"
        )
    runs = query_rows(root, LATEST_RUNS.format(any_of("job", (*KEY_JOBS, *REPLAY_JOBS))), RUNS)
    finished = [run for run in runs if run["state"] == State.COMPLETE]
    snapshots = _newest(finished, KEY_JOBS)
    histories = _newest(finished, REPLAY_JOBS)
    names = [run["snapshot_id"] for run in snapshots.values()]
    loads = _by_name(root, LOADS, NODE_LOAD, names)
    edges = [(now_ms - (DAYS - day) * DAY_MS) * 1_000_000 for day in range(DAYS + 1)]
    days = ", ".join(_DAY.format(start, end, day) for day, (start, end) in enumerate(pairwise(edges)))
    stories = _by_name(root, STORIES.format(days=days), INCIDENTS, [run["snapshot_id"] for run in histories.values()])
    clusters = []
    for cluster in {run["cluster"] for run in runs}:
        key_run, history = snapshots.get(cluster, {}), histories.get(cluster, {})
        story = stories.get(history.get("snapshot_id"), {})
        clusters.append(
            ClusterState(
                cluster=cluster or UNNAMED,
                snapshot=key_run.get("snapshot_id"),
                taken_at_ms=_ms(key_run.get("data_at")),
                is_partial=bool(key_run.get("partial")) or bool(history.get("partial")),
                **_load(loads.get(key_run.get("snapshot_id"), {})),
                history=history.get("snapshot_id"),
                recorded_until_ms=_ms(history.get("data_at")),
                incidents=story.get("incidents", 0),
                open_incidents=story.get("open_incidents", 0),
                open_summary=story.get("open_summary") or "",
                last_incident_ms=story["last_ns"] // 1_000_000 if story else None,
                per_day=tuple(story[f"day_{day}"] for day in range(DAYS)) if story else (),
                failed=_failed([run for run in runs if run["cluster"] == cluster]),
            )
        )
    return FleetReport(now_ms, sorted(clusters, key=rank), _pages(root))


def _newest(runs: list[dict[str, Any]], jobs: tuple[str, ...]) -> dict[str | None, dict[str, Any]]:
    """Return by cluster the run of *jobs* with the newest data."""
    mine = [run for run in runs if run["job"] in jobs]
    return {
        run["cluster"]: run
        for run in sorted(mine, key=lambda run: (_ms(run["data_at"]) or 0, _ms(run["ended_at"]) or 0))
    }


def _by_name(root: str, question: str, table: Any, names: list[str]) -> dict[str | None, dict[str, Any]]:
    """Return the answer to *question* for each snapshot of *names*."""
    if not names or not exists(root, table):
        return {}
    return {row["snapshot_id"]: row for row in query_rows(root, question.format(any_of("snapshot_id", names)), table)}


def _load(row: dict[str, Any]) -> dict[str, Any]:
    known = {name: row[name] for name in (*_WEIGHTS, "masters") if name in row}
    for name, label in _WEIGHTS.items():
        if row.get(f"owned_{name}"):
            skew = row[f"most_{name}"] * row["masters"] / row[f"owned_{name}"]
            return {**known, "skew": skew, "skew_by": label}
    return known


def _failed(runs: list[dict[str, Any]]) -> tuple[FailedRun, ...]:
    """Runs of one cluster that failed after the last that was complete, of each job."""
    ended = {(run["job"], run["state"]): _ms(run["ended_at"]) or 0 for run in runs}
    return tuple(
        FailedRun(run["job"], _ms(run["ended_at"]) or 0, run["reason"] or "")
        for run in runs
        if run["state"] in FAILURES and ended[run["job"], run["state"]] > ended.get((run["job"], State.COMPLETE), -1)
    )


def _pages(root: str) -> dict[str, str]:
    """Where the page of each snapshot, and of each history, is, from that of the fleet."""
    cards = [card for card in read_cards(f"{root.rstrip('/')}/reports") if len(card.about) == 1]
    return {f"{card.kind} {card.about[0]}": card.link for card in cards if card.kind in (SNAPSHOT, HISTORY)}


def _ms(moment: Any) -> int | None:
    return round(moment.timestamp() * 1000) if moment is not None else None
