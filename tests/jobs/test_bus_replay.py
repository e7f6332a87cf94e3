"""The job history: captures, polls and logs to tables of what every node believed."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from cluster_core.errors import DecodeError
from cluster_core.wire.bus import encode_message
from jobs import history as history_job
from jobs.history import Request
from schemas import history
from schemas.bronze import BAD_RECORDS
from schemas.history import BUS_MESSAGES
from schemas.incidents import INCIDENT_STEPS, INCIDENTS
from schemas.runs import RUNS
from slotscope.pipelines.bus import history as history_pipeline
from slotscope.pipelines.bus.findings import check_figures
from slotscope.pipelines.bus.inputs import check_request
from slotscope.pipelines.bus.past_views import past_views
from slotscope.reports.history.html import render_history
from slotscope.reports.history.tables import load_history
from slotscope.runtime.errors import InputError
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage.delta_files import exists, read_rows
from slotscope.runtime.storage.runs import running
from tests.builders.bus_builder import conversation, pcap, ping
from tests.builders.bus_folding import cut, fold, packet_ends
from tests.conftest import DATA

RECORDED = DATA / "bus-redis-7.0"
CAPTURE = RECORDED / "bus.pcap.gz"
TABLES = (
    history.BUS_MESSAGES, history.SLOT_BITMAPS, BAD_RECORDS, history.NODE_VIEWS, history.DISAGREEMENTS,
    history.FAILURE_REPORTS, history.VOTES, history.EPOCHS, history.EVENTS, history.SLOT_OWNERS, history.LINKS,
)  # fmt: skip
"""Tables with rows that depend on the evidence alone."""
PLACES = {"file", "offset", "source"}


def run(spark, root, **options):
    return history_job.run(spark, Request(root=str(root), **{"snapshot": "current", **options}))


def rows(table, root) -> list:
    """All rows of a table, as they compare whatever files they came from."""
    names = [name for name in table.columns if name not in (*PLACES, "run_id")]
    return sorted(repr([row[name] for name in names]) for row in read_rows(str(root), table))


def rows_of(table, root) -> list:
    """All rows of a table but for the cluster, which has no name in some."""
    names = [name for name in table.columns if name not in (*PLACES, "run_id", "cluster")]
    return sorted(repr([row[name] for name in names]) for row in read_rows(str(root), table))


@pytest.fixture(scope="module")
def root(replayed_root):
    """The tables of a recorded failover, from the capture alone."""
    return replayed_root


@pytest.mark.long
@pytest.mark.parametrize(
    ("is_one_process", "cluster", "machines"),
    [(True, "c", 200), (True, None, 2), pytest.param(False, "c", 200, marks=pytest.mark.slow)],
)
def test_tables_of_many_messages_do_not_depend_on_tasks(
    spark, root, tmp_path, monkeypatch, is_one_process, cluster, machines
) -> None:
    """Where driver and tasks are one process machines run beside the reading, as far as they are few, and tasks commit messages themselves: while they read
    where it is known whose these are; else Spark does it, step by step."""
    monkeypatch.setattr(history_pipeline, "BYTES_HERE_MAX", 0)
    monkeypatch.setattr(history_pipeline, "MACHINES_BESIDE", machines)
    monkeypatch.setattr(history_pipeline, "runs_here", lambda spark: is_one_process)
    monkeypatch.setattr(history_pipeline, "HELD_ROWS_MAX", 1000)
    monkeypatch.setattr(history_pipeline.tables, "HELD_ROWS_MAX", 1000)

    run(spark, tmp_path / "root", pcap=(str(CAPTURE),), node_timeout_ms=1000, cluster=cluster)

    compared = (*TABLES, INCIDENTS, INCIDENT_STEPS)
    assert {table.name: rows_of(table, tmp_path / "root") for table in compared} == {
        table.name: rows_of(table, root) for table in compared
    }
    assert len(rows(BUS_MESSAGES, root)) > 1000


def test_every_table_has_its_declared_columns_and_keys_are_unique(root) -> None:
    for table in (*TABLES, history.REPLAYS, history.REPLAY_STATE):
        if not exists(str(root), table):  # a table without rows
            continue
        fields = DeltaTable(f"{root}/{table.name}").schema().fields
        assert {field.name for field in fields} == set(table.columns), table.name
        keys = [tuple(row[name] for name in table.key) for row in read_rows(str(root), table)]
        assert len(keys) == len(set(keys)), table.name


def test_living_observers_agree_on_all_owners_at_the_end(root) -> None:
    agreed = read_rows(str(root), history.SLOT_OWNERS, where="observer = '' AND valid_to IS NULL")

    assert sum(row["last_slot"] - row["first_slot"] + 1 for row in agreed) == 16384


def test_folded_files_make_the_tables_of_a_replay_from_the_start(spark, root, tmp_path) -> None:
    """The state at the end of the first files is where the others go on."""
    raw = gzip.decompress(CAPTURE.read_bytes())
    ends = packet_ends(raw)
    paths = cut(raw, [ends[len(ends) // 3], ends[len(ends) // 2]], tmp_path)
    target = tmp_path / "tables"
    run(spark, target, pcap=[str(paths[0])], node_timeout_ms=1000)
    outcome = run(spark, target, pcap=[f"{tmp_path}/part-*.pcap"], node_timeout_ms=1000)

    assert (outcome.known_files, outcome.new_files) == (1, 2)
    for table in TABLES:
        assert rows(table, target) == rows(table, root), table.name


def test_known_polls_and_logs_stay_when_the_job_runs_again_with_more_files(spark, tmp_path) -> None:
    logs = sorted(str(path) for path in (RECORDED / "logs").iterdir())
    polls = [str(RECORDED / "polls.jsonl.gz")]
    tables = (history.LOG_EVENTS, history.NODE_POLLS, INCIDENTS, INCIDENT_STEPS)
    target, fresh = tmp_path / "tables", tmp_path / "fresh"
    run(spark, fresh, log=logs, polls=polls)
    whole = {table: rows_of(table, fresh) for table in tables}

    run(spark, target, log=logs[:3], polls=polls)
    more = run(spark, target, log=logs, polls=polls)
    again = run(spark, target, log=logs, polls=polls)

    assert [(replay.known_files, replay.new_files) for replay in (more, again)] == [(4, 3), (7, 0)]
    assert all(whole.values())
    assert {table: rows_of(table, target) for table in tables} == whole


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"version": 1}, {"state": b"\x80\x05no state"}])
def test_an_unreadable_state_is_reported_and_all_files_are_replayed(spark, tmp_path, changed) -> None:
    """Of an older program, or damaged in the tables: the run ends as one from the start."""
    raw = gzip.decompress(CAPTURE.read_bytes())
    ends = packet_ends(raw)
    paths = [str(path) for path in cut(raw[: ends[600]], [ends[300]], tmp_path)]
    target, fresh = tmp_path / "tables", tmp_path / "fresh"
    run(spark, target, pcap=paths[:1], node_timeout_ms=1000)
    where = f"{target}/{history.REPLAY_STATE.name}"
    states = spark.read.format("delta").load(where).withColumns({name: F.lit(value) for name, value in changed.items()})
    kept = spark.createDataFrame(states.collect(), spark_schema(history.REPLAY_STATE.schema))
    kept.write.format("delta").mode("overwrite").save(where)

    outcome = run(spark, target, pcap=paths, node_timeout_ms=1000)
    run(spark, fresh, pcap=paths, node_timeout_ms=1000)

    assert any("is of another version" in warning.text for warning in outcome.warnings)
    assert (outcome.known_files, outcome.new_files) == (0, 2)
    assert rows(history.NODE_VIEWS, target) == rows(history.NODE_VIEWS, fresh)


def test_a_wrong_time_zone_is_noticed(spark, tmp_path) -> None:
    logs = sorted(str(path) for path in (RECORDED / "logs").iterdir())
    given = {"pcap": [str(CAPTURE)], "polls": [str(RECORDED / "polls.jsonl.gz")], "log": logs}
    outcome = run(spark, tmp_path, **given, log_zone="+02:00", node_timeout_ms=1000)

    assert outcome.bad_records == 0
    assert any("time zone -02:00 relative to the one given" in warning.text for warning in outcome.warnings)


def test_logs_alone_show_the_role_of_every_node_and_leave_slots_unknown(spark, tmp_path) -> None:
    logs = [str(RECORDED / "logs")]
    run(spark, tmp_path, log=logs)
    first = rows_of(history.NODE_VIEWS, tmp_path)
    run(spark, tmp_path, log=logs)
    report = load_history(str(tmp_path), "current")
    (winner,) = {incident.winner for incident in report.incidents if incident.kind == "failover"}
    (last,) = past_views(root=str(tmp_path), snapshot="current")
    (own,) = past_views(root=str(tmp_path), snapshot="current", observer=winner)
    flags = {node["id"]: node["flags"] for node in last.record()["nodes"]}
    page = render_history(report)

    assert rows_of(history.NODE_VIEWS, tmp_path) == first
    assert len(report.nodes) == len(flags) == 6
    assert flags[winner] == "master"
    assert all(node["slots"] is None for node in last.record()["nodes"])
    assert "from its log alone: slots" in "\n".join(own.lines(headed=False))
    assert report.findings == []
    assert "master, epoch 6, slots unknown" in page
    assert "not checked: there is no capture" in page


def test_metrics_alone_show_the_role_of_every_server(spark, tmp_path) -> None:
    run(spark, tmp_path, prometheus=[str(DATA / "scraped-failover/metrics.jsonl.gz")])
    (last,) = past_views(root=str(tmp_path), snapshot="current")
    flags = [node["flags"] for node in last.record()["nodes"]]

    assert flags.count("master") >= 3
    assert "metrics of 6 servers" in render_history(load_history(str(tmp_path), "current"))
    assert "from metrics alone" in "\n".join(last.lines(headed=True))


# -- bad input -------------------------------------------------------------------------------------------------------


def damaged(tmp_path: Path) -> Path:
    """A capture that ends inside a packet."""
    path = tmp_path / "damaged.pcap"
    path.write_bytes(gzip.decompress(CAPTURE.read_bytes())[:100_001])
    return path


def test_a_damaged_capture_ends_a_strict_job_with_its_place(spark, tmp_path) -> None:
    with pytest.raises(Exception, match=r"damaged\.pcap: offset [0-9]+: file ends inside a packet"):
        run(spark, tmp_path / "tables", pcap=[str(damaged(tmp_path))])


def test_a_damaged_capture_is_read_up_to_the_damage_when_permissive(tmp_path) -> None:
    actual = fold([damaged(tmp_path)], permissive=True)

    assert [row["reason"] for row in actual.bad] == ["file ends inside a packet"]
    assert len(actual.messages) > 5


def test_a_tls_bus_is_reported(tmp_path) -> None:
    path = tmp_path / "tls.pcap"
    path.write_bytes(pcap(conversation([bytes.fromhex("1603010200010001fc0303") + bytes(600)])))

    with pytest.raises(DecodeError, match="TLS: cannot be read"):
        fold([path])
    actual = fold([path], permissive=True)

    assert actual.messages == []
    assert "TLS: cannot be read" in actual.bad[0]["reason"]


def test_a_clock_set_back_is_counted_and_time_continues(tmp_path) -> None:
    path = tmp_path / "clock.pcap"
    later = conversation([encode_message(ping())] * 3)
    path.write_bytes(pcap([*later, *(replace(s, ts_ns=s.ts_ns - 3600 * 10**9, seq=s.seq + 9999) for s in later)]))

    actual = fold([path], permissive=True)

    assert actual.facts["clock_steps"] > 0
    assert actual.facts["last_ns"] == later[-1].ts_ns


def test_a_capture_from_the_middle_of_messages_is_no_error(tmp_path) -> None:
    """What is left of a message at the start is a row; the job goes on, strict or not."""
    raw = encode_message(ping())
    path = tmp_path / "late.pcap"
    path.write_bytes(pcap(conversation([raw[700:], raw, raw], handshake=False)))

    actual = fold([path])

    assert len(actual.messages) == 2
    assert len(actual.bad) == 1


@pytest.mark.parametrize("seed", range(25))
def test_damage_in_messages_never_ends_a_permissive_replay(seed, tmp_path) -> None:
    chance = random.Random(seed)
    raw = bytearray(gzip.decompress(CAPTURE.read_bytes())[: 24 + 300_000])
    for _ in range(10 ** chance.randrange(4)):
        raw[chance.randrange(24, len(raw))] = chance.randrange(256)
    path = tmp_path / "mutated.pcap"
    path.write_bytes(raw)

    actual = fold([path], permissive=True)

    assert all(row["reason"] for row in actual.bad)
    assert len(actual.messages) == actual.facts["messages"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "nothing to read"),
        ({"pcap": ["x"], "snapshot": ""}, "must not be empty"),
        ({"pcap": ["x"], "profile": "redis-1"}, "--profile redis-1: must be one of"),
        ({"pcap": ["x"], "node_timeout_ms": 1}, "must be from"),
        ({"pcap": ["x"], "log_zone": "Nowhere"}, "unknown time zone"),
    ],
)
def test_invalid_options_are_refused_before_spark_starts(options, reason) -> None:
    with pytest.raises(InputError, match=reason):
        check_request(Request(root="/nowhere", **options))


def test_a_missing_capture_is_refused_before_spark_starts() -> None:
    with pytest.raises(DecodeError, match="no such file"):
        check_request(Request(root="/nowhere", pcap=["/nowhere/bus.pcap"]))


def test_compared_figures_are_kept_with_the_run(replayed_root) -> None:
    """Messages that were read, are there, have a type, a file and a number; incidents, and their steps, one by one."""
    (run,) = read_rows(str(replayed_root), RUNS, state="complete")
    checks: dict[str, dict[str, int]] = {}
    for check in run["checks"]:
        checks.setdefault(check["name"], {})[check["of"]] = check["value"]

    assert [name for name, values in checks.items() if len(set(values.values())) != 1] == []
    assert checks["messages"]["read"] == run["rows"]["bronze/bus_messages"] > 0
    assert len(checks["messages"]) == 5
    assert checks["steps"]["gold/incidents"] == run["rows"]["gold/incident_steps"] > 0


@pytest.mark.parametrize(
    ("read", "known", "steps", "expected"),
    [(3, 0, 2, None), (5, 2, 2, None), (4, 0, 2, "messages: 4 by read, 3 by bronze/bus_messages"), (3, 0, 1, "steps: 1 by found, 2 by gold/incidents")],
)  # fmt: skip
def test_a_replay_with_figures_other_than_its_input_is_incomplete(tmp_path, read, known, steps, expected) -> None:
    """Nothing of it counts."""
    messages = [{"message_id": 2 + at, "type": "ping", "file": "f"} for at in range(3)]
    incident = {"incident": 1, "steps": 2, "nodes": [], "message_ids": []}
    error = ""
    try:
        with running(str(tmp_path), "history", "a") as run:
            run.append(BUS_MESSAGES, messages)
            run.append(INCIDENTS, [incident])
            run.append(INCIDENT_STEPS, [{"incident": 1, "step": step} for step in (1, 2)])
            check_figures(run, {"messages": read}, known, steps)
    except InputError as raised:
        error = str(raised)

    assert (expected or "") in error
    assert bool(error) is bool(expected)
    assert len(read_rows(str(tmp_path), BUS_MESSAGES)) == (0 if expected else 3)
