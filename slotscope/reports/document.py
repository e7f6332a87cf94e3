"""A report as data: the answer in a sentence, then sections of sentences and tables.

Each kind of report builds one `Document` from its tables.  `terminal.print_document` draws it on a terminal and as plain text for a
ticket, `page.render_document` as an HTML page.  A table's cells are values; its columns say how a value is written and sorted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from cluster_core.kinds import Severity
from slotscope.runtime import text

ROWS_ON_PAGE = 200
ROWS_ON_TERMINAL = 8


class Place(Enum):
    """Where a part of a report is drawn."""

    EVERYWHERE = "everywhere"
    PAGE = "page"
    TERMINAL = "terminal"


class Format(Enum):
    """How the values of a column are written.  `KEY` and `TAG` are bytes, `BAR` is a `Bar`, `DURATION` is in seconds."""

    TEXT = "text"
    LONG = "long"
    KEY = "key"
    TAG = "tag"
    BAR = "bar"
    COUNT = "count"
    SIGNED_COUNT = "signed_count"
    SIZE = "size"
    SIGNED_SIZE = "signed_size"
    RATIO = "ratio"
    SHARE = "share"
    MOMENT = "moment"
    DURATION = "duration"
    SLOT = "slot"

    @property
    def is_number(self) -> bool:
        """Whether values are sorted as numbers and stand to the right."""
        return self not in (Format.TEXT, Format.LONG, Format.KEY, Format.TAG, Format.BAR)


def written(value: Any, how: Format) -> str:
    """Return *value* as text; None is unknown."""
    if value is None:
        return text.NOTHING
    if how in _WRITERS:
        return _WRITERS[how](value)
    if how is Format.TAG:
        return f"{{{text.shown(value)}}}"
    return text.printable(str(value))


_WRITERS: Mapping[Format, Callable[[Any], str]] = {
    Format.COUNT: text.count,
    Format.SIGNED_COUNT: text.signed_count,
    Format.KEY: text.shown,
    Format.SIZE: text.size,
    Format.SIGNED_SIZE: text.signed_size,
    Format.RATIO: text.ratio,
    Format.SHARE: text.share,
    Format.MOMENT: text.moment,
    Format.DURATION: text.duration,
}


class Bar(NamedTuple):
    """A bar from *start* to *end* as shares of its cell; *mark* is a line across, *before* a thin bar above it."""

    end: float
    start: float = 0.0
    mark: float | None = None
    before: float | None = None
    is_over: bool = False


class Cell(NamedTuple):
    """A value with other *text*, a *note* behind it, a *style* (strong, quiet, alarm) or a link of the page."""

    value: Any
    text: str = ""
    note: str = ""
    style: str = ""
    link: str = ""
    depth: int = 0
    """Steps by which a name is indented."""

    @property
    def is_known(self) -> bool:
        """Whether there is anything to show; a column of unknown cells is not drawn."""
        return self.value not in (None, "") or bool(self.text or self.note)


def estimated(value: int | None, error: int, format_number: Callable[[int], str]) -> Cell:
    """Return a figure that is at most *error* too low, such as ``60 +≤ 5``."""
    return Cell(value, note=f"+≤ {format_number(error)}" if error and value is not None else "")


class Column(NamedTuple):
    """One column: *of* is the attribute of a record, or a function of it; without it rows are lists.

    *order* is ascending or descending where rows are sorted by it, *id* the name of its cells for scripts of the page.
    """

    heading: str
    how: Format = Format.TEXT
    of: str | Callable[[Any], Any] | None = None
    order: str = "none"
    on: Place = Place.EVERYWHERE
    id: str = ""

    def cell(self, row: Any, at: int) -> Cell:
        """Return the cell of *row* in this column, the one at *at*."""
        if isinstance(row, list) or self.of is None:
            value = row[at] if at < len(row) else ""
        else:
            value = getattr(row, self.of) if isinstance(self.of, str) else self.of(row)
        return value if isinstance(value, Cell) else Cell(value)


def share_columns(rows: Sequence[Any], figure: str, noun: str) -> list[Column]:
    """Return the share of each of *rows* in the sum of *figure*, as a number and as a bar."""
    values = [getattr(row, figure) for row in rows]
    whole, peak = sum(values) or 1, max(values, default=0) or 1
    return [
        Column(f"Share of {noun}", Format.SHARE, lambda row: getattr(row, figure) / whole),
        Column(f"of {noun}", Format.BAR, lambda row: Bar(getattr(row, figure) / peak)),
    ]


class Table(NamedTuple):
    """A record a row, or a list of one value or `Cell` a column.

    *source* has all rows where these are the first; *foot* is one more row, of totals.  A terminal
    does not count the rest if *is_sample*.
    """

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Any]
    source: str = ""
    on_page: int = ROWS_ON_PAGE
    on_terminal: int = ROWS_ON_TERMINAL
    on: Place = Place.EVERYWHERE
    foot: list[Any] | None = None
    is_sample: bool = False

    def shown_columns(self, other: Place, most: int) -> list[tuple[int, Column]]:
        """Return the columns, with their places, that are not on *other* alone and have a value in the first *most* rows."""
        kept = [(at, column) for at, column in enumerate(self.columns) if column.on is not other]
        rows = self.rows[:most]
        return [(at, column) for at, column in kept if not at or any(column.cell(row, at).is_known for row in rows)]

    def cells(self, rows: Sequence[Any], columns: Sequence[tuple[int, Column]]) -> list[list[tuple[Column, Cell]]]:
        """Return the cells of *rows* in *columns*."""
        return [[(column, column.cell(row, at)) for at, column in columns] for row in rows]


class Sentence(NamedTuple):
    """A paragraph; *is_quiet* is smaller."""

    text: str
    on: Place = Place.EVERYWHERE
    is_quiet: bool = True


class Facts(NamedTuple):
    """Names and texts; tiles on the page where they are short."""

    rows: Sequence[tuple[str, str]]
    on: Place = Place.EVERYWHERE
    is_tiled: bool = False


class Commands(NamedTuple):
    """The next commands, each with its effect."""

    rows: Sequence[tuple[str, str]]
    on: Place = Place.EVERYWHERE


class Preformatted(NamedTuple):
    """Verbatim text, such as a block to copy."""

    text: str
    label: str
    on: Place = Place.PAGE


class Template(NamedTuple):
    """A part of the page that is drawn by hand: the slot map, the timeline."""

    name: str
    context: Mapping[str, Any]
    on: Place = Place.PAGE


Block = Table | Sentence | Facts | Commands | Preformatted | Template


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a heading; *about* stands beside it on a terminal, *is_folded* hides it on the page until it is opened."""

    id: str
    title: str
    blocks: Sequence[Block]
    about: str = ""
    short: str = ""
    on: Place = Place.EVERYWHERE
    is_folded: bool = False

    def drawn_on(self, place: Place) -> list[Block]:
        """The blocks that *place* draws, without empty tables."""
        if self.on not in (Place.EVERYWHERE, place):
            return []
        return [
            block
            for block in self.blocks
            if block.on in (Place.EVERYWHERE, place)
            and not (isinstance(block, Table | Facts | Commands) and not block.rows)
        ]


