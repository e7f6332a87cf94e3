"""One document, drawn on a terminal, as plain text and as a page."""

from __future__ import annotations

import io
import re
from typing import NamedTuple

from rich.console import Console

from slotscope.reports.document import (
    Bar,
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
    Tile,
    how_to_read,
    written,
)
from slotscope.reports.page import render_document
from slotscope.reports.terminal import plain_text, print_document


class Node(NamedTuple):
    name: bytes
    keys: int | None
    size: int
    share: float


NODES = [Node(b"a", 12_345, 2_000_000, 0.8), Node(b"<b>\x1b[31m", None, 500, 0.2)]
COLUMNS = [
    Column("Node", Format.KEY, "name"),
    Column("Keys", Format.COUNT, "keys"),
    Column("Size", Format.SIZE, lambda row: Cell(row.size, note="+≤ 1 kB"), "descending"),
    Column("Share", Format.SHARE, "share"),
    Column("of all", Format.BAR, lambda row: Bar(row.share, mark=0.5)),
    Column("Details", Format.LONG, lambda row: Cell("", "first line\nsecond line")),
    Column("On the page", Format.TEXT, lambda row: "page", on=Place.PAGE),
]


def document(rows: list[Node] = NODES) -> Document:
    """A document of one section of each kind."""
    return Document(
        "kind",
        "Title <i>",
        "The answer.",
        [
            Section("nodes", "Nodes", [Table("node-table", "All nodes", COLUMNS, rows, "gold/nodes", on_page=100, on_terminal=1)], about="heaviest first"),
            Section("facts", "Facts", [Facts([("fast", "yes"), ("slow", "no")], is_tiled=True)]),
            Section("empty", "Empty", [Table("empty-table", "Nothing", COLUMNS, [])]),
            Section("next", "Next", [Commands([("slotscope look", "look again")])]),
            how_to_read("Shares are of all."),
        ],
        tiles=[Tile("total-keys", "Keys", 12_345)],
    )  # fmt: skip


def test_a_terminal_shows_the_answer_then_tables_and_counts_omitted_rows() -> None:
    """In 80 columns, without parts of the page alone; an empty section has no heading."""
    stream = io.StringIO()
    print_document(document(), Console(file=stream, width=80), html_path="p.html")
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]

    assert lines[1] == "The answer."
    assert "Nodes  heaviest first" in lines
    assert any(line.split()[:6] == ["a", "12,345", "2.00", "MB", "+≤", "1"] for line in lines)
    assert "  and 1 more" in lines
    assert "  fast yes · slow no" in lines
    assert not [line for line in lines if re.search("Empty|page$|second line|Shares are", line)]
    assert lines[-1] == "All of it as a page: p.html"


def test_plain_text_has_no_escapes_of_names() -> None:
    text = plain_text(document([NODES[1]]))

    assert "\x1b" not in text
    assert r"<b>\x1b[31m" in text


def test_a_page_has_every_row_with_its_raw_figure_and_folds_explanations() -> None:
    page = render_document(document())
    table = page.split('id="node-table"')[1].split("</table>")[0]

    assert table.count("<tr>") == 3
    assert 'aria-sort="descending"' in table
    assert '<data value="12345">' in table
    assert 'title="2,000,000 bytes"' in table
    assert "first line</bdi><br><bdi>second line" in table
    assert r"&lt;b&gt;\x1b[31m" in table
    assert "<details" in page.split('id="reading"')[1]
    assert 'id="empty-table"' not in page
    assert "Title &lt;i&gt;" in page


def test_a_value_that_is_unknown_is_never_a_number() -> None:
    assert {how: written(None, how) for how in Format} == dict.fromkeys(Format, "—")
    assert written(0.0004, Format.SHARE) == "<0.1 %"
    assert written(18.44, Format.DURATION) == "18.4 s"


def test_a_column_of_unknown_values_is_not_drawn() -> None:
    rows = [NODES[1], NODES[1]]

    assert "Keys" not in plain_text(document(rows))
    assert ">Keys<" not in render_document(document(rows)).split('id="node-table"')[1]
    assert "Keys" in plain_text(document())


def test_a_part_for_a_place_is_drawn_only_there() -> None:
    section = Section("s", "S", [Sentence("terminal only", Place.TERMINAL), Sentence("page only", Place.PAGE)])
    both = Document("k", "T", "V.", [section])

    assert "terminal only" in plain_text(both)
    assert "page only" not in plain_text(both)
    assert "page only" in render_document(both)
    assert "terminal only" not in render_document(both)
