"""Sentinels as a person reads them: what happened in one sentence each, and what every sentinel believes at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from schemas.incidents import INCIDENTS
from schemas.sentinel import SENTINEL_VIEWS
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.text import plural, printable

SHOWN_MAX = 200
"""Incidents and beliefs that are told; the tables hold all."""


def load_sentinels(root: str, snapshot: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of gold/incidents, in order, and what every sentinel believes at the end."""
    order = "master, observer, kind, name"
    return (
        read_rows(root, INCIDENTS, order_by="incident", limit=SHOWN_MAX, snapshot_id=snapshot),
        read_rows(
            root, SENTINEL_VIEWS, where="valid_to_ns IS NULL", order_by=order, limit=10 * SHOWN_MAX, snapshot_id=snapshot
        ),
    )  # fmt: skip


def sentinel_lines(
    incidents: Sequence[dict[str, Any]], views: Sequence[dict[str, Any]], first_ns: int, summary: str
) -> list[str]:
    """Return the report: what was read, a line an incident with its time, and what is believed at the end."""
    lines = [summary]
    for row in incidents:
        since = (row["started_ns"] - first_ns) / 1e9
        lines.append(f"{since:>10.3f} s  {row['incident']:>3}  {row['summary']}")
    if not incidents:
        lines.append("nothing happened to the masters")
    lines += ["", "at the end:", *(_last_lines(views) or ["  no sentinel runs"])]
    return [printable(line, 400) for line in lines[: 3 * SHOWN_MAX]]


def _last_lines(views: Sequence[dict[str, Any]]) -> Iterable[str]:
    masters = [row for row in views if row["kind"] == "master"]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in masters:
        key = (row["master"], f"{row['ip']}:{row['port']}", f"{row['flags']}, epoch {row['config_epoch']}")
        groups.setdefault(key, []).append(row["observer"])
    return [
        f"  {name} is {address} ({state}) for {plural(len(observers), 'sentinel')}: "
        + ", ".join(observer[:8] for observer in observers)
        for (name, address, state), observers in groups.items()
    ]
