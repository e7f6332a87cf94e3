"""A failover that only metrics show."""

from __future__ import annotations

import gzip
from pathlib import Path

from cluster_core.formats.prometheus_answer import MetricReader
from cluster_core.history.promotions import seen_in_views
from cluster_core.history.samples import metric_rows
from cluster_core.kinds import Source
from cluster_core.replay.rows import NodeViewRow

RECORDED = Path(__file__).parents[2] / "data" / "prometheus" / "query_range.json.gz"
MASTER, REPLICA = "127.0.0.1:11034", "127.0.0.1:11491"
PROMOTED_NS = 1795824135_216_000_000
S = 1_000_000_000


def test_a_promotion_is_dated_from_metrics_alone_within_true_bounds():
    reader = MetricReader()
    reader.feed(gzip.decompress(RECORDED.read_bytes()))
    views: dict[tuple[str, str], list[NodeViewRow]] = {}
    for row in metric_rows(reader.samples(), {REPLICA: "b" * 40}):
        if isinstance(row, NodeViewRow):
            views.setdefault((row.observer, row.node_id), []).append(row)

    (seen,) = seen_in_views(views, {})

    assert (seen.winner, seen.old, seen.epoch, seen.source) == ("b" * 40, MASTER, 6, Source.METRICS)
    assert seen.min_ns <= PROMOTED_NS <= seen.max_ns + S
