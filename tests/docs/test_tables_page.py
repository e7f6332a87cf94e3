"""docs/tables.md says what the schemas and the views say."""

from __future__ import annotations

from pathlib import Path

from schemas.catalogue import TABLES
from slotscope.sql.reference import as_markdown
from slotscope.sql.views import VIEWS

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


def test_the_page_of_tables_is_made_from_the_schemas() -> None:
    assert PAGE.read_text() == as_markdown(), "run: make docs"


def test_every_table_and_view_has_its_section() -> None:
    headings = [line.removeprefix("### ") for line in PAGE.read_text().splitlines() if line.startswith("### ")]

    assert sorted(headings) == sorted([*(table.name for table in TABLES), *(view.name for view in VIEWS)])
