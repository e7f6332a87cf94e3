"""From captures of client ports to silver/replication_links, silver/replication_offsets and gold/resyncs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from schemas.bronze import BAD_RECORDS
from schemas.replication import REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS
from slotscope.pipelines.replication import Outcome, find_inputs, read_sizes, replay_replication
from slotscope.reports.replication.report import ReplicationReport, load_replication
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage import tables
from tests.benches.reports import terminal_of
from tests.builders.replication_records import RECORDINGS, replayed_recording
from tests.builders.stored_rows import without_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAPTURE = RECORDINGS / "valkey-9.1" / "resp.pcap.gz"
BACKLOG_BYTES = 16384
ALL = (REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS)


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recording, replayed twice under one name and once under another."""
    folder = str(tmp_path_factory.mktemp("root"))
    for snapshot in ("one", "two", "one"):
        run(spark, root=folder, pcap=(str(CAPTURE),), snapshot=snapshot, backlog_size=(str(BACKLOG_BYTES),))
    return folder


def run(
    spark: SparkSession,
    *,
    root: str,
    pcap: Sequence[str],
    snapshot: str,
    backlog_size: Sequence[str] = (),
    **options: Any,
) -> Outcome:
    inputs = find_inputs(pcap, backlog_size, snapshot)
    return replay_replication(spark, inputs, root=root, snapshot=snapshot, **options)


def rows(spark: SparkSession, root: str, table, snapshot: str = "one") -> list[dict]:
    read = tables.read(spark, table, root).where(F.col("snapshot_id") == snapshot).orderBy(*table.key)
    return [row.asDict() for row in read.collect()]


def test_the_tables_hold_the_replay(spark: SparkSession, root: str) -> None:
    """A row a piece of a link, a mark, a request."""
    replay = replayed_recording("valkey-9.1", {"": BACKLOG_BYTES})

    links, offsets, resyncs = (rows(spark, root, table) for table in ALL)

    assert [(r["replica"], r["state"], r["valid_from_ns"]) for r in links] == [
        (s.replica, s.state, s.from_ns) for s in sorted(replay.spans, key=lambda span: span.link)
    ]
    assert len(offsets) == len(replay.marks)
    assert [r["lag_bytes"] for r in offsets if r["acked_offset"] is not None] == [
        m.sent - m.acked for m in sorted(replay.marks, key=lambda mark: mark.ts_ns) if m.acked is not None
    ]
    assert [(r["answered"], r["reason"], r["as_foreseen"]) for r in resyncs] == [
        (r.answered.value, r.explained.reason.value, True) for r in replay.resyncs
    ]
    assert resyncs[5]["backlog_first"] == 20441


def test_a_second_run_leaves_the_same_rows(spark: SparkSession, root: str) -> None:
    """One snapshot is replaced as a whole; the other one stays."""
    for table in ALL:
        once, twice = rows(spark, root, table, "two"), rows(spark, root, table, "one")

        assert [{**row, "snapshot_id": ""} for row in without_run(once)] == [
            {**row, "snapshot_id": ""} for row in without_run(twice)
        ]


def test_the_report_tells_every_resync_in_one_sentence(spark: SparkSession, root: str) -> None:
    """With its reason, and who follows whom at the end."""
    lines = terminal_of(load_replication(root, "one"), width=400).splitlines()

    assert any("as predicted" in line for line in lines)
    assert sum("because" in line for line in lines) == len(rows(spark, root, RESYNCS))
    assert "follows" in lines[-1]
    assert lines[-1].rstrip().endswith(tuple("0123456789"))


def test_a_file_that_is_cut_short_stops_the_job_or_is_noted(spark: SparkSession, tmp_path) -> None:
    """Strict mode ends with exit code 2, permissive with 3 and a row in bronze/bad_records."""
    import gzip

    cut = tmp_path / "cut.pcap"
    cut.write_bytes(gzip.decompress(CAPTURE.read_bytes())[:60_000])
    outcome = run(spark, root=str(tmp_path), pcap=(str(cut),), snapshot="cut", permissive=True)

    from jobs.replication_replay import command

    assert outcome.bad_records == 1
    assert rows(spark, str(tmp_path), BAD_RECORDS, "cut")[0]["job"] == "replication-replay"
    assert cli.run(command, ["--root", str(tmp_path), "--pcap", str(cut)]) == 2


def test_a_capture_without_replication_says_so() -> None:
    """No rows, no error."""
    lines = terminal_of(ReplicationReport("none", [], [], [])).splitlines()

    assert lines == ["Slotscope · Replication of none", "No replication in these captures."]


def test_sizes_are_read_as_the_configuration_writes_them() -> None:
    """SIZE for all, ADDRESS:PORT=SIZE for one."""
    assert read_sizes(["64kb", "10.0.0.1:6379=1m"]) == {"": 65536, "10.0.0.1:6379": 1_000_000}
    for wrong in ("", "much", "0", "a=", "-5"):
        with pytest.raises(InputError, match="backlog-size"):
            read_sizes([wrong])
