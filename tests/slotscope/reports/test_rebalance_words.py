"""What the report says a plan means: read from tables, put in sentences, and in a block for a ticket."""

from __future__ import annotations

from slotscope.reports.rebalance.report import amount, reason, why_many_ranges
from tests.benches.reports import page_of, terminal_of
from tests.builders.rebalance_report import changed, curve, rebalance_report


def test_a_drain_is_told_by_what_is_to_leave_and_its_way_back_may_need_masters_again() -> None:
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


def test_page_and_ticket_hold_all_of_it_and_hostile_names_stay_text() -> None:
    report = rebalance_report(hostile=True)

    page, block = page_of(report), terminal_of(report)

    assert "\x1b" not in page + block
    assert block.splitlines()[0].startswith("Slotscope · plan ")
    assert "--rollback" in block
    assert all(len(line) < 2_000 for line in block.splitlines())


def test_more_than_ten_ranges_a_master_come_with_a_reason_and_what_would_give_fewer() -> None:
    report = rebalance_report()
    line = curve(4, None, 2 * report.moved_bytes, 0.1, 40, 500)

    why, ways = why_many_ranges(changed(report, ranges_after=100, curve=[*report.curve, line]))

    assert "more than 10 a master" in why
    assert "serialized bytes and keys and ops" in why
    assert ways.startswith("Fewer: --bytes-budget 0% gives 96; --bytes-budget 4% gives 14; ")
    assert "--bytes-budget 10% gives 40" in ways
    dearer = changed(report, ranges_after=100, curve=[changed(line, ranges=120)])
    assert why_many_ranges(dearer)[-1] == "A larger --tolerance may give fewer."


def test_page_and_ticket_say_why_ranges_are_many_where_there_are_no_other_budgets_to_show() -> None:
    """Under a heading of their own; nothing of the sort where they are few."""
    many = changed(rebalance_report(), ranges_after=400, curve=[])
    few = changed(many, ranges_after=14, ranges_bound=None)

    for text in (page_of(many), " ".join(terminal_of(many).split())):
        assert "400 slot ranges are more than 10 a master" in text
        assert "A larger --tolerance may give fewer." in text
    assert "Slot ranges</h2>" in page_of(many)
    assert "Slot ranges</h2>" not in page_of(few)
