"""Sums of rows of Arrow tables, and the owners of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cluster_core.kernels.keys.slot_tally import USES

LOADS = ("keys", "serialized_bytes", "memory_bytes", "expires", "ops")


def with_node(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Add ``node_id``: whose the file is (*nodes* by source), or who owns the slot where the file is nobody's; null without *nodes*."""
    node = pa.nulls(len(rows), pa.string())
    if nodes is not None:
        whose = pa.array([*nodes.values(), None], pa.string())
        places = pc.index_in(rows["source"], value_set=pa.array(list(nodes), pa.string()))
        node = pc.coalesce(pc.take(whose, pc.fill_null(places, len(nodes))), rows["owner_id"])
    return rows.append_column("node_id", node)


def sums(rows: pa.Table, by: Sequence[str], figures: Sequence[str]) -> pa.Table:
    """The sums of *figures* of rows that have the same *by*: null where all are."""
    found = rows.group_by(list(by)).aggregate([(name, "sum") for name in figures])
    return found.rename_columns([name.removesuffix("_sum") if name not in by else name for name in found.column_names])


def replaced(rows: pa.Table, **columns: pa.Array) -> pa.Table:
    """*rows* with other values in these of their *columns*."""
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows


def with_amounts(rows: pa.Table) -> pa.Table:
    """The lists of amounts as columns (`USES`)."""
    lists = pc.if_else(pc.equal(pc.list_value_length(rows["amounts"]), len(USES)), rows["amounts"], None)
    for at, name in enumerate(USES):
        rows = rows.append_column(name, pc.fill_null(pc.list_element(lists, at), 0))
    return rows.drop_columns(["amounts"])


def constant(value: object, count: int, kind: pa.DataType) -> pa.Array:
    """A column of one *value*."""
    return pa.repeat(pa.scalar(value, kind), count)


def codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each value, equal for equal ones; -1 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), np.int64)


def ranks(rows: pa.Table, scope: Sequence[str]) -> NDArray[np.int64]:
    """The place of each of the sorted *rows* among those with the same *scope*, from 1."""
    if not len(rows):
        return np.zeros(0, np.int64)
    begins = changes(rows, scope)
    return np.arange(1, len(rows) + 1) - np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))


def changes(rows: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Whether a row differs in *columns* from the one before it; the first does."""
    differs = np.zeros(len(rows), bool)
    differs[:1] = True
    for name in columns:
        told = codes(rows[name])
        differs[1:] |= told[1:] != told[:-1]
    return differs


def sorted_by(rows: pa.Table, *columns: tuple[str, str]) -> pa.Table:
    """*rows* by *columns* (name, ascending or descending); null comes last."""
    return rows.take(pc.sort_indices(rows, sort_keys=list(columns)))
