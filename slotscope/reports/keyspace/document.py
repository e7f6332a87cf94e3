"""The report on a snapshot as a document: masters, the slot map, heavy slots and their causes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from itertools import groupby
from typing import Any, NamedTuple

from cluster_core.slots.key_slot import SLOT_COUNT
from slotscope.reports.document import (
    Bar,
    Block,
    Cell,
    Column,
    Commands,
    Document,
    Facts,
    Format,
    Place,
    Section,
    Sentence,
    Table,
    Template,
    Tile,
    estimated,
    how_to_read,
    share_columns,
)
from slotscope.reports.index import SNAPSHOT
from slotscope.reports.keyspace.parts import log_sections, savings_sections, use_sections
from slotscope.reports.keyspace.report import (
    Cause,
    KeyspaceReport,
    Weight,
    folded_prefixes,
    heavy_slots,
    max_over_mean,
    names_by_id,
    node_names,
    owners_of,
    totals,
    verdict,
    weighed_by,
)
from slotscope.reports.records import Row
from slotscope.runtime import text
from slotscope.runtime.program import program_name, shell_word

NODES_ON_TERMINAL = 12
GROUPS_ON_TERMINAL = 6
PREFIXES_ON_TERMINAL = 12
HEAVY_ON_PAGE = 60
ROWS_ON_PAGE = 100
SOURCES_ON_PAGE = 2_000
KEY_LENGTH_MAX = 24
"""Characters of the name of the largest key of a slot."""
TAG_LENGTH_MAX = 40
SHARE_MIN = 0.002
"""A prefix of a smaller share of the whole is not drawn."""
LABEL_LENGTH_MAX = 40
SCRIPTS = ("slot_map.js", "keyspace.js")
KEYS = Column("Keys", Format.COUNT, lambda load: _figure(load, "keys", text.count), id="keys")
EXPIRING = Column("Expiring", Format.COUNT, "expires", on=Place.PAGE)
NOT_READ = Column("Not read", Format.TEXT, lambda load: Cell(text.unread(load.unread_share), style="alarm"))


def to_document(report: KeyspaceReport) -> Document:
    """Return *report* as a document."""
    sections = [
        _masters(report),
        *_next(report, Place.PAGE),
        _icicle(report),
        _map(report),
        _heavy(report),
        _big_keys(report),
        _hash_tags(report),
        _prefixes(report),
        _sizes(report),
        _time_to_live(report),
        *use_sections(report.use, names_by_id(report)),
        *savings_sections(report.savings),
        *log_sections(report.log),
        *_next(report, Place.TERMINAL),
        _sources(report),
        _reading(report),
    ]
    data = slot_data(report)
    owner_runs = [(owner, sum(1 for _ in run)) for owner, run in groupby(data["owner"])]  # most own whole ranges
    return Document(
        SNAPSHOT,
        f"Snapshot {report.snapshot_id}",
        verdict(report),
        sections,
        names=(report.snapshot_id,),
        about=(report.snapshot_id,),
        of_ms=report.taken_at_ms,
        terminal_title=f"snapshot {report.snapshot_id}",
        subtitle="" if report.taken_at_ms is None else f" · taken {text.moment(report.taken_at_ms)}",
        alarm=" · partial" if report.is_partial else "",
        figures=_figures(report),
        tiles=_tiles(report),
        warnings=report.warnings,
        bad_records=report.bad_records,
        page_label="All of it, with a map of the slots",
        data=data | {"owner": owner_runs},
        scripts=SCRIPTS,
        has_map=True,
    )


def _figures(report: KeyspaceReport) -> list[str]:
    whole = totals(report)
    caveat = report.memory.caveat if report.memory else "by a model that was not recorded"
    memory = f"{text.size(whole.memory_bytes)} in memory" + (f" ({caveat})" if caveat else "")
    return [
        text.plural(whole.keys, "key"),
        f"{text.size(whole.serialized_bytes)} serialized" if whole.serialized_bytes is not None else "sizes unknown",
        *([memory] if whole.memory_bytes is not None else []),
        f"{text.percent(whole.expires, whole.keys)} of keys expire",
        f"{text.count(whole.used_slots)} of {text.count(SLOT_COUNT)} slots used",
    ]


def _tiles(report: KeyspaceReport) -> list[Tile]:
    whole, by = totals(report), weighed_by(report)
    owners = owners_of(report)
    skew = max_over_mean([by.of(node) for node in owners])
    heaviest = heavy_slots(report, 1)
    caveat = report.memory.caveat if report.memory else ""
    memory = [Tile("total-memory", "Memory, estimated", whole.memory_bytes, Format.SIZE, caveat or "")]
    return [
        Tile("total-keys", "Keys", whole.keys),
        *(memory if whole.memory_bytes is not None else []),
        Tile("total-bytes", "Dump bytes", whole.serialized_bytes, Format.SIZE),
        Tile("total-masters", "Masters", len(owners), note=f"fullest: {text.ratio(skew)} the mean" if skew else ""),
        Tile(
            "total-used", "Slots with keys", whole.used_slots,
            note=f"heaviest: {text.share(heaviest[0].share)} of {by.noun}" if heaviest else "",
        ),
        Tile(
            "total-expires", "Keys that expire", whole.expires, note=text.plural(whole.expires, "key"),
            text=text.percent(whole.expires, whole.keys),
        ),
        Tile("total-owned", "Slots with an owner", whole.owned_slots, note=f"of {text.count(SLOT_COUNT)}"),
    ]  # fmt: skip


def _figure(load: Any, name: str, format_number: Callable[[int], str]) -> Cell:
    """A figure of *load*, with the bound of its error where it is an estimate."""
    error = getattr(load, {"serialized_bytes": "bytes_error"}.get(name, name.replace("_bytes", "") + "_error"), 0)
    return estimated(getattr(load, name), error, format_number)


def _loads(report: KeyspaceReport, of: Callable[[Any], Any] = lambda row: row, order: str = "none") -> list[Column]:
    """Keys and sizes of the load *of* a row; rows come in *order* of the weight, the only size that a terminal shows."""
    by = weighed_by(report)

    def size(heading: str, weight: Weight) -> Column:
        is_main = by is weight or (by is Weight.KEYS and weight is Weight.BYTES)
        place = Place.EVERYWHERE if is_main else Place.PAGE
        return Column(
            heading,
            Format.SIZE,
            lambda row: _figure(of(row), weight.value, text.size),
            order if by is weight else "none",
            place,
            weight.noun,
        )

    keys = KEYS._replace(of=lambda row: _figure(of(row), "keys", text.count))
    keys = keys._replace(order=order if by is Weight.KEYS else "none")
    return [keys, size("Bytes", Weight.BYTES), size("Memory", Weight.MEMORY)]


def _masters(report: KeyspaceReport) -> Section:
    by, names = weighed_by(report), dict(zip(map(id, report.nodes), node_names(report.nodes), strict=True))
    nodes = sorted(report.nodes, key=lambda node: -by.of(node))
    weights = [by.of(node) for node in nodes]
    owners = owners_of(report)
    whole, peak = sum(weights), max(weights, default=0)
    mean = whole / len(owners) / peak if peak else None
    columns = [
        Column("Node", Format.KEY, lambda node: _address(names[id(node)])),
        Column("Address", Format.KEY, lambda node: "" if node.address == names[id(node)] else _address(node.address)),
        Column("Slots", Format.COUNT, lambda node: node.slots if node.node_id or node.address else None, id="slots"),
        *_loads(report),
        EXPIRING,
        Column("Operations", Format.COUNT, "ops", on=Place.PAGE),
        Column("Share", Format.SHARE, lambda node: by.of(node) / whole if whole else None),
        NOT_READ,
        Column(f"of {by.noun}", Format.BAR, lambda node: Bar(by.of(node) / peak if peak else 0.0, mark=mean)),
    ]
    skews = [
        Cell(
            "",
            text.ratio(max_over_mean([column.cell(node, 0).value for node in owners])) if column.id else "",
            style="strong",
        )
        for column in columns[2:]
    ]
    shown = f"the {NODES_ON_TERMINAL} heaviest of {text.count(len(nodes))}" if len(nodes) > NODES_ON_TERMINAL else ""
    table = Table(
        "master-table", "Heaviest first; the mark in a bar is an even share", columns, nodes, "gold/node_load", on_page=2_000,
        on_terminal=NODES_ON_TERMINAL, foot=[Cell("", "max / mean", style="quiet"), "", *skews] if len(nodes) > 1 else None, is_sample=True,
    )  # fmt: skip
    return Section("masters", "Masters", [table] if nodes else [], about=shown)


def _address(name: str) -> bytes | str:
    return name.encode("utf-8", "surrogateescape") if name else ""


def _next(report: KeyspaceReport, on: Place) -> list[Section]:
    """The command that plans moves, where there are masters to move slots between."""
    if len([node for node in report.nodes if node.node_id and node.slots]) < 2:
        return []
    where = f"--root {shell_word(report.root)} " if report.root else ""
    command = f"{program_name()} plan make {where}--snapshot {shell_word(report.snapshot_id)}"
    rows = [(command, "plan which slots to move; nothing is changed")]
    return [Section("next" if on is Place.PAGE else "commands", "Next", [Commands(rows)], on=on)]


def _icicle(report: KeyspaceReport) -> Section:
    bars = prefix_bars(report)
    icicle = Template("icicle.html", {"bars": bars, "weighed_by": weighed_by(report).noun})
    return Section("fills", "Memory by prefix", [icicle] if bars else [], on=Place.PAGE)


def _map(report: KeyspaceReport) -> Section:
    whole = totals(report)
    known = {
        "memory": whole.memory_bytes is not None,
        "bytes": whole.serialized_bytes is not None,
        "expires": whole.expires > 0,
    }
    context = {
        "known": known,
        "weighed_by": weighed_by(report).noun,
        "has_unowned": bool(report.nodes) and whole.owned_slots < SLOT_COUNT,
    }
    return Section(
        "map", f"The {SLOT_COUNT:,} slots", [Template("slot_map.html", context)], short="Slots", on=Place.PAGE
    )


def _heavy(report: KeyspaceReport) -> Section:
    by, whole, names = weighed_by(report), totals(report), names_by_id(report)
    slots = heavy_slots(report, HEAVY_ON_PAGE)
    mean = f"{whole.keys / SLOT_COUNT:.1f} keys" if by is Weight.KEYS else text.size(by.of(whole) // SLOT_COUNT)
    if mean == text.size(0):
        mean = "less than 1 B"
    most = slots[0].share if slots else 0.0
    columns = [
        Column("Slot", Format.SLOT, lambda slot: slot.load.slot),
        Column("Owner", Format.TEXT, lambda slot: names.get(slot.owner.node_id, "-") if slot.owner else None),
        *_loads(report, lambda slot: slot.load, "descending"),
        EXPIRING._replace(of=lambda slot: slot.load.expires),
        Column("Share", Format.SHARE, "share"),
        Column("of the heaviest", Format.BAR, lambda slot: Bar(slot.share / most if most else 0.0), on=Place.PAGE),
        Column("Because of, share of the slot", Format.KEY, lambda slot: _because(slot.cause)),
    ]
    caption = f"The {len(slots)} heaviest slots by {by.noun}, with their largest key or tag"
    table = Table(
        "heavy-table", caption, columns, slots, "silver/slot_load", on_terminal=GROUPS_ON_TERMINAL, is_sample=True
    )
    return Section("heavy-slots", "Heaviest slots", [table], about=f"the mean slot holds {mean}")


def _because(cause: Cause | None) -> Cell:
    """Return the cause of a slot's weight: ``{user1}: 12,345 keys, 80 %`` or ``key big:list: 14.2 MB, 97 %``."""
    if cause is None:
        return Cell(None, "no single key or tag", style="quiet")
    share = text.share(cause.share)
    if cause.kind == "key":
        return Cell(cause.name, "key", f": {text.size(cause.weight)}, {share}")
    of = " of keys" if cause.by is Weight.KEYS else ""
    return Cell(b"{" + cause.name + b"}", note=f": {text.plural(cause.keys, 'key')}, {share}{of}")


