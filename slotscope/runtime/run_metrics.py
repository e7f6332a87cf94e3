"""Metrics of the last run of each job, in a file for Prometheus' textfile collector."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.runs import Run

LABELS: Final = ("command", "cluster")
FIGURES: Final = {
    "end_timestamp_seconds": "When the last complete run began to count.",
    "duration_seconds": "How long it took.",
    "input_files": "Files that it read.",
    "input_bytes": "Their bytes.",
    "partial": "1 where something of its inputs could not be read.",
}
"""Of each command and cluster; a failed run changes nothing, so alert on the age of the first."""


def metrics_writer(path: str) -> Callable[[Run], None]:
    """Return what writes *path* anew for each run that is complete, with all that it heard of; raises InputError without prometheus_client."""
    try:
        from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
    except ImportError as error:
        raise InputError("--metrics needs prometheus_client: pip install 'slotscope[metrics]'") from error
    registry = CollectorRegistry()
    figures = {
        name: Gauge(f"slotscope_run_{name}", about, LABELS, registry=registry) for name, about in FIGURES.items()
    }
    rows = Gauge("slotscope_run_rows", "Rows that it wrote, by table.", (*LABELS, "table"), registry=registry)

    def write(run: Run) -> None:
        ended_at = datetime.now(UTC)
        labels = run.job, run.cluster or ""
        values = (
            ended_at.timestamp(), (ended_at - run.started_at).total_seconds(), len(run.inputs), sum(run.inputs.values()), bool(run.partial),
        )  # fmt: skip
        for figure, value in zip(figures.values(), values, strict=True):
            figure.labels(*labels).set(value)
        for table, count in run.rows.items():
            rows.labels(*labels, table.name).set(count)
        try:
            write_to_textfile(path, registry)
        except OSError as error:
            raise InputError(
                f"--metrics {path}: the run is complete, its figures cannot be written: {error.strerror}"
            ) from error

    return write
