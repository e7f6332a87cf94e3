"""The page of a plan as text: complete, bounded in size, the same each time, harmless whatever names say."""

from __future__ import annotations

import html
import re

import pytest

from cluster_core.rebalance.plan import PlanVerdict
from slotscope.reports.rebalance.report import RebalanceReport, amount, headline, ratio, remedy, share_text
from tests.benches.reports import page_of
from tests.builders.rebalance_report import changed, heavy, part, quiet_report, rebalance_report

BYTES_MAX = 2_000_000


def text_of(page: str) -> str:
    """The text that a reader sees."""
    visible = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(visible).split())


@pytest.mark.parametrize("masters", [1, 1000])
def test_a_page_of_any_size_is_below_two_megabytes_and_counts_omitted_rows(masters: int) -> None:
    report = rebalance_report(masters)
    page = page_of(report)
    shown = page.split('id="master-table"')[1].split("</table>")[0].count('<th scope="row"')

    assert len(page.encode()) < BYTES_MAX
    assert shown == min(masters, 200)
    if masters > shown:
        assert re.search(rf"The first {shown} of 1,000 rows", text_of(page))


def masters_of(report: RebalanceReport) -> list[str]:
    """Names of the masters in their order on the page."""
    table = page_of(report).split('id="master-table"')[1].split("</table>")[0]
    return re.findall(r'<th scope="row"[^>]*><bdi>([^<]*)</bdi>', table)


def test_the_heaviest_masters_come_first() -> None:
    """By the resource that is furthest over its limit."""
    report = rebalance_report(12)
    by_name = {report.names[node.node_id]: ratio(node, "serialized_bytes") for node in report.nodes}

    assert [by_name[name] for name in masters_of(report)] == sorted(by_name.values(), reverse=True)


def test_a_master_to_be_emptied_comes_before_all_others() -> None:
    """A drained master has no fair share to be over."""
    report = rebalance_report(6)
    drained = changed(report.nodes[1], role="drained", slots_after=0)
    emptied = changed(report, nodes=[*report.nodes[:1], drained, *report.nodes[2:]])

    assert masters_of(emptied)[0] == report.names[drained.node_id]


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (PlanVerdict.BALANCED, "Nothing to do: every master is within its limits."),
        (PlanVerdict.TOO_SMALL, "less than 1 % of a fair share (--gain-min)"),
    ],
)
def test_nothing_to_do_has_its_reason(verdict: str, sentence: str) -> None:
    text = text_of(page_of(quiet_report(verdict)))

    assert sentence in text
    assert "slotscope plan check" in text
    assert "execute-plan" not in text
    assert "Moves of one batch" not in text


def test_plans_that_miss_limits_do_not_claim_them() -> None:
    assert "not all reach them" in headline(changed(rebalance_report(), verdict=PlanVerdict.CLOSER))


def test_a_plan_that_gives_up_a_soft_goal_claims_hard_limits_only() -> None:
    report = changed(rebalance_report(), verdict=PlanVerdict.MOVE, heavy=())
    kept = [changed(reach, after=reach.limit) for reach in report.reaches]
    given_up = [*kept[:-1], changed(kept[-1], after=2 * kept[-1].limit)]

    assert "every master ends within its limits" in headline(changed(report, reaches=kept))
    quiet = changed(report, reaches=kept, verdict=PlanVerdict.BALANCED)
    assert "every master is within its limits (ops up to 2.786×, since slots cannot be divided)" in headline(quiet)
    assert "every master ends within its hard limits" in headline(changed(report, reaches=given_up))
    assert f"{kept[-1].resource.replace('_', ' ')} ends at" in headline(changed(report, reaches=given_up))


def test_a_heavy_tag_is_to_be_split_and_a_heavy_key_is_not() -> None:
    """Many keys under a tag can be spread over slots, one key cannot."""
    tag = heavy(1, "n", 3.0, 3, [part(b"cart:42", None, 900, 1, 0.9, 4)])
    key = heavy(1, "n", 3.0, 3, [part(None, b"counter", 1, 1, 0.9)])

    assert "{cart:42}" in remedy(tag)
    assert "into 4 or more, such as {cart:42:0} to {cart:42:3}" in remedy(tag)
    assert remedy(key).startswith("One key")
    assert "3 slots" in remedy(changed(tag, parts=[]))


def test_figures_are_never_rounded_to_nothing() -> None:
    """A gap of a millionth is not 0 %."""
    assert [share_text(value) for value in (0.0, 0.0000001, 0.02, 0.0198)] == ["0 %", "<0.01 %", "2 %", "1.98 %"]
    assert [amount("keys", value) for value in (0, 999, 12_345, None)] == ["0", "999", "12.3 k", "—"]
