"""The comparison of two snapshots as a document: what changed in all, where, and over all snapshots."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from slotscope.reports.document import (
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Format,
    LineChart,
    Place,
    Section,
    Sentence,
    Table,
    Template,
    Tile,
    how_to_read,
)
from slotscope.reports.keyspace.comparison import (
    PARTIAL_COMPARISON,
    ComparisonReport,
    Growth,
    GrowthTable,
    Load,
    status_words,
)
from slotscope.reports.keyspace.slot_map import change_data
from slotscope.reports.keyspace.trend import Trend, heaviest_master, is_by_time, trend_charts
from slotscope.runtime import text

ROWS_ON_TERMINAL = 8
NODE_ID_SHOWN = 8
NODE_ID_LENGTH = 40


def comparison_document(report: ComparisonReport) -> Document:
    """Return *report* as a document."""
    data = change_data(report)
    names = (report.from_snapshot, report.to_snapshot)
    partial = [("error", text.printable(words, 1000)) for words in report.partial_words]
    sections = [
        Section(
            "partial",
            "Partial input",
            [Sentence(f"{PARTIAL_COMPARISON}."), Facts(partial)] if partial else [],
            short="Not read",
        ),
        *_map(report, data),
        *(_growth(table) for table in report.tables),
        _heat(report),
        *_trend(report.trend),
        _reading(),
    ]
    return Document(
        "comparison",
        f"Growth from {report.from_snapshot} to {report.to_snapshot}",
        report.verdict,
        sections,
        names=names,
        about=names,
        of_ms=report.to_taken_at_ms,
        terminal_title=f"growth from {report.from_snapshot} to {report.to_snapshot}",
        page_subtitle=f"{text.moment(report.from_taken_at_ms)} to {text.moment(report.to_taken_at_ms)}",
        alarm=" · partial" if partial else "",
        figures=_figures(report.total),
        tiles=_tiles(report.total),
        page_words="All of it",
        data=data,
        scripts=("slot_map.js", "comparison.js"),
        has_map=data is not None,
    )


def _figures(total: Growth) -> list[str]:
    found = [f"{text.signed_count(total.keys_delta)} keys ({text.ratio(total.keys_ratio)})"]
    if total.memory_delta is not None:
        found.append(f"{text.signed_size(total.memory_delta)} in memory ({text.ratio(total.memory_ratio)})")
    if total.bytes_delta is not None:
        found.append(f"{text.signed_size(total.bytes_delta)} serialized ({text.ratio(total.bytes_ratio)})")
    return found


def _tiles(total: Growth) -> list[Tile]:
    before, after = total.before or Load(0, None), total.after or Load(0, None)
    sizes = [
        (
            "total-memory",
            "Memory, estimated",
            total.memory_delta,
            before.memory_bytes,
            after.memory_bytes,
            total.memory_ratio,
        ),
        (
            "total-bytes",
            "Dump bytes",
            total.bytes_delta,
            before.serialized_bytes,
            after.serialized_bytes,
            total.bytes_ratio,
        ),
    ]
    keys = f"{text.count(before.keys)} → {text.count(after.keys)}, {text.ratio(total.keys_ratio)}"
    return [
        Tile("total-keys", "Keys", total.keys_delta, Format.SIGNED_COUNT, keys),
        *(
            Tile(name, title, delta, Format.SIGNED_SIZE, f"{text.size(old)} → {text.size(new)}, {text.ratio(ratio)}")
            for name, title, delta, old, new, ratio in sizes
            if delta is not None
        ),
    ]


def _map(report: ComparisonReport, data: dict[str, Any] | None) -> list[Section]:
    if data is None:
        return []
    labels = {"memory": "Memory", "bytes": "Bytes", "keys": "Keys"}
    metrics = [(name, label) for name, label in labels.items() if data[name] is not None]
    return [
        Section(
            "map", "Where it changed", [Template("change_map.html", {"metrics": metrics})], short="Map", on=Place.PAGE
        )
    ]


def _growth(table: GrowthTable) -> Section:
    in_memory, kind = table.in_memory, table.kind
    size, weight = ("Memory", "memory_bytes") if in_memory else ("Bytes", "serialized_bytes")
    columns = [
        Column(
            {"masters": "Node", "slots": "Slot", "prefixes": "Prefix"}.get(kind, "Tag"),
            NAMES[kind],
            lambda one: _name(one, kind),
        ),
        Column(
            "Address" if kind == "masters" else "Owner",
            Format.TEXT,
            "detail",
            on=Place.EVERYWHERE if kind == "masters" else Place.PAGE,
        ),
        Column("Keys before", Format.COUNT, lambda one: getattr(one.before, "keys", None), on=Place.PAGE),
        Column("Keys", Format.COUNT, lambda one: getattr(one.after, "keys", None)),
        Column("Change", Format.SIGNED_COUNT, "keys_delta"),
        Column(f"{size} before", Format.SIZE, lambda one: getattr(one.before, weight, None), on=Place.PAGE),
        Column(size, Format.SIZE, lambda one: getattr(one.after, weight, None)),
        Column("Change", Format.SIGNED_SIZE, "memory_delta" if in_memory else "bytes_delta"),
        Column(
            "Ratio",
            Format.RATIO,
            lambda one: (
                one.memory_ratio if in_memory else one.keys_ratio if one.bytes_delta is None else one.bytes_ratio
            ),
        ),
        Column(
            "What",
            Format.TEXT,
            lambda one: Cell(status_words(one, table), style="quiet" if one.status == "same" else ""),
        ),
    ]
    if kind not in ("masters", "slots"):
        columns.pop(1)
    caption = f"{table.title}, largest changes first"
    if table.partial:
        caption += "; each snapshot lists only its heaviest: new in list and left list say no more than that"
    about = "largest changes" if len(table.rows) > ROWS_ON_TERMINAL else ""
    blocks: list[Block] = [Table(f"{kind}-table", caption, columns, table.rows, on_terminal=ROWS_ON_TERMINAL)]
    return Section(kind, table.title, blocks if table.rows else [Sentence("Nothing changed.", Place.PAGE)], about=about)


NAMES = {"masters": Format.TEXT, "slots": Format.SLOT, "prefixes": Format.KEY, "hash_tags": Format.TAG}


def _name(row: Growth, kind: str) -> Any:
    if kind == "masters":
        is_id = bool(row.detail) and len(row.name) == NODE_ID_LENGTH
        return Cell(None, text.shown(row.name[:NODE_ID_SHOWN] if is_id else row.name))
    return int(row.name) if kind == "slots" else row.name


def _heat(report: ComparisonReport) -> Section:
    changes, half = list(report.heat or ()), ROWS_ON_TERMINAL // 2
    ends = changes if len(changes) <= ROWS_ON_TERMINAL else [*changes[:half], *changes[-half:], *changes[half:-half]]
    columns = [
        Column("Prefix", Format.KEY, "name"),
        Column("Before", Format.COUNT, lambda one: Cell(one.before or 0, one.shown_before)),
        Column("After", Format.COUNT, lambda one: Cell(one.after, one.shown_after)),
        Column("What", Format.TEXT, "words"),
    ]
    table = Table(
        "heat-table",
        "Accesses a second by prefix, estimated from LFU counters",
        columns,
        ends,
        on_terminal=ROWS_ON_TERMINAL,
    )
    return Section(
        "heat", "Prefixes that heat up or cool down", [table], about="accesses a second, estimated", short="Heat"
    )


def _trend(trend: Trend | None) -> list[Section]:
    charts = trend_charts(trend) if trend else []
    if trend is None or not charts:
        return []
    across = "by time" if is_by_time(trend) else "in order of snapshots"
    how = (Format.COUNT, Format.SIGNED_COUNT) if trend.resource == "keys" else (Format.SIZE, Format.SIGNED_SIZE)
    totals = [one.total for one in trend.points]
    changes = [None, *(None if old is None or new is None else new - old for old, new in pairwise(totals))]
    changed = {id(one): change for one, change in zip(trend.points, changes, strict=True)}
    columns = [
        Column("Snapshot", Format.TEXT, "snapshot_id"),
        Column(
            "Taken", Format.MOMENT, lambda one: Cell(one.taken_at_ms or 0, text.moment(one.taken_at_ms)), "ascending"
        ),
        Column("Total", how[0], "total"),
        Column("Change", how[1], lambda one: changed[id(one)]),
        Column("Heaviest master", Format.TEXT, lambda one: heaviest_master(trend, one)),
    ]
    table = Table(
        "trend-table", f"The {len(totals)} newest finished snapshots, by {trend.resource}", columns, trend.points
    )
    blocks: list[Block] = [*(LineChart(chart, across, title) for title, chart in charts), table]
    return [Section("trend", "Over all snapshots", blocks, short="Trend", on=Place.PAGE)]


def _reading() -> Section:
    sentences = (
        "Bytes are the size of keys in the dump; memory is an estimate of what they take on the server.",
        "Prefixes and hash tags are compared by the lists of the heaviest that each snapshot keeps.",
    )
    return how_to_read(*sentences)
