"""A batch of a landing followed for hours reads a bounded number of polls, and has the results of a replay of all files."""

from __future__ import annotations

import gzip
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from cluster_core.formats.landing import RecordedFile
from schemas.history import NODE_POLLS
from schemas.incidents import FINDINGS, INCIDENT_STEPS, INCIDENTS
from slotscope.pipelines.bus.findings import BEFORE_NS, RECENT_NS
from slotscope.pipelines.bus.following import stored_rows
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import Run
from tests.conftest import DATA
from tests.jobs.test_follow import follow

MINUTE = 60_000_000_000
ROUND_NS = 40 * MINUTE
RECORDED = [
    json.loads(line) for line in gzip.decompress((DATA / "polled-restart" / "polls.jsonl.gz").read_bytes()).splitlines()
]
"""Polls of six nodes with one restart."""
REPLICA = "127.0.0.1:22115"


def put_round(landing: Path, number: int, dead: str = "") -> None:
    """The recorded polls, then half an hour of a quiet cluster with a poll of each node a minute.

    With a *dead* replica the half hour alone, in which the others have marked it FAIL.
    """
    last = {poll["node"]: poll for poll in RECORDED if "text" in poll}
    if dead:
        address, is_fail = f" {dead}@", re.compile(rf"( {dead}\S* slave)( .*) connected")
        last = {
            node: poll | {"text": is_fail.sub(r"\1,fail\2 disconnected", poll["text"])}
            for node, poll in last.items()
            if node != dead and address in poll["text"]
        }
    end_ns = RECORDED[-1]["time"]
    quiet = [(poll, end_ns + minute * MINUTE - poll["time"]) for minute in range(1, 31) for poll in last.values()]
    polls = [
        poll
        | {"time": poll["time"] + shift_ns + number * ROUND_NS, "asked": poll["asked"] + shift_ns + number * ROUND_NS}
        for poll, shift_ns in [*((poll, 0) for poll in RECORDED if not dead), *quiet]
    ]
    polls.sort(key=lambda poll: poll["time"])
    name = RecordedFile("", polls[0]["asked"], polls[-1]["time"] + 1000, "jsonl").name
    path = landing / "shop" / "one" / "polls" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps(poll) + "\n" for poll in polls).encode()))


def rows_of(root: Path) -> list[list[dict[str, Any]]]:
    tables = (INCIDENTS, INCIDENT_STEPS, FINDINGS)
    rows = [read_rows(str(root), table, snapshot_id="shop", order_by=", ".join(table.key)) for table in tables]
    return [[{name: row[name] for name in row if name != "run_id"} for row in some] for some in rows]


def test_the_last_batch_reads_recent_polls_alone_and_finds_the_incidents_of_all_hours(spark, tmp_path) -> None:
    """Also where older polls than the retention were removed."""
    landing, root, whole = tmp_path / "landing", tmp_path / "root", tmp_path / "whole"
    for number in range(3):
        put_round(landing, number)
        follow(spark, root, landing, node_timeout_ms=2000, keep=timedelta(hours=1))
    follow(spark, whole, landing, node_timeout_ms=2000)

    kept, polls = (
        [row["ts_ns"] for row in read_rows(str(path), NODE_POLLS, order_by="ts_ns")] for path in (root, whole)
    )
    read = stored_rows([Run(str(root), "history", "shop", "shop", {})])["shop"][NODE_POLLS]
    kept_from_ns = max(polls) - ROUND_NS - 60 * MINUTE  # an hour before the end of the last batch but one

    assert rows_of(root) == rows_of(whole)
    assert len(rows_of(root)[0]) >= 3
    assert 0 < len(read) < len(polls) / 4
    assert min(read["ts_ns"].to_pylist()) >= max(polls) - RECENT_NS - BEFORE_NS - 2 * MINUTE
    assert kept[-60:] == polls[-60:]
    assert kept_from_ns - 60 * MINUTE / 24 <= min(kept) <= kept_from_ns + MINUTE
    assert min(polls) < min(kept)


def test_an_incident_that_stays_open_for_hours_costs_no_more_and_closes_as_in_a_replay_of_all_files(
    spark, tmp_path
) -> None:
    """Rounds 1 to 3 lack a replica; its return closes the incident with the start that the first batch has found."""
    landing, root, whole = tmp_path / "landing", tmp_path / "root", tmp_path / "whole"
    opened = []
    for number in range(5):
        put_round(landing, number, REPLICA if number in (1, 2, 3) else "")
        follow(spark, root, landing, node_timeout_ms=2000)
        read = stored_rows([Run(str(root), "history", "shop", "shop", {})])["shop"][NODE_POLLS]
        opened.append([row["incident_id"] for row in read_rows(str(root), INCIDENTS, where="ended_ns IS NULL")])
    follow(spark, whole, landing, node_timeout_ms=2000)

    assert [len(ids) for ids in opened] == [0, 1, 1, 1, 0]
    assert len(read) < 100
    assert rows_of(root) == rows_of(whole)
