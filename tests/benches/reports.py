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


def terminal_of(report: object, *, width: int = 80, encoding: str = "utf-8", html_path: str | None = None) -> str:
    """What a terminal of *width* and *encoding* shows of *report*."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    print_document(document_of(report), Console(file=stream, width=width), html_path=html_path)
    stream.flush()
    return raw.getvalue().decode(encoding)
