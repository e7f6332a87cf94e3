"""What metrics say of servers, as rows of a replay: roles, processes and the state of the cluster.

A server is a node whose id other evidence names at its address; else its address stands for its id.  Metrics do not name
slots, and failure marks only by their number: such columns are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.gossip.causes import Cause
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import EventRow, NodeViewRow

S: Final = 1_000_000_000


def metric_rows(samples: Iterable[MetricSample], ids: Mapping[str, str]) -> Iterator[NodeViewRow | EventRow]:
    """The rows of *samples*, which are in order of server and time; *ids* has the node at an address, where that is known."""
    for address, group in groupby(samples, key=lambda sample: sample.address):
        scrapes = list(group)
        node = ids.get(address, address)
        yield from _views(node, address, scrapes, ids)
        yield from _processes(node, scrapes)
        yield from _states(node, scrapes)


def _views(node: str, address: str, samples: Iterable[MetricSample], ids: Mapping[str, str]) -> Iterator[NodeViewRow]:
    """What the server said of itself: its role, its master, its config epoch."""
    host, _, port = address.rpartition(":")
    row: NodeViewRow | None = None
    before_ns: int | None = None
    for sample in samples:
        if not sample.role:
            continue
        master = ids.get(sample.master, sample.master) if sample.role == "slave" else ""
        next_row = NodeViewRow(
            node, node, host, int(port) if port.isdigit() else 0, 0, "", f"myself,{sample.role}", master,
            sample.my_epoch or 0, "", True, sample.ts_ns, None, Cause.METRICS, -1, before_ns, Source.METRICS,
        )  # fmt: skip
        if row is None or (row.flags, row.master_id, row.config_epoch) != (
            next_row.flags, next_row.master_id, next_row.config_epoch,
        ):  # fmt: skip
            if row is not None:
                yield row._replace(valid_to_ns=sample.ts_ns)
            row = next_row
        before_ns = sample.ts_min_ns
    if row is not None:
        yield row


def _processes(node: str, samples: Iterable[MetricSample]) -> Iterator[EventRow]:
    """Ends and starts of the server's process: another run id, another process id, or a shorter uptime."""
    before: MetricSample | None = None
    for sample in samples:
        if not sample.role and sample.uptime_s is None:
            continue
        if before is not None and _is_other_process(before, sample):
            started_ns = sample.ts_min_ns if sample.uptime_s is None else sample.ts_ns - (sample.uptime_s + 1) * S
            yield EventRow(node, before.ts_ns, EventKind.PROCESS_ENDED, node, 0, "", -1)
            yield EventRow(node, max(before.ts_ns, started_ns), EventKind.PROCESS_STARTED, node, 0, "", -1)
        before = sample


def _is_other_process(before: MetricSample, after: MetricSample) -> bool:
    if before.server_run_id and after.server_run_id:
        return before.server_run_id != after.server_run_id
    if before.uptime_s is None or after.uptime_s is None:
        return False
    return after.uptime_s < before.uptime_s


def _states(node: str, samples: Iterable[MetricSample]) -> Iterator[EventRow]:
    """When the server said that the cluster is down, and up again."""
    was_ok = True
    for sample in samples:
        if sample.cluster_ok is None or sample.cluster_ok is was_ok:
            continue
        kind = EventKind.STATE_OK if sample.cluster_ok else EventKind.STATE_FAIL
        yield EventRow(node, sample.ts_ns, kind, "", 0, "", -1)
        was_ok = sample.cluster_ok
