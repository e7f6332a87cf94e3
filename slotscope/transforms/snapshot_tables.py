"""Tables of a snapshot from its partial sums: each takes rows of some kinds, reduces each piece, then reduces the results."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial as bind

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cluster_core.kernels.keys.slot_tally import PER_S, UNTOUCHED_S, USES
from cluster_core.load.key_use import TTL_LABELS
from schemas import interim
from schemas.gold import NODE_LOAD
from schemas.interim import BAD, LOG_COMMAND, LOG_KEY, LOG_SLOT, LOG_UNCERTAIN, OWNER, TAG, TOP_SLOT, TOP_TYPE, UNIT
from schemas.table import INTEGER, LONG
from slotscope.transforms.partial_sums import (
    LOADS,
    PartialSums,
    changes,
    constant,
    ranks,
    replaced,
    sorted_by,
    sums,
    with_amounts,
    with_node,
)
from slotscope.transforms.snapshot_warnings import LISTED_MAX, ForeignKeys

_KIND = ("node_id", "type", "number", "text")
_FIGURES = ("keys", "serialized_bytes", "memory_bytes", "expires", "offset")
_SCOPE = ("scope", "scope_value")
_ORDER = ("source", "place", "name", "database")
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
RATE_BOUNDS = "rate_bounds"
"""LFU counters have an upper bound of the rate."""


def keys_by_owner(partial: PartialSums) -> list[ForeignKeys]:
    """Keys of each file by the owner of their slots; of a log that is not replayed, the writes."""
    owned = _owned_keys(partial.of(interim.OWNER, interim.LOG_SLOT, step=_owned_keys, by="source")).to_pylist()
    replayed = {row["source"] for row in owned if row["kind"] == OWNER}
    return [
        ForeignKeys(row["source"], row["owner_id"], row["keys"] if row["kind"] == OWNER else row["ops"])
        for row in owned
        if row["kind"] == OWNER or row["source"] not in replayed
    ]


def _owned_keys(rows: pa.Table) -> pa.Table:
    return sums(rows, ("kind", "source", "owner_id"), ("keys", "ops"))


@dataclass(frozen=True, slots=True)
class SnapshotTables:
    """Makes the tables of *partial*.

    *nodes* maps each source to its node (None without topology), *known* names the loads and key-use counters that some input has.
    Listed are *top* keys, *top_per_slot* of a slot, and so many *groups*.
    """

    partial: PartialSums
    nodes: Mapping[str, str | None] | None
    known: frozenset[str]
    top: int
    top_per_slot: int
    groups: int

    def slot_load(self, owners: Sequence[str | None]) -> pa.Table:
        """Return the load of every slot on its owner and on nodes with its keys."""
        held = self.partial.of(interim.SLOT, interim.LOG_SLOT, step=bind(held_slots, nodes=self.nodes), by="slot")
        return slot_load(held, owners, self.known)

    def big_keys(self) -> pa.Table:
        """The largest keys of the cluster and of each node, slot and type."""
        nodes, top, top_per_slot = self.nodes, self.top, self.top_per_slot
        kinds = (interim.TOP_TYPE, interim.TOP_OWNER, interim.TOP_SLOT)
        largest = self.partial.of(*kinds, step=lambda rows: _largest(scoped(rows, nodes), top, top_per_slot), by="slot")
        largest = _largest(largest, top, top_per_slot)
        return replaced(largest, db=pc.fill_null(largest["db"], 0)).rename_columns(
            {"name": "key", "name_text": "key_text"}
        )

    def hash_tags(self) -> pa.Table:
        """The heaviest tags by keys, and by memory or bytes."""
        top = self._heaviest(interim.TAG, heaviest_tags)
        return top.rename_columns({"name": "hash_tag", "name_text": "hash_tag_text", "owner_id": "node_id"})

    def prefixes(self) -> pa.Table:
        """The heaviest prefixes of each depth, for `key_prefixes` and `key_use`."""
        return self._heaviest(interim.PREFIX, heaviest_prefixes)

    def _heaviest(self, kind: int, heaviest: Callable[[pa.Table, int], pa.Table]) -> pa.Table:
        """The *heaviest* groups of *kind*, reduced per piece, then over all pieces."""
        missed, known, count = missed_of(self.partial.units, kind), self.known, self.groups
        tallies = self.partial.of(kind, step=lambda rows: heaviest(groups(rows, missed, known), count), by="name")
        return heaviest(tallies, count)

    def key_use(self, prefixes: pa.Table) -> pa.Table:
        """How keys are used, of the cluster, each node, each slot and the heaviest *prefixes*."""
        slots = self.partial.of(interim.SLOT, step=bind(slot_uses, nodes=self.nodes), by="slot")
        return key_use(slots, prefixes, self.known)

    def key_types(self) -> pa.Table:
        """Keys and loads per node and type."""
        return self._by_kind(interim.TYPE, ("node_id", "type"), _FIGURES[:-1])

    def key_sizes(self) -> pa.Table:
        """Keys per node, type and range of sizes or elements."""
        ranges = self._by_kind(interim.RANGE, _KIND, ("keys", "offset"))
        ranges = ranges.rename_columns({"text": "measure", "offset": "total"})
        digits = np.asarray(ranges["number"], np.int64)
        least = pa.array(np.where(digits == 0, 0, np.left_shift(1, np.maximum(digits - 1, 0))))
        return ranges.append_column("at_least", least).drop_columns(["number"])

    def ttl_buckets(self) -> pa.Table:
        """Keys and bytes per node and remaining time to live."""
        buckets = self._by_kind(interim.TTL, ("node_id", "number"), ("keys", "serialized_bytes"))
        buckets = buckets.rename_columns({"number": "bucket"})
        return buckets.append_column("label", pc.take(pa.array(TTL_LABELS, pa.string()), buckets["bucket"]))

    def _by_kind(self, kind: int, by: Sequence[str], figures: Sequence[str]) -> pa.Table:
        nodes = self.nodes
        summed = self.partial.of(kind, step=lambda rows: sums(with_node(rows, nodes), _KIND, _FIGURES), by="number")
        return sums(summed, by, figures)


def key_prefixes(top: pa.Table) -> pa.Table:
    """Rows of ``gold/key_prefixes`` from `SnapshotTables.prefixes`."""
    return top.rename_columns({"name": "prefix", "name_text": "prefix_text"})


def held_slots(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Loads of rows of kinds `SLOT` and `LOG_SLOT` by slot and node, where there are keys or writes."""
    sizes = pc.if_else(pc.equal(rows["kind"], LOG_SLOT), pa.scalar(None, LONG), rows["serialized_bytes"])
    rows = replaced(rows, keys=pc.fill_null(rows["keys"], 0), serialized_bytes=sizes)
    held = pc.or_(pc.greater(rows["keys"], 0), pc.greater(pc.fill_null(rows["ops"], 0), 0))
    return _by_slot(with_node(rows, nodes).filter(held))


