"""Hash tags, prefixes and access, from Arrow tables as in `key_distribution`."""

from __future__ import annotations

from collections.abc import Container, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster_core.kernels.keys.slot_tally import PER_S, UNTOUCHED_S, USES
from schemas.interim import TAG
from slotscope.transforms.arrow_sums import constant, ranks, replaced, sorted_by, sums, with_amounts, with_node

_ERRORS = {"keys_error": "keys", "bytes_error": "bytes", "memory_error": "memory"}
_SIZES = ("serialized_bytes", "memory_bytes")
_BY_BYTES = (
    ("memory_bytes", "descending"),
    ("serialized_bytes", "descending"),
    ("keys", "descending"),
    ("name", "ascending"),
)
_BY_KEYS = (("keys", "descending"), *_BY_BYTES[:2], ("name", "ascending"))
_IN_SLOTS = ("keys", *_SIZES, "expires", *USES)


def missed_of(told: pa.Table, kind: int) -> pa.Table:
    """What each task may have missed of a group of *kind*, by the rows *told* of kind `UNIT`: ``part, keys, bytes, memory``."""
    noun = "tag" if kind == TAG else "prefix"
    bounds = {
        what: pc.fill_null(pc.struct_field(told["facts"], f"missed_{noun}_{what}"), 0) for what in _ERRORS.values()
    }
    return pa.table({"part": _parts(told), **bounds})


def _parts(rows: pa.Table) -> pa.ChunkedArray:
    """A name for the unit of each row, of its source and its number."""
    return pc.binary_join_element_wise(pc.cast(rows["part"], pa.string()), rows["source"], "/")


def groups(rows: pa.Table, missed: pa.Table, known: Container[str]) -> pa.Table:
    """Groups added up over all units; a unit that does not list a group may have missed up to its own bound of it (`missed_of`).

    Of the loads only those in *known* are not null.
    """
    listed = pc.index_in(_parts(rows), value_set=missed["part"].combine_chunks())
    for error, what in _ERRORS.items():
        own = pc.fill_null(missed[what].take(listed), 0)
        rows = replaced(rows, **{error: pc.subtract(rows[error], own)})
    figures = ("keys", *_SIZES, "expires", *_ERRORS, *USES)
    found = sums(with_amounts(rows), ("name", "name_text", "slot", "owner_id", "number"), figures)
    found = found.rename_columns({"number": "depth"})
    bounds = {error: pc.add(found[error], pc.sum(missed[what]).as_py() or 0) for error, what in _ERRORS.items()}
    nothing = constant(None, len(found), pa.int64())
    return replaced(found, **bounds, **{name: nothing for name in _SIZES if name not in known})


def heaviest_tags(found: pa.Table, count: int) -> pa.Table:
    """The *count* heaviest of all `groups` by keys and the *count* heaviest by memory, or bytes, with their ranks."""
    by_keys = np.asarray(pc.sort_indices(found, sort_keys=list(_BY_KEYS)))[:count]
    by_bytes = np.asarray(pc.sort_indices(found, sort_keys=list(_BY_BYTES)))[:count]
    top = found.take(pa.array(np.unique(np.concatenate([by_keys, by_bytes]))))
    for name, order in (("rank_keys", _BY_KEYS), ("rank_bytes", _BY_BYTES)):
        top = sorted_by(top.drop_columns([name]) if name in top.column_names else top, *order)
        top = top.append_column(name, pa.array(range(1, len(top) + 1), pa.int32()))
    return top


def heaviest_prefixes(found: pa.Table, count: int) -> pa.Table:
    """The *count* heaviest `groups` of each depth; a prefix of one key only is no roll-up and is left out, but at the top."""
    several = found.filter(pc.or_(pc.greater(found["keys"], 1), pc.equal(found["depth"], 1)))
    several = several.drop_columns([name for name in ("rank_bytes",) if name in several.column_names])
    ranked = sorted_by(several, ("depth", "ascending"), *_BY_BYTES)
    ranked = ranked.append_column("rank_bytes", pa.array(ranks(ranked, ("depth",)), pa.int32()))
    return ranked.filter(pc.less_equal(ranked["rank_bytes"], count))


RATE_BOUNDS = "rate_bounds"
"""That counters tell how much more often than said keys may be used."""


def slot_uses(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Loads and amounts of rows of kind `SLOT` by slot and node."""
    return sums(with_amounts(with_node(rows, nodes)), ("slot", "node_id"), _IN_SLOTS)


def key_use(slots: pa.Table, prefixes: pa.Table, known: Container[str]) -> pa.Table:
    """How keys are used and how long they stay: of the cluster, each node, each slot (`slot_uses`) and the heaviest *prefixes*.

    *known* are ``idle``, ``counters``, `RATE_BOUNDS` and the loads that are; what is not known is null.
    """
    everything = constant("", len(slots), pa.string())
    scopes = [("cluster", everything), ("node", slots["node_id"])]
    if "idle" in known or "counters" in known:
        scopes.append(("slot", pc.cast(slots["slot"], pa.string())))
    found = []
    for scope, values in scopes:
        by_value = sums(slots.append_column("value", values), ("value",), _IN_SLOTS)
        named = by_value.filter(pc.and_(pc.is_valid(by_value["value"]), _counts(scope, by_value)))
        found.append(_uses(scope, pc.cast(named["value"], pa.binary()), named["value"], named, known))
    found.append(_uses("prefix", prefixes["name"], prefixes["name_text"], prefixes, known))
    return pa.concat_tables(found)


def _counts(scope: str, rows: pa.Table) -> pa.ChunkedArray:
    """A cluster without keys has no row."""
    return pc.greater(rows["keys"], 0 if scope == "cluster" else -1)


def _uses(scope: str, value: pa.Array, words: pa.Array, rows: pa.Table, known: Container[str]) -> pa.Table:
    """The columns of ``gold/key_use``."""
    sizes = rows["serialized_bytes"]
    said = {
        **dict.fromkeys(USES[: len(UNTOUCHED_S)], "idle"),
        **dict.fromkeys(USES[len(UNTOUCHED_S) : -2], "expires"),
        USES[-2]: "counters",
        USES[-1]: RATE_BOUNDS,
    }
    unknown = constant(None, len(rows), pa.int64())
    amounts = {name: rows[name] if said[name] in known else unknown for name in USES}
    per_s = [pc.divide(pc.cast(amounts.pop(name), pa.float64()), float(PER_S)) for name in USES[-2:]]
    return pa.table(
        {
            "scope": constant(scope, len(rows), pa.string()), "scope_value": value, "scope_value_text": words, "keys": rows["keys"],
            "weight_bytes": pc.coalesce(rows["memory_bytes"], sizes) if "memory_bytes" in known else sizes,
            "expires": pc.fill_null(rows["expires"], 0) if "expires" in known else unknown,
            **amounts, "ops_per_s": per_s[0], "ops_per_s_error": per_s[1],
        }
    )  # fmt: skip
