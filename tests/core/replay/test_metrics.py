"""Metrics as rows of a replay: a recorded failover, seen by redis_exporter alone."""

from __future__ import annotations

import gzip
from pathlib import Path

from cluster_core.formats.prometheus_answer import MetricReader, MetricSample
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.metrics import metric_rows
from cluster_core.replay.rows import EventRow, NodeViewRow

RECORDED = Path(__file__).parents[2] / "data" / "prometheus" / "query_range.json.gz"
MASTER, REPLICA = "127.0.0.1:11034", "127.0.0.1:11491"
KILLED_NS, PROMOTED_NS, RESTARTED_NS = 1795824131_130_000_000, 1795824135_216_000_000, 1795824143_216_000_000
S = 1_000_000_000


def recorded_rows(ids: dict[str, str]):
    reader = MetricReader()
    reader.feed(gzip.decompress(RECORDED.read_bytes()))
    return list(metric_rows(reader.samples(), ids))


def test_the_replica_becomes_master_within_bounds_that_hold_the_truth():
    """Redis 7.0; ids come from other evidence, and addresses stand for those that none names."""
    views = [row for row in recorded_rows({REPLICA: "b" * 40}) if isinstance(row, NodeViewRow)]
    before, after = [row for row in views if row.observer == "b" * 40][:2]

    assert (before.flags, before.master_id, before.config_epoch) == ("myself,slave", MASTER, 1)
    assert (after.flags, after.master_id, after.evidence) == ("myself,master", "", Source.METRICS)
    assert after.valid_from_min_ns <= PROMOTED_NS <= after.valid_from_ns + S
    assert before.valid_to_ns == after.valid_from_ns


def test_a_restart_is_an_end_and_a_start_of_the_process():
    """Killed with SIGKILL, started 12 s later."""
    events = [row for row in recorded_rows({}) if isinstance(row, EventRow) and row.observer == MASTER]
    ended, started = (row for row in events if row.kind in (EventKind.PROCESS_ENDED, EventKind.PROCESS_STARTED))

    assert ended.kind is EventKind.PROCESS_ENDED
    assert abs(ended.ts_ns - KILLED_NS) <= S
    assert abs(started.ts_ns - RESTARTED_NS) <= 2 * S


def test_the_state_of_the_cluster_is_an_event_when_it_changes():
    """Down from the second scrape on, up in the fourth."""
    states = (True, False, False, True)
    samples = [MetricSample(t * S, t * S, MASTER, cluster_ok=ok) for t, ok in enumerate(states, 1)]

    assert [(row.kind, row.ts_ns) for row in metric_rows(samples, {})] == [
        (EventKind.STATE_FAIL, 2 * S), (EventKind.STATE_OK, 4 * S),
    ]  # fmt: skip


def test_a_shorter_uptime_is_a_restart_where_no_run_id_is_known():
    """Exporters may export uptime alone."""
    samples = [MetricSample(t * S, t * S, MASTER, uptime_s=up) for t, up in ((100, 90), (115, 105), (130, 4))]

    rows = list(metric_rows(samples, {}))

    assert [row.kind for row in rows] == [EventKind.PROCESS_ENDED, EventKind.PROCESS_STARTED]
    assert rows[1].ts_ns == 125 * S
