"""How words, keys, numbers and bars look on one console: with or without colour, Unicode, width.

Everything becomes a `rich.text.Text`, never markup, so that a key such as ``[red]`` stays a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jobs.reports.text import printable, shown

_EIGHTHS = " ▏▎▍▌▋▊▉"
_ASCII = str.maketrans(
    {"—": "-", "×": "x", "…": "...", "·": "-", "≥": ">=", "≤": "<=", "−": "-", "→": "->", "▲": "!", "█": "#"}
)
SEVERITY_STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its heading, and whether it holds figures (right-aligned, never cut)."""

    heading: str
    figures: bool = False


@dataclass(frozen=True, slots=True)
class Ink:
    """Writes on *console* with what its encoding offers."""

    console: Console

    @property
    def ascii_only(self) -> bool:
        """Whether the console cannot show more than ASCII."""
        return self.console.options.ascii_only

    def words(self, words: str, style: str = "") -> Text:
        """Return words of our own, made safe."""
        if self.ascii_only:
            words = words.translate(_ASCII)
        return Text(printable(words, ascii_only=self.ascii_only), style=style)

    def key(self, key: bytes, limit: int, style: str = "") -> Text:
        """Return the name of a key, made safe, in at most *limit* characters."""
        return Text(shown(key, limit, ascii_only=self.ascii_only), style=style)

    def tag(self, tag: bytes, limit: int) -> Text:
        """Return a hash tag in its braces."""
        return Text("{" + shown(tag, limit - 2, ascii_only=self.ascii_only) + "}")

    def bar(self, fraction: float, width: int, style: str = "cyan") -> Text:
        """Return a bar of *fraction* of *width* cells; what is not nothing shows at least a sliver."""
        fraction = min(max(fraction, 0.0), 1.0)
        if self.ascii_only:
            cells = round(fraction * width)
            return Text("#" * max(cells, 1 if fraction else 0), style=style)
        eighths = max(round(fraction * width * 8), 1 if fraction else 0)
        full, rest = divmod(eighths, 8)
        return Text("█" * full + (_EIGHTHS[rest] if rest else ""), style=style)

    def heading(self, words: str, about: str = "") -> None:
        """Write an empty line and a heading, with quiet words after it."""
        line = self.words(words, "bold")
        if about:
            line.append_text(self.words("  " + about, "dim"))
        self.console.print()
        self.line(line)

    def line(self, line: Text) -> None:
        """Write one line; what does not fit goes on in the next."""
        self.console.print(line, highlight=False, soft_wrap=False, overflow="fold")

    def note(self, words: str) -> None:
        """Write a quiet line, indented like the rows of a table."""
        self.line(self.words("  " + words, "dim"))

    def flow(self, parts: Sequence[str]) -> None:
        """Write *parts* one after the other, indented; lines break between them only."""
        between = self.words(" · ", "dim")
        line, room = Text("  "), self.console.width
        for at, part in enumerate(parts):
            words = self.words(part)
            if at and line.cell_len + between.cell_len + words.cell_len > room:
                self.line(line)
                line = Text("  ")
            elif at:
                line.append_text(between)
            line.append_text(words)
        self.line(line)

    def labelled(self, rows: Sequence[tuple[Text, Text]]) -> None:
        """Write lines with a label before each; long ones go on under their own beginning."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for label, words in rows:
            grid.add_row(Text("  ").append_text(label), words)
        self.console.print(grid, highlight=False)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> None:
        """Write rows without any rules between them, indented by two."""
        table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for column in columns:
            table.add_column(
                self.words(column.heading),
                justify="right" if column.figures else "left",
                no_wrap=True,
                overflow="crop" if self.ascii_only else "ellipsis",
            )
        for row in rows:
            table.add_row(*row)
        indented = Table.grid(padding=0)
        indented.add_column(width=2)
        indented.add_column()
        indented.add_row("", table)
        self.console.print(indented, highlight=False)
