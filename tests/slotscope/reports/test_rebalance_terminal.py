"""A plan on a terminal: verdict first, what it brings, what to type next; harmless whatever names say."""

from __future__ import annotations

import pytest

from slotscope.reports.rebalance.report import RebalanceReport
from tests.benches.reports import terminal_of
from tests.builders.rebalance_report import changed, rebalance_report


def rendered(report: RebalanceReport, *, width: int = 100, encoding: str = "utf-8") -> str:
    return terminal_of(report, width=width, encoding=encoding, html_path="out/plan.html")


def test_the_verdict_comes_first_and_the_next_command_last() -> None:
    lines = rendered(rebalance_report()).splitlines()

    assert lines[1].startswith(
        "No move can balance this cluster: {cart:42} (slot 7186) alone is 2.79× a fair share of ops. Best"
    )
    headings = [line.split("  ")[0] for line in lines if line[:1].isalpha()][3:]
    assert headings[-7:-1] == [
        "Balance",
        "Masters",
        "Moves",
        "Slots that cannot be divided",
        "Alternatives",
        "Next",
    ]
    assert "  slotscope plan check --root /data/slots --plan 0123456789ab" in lines
    assert lines[-1] == "All of it as a page: out/plan.html"


def test_each_resource_is_told_before_and_after() -> None:
    lines = rendered(rebalance_report()).splitlines()
    row = next(line for line in lines if line.strip().startswith("ops "))

    assert row.split() == ["ops", "3.13×", "(1.25", "M)", "2.79×", "(1.11", "M)", "2.79×", "2", "%", "(raised)"]


def test_the_proven_minimum_and_the_gap_are_told() -> None:
    assert "at least 580 MB must move (proven); this plan: 3.45 % more" in rendered(rebalance_report())


def test_loads_that_are_estimates_claim_no_proof() -> None:
    """A sample of the keys: what moves and what must move is about so much."""
    text = " ".join(rendered(changed(rebalance_report(), memory_error=0.038)).split())

    assert "moves about 600 MB" in text
    assert "about 580 MB must move (loads are estimates, ±3.8 %)" in text
    assert "proven)" not in text


def test_many_masters_are_cut_and_counted() -> None:
    """A thousand masters are a screen, not a scroll."""
    text = rendered(rebalance_report(1000))

    assert "the 8 heaviest of 1,000" in text
    assert "the 6 largest of 334 transfers" in text
    assert len(text.splitlines()) < 70


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_hostile_names_do_nothing(encoding: str) -> None:
    text = rendered(rebalance_report(hostile=True), encoding=encoding)

    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert "\u202e" not in text
