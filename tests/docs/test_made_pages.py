"""Generated pages are up to date with the code."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.catalogue import TABLES

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "make_pages.py"))


@pytest.mark.parametrize("name", sorted(MADE["PAGES"]))
def test_generated_pages_are_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == MADE["PAGES"][name](), "run: make docs"


def test_every_table_and_view_has_its_section() -> None:
    headings = re.findall(r"^### (.+)$", MADE["tables"](), re.MULTILINE)

    assert sorted(headings) == sorted([*(table.name for table in TABLES), *(view.name for view in MADE["VIEWS"])])


def test_the_diagram_of_sentinel_has_every_transition() -> None:
    assert MADE["sentinel"]().count("-->") == len(MADE["TRANSITIONS"])


def test_a_message_is_listed_with_its_exit_code_and_its_variable_parts_in_capitals() -> None:
    source = """
def check(path, kinds):
    if not kinds:
        raise InputError(f"{path}: no such kind; there are {', '.join(sorted(kinds))}")
    raise TryAgainError(f"{self.place}: {len(kinds)} writers" " at work; retry later")
    raise ValueError("a fault of the caller is no message")
"""
    assert sorted(MADE["raised_messages"](source)) == [
        ("PATH: no such kind; there are KINDS", 2),
        ("PLACE: N writers at work; retry later", 75),
    ]


def test_every_page_is_in_the_contents_and_every_entry_is_a_page() -> None:
    listed = set(re.findall(r"(\S+\.md)\b", (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]))

    assert listed == {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}


@pytest.mark.processes
def test_the_site_is_built_without_a_dead_link(tmp_path: Path) -> None:
    """Links to pages, anchors and files; links name files, and the search index is a script, so that pages work without a web server."""
    pytest.importorskip("material")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "search" / "search_index.js").exists()
    assert 'src="javascripts/iframe-worker.js"' in (tmp_path / "site" / "tutorial.html").read_text("utf-8")
