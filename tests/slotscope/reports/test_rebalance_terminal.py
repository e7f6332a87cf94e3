"""A plan on a terminal: verdict first, its effect, the next command; harmless for any names."""

from __future__ import annotations

import pytest

from slotscope.reports.rebalance.report import amount, reason, why_many_ranges
from tests.benches.reports import page_of, terminal_of
from tests.builders.rebalance_report import changed, curve, rebalance_report


def test_the_verdict_comes_first_and_the_next_command_last() -> None:
    lines = terminal_of(rebalance_report(), width=100, html_path="out/plan.html").splitlines()

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


def test_each_resource_is_shown_before_and_after() -> None:
    report = rebalance_report()
    emptied = changed(report.nodes[0].shares["ops"], before=9e6, after=0.0, fair=0.0)
    drained = changed(report.nodes[0], shares={**report.nodes[0].shares, "ops": emptied})
    lines = terminal_of(changed(report, nodes=[*report.nodes, drained])).splitlines()
    (row,) = (line for line in lines if line.startswith("  ops "))

    assert row.split() == ["ops", "3.13×", "(1.25", "M)", "2.79×", "(1.11", "M)", "2.79×", "2", "%", "(raised)"]


def test_the_proven_minimum_and_the_gap_are_shown() -> None:
    assert "at least 580 MB must move (proven); this plan: 3.45 % more" in terminal_of(rebalance_report())


def test_loads_that_are_estimates_claim_no_proof() -> None:
    """A sample of the keys: what moves and what must move is about so much."""
    text = " ".join(terminal_of(changed(rebalance_report(), memory_error=0.038, has_headroom=True)).split())

    assert "moves about 600 MB" in text
    assert "about 580 MB must move to leave the headroom (loads are estimates, ±3.8 %)" in text
    assert "proven)" not in text


def test_many_masters_are_cut_and_counted() -> None:
    """A thousand masters are a screen, not a scroll."""
    text = terminal_of(rebalance_report(1000))

    assert "the 8 heaviest of 1,000" in text
    assert "the 6 largest of 334 transfers" in text
    assert len(text.splitlines()) < 70


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_hostile_names_do_nothing(encoding: str) -> None:
    report = rebalance_report(hostile=True)
    text = terminal_of(report, encoding=encoding)

    assert not [character for character in text if ord(character) < 32 and character != "\n"]
    assert "\u202e" not in text
    assert text.startswith("Slotscope ")
    assert "\x1b" not in page_of(report)


def test_a_drain_shows_its_load_and_a_rollback_may_need_masters_again() -> None:
    """The masters that stay are below their limits before it: they are not why anything moves."""
    report = rebalance_report()
    first = report.nodes[0]
    drained = changed(first, role="drained", slots_after=0)
    calm = [changed(reach, before=0.94, after=1.02, limit=1.02) for reach in report.reaches]
    held = amount(report.cost, first.shares[report.cost].before)

    emptied = changed(report, nodes=[drained, *report.nodes[1:]], reaches=calm)

    assert f"Drain 1 master ({held}). Afterwards the heaviest master holds 1.02× its fair share of " in reason(emptied)
    assert "(limit 1.02×)" in reason(emptied)
    assert "CLUSTER RESET SOFT" in terminal_of(emptied)
    assert "CLUSTER RESET SOFT" not in terminal_of(report)


def test_more_than_ten_ranges_a_master_have_a_reason_and_a_remedy() -> None:
    report = rebalance_report()
    line = curve(4, None, 2 * report.moved_bytes, 0.1, 40, 500)

    why, ways = why_many_ranges(changed(report, ranges_after=100, curve=[*report.curve, line]))

    assert "more than 10 a master" in why
    assert "serialized bytes and keys and ops" in why
    assert ways.startswith("Fewer: --bytes-budget 0% gives 96; --bytes-budget 4% gives 14; ")
    assert "--bytes-budget 10% gives 40" in ways
    dearer = changed(report, ranges_after=100, curve=[changed(line, ranges=120)])
    assert why_many_ranges(dearer)[-1] == "A larger --tolerance may give fewer."


def test_page_and_ticket_have_the_reason_of_many_ranges_without_other_budgets() -> None:
    """Under a heading of their own; nothing of the sort where they are few."""
    many = changed(rebalance_report(), ranges_after=400, curve=[])
    few = changed(many, ranges_after=14, ranges_bound=None)

    for text in (page_of(many), " ".join(terminal_of(many).split())):
        assert "400 slot ranges are more than 10 a master" in text
        assert "A larger --tolerance may give fewer." in text
    assert "Slot ranges</h2>" in page_of(many)
    assert "Slot ranges</h2>" not in page_of(few)
