"""Pages are plain English, with lines of at most 100 characters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FREE_RELATIVE = re.compile(
    r"\bwhat (?:is|was|has|of|are|were|had)\b|\bwhose\b|\b(?:of|that) which\b|\bit is said\b", re.I
)
A_THOUSAND_WORDS_MAX = 2.1
OLD_STYLE = {"executing.md": 3}
"""Pages with a higher limit until they are rewritten."""
LONG_LINES = {"commands.md", "api.md", "evidence.md"}
"""Pages that are not wrapped, or made from help and signatures."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_few_free_relatives(page: Path) -> None:
    prose = CODE.sub("", page.read_text("utf-8"))
    actual = FREE_RELATIVE.findall(prose)

    limit = OLD_STYLE.get(page.name, A_THOUSAND_WORDS_MAX)
    assert len(actual) <= max(limit * len(prose.split()) / 1000, 1), actual


def test_lines_of_prose_are_wrapped_at_100_characters() -> None:
    long = [
        f"{page.name}: {line[:60]}"
        for page in PAGES
        if page.name not in LONG_LINES
        for line in CODE.sub("", page.read_text("utf-8")).splitlines()
        if len(line) > 100 and not line.startswith(("|", "!", "    "))
    ]

    assert long == []
