"""Every command of a page runs as written, in a folder with the files that it names, and prints the shown output.

The README shows commands of the tutorial, which are run once for all (``tests/conftest.py``).  Pages that tell more of the same wait
for `make test-all`; that their commands exist with these options is held by `make check`.
``pytest tests/docs/test_commands.py --rewrite`` writes the shown lines anew; read the diff before you keep it.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError

from jobs.main import program
from tests.benches.shown_commands import ELSEWHERE, ROOT, Printed, furnish, run_page, shown
from tests.conftest import Walk

FIRST = ("README.md", "docs/tutorial.md")
REST = ("docs/aof.md", "docs/rebalancing.md", "docs/simulator.md")
PAGES = (*FIRST, *REST)


def test_pages_show_commands() -> None:
    assert {page: len(shown(page)) > 0 for page in PAGES} == dict.fromkeys(PAGES, True)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_takes_the_options_it_is_given(page: str) -> None:
    """Names, kinds and combinations of options; nothing is run."""
    app = program()
    typed = [shlex.split(example.command)[1:] for example in shown(page) if example.command.startswith("slotscope ")]
    wrong = {}
    for arguments in typed:
        try:
            app.parse_args(arguments, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            wrong[shlex.join(arguments)] = str(error)

    assert len(typed) > 0
    assert wrong == {}


@pytest.mark.long
@pytest.mark.parametrize("page", FIRST)
def test_first_commands_print_the_shown_output(tutorial: Walk, page: str, request: pytest.FixtureRequest) -> None:
    printed = run_page(page, tutorial.folder, tutorial.printed)

    assert_shown(page, printed, request)


@pytest.mark.long
@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.slow) for page in REST])
def test_every_command_of_a_page_runs_as_written(
    spark: Any, tmp_path: Path, page: str, request: pytest.FixtureRequest
) -> None:
    furnish(tmp_path)

    assert_shown(page, run_page(page, tmp_path, {}), request)


def assert_shown(page: str, printed: dict[str, Printed], request: pytest.FixtureRequest) -> None:
    """Each command of *page* ended well and printed the lines below it."""
    wrong: dict[str, object] = {}
    text = (ROOT / page).read_text("utf-8")
    for example in shown(page):
        if example.command.startswith(ELSEWHERE):
            continue
        output, code = printed[example.command]
        if request.config.getoption("--rewrite", default=False):
            text = text.replace(example.text, example.rewritten(output))
            (ROOT / page).write_text(text, "utf-8")
        elif code != 0 or example.missing(output):
            wrong[example.command] = code or example.missing(output)

    assert wrong == {}
