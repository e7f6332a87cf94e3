"""The table of rules and the code that cites it do not drift apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster_core.rules import CONTEXT, RULES, sentence

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for package in ("cluster_core", "jobs", "slotscope", "schemas")
    for path in (ROOT / package).rglob("*.py")
    if path != ROOT / "cluster_core" / "rules.py"
)
CITED = re.compile(r"\b[RSP][0-9]{1,3}[a-z]?\b")
NODE_NAMES = re.compile(r"R\d[bc]")
"""Replicas of the simulator are called R1, R1b, R1c."""


def _citations(path: Path) -> set[str]:
    citations = set(CITED.findall(path.read_text()))
    return {name for name in citations if not NODE_NAMES.fullmatch(name)} if "sim" in path.parts else citations


def test_every_rule_that_the_code_cites_is_in_the_table() -> None:
    unknown = {f"{path.relative_to(ROOT)}: {name}" for path in SOURCES for name in _citations(path) - set(RULES)}

    assert unknown == set()


def test_every_rule_is_cited_by_code_or_marked_as_context() -> None:
    cited_somewhere = set().union(*(_citations(path) for path in SOURCES))

    assert set(RULES) - cited_somewhere == CONTEXT


def test_every_rule_is_one_sentence_with_the_function_that_decides_it() -> None:
    faulty = [
        rule.id
        for rule in RULES.values()
        if not rule.text.endswith(".") or (not rule.decided_in.isidentifier() and "." not in rule.decided_in)
    ]

    assert faulty == []


@pytest.mark.parametrize(
    ("cause", "expected"), [("R112", "A key's slot is its CRC16 (XMODEM) modulo 16384."), ("poll", "")]
)
def test_a_cause_that_is_a_rule_has_its_sentence_and_another_has_none(cause: str, expected: str) -> None:
    assert sentence(cause) == expected


def test_every_rule_that_a_scenario_shows_is_in_the_table() -> None:
    lines = [line for path in (ROOT / "tests" / "scenarios").glob("*.txt") for line in path.read_text().splitlines()]
    shown = {name for line in lines if line.startswith("rules ") for name in line.split("#")[0].split()[1:]}

    assert shown, "no scenario names a rule"
    assert shown - set(RULES) == set()