def _big_keys(report: KeyspaceReport) -> Section:
    names, order = names_by_id(report), {weighed_by(report): "descending"}
    columns = [
        Column("Key", Format.KEY, "key"),
        Column("Database", Format.COUNT, "db", on=Place.PAGE),
        Column("Type", Format.TEXT, lambda row: (row.type or "")[:8]),
        Column("Encoding", Format.TEXT, lambda row: row.encoding or "", on=Place.PAGE),
        Column("Elements", Format.COUNT, "elements"),
        Column("Bytes", Format.SIZE, "serialized_bytes", order.get(Weight.BYTES, "none")),
        Column("Memory", Format.SIZE, "memory_bytes", order.get(Weight.MEMORY, "none")),
        Column("Slot", Format.SLOT, "slot"),
        Column("Owner", Format.TEXT, lambda row: names.get(row.node_id), on=Place.PAGE),
        Column(
            "Expires",
            Format.MOMENT,
            lambda row: Cell(-1, "never") if row.expire_at_ms is None else row.expire_at_ms,
            on=Place.PAGE,
        ),
    ]
    table = Table(
        "big-keys-table", "The largest keys", columns, report.big_keys, "gold/big_keys", on_page=ROWS_ON_PAGE, on_terminal=GROUPS_ON_TERMINAL, is_sample=True
    )  # fmt: skip
    return Section("big-keys", "Biggest keys", [table])


