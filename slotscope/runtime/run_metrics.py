"""Metrics for Prometheus: the last run of each job and cluster, and the counts of a recorder; on a port, or in a file for the textfile collector."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from slotscope.runtime.errors import InputError, PlaceError
from slotscope.runtime.storage.runs import Run

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

LABELS: Final = ("command", "cluster")
PORT_MAX: Final = 65_535
FIGURES: Final = {
    "end_timestamp_seconds": "When the last complete run began to count.",
    "duration_seconds": "How long it took.",
    "input_files": "Files that it read.",
    "input_bytes": "Their bytes.",
    "data_timestamp_seconds": "Latest time in its inputs.",
    "partial": "1 where something of its inputs could not be read.",
}
"""Of each command and cluster; a failed run changes nothing, so alert on the age of the first."""


def served_registry(place: str) -> tuple[CollectorRegistry, Callable[[], None]]:
    """A registry, and the function that publishes it at *place*: a port that is served from now on, or a file to write.

    Raises InputError without prometheus_client, and for a port that cannot be served.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
    except ImportError as error:
        raise InputError("--metrics needs prometheus_client: pip install '.[metrics]' in the clone") from error
    registry = CollectorRegistry()
    if not place.isdecimal():
        return registry, lambda: write_to_textfile(place, registry)
    try:
        if not 0 < int(place) <= PORT_MAX:
            raise InputError(f"--metrics {place}: a port is a number from 1 to {PORT_MAX}")
        start_http_server(int(place), registry=registry)
    except OSError as error:
        raise InputError(f"--metrics {place}: cannot listen on this port: {error.strerror}") from error
    return registry, lambda: None


def status_writer(place: str, prefix: str, labels: Mapping[str, str]) -> Callable[[Mapping[str, float]], None]:
    """Return a function that publishes the figures of a status, named *prefix* and as they are; raises as `served_registry`."""
    registry, publish = served_registry(place)
    from prometheus_client import Gauge

    gauges: dict[str, Gauge] = {}

    def write(status: Mapping[str, float]) -> None:
        for name, value in status.items():
            if name not in gauges:
                gauges[name] = Gauge(f"{prefix}_{name}", name.replace("_", " "), tuple(labels), registry=registry)
            gauges[name].labels(**labels).set(value)
        with suppress(OSError):  # the work goes on; the file shows its age
            publish()

    return write


def metrics_writer(place: str) -> Callable[[Run], None]:
    """Return a function that publishes each complete run at *place*, beside those before; raises as `served_registry`."""
    registry, publish = served_registry(place)
    from prometheus_client import Gauge

    figures = {
        name: Gauge(f"slotscope_run_{name}", about, LABELS, registry=registry) for name, about in FIGURES.items()
    }
    rows = Gauge("slotscope_run_rows", "Rows that it wrote, by table.", (*LABELS, "table"), registry=registry)
    tables: dict[tuple[str, str], set[str]] = {}

    def write(run: Run) -> None:
        ended_at = run.ended_at or datetime.now(UTC)
        labels = run.job, run.cluster or ""
        values = (
            ended_at.timestamp(), (ended_at - run.started_at).total_seconds(), len(run.inputs), sum(run.inputs.values()),
            _seconds(run.data_at), bool(run.partial),
        )  # fmt: skip
        for figure, value in zip(figures.values(), values, strict=True):
            figure.labels(*labels).set(value)
        latest = dict.fromkeys(tables.setdefault(labels, set()), 0) | {t.name: n for t, n in run.rows.items()}
        tables[labels].update(latest)
        for name, count in latest.items():
            rows.labels(*labels, name).set(count)
        try:
            publish()
        except OSError as error:
            raise PlaceError(
                f"--metrics {place}: the run is complete, its figures cannot be written: {error.strerror}"
            ) from error

    return write


def _seconds(moment: datetime | int | None) -> float:
    """Seconds since the epoch; not a number where unknown."""
    if isinstance(moment, datetime):
        return moment.timestamp()
    return math.nan if moment is None else moment / 1e6
