"""What a person sees of a report: its page, and its lines on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from slotscope.reports.delivery import document_of
from slotscope.reports.page import render_document
from slotscope.reports.terminal import print_document


def page_of(report: object) -> str:
    document = document_of(report)
    return document.hand_drawn.page() if document.hand_drawn else render_document(document)


def terminal_of(
    report: object, *, width: int = 80, encoding: str = "utf-8", colour: bool = False, html_path: str | None = None
) -> str:
    """What a file of *encoding* gets of *report*, or a terminal with colours."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    console = Console(file=stream, width=width, force_terminal=colour, color_system="standard" if colour else None)
    print_document(document_of(report), console, html_path=html_path)
    stream.flush()
    return raw.getvalue().decode(encoding)