def _group_columns(report: KeyspaceReport, of: Callable[[Any], Row] = lambda row: row) -> list[Column]:
    by = weighed_by(report)
    whole = by.of(totals(report))
    return [
        *_loads(report, of),
        Column("Share", Format.SHARE, lambda row: by.of(of(row)) / whole if whole else None),
        Column(f"of {by.noun}", Format.BAR, lambda row: Bar(by.of(of(row)) / whole if whole else 0.0)),
    ]


def _hash_tags(report: KeyspaceReport) -> Section:
    columns = [Column("Tag", Format.TAG, "name"), Column("Slot", Format.SLOT, "slot"), *_group_columns(report)]
    caption = "The heaviest hash tags: all keys of a tag share one slot"
    table = Table("hash-tags-table", caption, columns, report.hash_tags, "gold/hash_tags", on_page=ROWS_ON_PAGE)
    return Section("hash-tags", "Hash tags", [table], on=Place.PAGE)


def _prefixes(report: KeyspaceReport) -> Section:
    """The heaviest prefixes worth drawing, each below the one that it extends."""
    least = max(weighed_by(report).of(totals(report)) * SHARE_MIN, 1.0)
    columns = [
        Column("Prefix", Format.KEY, lambda prefix: Cell(prefix[0].name, depth=prefix[1])),
        *_group_columns(report, lambda prefix: prefix[0]),
    ]
    tables = [
        Table(name, "The heaviest prefixes, each with all that lies below it", columns, prefix_branches(report, most, least),
              "gold/key_prefixes", on_page=most, on_terminal=most, on=on)
        for name, most, on in (("prefixes-table", ROWS_ON_PAGE, Place.PAGE), ("prefix-tree", PREFIXES_ON_TERMINAL, Place.TERMINAL))
    ]  # fmt: skip
    return Section("prefixes", "Heaviest prefixes", tables, about="indented below the prefix they extend")