class Graded(Protocol):
    """A warning or a finding."""

    @property
    def severity(self) -> str:
        """One of `Severity`."""

    @property
    def code(self) -> str:
        """Its kind."""

    @property
    def text(self) -> str:
        """Its sentence."""


def count_by_severity(entries: Iterable[Graded]) -> dict[str, int]:
    """Return the number of *entries* by severity, gravest first."""
    counts = Counter(str(entry.severity) for entry in entries)
    return {severity.value: counts[severity] for severity in Severity if counts[severity]}


def gravest_first(entries: Iterable[Graded]) -> list[Graded]:
    """Return *entries* by severity."""
    return sorted(entries, key=lambda entry: list(Severity).index(Severity(entry.severity)))


class Tile(NamedTuple):
    """One large figure below the answer."""

    id: str
    name: str
    value: Any
    how: Format = Format.COUNT
    note: str = ""
    text: str = ""


class HandDrawn(NamedTuple):
    """A page and a terminal text of a report that is not made of sections."""

    page: Callable[[], str]
    terminal: Callable[..., None]


@dataclass(frozen=True, slots=True)
class Document:
    """One report.

    *kind*, *title*, *verdict*, *about* (the snapshots) and *of_ms* (their time) go into the list of pages; *names* make the name of
    the file.  *is_calm* says that nothing has to be done.
    """

    kind: str
    title: str
    verdict: str
    sections: Sequence[Section]
    names: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    of_ms: int | None = None
    subtitle: str = ""
    page_subtitle: str = ""
    """The line below the title of the page, if it differs from *subtitle*."""
    terminal_title: str = ""
    alarm: str = ""
    reason: str = ""
    """A second sentence, quieter."""
    figures: Sequence[str] = ()
    """Figures of the terminal's first lines."""
    tiles: Sequence[Tile] = ()
    warnings: Sequence[Graded] = ()
    bad_records: int = 0
    is_calm: bool = False
    page_label: str = "All of it as a page"
    data: Any = None
    scripts: Sequence[str] = field(default_factory=tuple)
    hand_drawn: HandDrawn | None = None
    has_map: bool = False
    """Whether slots are links to a map of the page."""


def how_to_read(*sentences: str) -> Section:
    """Return the last section of a page: the meaning of its terms and figures, folded."""
    return Section(
        "reading",
        "How to read this",
        [Sentence(sentence, is_quiet=False) for sentence in sentences],
        on=Place.PAGE,
        is_folded=True,
    )