def _by_slot(rows: pa.Table) -> pa.Table:
    return sums(rows, ("slot", "node_id", "owner_id"), LOADS)


def slot_load(held: pa.Table, owners: Sequence[str | None], known: Iterable[str]) -> pa.Table:
    """Return the load of every slot on its owner and on nodes with its keys (`held_slots`); a slot without keys has a row of its owner.

    *owners* says who owns each slot, None for nobody.  A load in *known* (of serialized_bytes, memory_bytes, expires, ops) is 0 for a slot without
    keys, another one null.
    """
    count, ids = len(owners), pa.array(owners, pa.string())
    owned = pa.table({"slot": pa.array(range(count), INTEGER), "node_id": ids, "owner_id": ids})
    for name in LOADS:
        owned = owned.append_column(name, constant(0 if name == "keys" else None, count, LONG))
    loads = _by_slot(pa.concat_tables([held.select(owned.column_names), owned]))
    slots = np.asarray(loads["slot"])
    is_listed_twice = pa.array(np.bincount(slots, minlength=1)[slots] > 1)
    without_keys = pc.equal(loads["keys"], 0)
    is_idle = pc.and_(without_keys, pc.equal(pc.fill_null(loads["ops"], 0), 0))
    redundant = pc.and_(pc.and_(pc.is_null(loads["node_id"]), is_idle), is_listed_twice)
    names = set(LOADS) & set(known)
    filled = {name: pc.if_else(without_keys, pc.fill_null(loads[name], 0), loads[name]) for name in names}
    return replaced(loads, **filled).filter(pc.invert(redundant))


