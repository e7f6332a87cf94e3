"""How the load of each master went over all snapshots of a root: few rows, read from the tables of masters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.gold import NODE_LOAD
from schemas.silver import SNAPSHOTS
from slotscope.reports.keyspace.figures import SHORT_ID_LENGTH
from slotscope.runtime.storage.delta_files import any_of, read_rows

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
