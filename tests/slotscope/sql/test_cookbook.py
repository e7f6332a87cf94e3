"""docs/cookbook.md: every query runs as it stands, and gives the answer below it.

``pytest tests/slotscope/sql --rewrite`` writes the answers anew; read the diff before you keep it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

import slotscope
from slotscope.reports.answer import cell_text
from slotscope.runtime.answer import Answer
from slotscope.sql.duck import ask
from slotscope.sql.views import READ, VIEWS

PAGE = Path(__file__).parents[3] / "docs" / "cookbook.md"
QUESTIONS_MIN = 20


class Question(NamedTuple):
    title: str
    query: str
    answer: str


def questions() -> list[Question]:
    """Every section that has a query and, below it, a table."""
    result = re.findall(
        r"^## \d+\. (.*?)$.*?```sql\n(.*?)\n```\n\n((?:\|[^\n]*\n)+)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return [Question(*fields) for fields in result]


def test_the_page_has_the_usual_questions() -> None:
    """Each section is found, and each view is used, or is what one in use stands on."""
    headings = re.findall(r"^## (\d+)\.", PAGE.read_text(), re.MULTILINE)
    used = {name for question in questions() for name in READ.findall(question.query.lower())}

    assert [int(number) for number in headings] == list(range(1, len(questions()) + 1))
    assert len(questions()) >= QUESTIONS_MIN
    assert {view.name for view in VIEWS} - used == set()


def answer_markdown(answer: Answer) -> str:
    """A table of Markdown."""
    lines = [
        answer.columns,
        ["---"] * len(answer.columns),
        *([cell_text(value) for value in row] for row in answer.rows),
    ]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


@pytest.mark.parametrize("question", questions(), ids=lambda question: question.title)
def test_a_query_of_the_cookbook_gives_its_answer(
    asked_root: str, question: Question, request: pytest.FixtureRequest
) -> None:
    answer = ask(slotscope.connect(asked_root), question.query)
    in_duckdb = answer_markdown(answer)
    if request.config.getoption("--rewrite", default=False):
        PAGE.write_text(
            PAGE.read_text().replace(
                f"{question.query}\n```\n\n{question.answer}", f"{question.query}\n```\n\n{in_duckdb}"
            )
        )

    assert in_duckdb == question.answer, "pytest tests/slotscope/sql --rewrite writes the answers anew"
