"""Answer of a node at a past time: from the tables of a replay to lines."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.history.samples import MISSED_POLLS
from cluster_core.incidents.past_views import find_observer
from cluster_core.instants import time_ns, write_instant
from cluster_core.kinds import Source
from cluster_core.replay.rows import NodeViewRow
from schemas.history import NODE_POLLS
from slotscope.reports.history.tables import finished_replay, view_rows
from slotscope.reports.history.views import (
    PastDifference,
    PastView,
    address_book,
    agreed_views,
    past_difference,
    past_view,
)
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import all_equal, query_rows

EVERYBODY = "all"
"""In place of an observer: all of them."""


def rows_at(*, root: str, snapshot: str, times_ns: Sequence[int]) -> list[NodeViewRow]:
    """The beliefs of all observers that hold at any of *times_ns*."""
    holds = (f"(valid_from_ns <= {ts_ns} AND (valid_to_ns IS NULL OR valid_to_ns > {ts_ns}))" for ts_ns in times_ns)
    return view_rows(root, snapshot, " OR ".join(holds))


def pending_at(root: str, snapshot: str, ts_ns: int) -> list[NodeViewRow]:
    """The beliefs that a later poll or scrape shows, and that may have begun before *ts_ns*."""
    sampled = f"evidence IN ('{Source.POLL}', '{Source.METRICS}')"
    return view_rows(root, snapshot, f"{sampled} AND valid_from_min_ns <= {ts_ns} AND valid_from_ns > {ts_ns}")


def instant_ns(root: str, snapshot: str, at: str | None) -> int:
    """The time *at* in ns, without one that of the replay's last evidence; raises InputError where there is none."""
    if at is not None:
        instant = time_ns(at)
        if instant is None:
            raise InputError(f"{at[:64]!r} is not a time; write 2024-05-01T12:00:00.5Z, or s, ms or ns since 1970")
        return instant
    return int(finished_replay(root, snapshot)["last_ns"] or 0)


def views_at(root: str, snapshot: str, times_ns: Sequence[int]) -> tuple[list[NodeViewRow], dict[str, str]]:
    """Return the beliefs of all observers at *times_ns*, and their addresses; raises InputError if there are none."""
    rows = rows_at(root=root, snapshot=snapshot, times_ns=sorted(set(times_ns)))
    book = address_book(rows)
    if not book:
        raise InputError(f"{root}: snapshot {snapshot!r} holds no view at {write_instant(times_ns[0])}")
    return rows, book


def late_answers(root: str, snapshot: str, ts_ns: int) -> dict[str, int]:
    """The last answer before *ts_ns* of each polled node that had missed `MISSED_POLLS` polls by then."""
    times = query_rows(
        root,
        f"""SELECT observer, MIN(ts_ns) AS first_ns, MAX(ts_ns) AS last_ns, COUNT(*) AS answers FROM node_polls
            WHERE {all_equal({"snapshot_id": snapshot})} AND observer IS NOT NULL AND ts_ns <= {ts_ns} GROUP BY observer""",
        NODE_POLLS,
    )
    return {
        row["observer"]: row["last_ns"]
        for row in times
        if row["answers"] > 1
        and ts_ns - row["last_ns"] > MISSED_POLLS * (row["last_ns"] - row["first_ns"]) / (row["answers"] - 1)
    }


def past_views(
    *,
    root: str,
    snapshot: str,
    observer: str | None = None,
    at: str | None = None,
    diff: str | None = None,
) -> list[PastView | PastDifference]:
    """Return CLUSTER NODES as *observer* saw it *at* a time, or the differences to the time *diff*.

    Without an observer: the answer of most nodes, and the deviations of the others.  Raises InputError for an unknown observer or time.
    """
    at_ns = instant_ns(root, snapshot, at)
    other_ns = at_ns if diff is None else instant_ns(root, snapshot, diff)
    rows, book = views_at(root, snapshot, [at_ns, other_ns])
    chosen = sorted(book) if observer in (None, EVERYBODY) else [find_observer(observer or "", book)]
    if diff is not None:
        return [past_difference(rows, node, at_ns, other_ns, book) for node in chosen]
    pending, late = pending_at(root, snapshot, at_ns), late_answers(root, snapshot, at_ns)
    views = [past_view(rows, node, at_ns, book, pending)._replace(answered_ns=late.get(node)) for node in chosen]
    return agreed_views(views) if observer is None else list(views)
