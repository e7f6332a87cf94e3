"""The tables of a root as a `FleetReport`: a few questions for all clusters together, whatever their number."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from schemas.gold import NODE_LOAD
from schemas.incidents import INCIDENTS
from schemas.runs import RUNS
from slotscope.reports.fleet.report import DAY_MS, DAYS, UNNAMED, ClusterState, Failed, FleetReport, rank
from slotscope.reports.index import SNAPSHOT, read_cards
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import any_of, exists, query_rows
from slotscope.runtime.storage.runs import KEY_JOBS, REPLAY_JOBS, State

HISTORY: Final = "history"
"""The kind of the pages of histories."""
LATEST_RUNS: Final = f"""
SELECT cluster, snapshot_id, job, state, data_at, ended_at, partial, reason FROM (
    SELECT *, row_number() OVER (
        PARTITION BY cluster, job, state
        ORDER BY CASE WHEN state = '{State.COMPLETE}' THEN data_at END DESC NULLS LAST, ended_at DESC
    ) AS place FROM runs WHERE {{}} AND state IN ('{State.COMPLETE}', '{State.FAILED}')
) WHERE place = 1"""
_WEIGHTS: Final = {"memory_bytes": "of memory", "serialized_bytes": "of bytes", "keys": "of keys"}
"""What masters are compared by, the first that is known."""
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
    """What the tables of *root* say of each cluster at *now_ms*; raises InputError where no job wrote there."""
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
    """The run of one of *jobs* whose data is the newest, by cluster."""
    mine = [run for run in runs if run["job"] in jobs]
    return {
        run["cluster"]: run
        for run in sorted(mine, key=lambda run: (_ms(run["data_at"]) or 0, _ms(run["ended_at"]) or 0))
    }


def _by_name(root: str, question: str, table: Any, names: list[str]) -> dict[str | None, dict[str, Any]]:
    """What *question* says of each snapshot of *names*."""
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


def _failed(runs: list[dict[str, Any]]) -> tuple[Failed, ...]:
    """Runs of one cluster that failed after the last that was complete, of each job."""
    ended = {(run["job"], run["state"]): _ms(run["ended_at"]) or 0 for run in runs}
    return tuple(
        Failed(run["job"], _ms(run["ended_at"]) or 0, run["reason"] or "")
        for run in runs
        if run["state"] == State.FAILED
        and ended[run["job"], State.FAILED] > ended.get((run["job"], State.COMPLETE), -1)
    )


def _pages(root: str) -> dict[str, str]:
    """Where the page of each snapshot, and of each history, is, from that of the fleet."""
    cards = [card for card in read_cards(f"{root.rstrip('/')}/reports") if len(card.about) == 1]
    return {f"{card.kind} {card.about[0]}": card.link for card in cards if card.kind in (SNAPSHOT, HISTORY)}


def _ms(moment: Any) -> int | None:
    return round(moment.timestamp() * 1000) if moment is not None else None
