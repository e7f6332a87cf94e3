"""Metrics as rows of a replay: a recorded failover, seen by redis_exporter alone."""

from __future__ import annotations

import gzip
from pathlib import Path

from cluster_core.formats.prometheus_answer import MetricReader
from cluster_core.kinds import Source
from cluster_core.replay.metrics import metric_rows

RECORDED = Path(__file__).parents[2] / "data" / "prometheus" / "query_range.json.gz"
MASTER, REPLICA = "127.0.0.1:11034", "127.0.0.1:11491"
PROMOTED_NS = 1795824135_216_000_000
S = 1_000_000_000


def recorded_rows(ids: dict[str, str]):
    reader = MetricReader()
    reader.feed(gzip.decompress(RECORDED.read_bytes()))
    return list(metric_rows(reader.samples(), ids))


def test_the_replica_becomes_master_within_bounds_that_hold_the_truth():
    """Redis 7.0; ids come from other evidence, and addresses stand for those that none names."""
    views = recorded_rows({REPLICA: "b" * 40})
    before, after = [row for row in views if row.observer == "b" * 40][:2]

    assert (before.flags, before.master_id, before.config_epoch) == ("myself,slave", MASTER, 1)
    assert (after.flags, after.master_id, after.evidence) == ("myself,master", "", Source.METRICS)
    assert after.valid_from_min_ns <= PROMOTED_NS <= after.valid_from_ns + S
    assert before.valid_to_ns == after.valid_from_ns
