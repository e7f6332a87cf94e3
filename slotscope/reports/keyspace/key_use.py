"""Access and expiry of keys: read from ``gold/key_use``, and as a section of a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.gold import KEY_USE
from slotscope.reports.document import Block, Cell, Column, Facts, Format, Place, Section, Sentence, Table
from slotscope.reports.records import record
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import exists, read_rows

ROWS_READ: Final = 500
NOT_RECORDED: Final = (
    "Access is not recorded: set maxmemory-policy to allkeys-lru or allkeys-lfu (or volatile-lru, volatile-lfu)"
)
MOSTLY_EXPIRING: Final = 0.5
"""From this share of keys that expire on, those of the same prefix that never do are worth a word."""
COLUMNS = tuple(name for name in KEY_USE.columns if name not in ("snapshot_id", "partial", "scope", "scope_value_text"))


LEAST = ", at least (with lfu-decay-time 2 and more counters of keys in use only rise)"
ROWS_ON_TERMINAL: Final = 5
PREFIXES_ON_PAGE: Final = 60
PREFIX: Final = Column("Prefix", Format.KEY, "name")
MEMORY: Final = Column("Memory", Format.SIZE, "weight_bytes", "descending")
NEVER: Final = Column("Never expires", Format.COUNT, "never_expiring")


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A row of ``gold/key_use``; *name* is its node, slot or prefix."""

    name: bytes
    keys: int
    weight_bytes: int | None
    expires: int | None
    untouched_1d_bytes: int | None
    untouched_7d_bytes: int | None
    untouched_30d_bytes: int | None
    expiring_1h_bytes: int | None
    expiring_1d_bytes: int | None
    expiring_7d_bytes: int | None
    expiring_bytes: int | None
    ops_per_s: float | None
    ops_per_s_error: float | None

    @property
    def never_expiring(self) -> int:
        """Keys without a time to live."""
        return self.keys - (self.expires or 0)


@dataclass(frozen=True, slots=True)
class UseReport:
    """How the keys of a snapshot are used: all of them, by node, by prefix (heaviest first) and the slots that are used most."""

    whole: KeyUse
    nodes: Sequence[KeyUse]
    prefixes: Sequence[KeyUse]
    hot_slots: Sequence[KeyUse]

    @property
    def is_recorded(self) -> bool:
        """Whether some dump holds idle times or counters."""
        return self.whole.untouched_1d_bytes is not None or self.whole.ops_per_s is not None

    @property
    def hot(self) -> list[KeyUse]:
        """Prefixes by accesses a second, the hottest first."""
        found = [one for one in self.prefixes if one.ops_per_s]
        return sorted(found, key=lambda one: (-(one.ops_per_s or 0), one.name))

    @property
    def cold(self) -> list[KeyUse]:
        """Prefixes by memory that nobody touched for a week, the coldest first."""
        found = [one for one in self.prefixes if one.untouched_7d_bytes]
        return sorted(found, key=lambda one: (-(one.untouched_7d_bytes or 0), one.name))

    @property
    def doomed(self) -> list[KeyUse]:
        """Prefixes by memory that expires within a day, most first."""
        found = [one for one in self.prefixes if one.expiring_1d_bytes]
        return sorted(found, key=lambda one: (-(one.expiring_1d_bytes or 0), one.name))

    @property
    def left_behind(self) -> list[KeyUse]:
        """Prefixes most of whose keys expire, and some never do; the most of these first."""
        found = [one for one in self.prefixes if 0 < one.never_expiring <= (1 - MOSTLY_EXPIRING) * one.keys]
        return sorted(found, key=lambda one: (-one.never_expiring, one.name))


def load_key_use(root: str, snapshot_id: str) -> UseReport | None:
    """Read it; None for a snapshot of a version without it, and for one without keys."""
    if not exists(root, KEY_USE):
        return None

    whole = _uses(root, snapshot_id, "cluster")
    if not whole:
        return None
    prefixes = _uses(root, snapshot_id, "prefix", order_by="weight_bytes DESC NULLS LAST, scope_value")
    return UseReport(
        whole[0],
        _uses(root, snapshot_id, "node"),
        prefixes,
        _uses(root, snapshot_id, "slot", order_by="ops_per_s DESC NULLS LAST, scope_value"),
    )


def _uses(root: str, snapshot_id: str, scope: str, order_by: str = "scope_value") -> list[KeyUse]:
    rows = read_rows(
        root, KEY_USE, columns=COLUMNS, order_by=order_by, limit=ROWS_READ, snapshot_id=snapshot_id, scope=scope
    )
    return [record(KeyUse, row, name=row["scope_value"]) for row in rows]


