"""A fleet: which cluster comes first, by what, and where its pages are."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from schemas.gold import NODE_LOAD
from schemas.incidents import INCIDENTS
from schemas.silver import SNAPSHOTS
from slotscope.reports.delivery import deliver, document_of
from slotscope.reports.fleet.report import FleetReport, load_fleet, sparkline, troubles
from slotscope.reports.terminal import print_document
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.runs import Run, State, begin_together
from tests.benches.program import slotscope
from tests.builders.history_report import history_report
from tests.builders.reports_builder import keyspace_report
from tests.builders.stored_rows import store

NOW = datetime(2030, 1, 10, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
DAY = timedelta(days=1)


def snapshot(root: str, cluster: str | None, memory: list[int | None], *, name: str = "", **more: Any) -> None:
    """A finished snapshot of a master for each of *memory*."""
    nodes = [
        {"node_id": f"n{at}", "slots": 1, "keys": 10 * (at + 1), "serialized_bytes": 5, "memory_bytes": size}
        for at, size in enumerate(memory)
    ]
    head = {"keys": 1, "bad_records": 0, "warnings": []}
    more = {"data_at": NOW - DAY, **more}
    store(root, name or f"s-{cluster}", {NODE_LOAD: nodes, SNAPSHOTS: [head]}, job="key-slots", cluster=cluster, **more)


def history(root: str, cluster: str, *ended: bool, started_ns: Sequence[int] = range(1, 10)) -> None:
    """A history with an incident for each of *ended*: whether it is over."""
    rows = [
        {
            "incident": at, "started_ns": started_ns[at - 1], "ended_ns": 9 if over else None, "summary": f"story {at}", "kind": "failure", "nodes": [],
            "message_ids": [], "steps": 0, "incident_id": str(at), "variant": "",
        }
        for at, over in enumerate(ended, 1)
    ]  # fmt: skip
    store(root, f"{cluster}-h", {INCIDENTS: rows}, job="history", cluster=cluster, data_at=NOW - timedelta(minutes=2))


def fail(root: str, cluster: str, state: State = State.FAILED) -> None:
    run = Run(root, "key-slots", f"failed-{cluster}", cluster)
    begin_together([run])
    run.abandon("no such dump", state)


@pytest.fixture
def root(tmp_path) -> str:
    folder = str(tmp_path)
    fail(folder, "mended")
    snapshot(folder, "mended", [100, 100], data_at=NOW - 3 * DAY)
    snapshot(folder, "even", [100, 100, 100])
    snapshot(folder, "uneven", [300, 100, 50, None], name="old", data_at=NOW - 9 * DAY)
    snapshot(folder, "uneven", [200, 100, 0, 100], name="new")
    snapshot(folder, "partial", [100, 100], partial=True)
    snapshot(folder, "failing", [100, 100])
    fail(folder, "failing", State.SET_ASIDE)
    fail(folder, "lost")
    history(folder, "burning", True, False, False)
    history(folder, "even", True)
    return folder


@pytest.mark.long
def test_the_worst_cluster_comes_first(root):
    """Open incidents, then a failed last run, partial input, skew, age; a failure before a later success is none."""
    report = load_fleet(root, NOW_MS)

    order = ["burning", "failing", "lost", "partial", "uneven", "mended", "even"]
    assert [cluster.cluster for cluster in report.clusters] == order
    figures = {
        cluster.cluster: [re.sub(r"failed .* ago", "failed 0 s ago", trouble) for trouble in troubles(cluster, NOW_MS)]
        for cluster in report.clusters
    }
    assert figures == {
        "burning": ["2 open: story 3"],
        "lost": ["key-slots failed 0 s ago: no such dump"],
        "failing": ["key-slots failed 0 s ago: no such dump"],
        "partial": ["read in part"],
        "uneven": ["fullest master 2.00× the mean of memory"],
        "mended": ["dumps are 3 days old"],
        "even": [],
    }  # fmt: skip


@pytest.mark.long
def test_figures_are_those_of_the_newest_finished_snapshot(root):
    uneven = next(cluster for cluster in load_fleet(root, NOW_MS).clusters if cluster.cluster == "uneven")
    even = next(cluster for cluster in load_fleet(root, NOW_MS).clusters if cluster.cluster == "even")

    assert (uneven.snapshot, uneven.masters, uneven.keys, uneven.memory_bytes, uneven.skew) == ("new", 4, 100, 400, 2.0)
    assert (even.history, even.incidents, even.open_incidents, even.recorded_until_ms) == (
        "even-h",
        1,
        0,
        NOW_MS - 120_000,
    )


@pytest.mark.long
def test_incidents_of_seven_days_are_counted_by_the_day_on_which_they_began(tmp_path):
    hours = [-1, -25, -26, -8 * 24]
    history(str(tmp_path), "busy", *[True] * 4, started_ns=[(NOW_MS + hour * 3_600_000) * 1_000_000 for hour in hours])

    (cluster,) = load_fleet(str(tmp_path), NOW_MS).clusters

    assert cluster.per_day == (0, 0, 0, 0, 0, 2, 1)
    assert sparkline(cluster.per_day) == "▁▁▁▁▁█▅"
    assert NOW_MS - (cluster.last_incident_ms or 0) == 3_600_000


@pytest.mark.long
def test_the_page_leads_to_those_of_its_clusters_and_the_list_of_pages_to_it(root):
    hostile = "<script>alert(1)</script>\x1b[31m"
    snapshot(root, hostile, [1, 2])
    deliver(replace(keyspace_report(), snapshot_id="new"), root=root, html=None, stream=None)
    deliver(replace(history_report(), snapshot_id="burning-h"), root=root, html=None, stream=None)
    path = deliver(load_fleet(root, NOW_MS), root=root, html=None, stream=None)
    page, index = (Path(path).with_name(name).read_text("utf-8") for name in ("fleet.html", "index.html"))

    assert path.endswith("/reports/fleet.html")
    assert 'href="index.html"' in page
    assert 'href="new.html"' in page
    assert 'href="burning-h-history.html"' in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m" in page
    assert index.count('href="fleet.html"') == 1


@pytest.mark.long
def test_a_terminal_of_80_columns_shows_names_and_ages_whole(root):
    snapshot(root, "recommendations-eu-west-1", [2, 1], data_at=NOW - 2.2 * DAY)
    history(root, "recommendations-eu-west-1", True)
    stream = io.StringIO()
    print_document(document_of(load_fleet(root, NOW_MS)), Console(file=stream, width=80), html_path="p.html")
    lines = stream.getvalue().splitlines()

    assert max(map(len, lines)) <= 80
    uneven = next(line.split() for line in lines if line.startswith("  uneven"))
    assert uneven == ["uneven", "—", "—", "—", "2.00×", "24", "h"]
    assert next(line for line in lines if line.startswith("  burning")).split()[1:5] == ["2", "3", "2", "min"]
    assert next(line for line in lines if "recommendations-eu-west-1 " in line).endswith("2 min     1.33×  52 h 48 min")


@pytest.mark.long
def test_a_fleet_is_shown_without_spark_and_as_json(root, capsys):
    assert slotscope("fleet", "--root", root, "--json") == 0
    output = json.loads(capsys.readouterr().out)

    assert output["report"]["clusters"][0]["cluster"] == "burning"
    assert output["verdict"].startswith(
        "7 clusters: 1 with open incidents, 2 with a failed last run, 1 read in part, 1 with a master above"
    )


def test_an_unused_root_is_reported(tmp_path):
    assert FleetReport(0, [], {}).verdict == "No cluster has a finished or a failed run."
    with pytest.raises(InputError, match="no cluster there; is --root right"):
        load_fleet(str(tmp_path), 0)
