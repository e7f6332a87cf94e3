"""Answers to queries as a person reads them: a table, or one row below the other where it would be too wide; as JSON lines; as Markdown."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console

from slotscope.reports.ink import FIGURES, Ink
from slotscope.reports.records import NAME_LENGTH_MAX, json_text, json_value
from slotscope.runtime.answer import Answer
from slotscope.runtime.text import NOTHING, printable, shown

_GAP = 2


def deliver_answer(answer: Answer, *, stream: TextIO, as_json: bool) -> None:
    """Write *answer* to *stream*: as a table if it is no wider than the terminal or no terminal reads it, else row by row."""
    if as_json:
        stream.writelines(json_text(dict(zip(answer.columns, row, strict=True))) + "\n" for row in answer.rows)
        return
    console = Console(file=stream)
    ink = Ink(console)
    cells = [[cell_text(value) for value in row] for row in answer.rows]
    widths = [max(map(cell_len, column)) for column in zip(answer.columns, *cells, strict=True)]
    width = sum(widths) + _GAP * (len(widths) + 1)
    if stream.isatty() and width > console.width:
        for row in cells:
            ink.labelled(
                [(ink.safe(name, "dim"), ink.safe(cell)) for name, cell in zip(answer.columns, row, strict=True)]
            )
            console.print()
        return
    console.width = max(width, console.width)
    kinds = [_is_figures(column) for column in zip(*answer.rows, strict=True)] or [False] * len(widths)
    headings = [f"{FIGURES}{name}" if figures else name for name, figures in zip(answer.columns, kinds, strict=True)]
    ink.table(headings, cells)


def _is_figures(values: tuple[Any, ...]) -> bool:
    return all(
        value is None or (isinstance(value, int | float | Decimal) and not isinstance(value, bool)) for value in values
    )


def cell_text(value: Any) -> str:
    """*value* as one line that is safe to show."""
    if value is None:
        return NOTHING
    if isinstance(value, bytes | bytearray):
        return shown(bytes(value), NAME_LENGTH_MAX)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="microseconds" if value.microsecond else "seconds")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return printable(json.dumps(json_value(value), ensure_ascii=False))
    return printable(str(value))
