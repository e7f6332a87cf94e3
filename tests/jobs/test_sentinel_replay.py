"""From logs and polls of sentinels to silver/sentinel_views, votes, events and gold/incidents."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from jobs.sentinel_replay import command
from schemas.bronze import BAD_RECORDS
from schemas.incidents import INCIDENT_STEPS, INCIDENTS
from schemas.sentinel import SENTINEL_EVENTS, SENTINEL_VIEWS, SENTINEL_VOTES
from slotscope.pipelines.sentinel_replay import find_files, replay_sentinels
from slotscope.reports.history.tables import load_history, load_incidents
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import running
from tests.benches.sentinel_recordings import RECORDINGS, history_of

FOLDER = RECORDINGS / "redis-7.0-no-quorum"
LOGS = str(FOLDER / "logs" / "*.log.gz")
POLLS = str(FOLDER / "truth.jsonl.gz")
ALL = (SENTINEL_VIEWS, SENTINEL_EVENTS, SENTINEL_VOTES, INCIDENTS, INCIDENT_STEPS)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recording, replayed twice under one name."""
    folder = str(tmp_path_factory.mktemp("root"))
    for _ in range(2):
        run(root=folder, log=(LOGS,), snapshot="one")
    return folder


def run(*, root: str, snapshot: str, **options: Any) -> None:
    replay_sentinels(find_files(**options), root=root, snapshot=snapshot)


def rows(root: str, table, snapshot: str = "one") -> list[dict]:
    return read_rows(root, table, snapshot_id=snapshot, order_by=", ".join(table.key))


def test_the_tables_hold_the_replay_once(root: str) -> None:
    """A row a belief, an event, a vote; a second run leaves the same rows."""
    history = history_of("redis-7.0-no-quorum")

    views, events, votes, incidents, steps = (rows(root, table) for table in ALL)

    assert len(views) == len(history.views)
    assert {row["flags"] for row in views} == {row.flags for row in history.views}
    assert [row["text"] for row in events] == [row.text for row in history.events]
    assert [row["voted_for"] for row in votes] == [row.voted_for for row in history.votes]
    assert [row["kind"] for row in incidents] == ["failover"]
    assert incidents[0]["incident_id"].startswith("sentinel-failover-127.0.0.1:24000-")
    assert len(steps) == incidents[0]["steps"]


def test_the_command_prints_and_writes_the_report_of_a_cluster(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same report, terminal and page, as for a cluster."""
    page = tmp_path / "page.html"

    code = cli.run(command, ["--log", LOGS, "--root", str(tmp_path), "--snapshot", "one", "--html", str(page)])

    out = capsys.readouterr().out
    incident = load_incidents(str(tmp_path), "one", 1)[0]
    assert not code
    assert out.startswith("3 sentinels, ")
    assert "127.0.0.1:24001" in out
    assert incident.summary in page.read_text("utf-8")
    assert "O_DOWN" in page.read_text("utf-8")


@pytest.mark.slow
def test_a_clusters_incidents_of_the_snapshot_stay(root: str) -> None:
    """Those of sentinels are numbered behind them."""
    first = rows(root, INCIDENTS)[0]
    with running(root, "history", "both") as replay:
        replay.append(INCIDENTS, [{**first, "incident_id": "failover-x-1", "incident": 7}])
    run(root=root, log=(LOGS,), snapshot="both")

    numbers = [row["incident"] for row in rows(root, INCIDENTS, "both")]
    steps = rows(root, INCIDENT_STEPS, "both")

    assert sorted(numbers)[:2] == [7, 8]
    assert {row["incident"] for row in steps} == set(numbers) - {7}


def test_damage_is_noted_and_counted(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    """Permissive mode ends with exit code 3 and rows in bronze/bad_records, which the report counts."""
    log, polls, root = tmp_path / "24010.log", tmp_path / "polls.jsonl", str(tmp_path / "root")
    log.write_bytes(
        gzip.decompress((FOLDER / "logs" / "24010.log.gz").read_bytes()) + b"7:X 45 Xxx 2026 25:61:00.000 * broken\n"
    )
    polls.write_bytes(b'{"masters": []}\n')

    code = cli.run(
        command, ["--logs", str(log), "--polls", str(polls), "--root", root, "--snapshot", "x", "--mode", "permissive"]
    )

    bad = rows(root, BAD_RECORDS, "x")
    assert code == cli.PARTIAL
    assert sorted((row["job"], row["source"].rpartition("/")[2]) for row in bad) == [
        ("sentinel-replay", "24010.log"),
        ("sentinel-replay", "polls.jsonl"),
    ]
    assert "2 bad records" in capsys.readouterr().out
    assert load_history(root, "x").bad_records == 2


@pytest.mark.parametrize("given", [{}, {"log_zone": "Mars"}, {"log_node": ["x=y"]}])
def test_invalid_options_are_refused(given: dict) -> None:
    logs = [LOGS] if given else []

    with pytest.raises(InputError):
        find_files(log=logs, **given)
