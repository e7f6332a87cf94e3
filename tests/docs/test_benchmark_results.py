"""`python -m benchmarks NAME` changes its own section of ``benchmarks/results.md`` and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES
from benchmarks.page import command, with_section
from benchmarks.result import Bar, Result, Table, result_markdown

PAGE = (Path(__file__).parents[2] / "benchmarks" / "results.md").read_text()
MEASURED = re.findall(r"`python -m benchmarks (\w+)`\.", PAGE)
ORDER = ("one", "two", "three")


def section(name: str, figure: int = 1) -> str:
    """What a benchmark called *name* writes."""
    result = Result(
        name,
        f"About {name}",
        "Read.",
        [Table("Rows", [{"way": "ours", "ns": figure}])],
        [Bar("quick", 5, figure, "ns")],
    )
    return result_markdown(result, "2026-11-21", {"processor": "EPYC"})


def test_a_section_has_the_measurement_the_machine_and_the_result():
    assert section("one", 9).split("\n\n") == [
        "## About one",
        "Read. Measured on 2026-11-21; `python -m benchmarks one`.",
        "Machine: processor EPYC.",
        "### What holds",
        "| promise | bar | measured |  |\n|---|---|---|---|\n| quick | ≤ 5 ns | 9 ns | **missed** |",
        "### Rows",
        "| way | ns |\n|---|---:|\n| ours | 9 |",
    ]


def test_a_new_figure_changes_its_own_section_alone():
    page = "# Performance\n\nWords.\n\n" + "\n\n".join(map(section, ORDER)) + "\n"

    changed = with_section(page, "two", section("two", 7), ORDER)

    assert changed == page.replace(section("two"), section("two", 7))
    assert changed != page


@pytest.mark.parametrize("name", MEASURED)
def test_a_run_in_a_fresh_clone_leaves_all_other_figures_of_the_project(name: str):
    changed = with_section(PAGE, name, section(name), NAMES)
    old, new = PAGE.split("\n## "), changed.split("\n## ")

    assert len(old) == len(new)
    assert [command(name) in before for before, after in zip(old, new, strict=True) if before != after] == [True]
