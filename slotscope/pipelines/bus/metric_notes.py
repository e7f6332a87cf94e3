"""What metrics add to the rows of a replay: bronze/metric_samples as rows of `cluster_core.replay.metrics`."""

from __future__ import annotations

from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.kinds import Source
from cluster_core.replay.metrics import metric_rows
from cluster_core.replay.rows import NodeViewRow
from schemas.history import METRIC_SAMPLES
from slotscope.pipelines.bus.notes import Notes
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.runs import Run

_TEXTS = ("role", "master", "version", "server_run_id")


def with_metrics(notes: Notes, run: Run) -> Notes:
    """*notes* and what the metrics of *run*'s snapshot show; beliefs only of nodes that show none in packets, polls or logs."""
    columns = ("line", *MetricSample._fields)
    found = delta_files.read_rows(run.root, METRIC_SAMPLES, columns=columns, parts=run.parts(METRIC_SAMPLES))
    if not found:
        return notes
    found.sort(key=lambda row: (row["address"], row["ts_ns"]))
    samples = [
        MetricSample._make(row[name] or "" if name in _TEXTS else row[name] for name in MetricSample._fields)
        for row in found
    ]
    views = [row for row in notes.rows if isinstance(row, NodeViewRow)]
    ids = {f"{line.ip}:{line.port}": line.observer for line in notes.lines if line.ip and line.port}
    ids |= {f"{row.ip}:{row.port}": row.node_id for row in views if row.port}
    observers = {row.observer for row in views}
    rows = [row for row in metric_rows(samples, ids) if row.observer not in observers]
    sampled: dict[tuple[str, Source], list[MetricSample]] = {}
    for sample in samples:
        sampled.setdefault((ids.get(sample.address, sample.address), Source.METRICS), []).append(sample)
    return notes._replace(rows=[*notes.rows, *rows], samples=notes.samples | sampled)
