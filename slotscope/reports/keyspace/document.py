"""The report on a snapshot as a document: masters, the slot map, heavy slots and their causes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

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
)
from slotscope.reports.index import SNAPSHOT
from slotscope.reports.keyspace.figures import (
    Cause,
    Weight,
    folded_prefixes,
    heavy_slots,
    max_over_mean,
    names_by_id,
    node_names,
    quantile,
    totals,
    verdict,
    weighed_by,
)
from slotscope.reports.keyspace.key_use import use_sections
from slotscope.reports.keyspace.log_load import log_sections
from slotscope.reports.keyspace.report import SLOT_COUNT, KeyspaceReport
from slotscope.reports.keyspace.savings import savings_sections
from slotscope.reports.records import Row
from slotscope.runtime import text
from slotscope.runtime.program import program_name, shell_word

NODES_ON_TERMINAL = 12
GROUPS_ON_TERMINAL = 6
PREFIXES_ON_TERMINAL = 12
HEAVY_ON_PAGE = 60
ROWS_ON_PAGE = 100
SOURCES_ON_PAGE = 2_000
NEAREST = {"nearest": "nearest model"}
KEY_LENGTH_MAX = 24
"""Characters of the name of the largest key of a slot."""
TAG_LENGTH_MAX = 40
SHARE_MIN = 0.002
"""A prefix of a smaller share of the whole is not drawn."""
LABEL_LENGTH_MAX = 40
SCRIPTS = ("slot_map.js", "keyspace.js", "icicle.js")


def to_document(report: KeyspaceReport) -> Document:
    """Return *report* as a document."""
    tree = tree_data(report)
    sections = [
        _masters(report),
        *_next(report, Place.PAGE),
        *_fills(report, tree),
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
        page_words="All of it, with a map of the slots",
        data=data | {"owner": owner_runs(data["owner"]), "prefixes": tree},
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
    skew = max_over_mean([by.of(node) for node in report.nodes])
    heaviest = heavy_slots(report, 1)
    caveat = report.memory.caveat if report.memory else ""
    memory = [Tile("total-memory", "Memory, estimated", whole.memory_bytes, Format.SIZE, caveat or "")]
    return [
        Tile("total-keys", "Keys", whole.keys),
        *(memory if whole.memory_bytes is not None else []),
        Tile("total-bytes", "Dump bytes", whole.serialized_bytes, Format.SIZE),
        Tile("total-masters", "Masters", len(report.nodes), note=f"fullest: {text.ratio(skew)} the mean" if skew else ""),
        Tile(
            "total-used", "Slots with keys", whole.used_slots,
            note=f"heaviest: {text.share(heaviest[0].share)} of {by.words}" if heaviest else "",
        ),
        Tile(
            "total-expires", "Keys that expire", whole.expires, note=text.plural(whole.expires, "key"),
            words=text.percent(whole.expires, whole.keys),
        ),
        Tile("total-owned", "Slots with an owner", whole.owned_slots, note=f"of {text.count(SLOT_COUNT)}"),
    ]  # fmt: skip


def _size_columns(
    report: KeyspaceReport, order: str = "none", load: Callable[[Any], Any] = lambda one: one
) -> list[Column]:
    """Columns of the sizes that are known of the *load* of a row, the one that loads are weighed by also on a terminal."""
    has_memory, is_memory = totals(report).memory_bytes is not None, weighed_by(report) is Weight.MEMORY
    places = (Place.PAGE, Place.EVERYWHERE) if is_memory else (Place.EVERYWHERE, Place.PAGE)
    orders = ("none", order) if is_memory else (order, "none")
    size = Column("Bytes", Format.SIZE, lambda one: load(one).serialized_bytes, orders[0], places[0], "bytes")
    memory = Column("Memory", Format.SIZE, lambda one: load(one).memory_bytes, orders[1], places[1], "memory")
    return [size, memory] if has_memory else [size]


def _masters(report: KeyspaceReport) -> Section:
    by, names = weighed_by(report), dict(zip(map(id, report.nodes), node_names(report.nodes), strict=True))
    nodes = sorted(report.nodes, key=lambda node: -by.of(node))
    weights = [by.of(node) for node in nodes]
    whole, peak = sum(weights), max(weights, default=0)
    mean = whole / len(weights) / peak if peak else None
    columns = [
        Column("Node", Format.KEY, lambda one: names[id(one)].encode("utf-8", "surrogateescape")),
        Column(
            "Address",
            Format.KEY,
            lambda one: "" if one.address in ("", names[id(one)]) else one.address.encode("utf-8", "surrogateescape"),
        ),
        Column("Slots", Format.COUNT, "slots", id="slots"),
        Column("Keys", Format.COUNT, "keys", id="keys"),
        *_size_columns(report),
        Column("Expiring", Format.COUNT, "expires", on=Place.PAGE),
        Column("Operations", Format.COUNT, "ops", on=Place.PAGE),
        Column("Share", Format.SHARE, lambda one: by.of(one) / whole if whole else None),
        Column("Not read", Format.TEXT, lambda one: Cell(text.unread(one.unread_share), style="alarm")),
        Column(f"of {by.words}", Format.BAR, lambda one: Bar(by.of(one) / peak if peak else 0.0, mark=mean)),
    ]
    known = {
        "Operations": any(one.ops is not None for one in nodes),
        "Not read": any(one.unread_share != 0 for one in nodes),
    }
    columns = [column for column in columns if known.get(column.heading, True)]
    figures = [column for column in columns if column.id]
    skews = [
        Cell("", text.ratio(max_over_mean([column.cell(one, 0).value for one in nodes])), style="strong")
        for column in figures
    ]
    shown = f"the {NODES_ON_TERMINAL} heaviest of {text.count(len(nodes))}" if len(nodes) > NODES_ON_TERMINAL else ""
    table = Table(
        "master-table", "Heaviest first; the mark in a bar is an even share", columns, nodes, "gold/node_load", on_page=2_000,
        on_terminal=NODES_ON_TERMINAL, foot=[Cell("", "max / mean", style="quiet"), "", *skews], is_sample=True,
    )  # fmt: skip
    return Section("masters", "Masters", [table] if nodes else [], about=shown)


def _next(report: KeyspaceReport, on: Place) -> list[Section]:
    """The command that plans moves, where there are masters to move slots between."""
    if len([node for node in report.nodes if node.node_id and node.slots]) < 2:
        return []
    where = f"--root {shell_word(report.root)} " if report.root else ""
    command = f"{program_name()} plan make {where}--snapshot {shell_word(report.snapshot_id)}"
    rows = [(command, "plan which slots to move; nothing is changed")]
    return [Section("next" if on is Place.PAGE else "commands", "Next", [Commands(rows)], on=on)]


def _fills(report: KeyspaceReport, tree: dict[str, Any] | None) -> list[Section]:
    if tree is None:
        return []
    by = weighed_by(report)
    context = {"colours": _tree_colours(report, by), "weighed_by": by.words}
    return [Section("fills", "What fills it", [Template("icicle.html", context)], on=Place.PAGE)]


def _tree_colours(report: KeyspaceReport, weight: Weight) -> list[tuple[str, str]]:
    """The colours of prefixes, that of their weight first."""
    use = report.use.whole if report.use else None
    known = {
        "memory": weight is Weight.MEMORY,
        "bytes": any(group.serialized_bytes is not None for group in report.prefixes),
        "keys": True,
        "heat": use is not None and use.ops_per_s is not None,
        "cold": use is not None and use.untouched_7d_bytes is not None,
        "expiry": use is not None and use.expires is not None,
    }
    labels = {"cold": "Untouched", "expiry": "Expiry", "heat": "Heat"}
    return [(name, labels.get(name, name.capitalize())) for name, is_known in known.items() if is_known]


def _map(report: KeyspaceReport) -> Section:
    whole = totals(report)
    known = {
        "memory": whole.memory_bytes is not None,
        "bytes": whole.serialized_bytes is not None,
        "expires": any(slot.expires for slot in report.slots),
    }
    context = {
        "known": known,
        "weighed_by": weighed_by(report).words,
        "masters": len(report.nodes),
        "has_unowned": bool(report.nodes) and whole.owned_slots < SLOT_COUNT,
    }
    return Section("map", f"The {SLOT_COUNT} slots", [Template("slot_map.html", context)], short="Slots", on=Place.PAGE)


def _heavy(report: KeyspaceReport) -> Section:
    by, whole, names = weighed_by(report), totals(report), names_by_id(report)
    found = heavy_slots(report, HEAVY_ON_PAGE)
    mean = f"{whole.keys / SLOT_COUNT:.1f} keys" if by is Weight.KEYS else text.size(by.of(whole) // SLOT_COUNT)
    most = found[0].share if found else 0.0
    columns = [
        Column("Slot", Format.SLOT, lambda one: one.load.slot),
        Column("Owner", Format.TEXT, lambda one: names.get(one.owner.node_id, "-") if one.owner else "-"),
        Column("Keys", Format.COUNT, lambda one: one.load.keys, "descending" if by is Weight.KEYS else "none"),
        *_size_columns(report, "descending", lambda one: one.load),
        Column("Expiring", Format.COUNT, lambda one: one.load.expires, on=Place.PAGE),
        Column("Share", Format.SHARE, "share"),
        Column("of the heaviest", Format.BAR, lambda one: Bar(one.share / most if most else 0.0), on=Place.PAGE),
        Column("Because of, share of the slot", Format.KEY, lambda one: _because(one.cause)),
    ]
    caption = f"The {len(found)} heaviest slots by {by.words}, with what makes them heavy"
    table = Table(
        "heavy-table", caption, columns, found, "silver/slot_load", on_terminal=GROUPS_ON_TERMINAL, is_sample=True
    )
    return Section("heavy-slots", "Heaviest slots", [table], about=f"the mean slot holds {mean}")


def _because(cause: Cause | None) -> Cell:
    """What makes a slot heavy: ``{user1}: 12,345 keys, 80 %`` or ``key big:list: 14.2 MB, 97 %``."""
    if cause is None:
        return Cell(None, "no single key or tag", style="quiet")
    share = text.share(cause.share)
    if cause.kind == "key":
        return Cell(cause.name, "key", f": {text.size(cause.weight)}, {share}")
    of = " of keys" if cause.by is Weight.KEYS else ""
    return Cell(b"{" + cause.name + b"}", note=f": {text.plural(cause.keys, 'key')}, {share}{of}")


def _big_keys(report: KeyspaceReport) -> Section:
    names, is_memory = names_by_id(report), weighed_by(report) is Weight.MEMORY
    columns = [
        Column("Key", Format.KEY, "key"),
        Column("Database", Format.COUNT, "db", on=Place.PAGE),
        Column("Type", Format.TEXT, lambda one: (one.type or "")[:8]),
        Column("Encoding", Format.TEXT, lambda one: one.encoding or "", on=Place.PAGE),
        Column("Elements", Format.COUNT, "elements"),
        Column("Bytes", Format.SIZE, "serialized_bytes", "none" if is_memory else "descending"),
        Column(
            "Memory",
            Format.SIZE,
            lambda one: Cell(one.memory_bytes, note=NEAREST.get(one.estimate, "")),
            "descending" if is_memory else "none",
        ),
        Column("Slot", Format.SLOT, "slot"),
        Column("Owner", Format.TEXT, lambda one: names.get(one.node_id, text.NOTHING), on=Place.PAGE),
        Column(
            "Expires",
            Format.MOMENT,
            lambda one: Cell(-1, "never") if one.expire_at_ms is None else one.expire_at_ms,
            on=Place.PAGE,
        ),
    ]
    if totals(report).memory_bytes is None:
        columns = [column for column in columns if column.heading != "Memory"]
    table = Table(
        "big-keys-table", "The largest keys", columns, report.big_keys, "gold/big_keys", on_page=ROWS_ON_PAGE, on_terminal=GROUPS_ON_TERMINAL, is_sample=True
    )  # fmt: skip
    return Section("big-keys", "Biggest keys", [table])


def _group_columns(report: KeyspaceReport, groups: Sequence[Row]) -> list[Column]:
    by, whole = weighed_by(report), totals(report)
    peak, all_weight = max(map(by.of, groups), default=0), by.of(whole)
    sizes = [
        Column("Bytes", Format.SIZE, lambda one: estimated(one.serialized_bytes, one.bytes_error, text.size)),
        Column("Memory", Format.SIZE, lambda one: estimated(one.memory_bytes, one.memory_error, text.size)),
    ]
    known = (whole.serialized_bytes is not None, whole.memory_bytes is not None)
    return [
        Column("Keys", Format.COUNT, lambda one: estimated(one.keys, one.keys_error, text.count)),
        *(column for column, is_known in zip(sizes, known, strict=True) if is_known),
        Column("Share", Format.SHARE, lambda one: by.of(one) / all_weight if all_weight else None),
        Column("of the heaviest", Format.BAR, lambda one: Bar(by.of(one) / peak if peak else 0.0)),
    ]


def _hash_tags(report: KeyspaceReport) -> Section:
    columns = [
        Column("Tag", Format.TAG, "name"),
        Column("Slot", Format.SLOT, "slot"),
        *_group_columns(report, report.hash_tags),
    ]
    caption = "The heaviest hash tags: all keys of a tag share one slot"
    table = Table("hash-tags-table", caption, columns, report.hash_tags, "gold/hash_tags", on_page=ROWS_ON_PAGE)
    return Section("hash-tags", "Hash tags", [table], on=Place.PAGE)


def _prefixes(report: KeyspaceReport) -> Section:
    groups = folded_prefixes(report.prefixes)
    name = Column("Prefix", Format.KEY, lambda one: Cell(one.name, depth=max(one.depth - 1, 0)))
    page = Table(
        "prefixes-table", "The heaviest prefixes, each with all that lies below it", [name, *_group_columns(report, groups)], groups,
        "gold/key_prefixes", on_page=ROWS_ON_PAGE, on=Place.PAGE,
    )  # fmt: skip
    blocks = [page, *_branches(report), *_size_facts(report)]
    return Section("prefixes", "Heaviest prefixes", blocks, about="indented below the prefix they extend")


def _branches(report: KeyspaceReport) -> list[Block]:
    """The heaviest prefixes as a tree, for a terminal."""
    root, by = prefix_tree(report), weighed_by(report)
    if root is None:
        return []
    whole = root.weight
    columns = [
        Column("Prefix", Format.KEY, lambda one: Cell(one[0].group.name, depth=one[1])),
        Column("Keys", Format.COUNT, lambda one: one[0].group.keys),
        *(one for one in _size_columns(report, load=lambda one: one[0].group) if one.on is Place.EVERYWHERE),
        Column("Share", Format.SHARE, lambda one: one[0].weight / whole),
        Column(f"of {by.words}", Format.BAR, lambda one: Bar(one[0].weight / whole)),
    ]
    nodes = heaviest_nodes(root, PREFIXES_ON_TERMINAL)
    return [Table("prefix-tree", "", columns, nodes, on_terminal=PREFIXES_ON_TERMINAL, on=Place.TERMINAL)]


def _size_facts(report: KeyspaceReport) -> list[Block]:
    """The median size of keys, the 99th percentile, and the size that half of all bytes exceeds."""
    if not report.sizes:
        return []
    half = text.size(2 * quantile(report.sizes, 0.5, lambda one: one.keys).at_least)
    most = text.size(2 * quantile(report.sizes, 0.99, lambda one: one.keys).at_least)
    large = text.size(quantile(report.sizes, 0.5, lambda one: one.total).at_least)
    what = "memory" if weighed_by(report) is Weight.MEMORY else "bytes"
    words = f"half of the keys are below {half}, 99 % below {most}; half of the {what} is in keys of {large} or more"
    return [Sentence(words, Place.TERMINAL)]


def _sizes(report: KeyspaceReport) -> Section:
    is_memory = weighed_by(report) is Weight.MEMORY
    blocks: list[Block] = [Sentence("Each row covers sizes from its lower bound to twice that. Small keys come first.")]
    where = "memory" if is_memory else "the dump"
    blocks.append(
        _range_table(
            "size-table", f"Keys by size in {where}", report.sizes, Format.SIZE, "memory" if is_memory else "bytes"
        )
    )
    blocks.append(
        _range_table("element-table", "Collections by number of elements", report.elements, Format.COUNT, "elements")
    )
    is_known = report.sizes or report.elements
    return Section("sizes", "Sizes and elements", blocks if is_known else [], on=Place.PAGE)


def _range_table(name: str, caption: str, ranges: Sequence[Row], how: Format, of: str) -> Table:
    keys, total = sum(one.keys for one in ranges) or 1, sum(one.total for one in ranges) or 1
    most_keys, most = (
        max((one.keys for one in ranges), default=0) or 1,
        max((one.total for one in ranges), default=0) or 1,
    )
    columns = [
        Column("From", how, "at_least", "ascending"),
        Column("Keys", Format.COUNT, "keys"),
        Column("Share of keys", Format.SHARE, lambda one: one.keys / keys),
        Column("of keys", Format.BAR, lambda one: Bar(one.keys / most_keys)),
        Column(f"Share of {of}", Format.SHARE, lambda one: one.total / total),
        Column(f"of {of}", Format.BAR, lambda one: Bar(one.total / most)),
    ]
    return Table(name, caption, columns, ranges)


def _time_to_live(report: KeyspaceReport) -> Section:
    buckets = report.ttl_buckets
    whole, peak = sum(one.keys for one in buckets) or 1, max((one.keys for one in buckets), default=0) or 1
    columns = [
        Column("Time left", Format.TEXT, "label"),
        Column("Keys", Format.COUNT, "keys"),
        Column("Bytes", Format.SIZE, "serialized_bytes"),
        Column("Share", Format.SHARE, lambda one: one.keys / whole),
        Column("of keys", Format.BAR, lambda one: Bar(one.keys / peak)),
    ]
    table = Table(
        "ttl-table", "Keys by remaining time to live when the dump was taken", columns, buckets, on=Place.PAGE
    )
    facts = [(one.label, text.percent(one.keys, whole)) for one in buckets if one.keys]
    return Section("ttls", "Time to live", [table, Facts(facts, Place.TERMINAL, is_tiled=True)], about="share of keys")


def _sources(report: KeyspaceReport) -> Section:
    names = names_by_id(report)
    columns = [
        Column("File", Format.LONG, "source"),
        Column("Kind", Format.TEXT, "kind"),
        Column("Node", Format.TEXT, lambda one: names.get(one.node_id, one.node_id or "")),
        Column("Keys", Format.COUNT, "keys"),
        Column("Size", Format.SIZE, "file_bytes"),
        Column("Not read", Format.TEXT, lambda one: Cell(text.unread(one.unread_share), style="alarm")),
        Column(
            "Details",
            Format.LONG,
            lambda one: Cell("", "\n".join(f"{name}: {value}" for name, value in one.facts.items())),
        ),
    ]
    table = Table("sources-table", "Input files of this snapshot", columns, report.sources, on_page=SOURCES_ON_PAGE)
    return Section("sources", "Sources", [table], on=Place.PAGE, is_folded=True)


def _reading(report: KeyspaceReport) -> Section:
    sentences = [
        "Bytes are the size of a key in the dump: expiry, type, name and value, compressed as the server wrote it. The same key takes more memory.",
        "A slot is the CRC16 of a key, or of its hash tag (the part in the first braces), modulo 16384. Keys with one tag share one slot; moving slots"
        " cannot spread them.",
        "Max / mean is 1.00× when all masters carry the same load.",
        "Scales of the map: log shows orders of magnitude, linear shows the heaviest, quantile gives each shade the same number of slots. Rings mark"
        " the ten heaviest slots.",
        "“+≤ n” marks an estimate: the true figure is at most n higher.",
        "Names are escaped: \\x00 is a byte that is not text, \\u{202e} an invisible character, \\\\ a backslash. Long names lose their middle.",
    ]
    if totals(report).memory_bytes is not None:
        model = (
            f" Model: {report.memory.model}{f' ({report.memory.caveat})' if report.memory.caveat else ''}."
            if report.memory
            else ""
        )
        sentences.insert(
            1,
            "Memory is an estimate of MEMORY USAGE on the server that wrote the dump, by its version and allocator. The tables of the key space,"
            f" buffers and fragmentation are not included.{model}",
        )
    return how_to_read(*sentences)


def slot_data(report: KeyspaceReport) -> dict[str, Any]:
    """Return the data of the slot map as columns of 16384 entries; owner -1 is none."""
    slots = report.slots
    data: dict[str, Any] = {
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
        "topTag": _top_tags(report),
    }
    return data | {"owner": [-1 if slot.owner is None else slot.owner for slot in slots]}


def owner_runs(owners: Iterable[int]) -> list[tuple[int, int]]:
    """Owners of the slots as (owner, number of slots in a row): most have whole ranges."""
    return [(owner, sum(1 for _ in run)) for owner, run in groupby(owners)]


def _known(values: Iterable[int | None]) -> list[int] | None:
    """Return *values* with 0 for unknown ones; None where all are."""
    found = list(values)
    return [value or 0 for value in found] if any(value is not None for value in found) else None


def _top_tags(report: KeyspaceReport) -> dict[int, str]:
    """The heaviest known hash tag of a slot with its keys; slots without one are left out."""
    found: dict[int, str] = {}
    for tag in report.hash_tags:  # heaviest first
        if tag.slot is not None and tag.slot not in found:
            found[tag.slot] = f"{{{text.shown(tag.name, TAG_LENGTH_MAX)}}}: {text.plural(tag.keys, 'key')}"
    return found


@dataclass(slots=True)
class PrefixNode:
    """A prefix, or all keys (an empty name), with the prefixes below it, the heaviest first; *use* where it is recorded."""

    group: Row
    weight: int
    use: Row | None = None
    children: list[PrefixNode] = field(default_factory=list)


def prefix_tree(report: KeyspaceReport) -> PrefixNode | None:
    """Return all keys and the prefixes below them; None where no prefix is worth drawing."""
    by, whole = weighed_by(report), totals(report)
    uses = {one.name: one for one in report.use.prefixes} if report.use else {}
    least = by.of(whole) * SHARE_MIN
    root = PrefixNode(
        Row(name=b"", keys=whole.keys, serialized_bytes=whole.serialized_bytes, memory_bytes=whole.memory_bytes),
        by.of(whole),
        report.use.whole if report.use else None,
    )
    known = {b"": root}
    for group in sorted(folded_prefixes(report.prefixes), key=lambda group: (len(group.name), group.name)):
        if by.of(group) < max(least, 1):
            continue
        parent = max((name for name in known if group.name.startswith(name)), key=len)
        node = PrefixNode(group, by.of(group), uses.get(group.name))
        known[group.name] = node
        known[parent].children.append(node)
    for node in known.values():
        node.children.sort(key=lambda child: (-child.weight, child.group.name))
    return root if root.children else None


def heaviest_nodes(root: PrefixNode, count: int) -> list[tuple[PrefixNode, int]]:
    """The *count* heaviest prefixes below *root* with their depths, from 0, each behind the one that it continues: none is heavier than that."""
    every = list(_below(root, 0))
    chosen = {id(node) for node, _ in sorted(every, key=lambda pair: (-pair[0].weight, pair[1]))[:count]}
    return [(node, depth) for node, depth in every if id(node) in chosen]


def _below(node: PrefixNode, depth: int) -> Iterator[tuple[PrefixNode, int]]:
    for child in node.children:
        yield child, depth
        yield from _below(child, depth + 1)


def tree_data(report: KeyspaceReport) -> dict[str, Any] | None:
    """Return the tree as the page draws it: nested, names as texts."""
    root = prefix_tree(report)
    if root is None:
        return None
    return {"by": weighed_by(report).words, "isSize": weighed_by(report) is not Weight.KEYS, "root": _data(root)}


def _data(node: PrefixNode) -> dict[str, Any]:
    use, group = node.use, node.group
    found: dict[str, Any] = {
        "name": text.shown(group.name, LABEL_LENGTH_MAX) if group.name else "",
        "weight": node.weight,
        "keys": group.keys,
        "bytes": group.serialized_bytes,
        "memory": group.memory_bytes,
    }
    if use is not None:
        weight = use.weight_bytes or 0
        found |= {
            "heat": use.ops_per_s,
            "expiry": None if use.expires is None or not use.keys else round(use.expires / use.keys, 3),
            "cold": None if use.untouched_7d_bytes is None or not weight else round(use.untouched_7d_bytes / weight, 3),
        }
    if node.children:
        found["children"] = [_data(child) for child in node.children]
    return found