def node_load(slots: pa.Table, addresses: Mapping[str, str], unread: Mapping[str, float | None]) -> pa.Table:
    """Sums of `slot_load` per master; *addresses* are those of all masters by node id, and none without topology.

    *unread* is the share of a node's inputs that could not be read, None if unknown; fully read nodes are not in it.
    """
    owns = pc.or_(
        pc.fill_null(pc.equal(slots["owner_id"], slots["node_id"]), False),
        pc.and_(pc.is_null(slots["owner_id"]), pc.is_null(slots["node_id"])),
    )
    loads = sums(slots.append_column("slots", pc.cast(owns, LONG)), ("node_id",), ("slots", *LOADS)).to_pylist()
    idle = {"slots": 0, **dict.fromkeys(LOADS), "keys": 0}
    held = {row["node_id"] for row in loads}
    rows = [*loads, *({"node_id": node, **idle} for node in addresses if node not in held)]
    masters = max(sum(row["node_id"] is not None for row in rows), 1)
    keys, sizes = (_shares([row[load] for row in rows]) for load in ("keys", "serialized_bytes"))
    for row, of_keys, of_bytes in zip(rows, keys, sizes, strict=True):
        row |= {"address": addresses.get(row["node_id"]), "unread_share": unread.get(row["node_id"], 0.0)}
        row |= {"keys_share": of_keys or 0.0, "keys_over_mean": (of_keys or 0.0) * masters}
        row |= {"bytes_share": of_bytes, "bytes_over_mean": None if of_bytes is None else of_bytes * masters}
    columns = [field for field in NODE_LOAD.unlabelled if field.name != "partial"]
    return pa.Table.from_pylist(rows, pa.schema(columns))


def _shares(loads: list[int | None]) -> list[float | None]:
    """Return each load as a share of all; None where none is known."""
    known = [load for load in loads if load is not None]
    total = sum(known)
    return [((load or 0) / total if total else 0.0) if known else None for load in loads]


def first_bad(rows: pa.Table) -> pa.Table:
    """The first rows of kind `BAD`; the first one has their number."""
    head = rows.slice(0, LISTED_MAX).select(["source", "offset", "text"])
    return head.append_column("count", pa.array([len(rows), *[0] * (LISTED_MAX - 1)][: len(head)], LONG))


def bad_records(rows: DataFrame, job: str) -> DataFrame:
    """Return the unreadable records of *job* as rows of ``bronze/bad_records``."""
    return rows.where(F.col("kind") == BAD).select(
        F.lit(job).alias("job"),
        "source",
        "offset",
        F.col("text").alias("reason"),
        F.col("serialized_bytes").alias("skipped_bytes"),
    )


