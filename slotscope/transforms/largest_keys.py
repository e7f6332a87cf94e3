"""Largest keys, from Arrow tables as in `key_distribution`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.interim import TOP_SLOT, TOP_TYPE
from slotscope.transforms.arrow_sums import changes, constant, ranks, replaced, sorted_by, with_node

_SCOPE = ("scope", "scope_value")
_ORDER = ("source", "place", "name", "database")


def scoped(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Rows of kinds `TOP_TYPE`, `TOP_OWNER` and `TOP_SLOT` whose size is known, once in each scope in which they are ranked."""
    tops = with_node(rows, nodes)
    tops = tops.append_column("weight", pc.coalesce(tops["memory_bytes"], tops["serialized_bytes"]))
    tops = tops.filter(pc.is_valid(tops["weight"]))
    is_type, is_slot = pc.equal(tops["kind"], TOP_TYPE), pc.equal(tops["kind"], TOP_SLOT)
    scopes = {
        "cluster": (is_type, constant("", len(tops), pa.string())),
        "node": (pc.invert(is_slot), tops["node_id"]),
        "slot": (is_slot, pc.cast(tops["slot"], pa.string())),
        "type": (is_type, tops["type"]),
    }
    found = []
    for scope, (holds, value) in scopes.items():
        named = tops.append_column("scope", constant(scope, len(tops), pa.string())).append_column("scope_value", value)
        found.append(named.filter(pc.and_(holds, pc.is_valid(value))))
    return pa.concat_tables(found)


def largest_of(rows: pa.Table, nodes: Mapping[str, str | None] | None, top: int, top_per_slot: int) -> pa.Table:
    """The `largest` of partial rows."""
    return largest(scoped(rows, nodes), top, top_per_slot)


def largest(found: pa.Table, top: int, top_per_slot: int) -> pa.Table:
    """The *top* keys of each scope, *top_per_slot* of a slot, each once, by memory where it is known, else by bytes; of equals, the first in file order."""
    rows = found.drop_columns([name for name in ("rank",) if name in found.column_names])
    rows = rows.append_column("place", pc.fill_null(rows["offset"], -1))
    rows = rows.append_column("database", pc.fill_null(rows["db"], -1))
    names = ((name, "ascending") for name in _ORDER)
    rows = sorted_by(rows, *((name, "ascending") for name in _SCOPE), ("weight", "descending"), *names)
    first = changes(rows, (*_SCOPE, "weight", *_ORDER))
    rows = rows.filter(pa.array(first)).drop_columns(["place", "database"])
    rank = ranks(rows, _SCOPE)
    listed = np.where(np.asarray(pc.equal(rows["scope"], "slot")), top_per_slot, top)
    return rows.append_column("rank", pa.array(rank, pa.int32())).filter(pa.array(rank <= listed))


def big_keys(found: pa.Table) -> pa.Table:
    """Rows of ``gold/big_keys`` from `largest`."""
    return replaced(found, db=pc.fill_null(found["db"], 0)).rename_columns({"name": "key", "name_text": "key_text"})
