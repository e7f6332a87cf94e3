"""The load of each master over all snapshots of a root: read from the tables of masters, and as charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.gold import NODE_LOAD
from schemas.silver import SNAPSHOTS
from slotscope.reports.keyspace.figures import SHORT_ID_LENGTH
from slotscope.reports.line_chart import STYLES, Chart, Series, line_chart
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import any_of, read_rows

MS_A_DAY = 86_400_000
CLOCK_DAYS_MAX = 3
"""A trend no longer than this is labelled with times of day."""
LABELS_MAX = 3
SNAPSHOTS_MAX = 60
"""The newest of them; more are no line that anybody reads."""


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One snapshot: *masters* maps each one's address, or the beginning of its id, to its load; None where that is not known."""

    snapshot_id: str
    taken_at_ms: int | None
    masters: dict[str, int | None]

    @property
    def total(self) -> int | None:
        """The load of all masters; None where that of one is not known."""
        values = list(self.masters.values())
        return None if None in values else sum(value or 0 for value in values)


@dataclass(frozen=True, slots=True)
class Trend:
    """All finished snapshots of one cluster in order of time, by *resource*: ``memory``, ``serialized bytes`` or ``keys``."""

    resource: str
    points: Sequence[TrendPoint]


def load_trend(root: str, snapshot_id: str) -> Trend:
    """Read what the tables under *root* say of every finished snapshot of the cluster of *snapshot_id*.

    By memory where it is known of all, else by bytes or keys.
    """
    known = read_rows(root, SNAPSHOTS, columns=("snapshot_id", "cluster", "taken_at", "written_at"))
    clusters = {row["cluster"] for row in known if row["snapshot_id"] == snapshot_id}
    finished = [row for row in known if row["cluster"] in clusters]
    finished.sort(key=lambda row: (*(_seconds(row[name]) for name in ("taken_at", "written_at")), row["snapshot_id"]))
    finished = finished[-SNAPSHOTS_MAX:]
    columns = ("snapshot_id", "node_id", "address", "keys", "serialized_bytes", "memory_bytes")
    named = {row["snapshot_id"] for row in finished}
    rows = read_rows(root, NODE_LOAD, columns=columns, where=any_of("snapshot_id", sorted(named)))
    kinds = {"memory_bytes": "memory", "serialized_bytes": "serialized bytes", "keys": "keys"}
    figure = next((name for name in kinds if all(row[name] is not None for row in rows)), "keys")
    masters: dict[str, dict[str, int | None]] = {}
    for row in rows:
        name = row["address"] or (row["node_id"] or "no node")[:SHORT_ID_LENGTH]
        masters.setdefault(row["snapshot_id"], {})[name] = row[figure]
    points = [
        TrendPoint(
            row["snapshot_id"],
            int(row["taken_at"].timestamp() * 1000) if row["taken_at"] else None,
            masters.get(row["snapshot_id"], {}),
        )
        for row in finished
    ]
    return Trend(kinds[figure], points)


def _seconds(moment: datetime | None) -> float:
    """A time as a number that sorts; what is not known comes first."""
    return moment.timestamp() if moment else 0.0


def trend_charts(trend: Trend) -> list[tuple[str, Chart]]:
    """All masters in one line, and a line each for the heaviest of the newest snapshot; none with fewer than two snapshots."""
    if len(trend.points) < 2:
        return []
    by_time = is_by_time(trend)
    places = [float(point.taken_at_ms or 0) if by_time else float(at) for at, point in enumerate(trend.points)]
    newest = trend.points[-1].masters
    names = sorted(
        {name for point in trend.points for name in point.masters}, key=lambda name: (-(newest.get(name) or 0), name)
    )
    whole = Series(
        "all masters",
        [(x, float(one.total)) for x, one in zip(places, trend.points, strict=True) if one.total is not None],
    )
    single = [
        Series(
            text.printable(name, 60),
            [
                (x, float(value))
                for x, one in zip(places, trend.points, strict=True)
                if (value := one.masters.get(name)) is not None
            ],
        )
        for name in names[:STYLES]
    ]
    days = (places[-1] - places[0]) / MS_A_DAY if by_time else 0.0
    step = -(-len(places) // LABELS_MAX)

    def across(value: float) -> str:
        if not by_time:
            return text.printable(trend.points[round(value)].snapshot_id, 16)
        words = text.moment(round(value))
        return words[5:16] if days <= CLOCK_DAYS_MAX else words[:10]

    more = f", the {STYLES} heaviest of {len(names)}" if len(names) > STYLES else ""
    titles = (f"{trend.resource}, all masters", f"{trend.resource} of each master{more}")
    found = []
    for title, lines in zip(titles, ([whole], single), strict=True):
        chart = line_chart(
            lines,
            x_words=across,
            y_words=lambda value: amount(trend, round(value)),
            words=f"{title}, over {len(places)} snapshots; the table below has the figures",
            x_labels=places[::step],
        )
        if chart is not None:
            found.append((title[0].upper() + title[1:], chart))
    return found


def is_by_time(trend: Trend) -> bool:
    """Whether every snapshot has a time of its own; else they stand in their order."""
    times = [point.taken_at_ms for point in trend.points]
    return None not in times and len(set(times)) == len(times)


def amount(trend: Trend, value: int | None) -> str:
    return text.size(value) if trend.resource != "keys" else text.count(value, text.THIN_SPACE)


def heaviest_master(trend: Trend, point: TrendPoint) -> str:
    known = {name: value for name, value in point.masters.items() if value is not None}
    if not known:
        return text.NOTHING
    name = max(known, key=lambda one: (known[one], one))
    return f"{text.printable(name, 60)}: {amount(trend, known[name])}"