def _sizes(report: KeyspaceReport) -> Section:
    measure = "memory" if weighed_by(report) is Weight.MEMORY else "bytes"
    blocks: list[Block] = [
        Sentence("Each row covers sizes from its lower bound to twice that. Small keys come first."),
        _ranges("size-table", f"Keys by {measure}", report.sizes, Format.SIZE, measure),
        _ranges("element-table", "Collections by number of elements", report.elements, Format.COUNT, "elements"),
    ]
    return Section("sizes", "Sizes and elements", blocks if report.sizes or report.elements else [], on=Place.PAGE)


def _ranges(name: str, caption: str, ranges: Sequence[Row], how: Format, of: str) -> Table:
    columns = [
        Column("From", how, "at_least", "ascending"),
        Column("Keys", Format.COUNT, "keys"),
        *share_columns(ranges, "keys", "keys"),
        *share_columns(ranges, "total", of),
    ]
    return Table(name, caption, columns, ranges)


def _time_to_live(report: KeyspaceReport) -> Section:
    buckets = report.ttl_buckets
    columns = [
        Column("Time left", Format.TEXT, "label"),
        Column("Keys", Format.COUNT, "keys"),
        Column("Bytes", Format.SIZE, "serialized_bytes"),
        *share_columns(buckets, "keys", "keys"),
    ]
    caption = "Keys by remaining time to live when the dump was taken"
    table = Table("ttl-table", caption, columns, buckets, on=Place.PAGE)
    facts = [(bucket.label, text.percent(bucket.keys, report.keys)) for bucket in buckets if bucket.keys]
    return Section("ttls", "Time to live", [table, Facts(facts, Place.TERMINAL, is_tiled=True)], about="share of keys")


def _sources(report: KeyspaceReport) -> Section:
    names = names_by_id(report)
    columns = [
        Column("File", Format.LONG, "source"),
        Column("Kind", Format.TEXT, "kind"),
        Column("Node", Format.TEXT, lambda source: names.get(source.node_id, source.node_id or "")),
        Column("Keys", Format.COUNT, "keys"),
        Column("Size", Format.SIZE, "file_bytes"),
        NOT_READ,
        Column("Details", Format.LONG, lambda source: Cell("", "\n".join(f"{name}: {value}" for name, value in source.facts.items()))),
    ]  # fmt: skip
    table = Table("sources-table", "Input files of this snapshot", columns, report.sources, on_page=SOURCES_ON_PAGE)
    return Section("sources", "Sources", [table], on=Place.PAGE, is_folded=True)


