"""What a benchmark found, as plain values that are shown as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.page import command

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under one heading; every row has the same columns, in the order of the first row."""

    title: str
    rows: Sequence[Mapping[str, Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise and what was measured; None where the benchmark could not be run."""

    promise: str
    limit: float
    measured: float | None
    unit: str
    at_most: bool = True

    @property
    def verdict(self) -> str:
        """``met``, ``missed`` or ``not measured``."""
        if self.measured is None:
            return "not measured"
        met = self.measured <= self.limit if self.at_most else self.measured >= self.limit
        return "met" if met else "**missed**"


@dataclass(frozen=True, slots=True)
class Result:
    """One benchmark: tables and promises; *skipped* names what could not be run, and why."""

    name: str
    title: str
    about: str
    tables: list[Table]
    bars: list[Bar] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def bars_markdown(bars: Sequence[Bar]) -> str:
    """Return the promises and what was measured as a Markdown table."""
    rows: list[dict[str, Cell]] = [
        {
            "promise": bar.promise,
            "bar": f"{'≤' if bar.at_most else '≥'} {_text(bar.limit)} {bar.unit}".rstrip(),
            "measured": "–" if bar.measured is None else f"{_text(bar.measured)} {bar.unit}".rstrip(),
            "": bar.verdict,
        }
        for bar in bars
    ]
    return rows_markdown(rows)


def result_markdown(result: Result, date: str, machine: Mapping[str, str]) -> str:
    """Return one benchmark as a Markdown section: what it measured and where, what holds, the tables."""
    parts = [
        f"## {result.title}",
        f"{result.about} Measured on {date}; {command(result.name)}.",
        "Machine: " + "; ".join(f"{what} {value}" for what, value in machine.items()) + ".",
    ]
    if result.bars:
        parts += ["### What holds", bars_markdown(result.bars)]
    for table in result.tables:
        parts += [f"### {table.title}", *([table.note] if table.note else []), rows_markdown(table.rows)]
    if result.skipped:
        parts.append("Not measured in this run:\n\n" + "\n".join(f"- {reason}" for reason in result.skipped))
    return "\n\n".join(parts)


def rows_markdown(rows: Sequence[Mapping[str, Cell]]) -> str:
    """Return rows as a Markdown table, numbers to the right."""
    if not rows:
        return "(nothing was measured)"
    columns = list(rows[0])
    numeric = [all(isinstance(row.get(column), int | float | None) for row in rows) for column in columns]
    lines = ["| " + " | ".join(columns) + " |"]
    lines.append("|" + "|".join("---:" if right else "---" for right in numeric) + "|")
    lines += ["| " + " | ".join(_text(row.get(column)) for column in columns) + " |" for row in rows]
    return "\n".join(lines)


def _text(value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("|", "\\|")
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
