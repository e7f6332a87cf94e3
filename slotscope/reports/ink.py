"""How words, keys, numbers and bars look on one console: with or without colour, Unicode, width.

Everything becomes a `rich.text.Text`, never markup, so that a key such as ``[red]`` stays a key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slotscope.runtime.text import KEY_LENGTH_MIN, printable, shown
from slotscope.runtime.text import count as text_count

_EIGHTHS = " ▏▎▍▌▋▊▉"
_ASCII = str.maketrans(
    {"—": "-", "×": "x", "…": "...", "·": "-", "≥": ">=", "≤": "<=", "−": "-", "→": "->", "▲": "!", "█": "#"}
)
FITTED_MIN = 16
"""Width in cells of a fitted column if text of other columns can be cut."""
TEXT_CELLS_MIN = 9
_INDENT, _GAP = 2, 2
SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


Cell = str | Text | Callable[[int], Text]
"""A cell: a string, a text, or a function from a width to a text (names of keys, cut in the middle)."""
_Made = Text | Callable[[int], Text]
FIGURES = ">"
"""First character of the heading of figures, which stand to the right and are never cut."""

WHOLE = "<"
"""First character of the heading of texts that are never cut."""


@dataclass(frozen=True, slots=True)
class Ink:
    """Writes on *console* within its encoding."""

    console: Console

    @property
    def ascii_only(self) -> bool:
        """Whether the console cannot show more than ASCII."""
        return self.console.options.ascii_only

    def safe(self, text: str, style: str = "") -> Text:
        """Return *text* of our own, escaped for a terminal."""
        if self.ascii_only:
            text = text.translate(_ASCII)
        return Text(printable(text, ascii_only=self.ascii_only), style=style)

    def key(self, key: bytes, limit: int, style: str = "") -> Text:
        """Return the name of a key, made safe, in at most *limit* cells; a character may take two."""
        made, asked = shown(key, limit, ascii_only=self.ascii_only), limit
        while cell_len(made) > limit and asked > KEY_LENGTH_MIN:
            asked = max(asked - (cell_len(made) - limit), KEY_LENGTH_MIN)
            made = shown(key, asked, ascii_only=self.ascii_only)
        named = Text(made, style=style)
        named.truncate(max(limit, KEY_LENGTH_MIN), overflow="ellipsis")
        return named

    def tag(self, tag: bytes, limit: int) -> Text:
        """Return a hash tag in its braces."""
        return Text("{").append_text(self.key(tag, limit - 2)).append_text(Text("}"))

    def bar(self, fraction: float, width: int, style: str = "cyan") -> Text:
        """Return a bar of *fraction* of *width* cells; non-zero values draw at least an eighth of a cell."""
        fraction = min(max(fraction, 0.0), 1.0)
        if self.ascii_only:
            cells = round(fraction * width)
            return Text("#" * max(cells, 1 if fraction else 0), style=style)
        eighths = max(round(fraction * width * 8), 1 if fraction else 0)
        full, rest = divmod(eighths, 8)
        return Text("█" * full + (_EIGHTHS[rest] if rest else ""), style=style)

    def title(self, text: str, quiet: str = "", alarm: str = "") -> None:
        """Write the first line of a report."""
        line = self.safe("Slotscope", "bold").append_text(self.safe(f" · {text}"))
        self.line(line.append_text(self.safe(quiet, "dim")).append_text(self.safe(alarm, "bold red")))

    def heading(self, text: str, about: str = "") -> None:
        """Write an empty line and a heading, with quiet text after it."""
        line = self.safe(text, "bold")
        if about:
            line.append_text(self.safe("  " + about, "dim"))
        self.console.print()
        self.line(line)

    def line(self, line: Text) -> None:
        """Write one line, folded at the width."""
        self.console.print(line, highlight=False, soft_wrap=False, overflow="fold")

    def whole(self, line: Text) -> None:
        """Write a command or a path on one line without folding, so that it can be copied."""
        self.console.print(line, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Write a quiet line, indented like the rows of a table."""
        self.console.print(
            Padding(self.safe(text, "dim"), (0, 0, 0, 2), expand=False), highlight=False, overflow="fold"
        )

    def rest(self, count: int, shown: int) -> None:
        """Say how many of *count* are not shown, if any."""
        if count > shown:
            self.note(f"and {text_count(count - shown)} more")

    def page(self, label: str, path: str | None) -> None:
        """Say where the page is that *label* names, if one was written."""
        if path is not None:
            self.console.print()
            self.whole(self.safe(f"{label}: ").append_text(self.safe(path, "bold")))

    def flow(self, parts: Sequence[str]) -> None:
        """Write *parts* one after the other, indented; lines break between them only."""
        between = self.safe(" · ", "dim")
        line, room = Text("  "), self.console.width
        for at, part in enumerate(parts):
            text = self.safe(part)
            if at and line.cell_len + between.cell_len + text.cell_len > room:
                self.line(line)
                line = Text("  ")
            elif at:
                line.append_text(between)
            line.append_text(text)
        self.line(line)

    def labelled(self, rows: Sequence[tuple[Text, Text]]) -> None:
        """Write lines with a label before each; long ones are indented below their beginning."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in rows:
            grid.add_row(Text("  ").append_text(label), text)
        self.console.print(grid, highlight=False)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, wraps: bool = False) -> None:
        """Write rows without rules, indented by two; figures (`FIGURES`) and `WHOLE` texts keep their width, names share the rest.

        Texts that are too long end in an ellipsis, or in another line if the table *wraps*.
        """
        columns = [self.safe(heading.lstrip(FIGURES + WHOLE)) for heading in headings]
        figures = [heading.startswith(FIGURES) for heading in headings]
        fixed = [heading.startswith((FIGURES, WHOLE)) for heading in headings]
        made = [[self.safe(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
        table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
        widths = self._widths(columns, fixed, made)
        for heading, right, keeps, width in zip(columns, figures, fixed, widths, strict=True):
            table.add_column(
                heading,
                justify="right" if right else "left",
                no_wrap=keeps or not wraps,
                width=width,
                overflow="fold" if wraps else "crop" if self.ascii_only else "ellipsis",
            )
        for row in made:
            table.add_row(*(_made(cell, width) for cell, width in zip(row, widths, strict=False)))
        indented = Table.grid(padding=0)
        indented.add_column(width=_INDENT)
        indented.add_column()
        indented.add_row("", table)
        self.console.print(indented, highlight=False)

    def _widths(self, headings: Sequence[Text], fixed: Sequence[bool], rows: Sequence[Sequence[_Made]]) -> list[int]:
        """Return the width of each column: *fixed* ones first, then texts, then fitted names."""
        room = self.console.width - _INDENT - _GAP * (len(headings) - 1)
        cells = list(zip_longest(*rows, fillvalue=Text(""))) or [()] * len(headings)
        fitted = [at for at, column in enumerate(cells) if any(not isinstance(cell, Text) for cell in column)]
        widths = [
            max([heading.cell_len, *(_made(cell, KEY_LENGTH_MIN).cell_len for cell in column)])
            for heading, column in zip(headings, cells, strict=True)
        ]
        text_columns = [at for at, keeps in enumerate(fixed) if not keeps and at not in fitted]
        for at in fitted:
            widths[at] = max(widths[at], FITTED_MIN)
        while sum(widths) > room and text_columns:
            widest = max(text_columns, key=lambda at: widths[at])
            if widths[widest] <= TEXT_CELLS_MIN:
                break
            widths[widest] -= 1
        for number, at in enumerate(fitted):
            left = (room - sum(widths)) // (len(fitted) - number)
            longest = max(_made(cell, room).cell_len for cell in cells[at])
            widths[at] = max(min(widths[at] + left, max(longest, headings[at].cell_len)), KEY_LENGTH_MIN)
        return widths


def _made(cell: _Made, width: int) -> Text:
    return cell if isinstance(cell, Text) else cell(width)
