"""Keys by type, size, elements and time to live, from Arrow tables as in `key_distribution`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_core.load.key_use import TTL_LABELS
from slotscope.transforms.arrow_sums import sums, with_node

_KIND = ("node_id", "type", "number", "text")
_FIGURES = ("keys", "serialized_bytes", "memory_bytes", "expires", "offset")


def by_kind(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Sums of rows of kind `TYPE`, `RANGE` or `TTL` by node and kind."""
    return sums(with_node(rows, nodes), _KIND, _FIGURES)


def key_types(found: pa.Table) -> pa.Table:
    """Keys and loads per node and type, from `by_kind`."""
    return sums(found, ("node_id", "type"), _FIGURES[:-1])


def key_sizes(found: pa.Table) -> pa.Table:
    """Keys per node, type and range of sizes or elements, from `by_kind`."""
    ranges = sums(found, _KIND, ("keys", "offset")).rename_columns({"text": "measure", "offset": "total"})
    digits = np.asarray(ranges["number"], np.int64)
    least = pa.array(np.where(digits == 0, 0, np.left_shift(1, np.maximum(digits - 1, 0))))
    return ranges.append_column("at_least", least).drop_columns(["number"])


def ttl_buckets(found: pa.Table) -> pa.Table:
    """Keys and bytes per node and remaining time to live, from `by_kind`."""
    buckets = sums(found, ("node_id", "number"), ("keys", "serialized_bytes")).rename_columns({"number": "bucket"})
    return buckets.append_column("label", pc.take(pa.array(TTL_LABELS, pa.string()), buckets["bucket"]))
