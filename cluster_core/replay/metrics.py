"""Roles of servers in metrics, as rows of a replay.

A server's node id comes from other evidence at its address; otherwise its address is used. Metrics lack slots and
failing nodes, so these columns are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.gossip.causes import Cause
from cluster_core.kinds import Source
from cluster_core.replay.rows import NodeViewRow


def metric_rows(samples: Iterable[MetricSample], ids: Mapping[str, str]) -> Iterator[NodeViewRow]:
    """Yield the rows of *samples*, ordered by server and time; *ids* maps known addresses to nodes."""
    for address, group in groupby(samples, key=lambda sample: sample.address):
        scrapes = list(group)
        node = ids.get(address, address)
        yield from _views(node, address, scrapes, ids)


def _views(node: str, address: str, samples: Iterable[MetricSample], ids: Mapping[str, str]) -> Iterator[NodeViewRow]:
    """Yield a server's own role, master and config epoch."""
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
