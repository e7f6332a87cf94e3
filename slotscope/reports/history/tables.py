"""The tables of a replay as one `HistoryReport`: bounded reads, nothing computed that is not in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster_core.gossip.causes import Cause
from cluster_core.incidents.incident import FIGURES
from cluster_core.incidents.rows import FindingRow
from cluster_core.incidents.story import name_all
from cluster_core.kinds import Source
from cluster_core.replay.rows import NodeViewRow
from schemas.caveats import Caveat
from schemas.history import METRIC_SAMPLES, NODE_POLLS, NODE_VIEWS, REPLAYS
from schemas.incidents import FINDINGS, INCIDENT_STEPS, INCIDENTS
from slotscope.reports.history import report as history_report
from slotscope.reports.records import record
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import all_equal, query_rows, read_rows

STEPS_SHOWN = 20_000
"""Steps of all stories; those of the first incidents go first."""
FINDINGS_SHOWN = 5_000
BELIEFS_SHOWN = 200_000


def load_incidents(root: str, snapshot_id: str, number: int | None = None) -> list[history_report.IncidentLine]:
    """All incidents without their steps, or the one with *number* and all of them; raises InputError if it is not
    there.
    """
    rows = read_rows(root, INCIDENTS, order_by="incident", snapshot_id=snapshot_id)
    if number is None:
        return [_incident(row, ()) for row in rows]
    matches = [row for row in rows if row["incident"] == number]
    if not matches:
        there = f"its incidents are 1 to {len(rows)}" if rows else "it has none"
        raise InputError(f"{root}: snapshot {snapshot_id!r} has no incident {number}: {there}")
    return [_incident(matches[0], _steps(root, snapshot_id, f"incident = {number}").get(number, ()))]


def load_history(root: str, snapshot_id: str) -> history_report.HistoryReport:
    """Read the report of a replay from the tables under *root*; raises InputError if it is missing or unfinished."""
    replay = finished_replay(root, snapshot_id)
    first_ns, last_ns = int(replay["first_ns"] or 0), int(replay["last_ns"] or 0)
    nodes = _nodes(root, snapshot_id)
    steps = _steps(root, snapshot_id)
    incidents = read_rows(root, INCIDENTS, order_by="incident", snapshot_id=snapshot_id)
    findings = read_rows(root, FINDINGS, order_by="finding", limit=FINDINGS_SHOWN, snapshot_id=snapshot_id)
    return record(
        history_report.HistoryReport,
        replay,
        first_ns=first_ns,
        last_ns=last_ns,
        warnings=[Caveat.of(**warning) for warning in replay["warnings"]],
        nodes=nodes,
        incidents=[_incident(row, steps.get(row["incident"], [])) for row in incidents],
        findings=[record(FindingRow, row) for row in findings],
        lanes=_lanes(root, snapshot_id, nodes, first_ns, last_ns),
        **_polled(root, snapshot_id),
    )


def finished_replay(root: str, snapshot_id: str) -> dict[str, Any]:
    """The row of silver/replays; raises InputError if there is none."""
    rows = read_rows(root, REPLAYS, snapshot_id=snapshot_id)
    if not rows:
        raise InputError(f"{root}: no finished replay {snapshot_id!r}; slotscope tables snapshots lists them")
    return rows[0]


def _steps(root: str, snapshot_id: str, where: str = "TRUE") -> dict[int, list[history_report.StepLine]]:
    """The steps of each incident."""
    rows = read_rows(
        root, INCIDENT_STEPS, where=where, order_by="incident, step", limit=STEPS_SHOWN, snapshot_id=snapshot_id
    )
    steps_by_incident: dict[int, list[history_report.StepLine]] = {}
    for row in rows:
        steps_by_incident.setdefault(row["incident"], []).append(record(history_report.StepLine, row))
    return steps_by_incident


def _polled(root: str, snapshot_id: str) -> dict[str, Any]:
    """Count the polled nodes and the scraped servers, and take the mean time between two answers of one node."""
    snapshot = all_equal({"snapshot_id": snapshot_id})
    sql = f"SELECT COUNT(DISTINCT address) AS servers FROM metric_samples WHERE {snapshot}"
    (scraped,) = query_rows(root, sql, METRIC_SAMPLES)
    rows = query_rows(
        root,
        f"""SELECT COUNT(*) AS answers, MIN(ts_ns) AS first_ns, MAX(ts_ns) AS last_ns FROM node_polls
            WHERE {snapshot} AND observer IS NOT NULL GROUP BY observer""",
        NODE_POLLS,
    )
    pauses = [(row["last_ns"] - row["first_ns"]) / (row["answers"] - 1) for row in rows if row["answers"] > 1]
    mean_ms = round(sorted(pauses)[len(pauses) // 2] / 1e8) * 100 if pauses else None
    return {"poll_interval_ms": mean_ms, "polled_nodes": len(rows), "scraped_servers": scraped["servers"]}


def _nodes(root: str, snapshot_id: str) -> list[history_report.HistoryNode]:
    """Every node with the last address that anybody knew."""
    known = query_rows(
        root,
        f"""SELECT node_id, MAX(ip) AS ip, LAST_VALUE(CONCAT(ip, ':', port) ORDER BY valid_from_ns) AS address
            FROM node_views WHERE {all_equal({"snapshot_id": snapshot_id})} GROUP BY node_id""",
        NODE_VIEWS,
    )
    addresses = {row["node_id"]: row["address"] if row["ip"] else "" for row in known}
    names = name_all(sorted(addresses), {})
    return [
        history_report.HistoryNode(node, names[node], address)
        for node, address in sorted(addresses.items(), key=lambda item: (_address_key(item[1]), item[0]))
    ]


def _address_key(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port) if port.isdigit() else 0


def view_rows(root: str, snapshot_id: str, where: str, limit: int | None = None) -> list[NodeViewRow]:
    """Rows of silver/node_views, by observer, node and time."""
    rows = read_rows(
        root, NODE_VIEWS, where=where, order_by="observer, node_id, valid_from_ns", limit=limit, snapshot_id=snapshot_id
    )
    return [
        NodeViewRow(
            row["observer"], row["node_id"], row["ip"], row["port"], row["cport"], row["hostname"], row["flags"],
            row["master_id"], int(row["config_epoch"]), row["slots"], row["link_known"], row["valid_from_ns"],
            row["valid_to_ns"], Cause(row["cause"]), -1 if row["message_id"] is None else row["message_id"],
            row["valid_from_min_ns"], Source(row["evidence"] or Source.NONE),
        )
        for row in rows
    ]  # fmt: skip


def _lanes(
    root: str, snapshot_id: str, nodes: list[history_report.HistoryNode], first_ns: int, last_ns: int
) -> list[history_report.Lane]:
    own: dict[str, list[NodeViewRow]] = {}
    for row in view_rows(root, snapshot_id, "observer = node_id", BELIEFS_SHOWN):
        own.setdefault(row.node_id, []).append(row)
    pfail_views: dict[str, list[NodeViewRow]] = {}
    condition = "observer <> node_id AND REGEXP_LIKE(flags, '(^|,)fail[?]?(,|$)')"
    for row in view_rows(root, snapshot_id, condition, BELIEFS_SHOWN):
        pfail_views.setdefault(row.node_id, []).append(row)
    return [
        history_report.Lane(
            node,
            history_report.role_spans(own.get(node.node_id, []), last_ns),
            history_report.health_spans(pfail_views.get(node.node_id, []), first_ns, last_ns),
        )
        for node in nodes
    ]


def _incident(row: dict[str, Any], steps: Sequence[history_report.StepLine]) -> history_report.IncidentLine:
    epoch = None if row["epoch"] is None else int(row["epoch"])
    figures = {name: row[name] for name in FIGURES}
    return record(
        history_report.IncidentLine,
        row,
        number=row["incident"],
        epoch=epoch,
        figures=figures,
        step_count=row["steps"],
        steps=steps,
    )
