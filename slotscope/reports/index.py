"""The pages of a root as one list, and links between pages about one snapshot.

Beside every page lies a card, ``ROOT/reports/cards/NAME.json``: the subject of the page and its verdict, so that no page has to be
read for the list.  Each page has its own card, so jobs that end at the same time do not overwrite each other's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from html import escape
from urllib.parse import quote

from cluster_core.errors import DecodeError
from slotscope.reports.document import Cell, Column, Document, Format, Section, Table
from slotscope.reports.page import render_document
from slotscope.runtime import text
from slotscope.sources.files import expand, open_raw, write_text

INDEX = "index.html"
SNAPSHOT = "snapshot"
"""The kind of the pages that others are below."""
FLEET = "fleet"
"""The kind of the page that all snapshots and histories are below."""
CARD_BYTES_MAX = 65_536
CARDS_MAX = 5_000
READERS = 16
RELATED_MAX = 12
_TRAIL = re.compile("<!--trail-->(<p class=.trail.>.*?</p>)?", re.DOTALL)
"""Links of a page, or their place; text from outside holds no ``<``."""


@dataclass(frozen=True, slots=True)
class Card:
    """One page: *about* are its snapshots, *of_ms* is their time, *written_ms* its own."""

    file: str
    kind: str
    title: str
    verdict: str
    about: tuple[str, ...]
    of_ms: int | None
    written_ms: int

    @property
    def link(self) -> str:
        """The address of the page from another one of the same root."""
        return quote(self.file)


def add_page(folder: str, card: Card, page: str) -> None:
    """Write *page* and its *card* into *folder*, link it with the pages about its snapshot, and write the list again."""
    cards = [entry for entry in read_cards(folder) if entry.file != card.file] + [card]
    write_text(f"{folder}/{card.file}", with_trail(page, card, cards))
    write_text(f"{folder}/cards/{card.file.removesuffix('.html')}.json", json.dumps(asdict(card)))
    for other in related(card, cards):
        with suppress(DecodeError, OSError, ValueError):  # it was removed, or is no page of ours
            with open_raw(f"{folder}/{other.file}") as raw:
                written = raw.read().decode("utf-8")
            write_text(f"{folder}/{other.file}", with_trail(written, other, cards))
    write_text(f"{folder}/{INDEX}", render_index(cards))


def related(card: Card, cards: Sequence[Card]) -> list[Card]:
    """Return the pages of other kinds about a snapshot of *card*, those of snapshots first, then the newest."""
    near = [other for other in cards if other.kind != card.kind and set(other.about) & set(card.about)]
    return sorted(near, key=lambda other: (other.kind != SNAPSHOT, -other.written_ms, other.file))[:RELATED_MAX]


def with_trail(page: str, card: Card, cards: Sequence[Card]) -> str:
    """Return *page* with links to the list of all pages and to those about its snapshot."""
    links = [(INDEX, "All reports"), *((entry.link, entry.title) for entry in related(card, cards))]
    trail = " · ".join(f'<a href="{escape(link)}">{escape(text.printable(title, 80))}</a>' for link, title in links)
    return _TRAIL.sub(lambda _: f'<!--trail--><p class="trail">{trail}</p>', page, count=1)


def read_cards(folder: str) -> list[Card]:
    """The cards of the pages that are in *folder*; one that cannot be read is left out."""
    pages = {path.rpartition("/")[2] for path in _listed(folder)}
    paths = _listed(f"{folder}/cards")[:CARDS_MAX]
    with ThreadPoolExecutor(READERS) as readers:
        results = readers.map(_read_card, paths)
        return [card for card in results if card is not None and card.file in pages]


def _listed(folder: str) -> list[str]:
    try:
        return [file.path for file in expand([folder])]
    except DecodeError:
        return []


def _read_card(path: str) -> Card | None:
    try:
        with open_raw(path) as raw:
            values = json.loads(raw.read(CARD_BYTES_MAX) or b"")
        values["about"] = tuple(map(str, values["about"]))
        card = Card(**{field.name: values[field.name] for field in fields(Card)})
    except (DecodeError, OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    texts, numbers = (card.file, card.kind, card.title, card.verdict), (card.written_ms, card.of_ms or 0)
    sound = all(isinstance(value, str) for value in texts) and all(isinstance(value, int) for value in numbers)
    return card if sound else None


def render_index(cards: Sequence[Card]) -> str:
    """Return the list of all pages as a page: that of the fleet first, then the newest."""
    newest = sorted(cards, key=lambda card: (card.kind != FLEET, -card.written_ms, card.file))
    counts = Counter(card.kind for card in newest)
    about = ", ".join(f"{kind} {text.count(number)}" for kind, number in counts.items())
    columns = [
        Column("Page", of=lambda card: Cell(None, text.printable(card.title, 80), link=card.link)),
        Column("Kind", of="kind"),
        Column("Verdict", Format.LONG, "verdict"),
        Column("Data from", Format.MOMENT, "of_ms"),
        Column("Written", Format.MOMENT, "written_ms", "none" if counts[FLEET] else "descending"),
    ]
    table = Table("page-table", f"{text.plural(len(newest), 'page')}: {about}", columns, newest, on_page=CARDS_MAX)
    verdict = f"{newest[0].title}: {newest[0].verdict}" if newest else "No page was written yet."
    subtitle = "All pages beside these tables, the newest first"
    return render_document(
        Document("index", "All reports", verdict, [Section("pages", "Pages", [table])], page_subtitle=subtitle)
    )