def use_figures(use: KeyUse) -> list[tuple[str, str]]:
    """What a snapshot's totals say, as (name, figure); what is not known is left out."""
    found = []
    if use.ops_per_s is not None:
        more = "" if use.ops_per_s_error is not None else LEAST
        found.append((f"accesses a second, estimated{more}", rate(use)))
    weight = use.weight_bytes
    for days in ("1", "7", "30"):
        size = getattr(use, f"untouched_{days}d_bytes")
        if size is not None:
            found.append((f"untouched for {days} d", f"{text.size(size)}, {text.percent(size, weight)}"))
    if use.expires is not None:
        limits = {
            "within 1 h": use.expiring_1h_bytes,
            "within 1 d": use.expiring_1d_bytes,
            "within 7 d": use.expiring_7d_bytes,
            "at all": use.expiring_bytes,
        }
        found += [
            (f"expires {words}", f"{text.size(size)}, {text.percent(size, weight)}") for words, size in limits.items()
        ]
    return found


def rate(use: KeyUse) -> str:
    """Accesses a second, ``12.3 +≤ 4.0``: what counters at their start may hide stands behind; ``≥ 12.3`` is the least there may be."""
    return number(use) + (f" +≤ {_digits(use.ops_per_s_error)}" if use.ops_per_s_error else "")


def number(use: KeyUse) -> str:
    """Accesses a second in three digits, ``≥`` before the least there may be."""
    if use.ops_per_s is None:
        return text.NOTHING
    return f"{'≥ ' if use.ops_per_s_error is None else ''}{_digits(use.ops_per_s)}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def use_sections(use: UseReport | None, names: Mapping[str | None, str]) -> list[Section]:
    """Return the section on access and expiry; *names* are those of the masters by id; nothing where neither is known."""
    if use is None or (use.whole.expires is None and not use.is_recorded):
        return []
    node = Column("Node", Format.TEXT, lambda one: names.get(one.name.decode("utf-8", "replace"), text.NOTHING))
    blocks: list[Block] = [
        *([] if use.is_recorded else [Sentence(f"{NOT_RECORDED}.")]),
        Facts(use_figures(use.whole), is_tiled=True),
        Table("use-nodes", "Access and expiry by master", [node, *_columns(use.whole)], use.nodes, on=Place.PAGE),
        Table(
            "use-prefixes", "Access and expiry by prefix, heaviest first", [PREFIX, *_columns(use.whole)], use.prefixes, "gold/key_use",
            on_page=PREFIXES_ON_PAGE, on=Place.PAGE,
        ),
        _extremes("Hottest", use.hot, RATE),
        _extremes("Coldest", use.cold, Column("Untouched 7 d", Format.SIZE, "untouched_7d_bytes")),
        _extremes("First to expire", use.doomed, Column("Within 1 d", Format.SIZE, "expiring_1d_bytes")),
        _extremes("Most keys expire, some never", use.left_behind, NEVER),
    ]  # fmt: skip
    return [Section("use", "Access and expiry", blocks, about="memory, or bytes if memory is unknown", short="Access")]


RATE: Final = Column("Accesses/s", Format.COUNT, lambda one: Cell(one.ops_per_s, rate(one)))


def _extremes(title: str, found: Sequence[KeyUse], last: Column) -> Table:
    """The first prefixes of one order, for a terminal: the page sorts its table."""
    columns = [PREFIX._replace(heading=title), Column("Keys", Format.COUNT, "keys"), MEMORY, last]
    return Table("use-extremes", title, columns, found[:ROWS_ON_TERMINAL], on=Place.TERMINAL)


def _columns(whole: KeyUse) -> list[Column]:
    """What is known of all keys."""
    untouched = [
        Column("Untouched 1 d", Format.SIZE, "untouched_1d_bytes"),
        Column("Untouched 7 d", Format.SIZE, "untouched_7d_bytes"),
        Column("Untouched 30 d", Format.SIZE, lambda one: one.untouched_30d_bytes),
    ]
    expiring = [
        Column(f"Expires in {span[:-1]} {span[-1]}", Format.SIZE, f"expiring_{span}_bytes")
        for span in ("1h", "1d", "7d")
    ]
    return [
        MEMORY,
        *([RATE] if whole.ops_per_s is not None else []),
        *(untouched if whole.untouched_1d_bytes is not None else []),
        *([*expiring, NEVER] if whole.expires is not None else []),
    ]