def _reading(report: KeyspaceReport) -> Section:
    sentences = [
        "Bytes are the size of a key in the dump: expiry, type, name and value, compressed as the server wrote it. The same key takes more memory.",
        "A slot is the CRC16 of a key, or of its hash tag (the part in the first braces), modulo 16384. Keys with one tag share one slot; moving slots"
        " cannot spread them.",
        "Max / mean is 1.00× when all masters carry the same load.",
        "The scale of the map is logarithmic; rings mark the ten heaviest slots.",
        "“+≤ n” marks an estimate: the true figure is at most n higher.",
        "Names are escaped: \\x00 is a byte that is not text, \\u{202e} an invisible character, \\\\ a backslash. Long names lose their middle.",
    ]
    if totals(report).memory_bytes is not None:
        basis = report.memory
        caveat = f" ({basis.caveat})" if basis and basis.caveat else ""
        sentences.insert(
            1,
            "Memory is an estimate of MEMORY USAGE on the server that wrote the dump, by its version and allocator. The tables of the key space,"
            f" buffers and fragmentation are not included.{f' Model: {basis.model}{caveat}.' if basis else ''}",
        )
    return how_to_read(*sentences)


def slot_data(report: KeyspaceReport) -> dict[str, Any]:
    """Return the data of the slot map as columns of 16384 entries; owner -1 is none."""
    slots = report.slots
    return {
        "snapshot": text.printable(report.snapshot_id, 80),
        "nodes": [
            {
                "name": text.printable(name, 40),
                "id": text.printable(node.node_id or "", 40),
                "address": text.printable(node.address, 80),
            }
            for node, name in zip(report.nodes, node_names(report.nodes), strict=True)
        ],
        "keys": [slot.keys for slot in slots],
        "bytes": _known(slot.serialized_bytes for slot in slots),
        "memory": _known(slot.memory_bytes for slot in slots),
        "expires": [slot.expires for slot in slots],
        "topKeyBytes": [slot.top_key_bytes if slot.top_key_memory is None else slot.top_key_memory for slot in slots],
        "topKey": [None if slot.top_key is None else text.shown(slot.top_key, KEY_LENGTH_MAX) for slot in slots],
        "topTag": {
            tag.slot: f"{{{text.shown(tag.name, TAG_LENGTH_MAX)}}}: {text.plural(tag.keys, 'key')}"
            for tag in reversed(report.hash_tags)  # the heaviest of a slot comes last and stays
            if tag.slot is not None
        },
        "owner": [-1 if slot.owner is None else slot.owner for slot in slots],
    }


def _known(values: Iterable[int | None]) -> list[int] | None:
    """Return *values* with 0 for unknown ones; None where all are."""
    known_values = list(values)
    return [value or 0 for value in known_values] if any(value is not None for value in known_values) else None


def prefix_branches(report: KeyspaceReport, count: int, least: float = 1.0) -> list[tuple[Row, int]]:
    """Return the *count* heaviest prefixes of at least the weight *least* with their depth, each after the one that it extends."""
    by = weighed_by(report)
    groups = [group for group in folded_prefixes(report.prefixes) if by.of(group) >= least]

    def path(group: Row) -> list[tuple[int, bytes]]:
        above = sorted(
            (other for other in groups if group.name.startswith(other.name)), key=lambda other: len(other.name)
        )
        return [(-by.of(other), other.name) for other in above]

    heaviest = nsmallest(count, groups, key=lambda group: (-by.of(group), len(group.name), group.name))
    paths = sorted(((path(group), group) for group in heaviest), key=lambda pair: pair[0])
    return [(group, len(above) - 1) for above, group in paths]


class PrefixBar(NamedTuple):
    """A bar of the icicle; *start* and *width* are shares of the whole."""

    row: int
    start: float
    width: float
    name: str
    label: str


def prefix_bars(report: KeyspaceReport) -> list[PrefixBar]:
    """Return all keys and the prefixes below them as bars; none where no prefix is worth drawing."""
    by, whole = weighed_by(report), totals(report)
    total, free = by.of(whole), [0.0]
    bars = []
    for group, depth in prefix_branches(report, len(report.prefixes), max(total * SHARE_MIN, 1)):
        start, width, name = free[depth], by.of(group) / total, text.shown(group.name, LABEL_LENGTH_MAX)
        free[depth:] = [start + width, start]
        bars.append(PrefixBar(depth + 1, start, width, name, _load_label(name, group, by, total)))
    return [PrefixBar(0, 0.0, 1.0, "all keys", _load_label("all keys", whole, by, total)), *bars] if bars else []


def _load_label(name: str, load: Any, by: Weight, total: int) -> str:
    size = "" if by is Weight.KEYS else f", {text.size(by.of(load))} of {by.noun}"
    return f"{name}: {text.plural(load.keys, 'key')}{size}, {text.share(by.of(load) / total)}"
