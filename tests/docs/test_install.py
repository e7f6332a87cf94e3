"""The commands with which a reader begins are ones that work in a clone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_first_targets_of_the_readme_are_those_of_the_makefile():
    first = (ROOT / "README.md").read_text("utf-8").partition("## Install")[0]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"^make (\S+)", first, re.MULTILINE)

    assert named == ["demo", "test"]
    assert set(named) <= set(targets)


def test_no_page_installs_the_package_from_an_index():
    wrong = [page.name for page in PAGES if re.search(r"pip install [^\n]*['\"]?slotscope\[", page.read_text("utf-8"))]

    assert wrong == []
