"""From the tables of a replay to gold/incidents, gold/incident_steps and gold/findings, and to reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster_core.incidents.catalogue import find_findings, find_incidents
from schemas.history import NODE_POLLS
from schemas.incidents import FINDINGS, INCIDENT_STEPS, INCIDENTS
from schemas.table import Table
from slotscope.pipelines.bus.past_views import late_answers, past_views
from slotscope.reports.history.html import render_history
from slotscope.reports.history.tables import load_history, load_incidents
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import running
from tests.builders.history_builder import NODES, A, B, R, broken_tale, ns


@pytest.fixture(scope="module")
def root(history_root: str) -> str:
    """A replayed failover with its gold tables."""
    return history_root


def rows(root: str, table: Table) -> list[dict[str, Any]]:
    return read_rows(root, table, snapshot_id="one", order_by=", ".join(table.key))


def test_the_tables_have_the_incidents_of_the_core(root: str) -> None:
    """Message by message in Spark, or all at once in the core: the same incidents, steps and findings."""
    tale = broken_tale()
    incidents = find_incidents(tale.history())

    actual = rows(root, INCIDENTS)
    steps = rows(root, INCIDENT_STEPS)
    findings = rows(root, FINDINGS)

    assert [(row["incident_id"], row["subject"], row["started_ns"], row["ended_ns"]) for row in actual] == [
        (incident.incident_id, incident.subject or None, incident.started_ns, incident.ended_ns)
        for incident in incidents
    ]
    assert [(row["kind"], row["actor"], row["at_ns"], row["message_id"]) for row in steps] == [
        (step.kind, step.actor, step.ts_ns, step.ref if step.ref >= 0 else None)
        for incident in incidents
        for step in incident.steps
    ]
    assert [(row["code"], row["node_id"], row["times"], row["amount"]) for row in findings] == [
        (finding.code, finding.node or None, finding.times, finding.amount) for finding in find_findings(tale.history())
    ]


def test_a_failover_is_one_row_with_its_figures(root: str) -> None:
    (row,) = [row for row in rows(root, INCIDENTS) if row["kind"] == "failover"]

    assert (row["incident"], row["variant"], row["subject"], row["winner"]) == (1, "automatic", A, R)
    assert (row["outage_ms"], row["votes"], row["epoch"]) == (4200, 2, 4)
    assert (row["offset_gap_bytes"], row["unheard_ms"]) == (39, 0)
    assert (row["subject_address"], row["winner_address"]) == ("10.0.0.1:7000", "10.0.0.1:7003")
    assert row["started_at"].timestamp() == row["started_ns"] / 1e9
    assert row["message_ids"] == sorted(row["message_ids"])


def nodes(root: str, **options: str) -> list[str]:
    headed = options.get("observer", "all") == "all" or "diff" in options
    return [line for view in past_views(root=root, snapshot="one", **options) for line in view.lines(headed=headed)]


def test_the_report_has_the_numbers_of_the_tables(root: str) -> None:
    report = load_history(root, "one")

    assert [incident.summary for incident in report.incidents] == [row["summary"] for row in rows(root, INCIDENTS)]
    assert sum(len(incident.steps) for incident in report.incidents) == len(rows(root, INCIDENT_STEPS))
    assert len(report.findings) == len(rows(root, FINDINGS))
    lane = next(lane for lane in report.lanes if lane.node.node_id == R)
    assert [(span.role, span.epoch, span.slot_count) for span in lane.roles] == [("replica", 1, 0), ("master", 4, 100)]
    master = next(lane for lane in report.lanes if lane.node.node_id == A)
    assert [(span.role, span.epoch, span.slot_count) for span in master.roles] == [
        ("master", 1, 100),
        ("replica", 4, 0),
    ]
    assert [(span.health, span.observers, span.from_ns) for span in master.healths] == [
        ("fine", 0, ns(0)),
        ("suspected", 1, ns(12)),
        ("suspected", 2, ns(12.1)),
        ("suspected", 3, ns(12.2)),
        ("failed", 3, ns(12.5)),
        ("fine", 0, ns(20.1)),
    ]
    assert f"{len(report.incidents)}" in render_history(report)


def test_one_incident_comes_with_its_steps(root: str) -> None:
    (incident,) = load_incidents(root, "one", 1)

    assert (incident.kind, len(incident.steps)) == ("failover", incident.step_count)
    with pytest.raises(InputError, match="no incident 9: its incidents are 1 to 2"):
        load_incidents(root, "one", 9)


def test_a_snapshot_that_was_not_replayed_is_refused(root: str) -> None:
    with pytest.raises(InputError, match="no finished replay 'two'"):
        load_history(root, "two")


def test_nodes_prints_the_view_of_an_observer(root: str) -> None:
    by_id = nodes(root, observer="bbb", at="1700000013")
    by_address = nodes(root, observer="10.0.0.1:7001", at="2023-11-14T22:13:33Z")

    assert by_id == by_address
    assert by_id[:2] == [
        f"{B} 10.0.0.1:7001@17001 myself,master - 0 0 2 connected 100-199",
        f"{A} 10.0.0.1:7000@17000 master,fail - 0 0 1 disconnected 0-99",
    ]


def test_nodes_of_all_observers_are_headed(root: str) -> None:
    lines = nodes(root, observer="all")

    headings = [line for line in lines if line.startswith("#") and not line.startswith("# no answer for")]
    assert [line.split()[1] for line in headings] == sorted(NODES)
    assert "2023-11-14T22:13:50.000000Z" in lines[0]


def test_nodes_shows_changes_between_two_times(root: str) -> None:
    lines = nodes(root, observer="b", at="1700000013", diff="1700000014")

    assert lines[1:] == [
        f"{A} slots: 0-99 -> -",
        f"{R} flags: slave -> master",
        f"{R} master: {A} -> -",
        f"{R} config_epoch: 1 -> 4",
        f"{R} slots: - -> 0-99",
    ]


def test_a_node_without_recent_polls_is_late(tmp_path: Path) -> None:
    with running(str(tmp_path), "history", "one") as run:
        polls = [(A, at) for at in (1, 2, 3)] + [(B, at) for at in range(1, 13)]
        run.append(NODE_POLLS, [{"observer": node, "ts_ns": ns(at)} for node, at in polls])

    assert late_answers(str(tmp_path), "one", ns(13)) == {A: ns(3)}
    assert late_answers(str(tmp_path), "one", ns(4)) == {}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"observer": "b", "at": "soon"}, "is not a time"),
        ({"observer": "b", "at": "1600000000"}, "holds no view"),
    ],
)
def test_invalid_questions_are_refused(root: str, options: dict[str, str], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        nodes(root, **options)


def test_commands_write_the_announced_files(root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from jobs.main import run as run_command

    page = tmp_path / "history.html"

    codes = [
        run_command([*arguments, "--root", root, "--snapshot", "one"])
        for arguments in (
            ["incidents", "--html", str(page)],
            ["incidents", "1"],
            ["nodes", "--observer", "bbbb"],
            ["incidents", "7"],
        )
    ]

    out = capsys.readouterr()
    assert codes == [0, 0, 0, 2]
    assert page.read_text("utf-8").startswith("<!doctype html>")
    assert "Failover: " in out.out
    assert "+4.200 s" in out.out
    assert "myself,master" in out.out
    assert "no incident 7" in out.err


@pytest.mark.processes
def test_a_list_of_incidents_loads_neither_planner_nor_simulator_nor_machines(root: str, tmp_path: Path) -> None:
    """A command loads the code of its own report: fewer than 60 modules of this project."""
    script = (
        "import json, sys; from jobs.main import run\n"
        "assert run(sys.argv[1:]) == 0\n"
        "ours = [name for name in sys.modules if name.split('.')[0] in ('cluster_core', 'schemas', 'slotscope', 'jobs')]\n"
        "sys.stderr.write(json.dumps(sorted(ours)))\n"
    )
    arguments = ["incidents", "--root", root, "--snapshot", "one", "--html", str(tmp_path / "history.html")]

    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120)
    loaded = json.loads(done.stderr)

    assert "jobs.incidents" in loaded
    assert len(loaded) < 60
    assert [
        name for name in loaded if name.startswith(("cluster_core.sim", "cluster_core.node", "cluster_core.rebalance"))
    ] == []
