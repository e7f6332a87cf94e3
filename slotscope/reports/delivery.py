"""Where reports go: the terminal and one HTML file."""

from __future__ import annotations

import hashlib
import os
import re
import time
from enum import StrEnum
from importlib import import_module
from typing import TextIO, cast

from rich.console import Console

from slotscope.reports.document import Document
from slotscope.reports.index import Card, add_page
from slotscope.reports.page import render_document
from slotscope.reports.records import summaries, write_json
from slotscope.reports.terminal import print_document
from slotscope.runtime import stores
from slotscope.sources.files import is_uri, write_text

FILE_NAME_MAX = 120
DIGEST_DIGITS = 8


class Page(StrEnum):
    """Pages that are written beside the tables: how the names that they are about become the name of a file."""

    KEY_SPACE = "{}"
    COMPARISON = "{}-to-{}"
    PLAN = "plan-{}"
    SIMULATION = "simulation-{}"
    HISTORY = "{}-history"
    INCIDENT = "{}-incident-{}"
    FLEET = "fleet"
    FLEET_PLANS = "fleet-plans"


_MISTAKABLE = re.compile(
    rf"^$|^(index|fleet|fleet-plans)$|^plan-|^simulation-|-to-|-incident-|-(history|replication)$|-[0-9a-f]{{{DIGEST_DIGITS}}}$"
)
"""Names that would read as another page, or as one with a digest."""


KINDS = {
    "KeyspaceReport": (Page.KEY_SPACE, "keyspace.document"),
    "ComparisonReport": (Page.COMPARISON, "keyspace.comparison"),
    "RebalanceReport": (Page.PLAN, "rebalance.document"),
    "SimulationReport": (Page.SIMULATION, "simulation.report"),
    "HistoryReport": (Page.HISTORY, "history.html"),
    "FleetReport": (Page.FLEET, "fleet.report"),
    "FleetPlansReport": (Page.FLEET_PLANS, "rebalance.fleet"),
}
"""The page and the module of a report by the name of its class: a command loads the code of its own report only."""


def document_of(report: object) -> Document:
    """Return *report* as a document."""
    module = import_module(f"slotscope.reports.{KINDS[type(report).__name__][1]}")
    return cast(Document, module.to_document(report))


def deliver(report: object, *, root: str, html: str | None, stream: TextIO | None, as_json: bool = False) -> str:
    """Write the page of *report*, print its summary, or all of it as JSON, on *stream* if given; return the path of the page.

    Without *html* the page goes beside the tables, and into the list of their pages.
    """
    kind, document = KINDS[type(report).__name__][0], document_of(report)
    page = document.hand_drawn.page() if document.hand_drawn else render_document(document)
    if html is None:
        path = report_path(root, *document.names, page=kind)
        folder, _, file = path.rpartition("/")
        add_page(folder, _card(document, file), page)
    else:
        path = html
        write_text(path, page)
    if stream is not None and as_json:
        runs = summaries(root, document.names)
        write_json({"page": path, "verdict": document.verdict, "runs": runs, "report": report}, stream)
    elif stream is not None:
        console = Console(file=stream)
        if document.hand_drawn:
            document.hand_drawn.terminal(console, html_path=path)
        else:
            print_document(document, console, html_path=path)
    return path


def _card(document: Document, file: str) -> Card:
    return Card(
        file=file,
        kind=document.kind,
        title=document.title,
        verdict=document.verdict,
        about=document.about,
        of_ms=document.of_ms,
        written_ms=time.time_ns() // 1_000_000,
    )


def report_path(root: str, *names: str, page: Page = Page.KEY_SPACE) -> str:
    """Return ``ROOT/reports/NAME.html``, a file of its own for all *names*, even on file systems that ignore case.

    Names of small letters, digits, ``.``, ``_`` and ``-`` stay as they are; where anything had to be replaced or cut, or the name
    could be that of another page, a digest of page and names is added.
    """
    whole = page.format(*names)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", whole).lstrip(".")[:FILE_NAME_MAX]
    if safe != whole or safe != safe.lower() or any(_MISTAKABLE.search(name) for name in names):
        digest = hashlib.sha256(ascii([page.name, *names]).encode()).hexdigest()
        safe = f"{safe or 'report'}-{digest[:DIGEST_DIGITS]}"
    path = f"{stores.plain(root).rstrip('/')}/reports/{safe}.html"
    return path if is_uri(path) else os.path.abspath(path)