def scoped(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Rows of kinds `TOP_TYPE`, `TOP_OWNER` and `TOP_SLOT` with a known size, once per scope."""
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
    parts = []
    for scope, (holds, value) in scopes.items():
        named = tops.append_column("scope", constant(scope, len(tops), pa.string())).append_column("scope_value", value)
        parts.append(named.filter(pc.and_(holds, pc.is_valid(value))))
    return pa.concat_tables(parts)


def _largest(candidates: pa.Table, top: int, top_per_slot: int) -> pa.Table:
    """The *top* keys of each scope, *top_per_slot* of a slot, each once, by memory where it is known, else by bytes; of equals, the first in file order."""
    rows = candidates.drop_columns([name for name in ("rank",) if name in candidates.column_names])
    rows = rows.append_column("place", pc.fill_null(rows["offset"], -1))
    rows = rows.append_column("database", pc.fill_null(rows["db"], -1))
    names = ((name, "ascending") for name in _ORDER)
    rows = sorted_by(rows, *((name, "ascending") for name in _SCOPE), ("weight", "descending"), *names)
    first = changes(rows, (*_SCOPE, "weight", *_ORDER))
    rows = rows.filter(pa.array(first)).drop_columns(["place", "database"])
    rank = ranks(rows, _SCOPE)
    listed = np.where(np.asarray(pc.equal(rows["scope"], "slot")), top_per_slot, top)
    return rows.append_column("rank", pa.array(rank, pa.int32())).filter(pa.array(rank <= listed))


def missed_of(facts: pa.Table, kind: int) -> pa.Table:
    """Upper bounds of the undercount per task for groups of *kind*, from rows of kind `UNIT`: ``part, keys, bytes, memory``."""
    noun = "tag" if kind == TAG else "prefix"
    bounds = {
        figure: pc.fill_null(pc.struct_field(facts["facts"], f"missed_{noun}_{figure}"), 0)
        for figure in _ERRORS.values()
    }
    return pa.table({"part": _parts(facts), **bounds})


def _parts(rows: pa.Table) -> pa.ChunkedArray:
    """A name for the unit of each row, of its source and its number."""
    return pc.binary_join_element_wise(pc.cast(rows["part"], pa.string()), rows["source"], "/")


def groups(rows: pa.Table, missed: pa.Table, known: Container[str]) -> pa.Table:
    """Groups added up over all units; a unit that does not list a group may have missed up to its own bound of it (`missed_of`).

    Of the loads only those in *known* are not null.
    """
    listed = pc.index_in(_parts(rows), value_set=missed["part"].combine_chunks())
    for error, figure in _ERRORS.items():
        own = pc.fill_null(missed[figure].take(listed), 0)
        rows = replaced(rows, **{error: pc.subtract(rows[error], own)})
    figures = ("keys", *_SIZES, "expires", *_ERRORS, *USES)
    summed = sums(with_amounts(rows), ("name", "name_text", "slot", "owner_id", "number"), figures)
    summed = summed.rename_columns({"number": "depth"})
    bounds = {error: pc.add(summed[error], pc.sum(missed[figure]).as_py() or 0) for error, figure in _ERRORS.items()}
    nothing = constant(None, len(summed), pa.int64())
    return replaced(summed, **bounds, **{name: nothing for name in _SIZES if name not in known})


def heaviest_tags(tags: pa.Table, count: int) -> pa.Table:
    """The *count* heaviest of all `groups` by keys and the *count* heaviest by memory, or bytes, with their ranks."""
    by_keys = np.asarray(pc.sort_indices(tags, sort_keys=list(_BY_KEYS)))[:count]
    by_bytes = np.asarray(pc.sort_indices(tags, sort_keys=list(_BY_BYTES)))[:count]
    top = tags.take(pa.array(np.unique(np.concatenate([by_keys, by_bytes]))))
    for name, order in (("rank_keys", _BY_KEYS), ("rank_bytes", _BY_BYTES)):
        top = sorted_by(top.drop_columns([name]) if name in top.column_names else top, *order)
        top = top.append_column(name, pa.array(range(1, len(top) + 1), pa.int32()))
    return top


def heaviest_prefixes(prefixes: pa.Table, count: int) -> pa.Table:
    """The *count* heaviest `groups` of each depth; a prefix of one key only is no roll-up and is left out, but at the top."""
    several = prefixes.filter(pc.or_(pc.greater(prefixes["keys"], 1), pc.equal(prefixes["depth"], 1)))
    several = several.drop_columns([name for name in ("rank_bytes",) if name in several.column_names])
    ranked = sorted_by(several, ("depth", "ascending"), *_BY_BYTES)
    ranked = ranked.append_column("rank_bytes", pa.array(ranks(ranked, ("depth",)), pa.int32()))
    return ranked.filter(pc.less_equal(ranked["rank_bytes"], count))


def slot_uses(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Loads and amounts of rows of kind `SLOT` by slot and node."""
    return sums(with_amounts(with_node(rows, nodes)), ("slot", "node_id"), _IN_SLOTS)


def key_use(slots: pa.Table, prefixes: pa.Table, known: Container[str]) -> pa.Table:
    """Return access and expiry of keys: of the cluster, each node, each slot (`slot_uses`) and the heaviest *prefixes*.

    *known* names the known columns (``idle``, ``counters``, `RATE_BOUNDS`, loads); others are null.
    """
    everything = constant("", len(slots), pa.string())
    scopes = [("cluster", everything), ("node", slots["node_id"])]
    if "idle" in known or "counters" in known:
        scopes.append(("slot", pc.cast(slots["slot"], pa.string())))
    parts = []
    for scope, values in scopes:
        by_value = sums(slots.append_column("value", values), ("value",), _IN_SLOTS)
        is_there = pc.greater(by_value["keys"], 0 if scope == "cluster" else -1)  # a cluster without keys has no row
        named = by_value.filter(pc.and_(pc.is_valid(by_value["value"]), is_there))
        parts.append(_uses(scope, pc.cast(named["value"], pa.binary()), named["value"], named, known))
    parts.append(_uses("prefix", prefixes["name"], prefixes["name_text"], prefixes, known))
    return pa.concat_tables(parts)


def _uses(scope: str, value: pa.Array, value_text: pa.Array, rows: pa.Table, known: Container[str]) -> pa.Table:
    """The columns of ``gold/key_use``."""
    sizes = rows["serialized_bytes"]
    columns = {
        **dict.fromkeys(USES[: len(UNTOUCHED_S)], "idle"),
        **dict.fromkeys(USES[len(UNTOUCHED_S) : -2], "expires"),
        USES[-2]: "counters",
        USES[-1]: RATE_BOUNDS,
    }
    unknown = constant(None, len(rows), pa.int64())
    amounts = {name: rows[name] if columns[name] in known else unknown for name in USES}
    per_s = [pc.divide(pc.cast(amounts.pop(name), pa.float64()), float(PER_S)) for name in USES[-2:]]
    return pa.table(
        {
            "scope": constant(scope, len(rows), pa.string()), "scope_value": value, "scope_value_text": value_text, "keys": rows["keys"],
            "weight_bytes": pc.coalesce(rows["memory_bytes"], sizes) if "memory_bytes" in known else sizes,
            "expires": pc.fill_null(rows["expires"], 0) if "expires" in known else unknown,
            **amounts, "ops_per_s": per_s[0], "ops_per_s_error": per_s[1],
        }
    )  # fmt: skip


LOG_KINDS = (LOG_SLOT, LOG_COMMAND, LOG_KEY, LOG_UNCERTAIN, UNIT)
"""The kinds of partial rows that the tables of append-only logs are made of, DataFrame to DataFrame."""


def _begin() -> Column:
    return F.timestamp_seconds(F.col("offset"))


def write_load(partial: DataFrame) -> DataFrame:
    """Writes per slot, node and hour."""
    writes = partial.where(F.col("kind") == LOG_SLOT)
    return writes.groupBy("slot", "node_id", _begin().alias("hour")).agg(
        F.sum("ops").alias("ops"), F.sum("serialized_bytes").alias("log_bytes")
    )


def command_load(partial: DataFrame) -> DataFrame:
    """Commands by name, node and minute."""
    return (
        partial.where(F.col("kind") == LOG_COMMAND)
        .groupBy("node_id", F.col("text").alias("command"), _begin().alias("minute"))
        .agg(
            F.sum("ops").alias("commands"),
            F.sum("serialized_bytes").alias("log_bytes"),
            (F.max("number") > 0).alias("known"),
        )
    )


def write_keys(partial: DataFrame, *, count: int) -> DataFrame:
    """The *count* keys with most writes and the *count* with most bytes; a unit that does not list one may have missed it."""
    facts = ("missed_log_keys", "missed_log_bytes")
    missed = partial.where((F.col("kind") == UNIT) & (F.col("text") == "aof")).select(
        "source", "part", *(F.coalesce(F.col("facts")[fact], F.lit(0)).alias(fact) for fact in facts)
    )
    total = missed.agg(*(F.sum(fact).alias(f"all_{fact}") for fact in facts))
    rows = partial.where(F.col("kind") == LOG_KEY)
    keys = (
        rows.join(F.broadcast(missed), ["source", "part"], how="left")
        .groupBy(F.col("name").alias("key"))
        .agg(
            F.first("name_text").alias("key_text"),
            F.first("slot").alias("slot"),
            F.first("node_id").alias("node_id"),
            F.sum("ops").alias("ops"),
            F.sum("serialized_bytes").alias("log_bytes"),
            (F.sum("keys_error") - F.sum("missed_log_keys")).alias("ops_error"),
            (F.sum("bytes_error") - F.sum("missed_log_bytes")).alias("bytes_error"),
        )
        .crossJoin(F.broadcast(total))
        .withColumn("ops_error", F.col("ops_error") + F.col("all_missed_log_keys"))
        .withColumn("bytes_error", F.col("bytes_error") + F.col("all_missed_log_bytes"))
    )
    everything = Window.partitionBy()
    ranked = keys.withColumns(
        {
            "rank_ops": F.row_number().over(everything.orderBy(F.col("ops").desc(), F.col("log_bytes").desc(), "key")),
            "rank_bytes": F.row_number().over(
                everything.orderBy(F.col("log_bytes").desc(), F.col("ops").desc(), "key")
            ),
        }
    )
    return ranked.where((F.col("rank_ops") <= count) | (F.col("rank_bytes") <= count))


def uncertain_keys(partial: DataFrame) -> DataFrame:
    """Keys that commands with unknown effect touched."""
    return partial.where(F.col("kind") == LOG_UNCERTAIN).select(
        "source",
        "db",
        F.col("name").alias("key"),
        F.col("name_text").alias("key_text"),
        "slot",
        F.col("text").alias("command"),
    )
