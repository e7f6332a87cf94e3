"""A page that names a module names one that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = (ROOT, ROOT / "cluster_core", ROOT / "slotscope", ROOT / "docs")
"""From where the pages name modules."""
PATH = re.compile(r"`([a-z_]+(?:/\w+)+(?:\.py)?)`")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)")
TABLES = ("bronze/", "silver/", "gold/", "build/")


def test_every_module_that_a_page_names_exists() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = {(page.name, path) for page in pages for path in PATH.findall(page.read_text("utf-8"))}
    modules = {(page, path) for page, path in named if not path.startswith(TABLES) and "NAME" not in path}

    assert len(modules) > 50
    assert [where for where in sorted(modules) if not _is_there(where[1])] == []


def _is_there(path: str) -> bool:
    return any((place / path).exists() or (place / f"{path}.py").exists() for place in PLACES)


def test_pages_show_exactly_the_existing_images() -> None:
    """An image on no page is never renewed."""
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    shown = {
        (page.parent / path).resolve() for page in pages for path in IMAGE.findall(page.read_text("utf-8")) if "://" not in path
    }  # fmt: skip

    assert shown == {path for path in (ROOT / "docs").rglob("*") if path.suffix in (".png", ".svg", ".jpg")}


def test_search_of_the_docs_works_in_pages_opened_as_files() -> None:
    """Browsers let no page of a file read another file: without the plug-in the theme hides the search."""
    plugins = re.search(r"^plugins: \[(.*)\]", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)

    assert plugins is not None
    assert [word.strip() for word in plugins[1].split(",")] == ["search", "offline"]


def test_every_test_that_set_up_runs_exists() -> None:
    """Set-up compiles the kernels by running their tests, and goes on without them."""
    named = re.findall(r"\btests/[\w/]+(?:\.py)?", (ROOT / "Makefile").read_text("utf-8"))

    assert len(named) > 1
    assert [path for path in named if not (ROOT / path).exists()] == []
