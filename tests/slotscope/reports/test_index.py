"""The list of a root's pages: each with its verdict, whatever the pages are called and whatever else lies there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from slotscope.reports.delivery import deliver
from slotscope.reports.index import read_cards, render_index
from slotscope.reports.keyspace.comparison import compare_reports
from slotscope.reports.keyspace.report import verdict
from tests.builders.history_report import history_report
from tests.builders.rebalance_report import changed, rebalance_report
from tests.builders.reports_builder import keyspace_report

after = keyspace_report


def plan_of_after():
    return changed(rebalance_report(), snapshot_id=after().snapshot_id)


def names_of(*paths: str) -> list[str]:
    return [Path(path).name for path in paths]


@pytest.mark.long
def test_every_page_is_in_the_list_with_its_verdict_the_newest_first(tmp_path):
    """A page written again stands there once."""
    before = replace(keyspace_report(seed=8), snapshot_id="2026-09-20")
    comparison = compare_reports(before, after())
    for report in (before, after(), before, comparison, plan_of_after(), history_report()):
        deliver(report, root=str(tmp_path), html=None, stream=None)
    page = (tmp_path / "reports" / "index.html").read_text("utf-8")
    table = page.partition("<tbody>")[2]

    kinds = re.findall(r'data-label="Kind" ><bdi>(\w+)<', table)
    assert kinds == ["history", "plan", "comparison", "snapshot", "snapshot"]
    assert f"<bdi>{verdict(after())}</bdi>" in table
    assert all(
        (tmp_path / "reports" / name).exists() for name in re.findall(r'<th scope="row" ><a href="([^"]+)"', table)
    )


def links_of(path: str) -> list[str]:
    """Where the links at the head of a page lead."""
    return re.findall(
        r'href="([^"]+)"', Path(path).read_text("utf-8").partition("<!--trail-->")[2].partition("</p>")[0]
    )


def test_pages_about_one_snapshot_lead_to_each_other_also_when_the_other_comes_later(tmp_path):
    root = str(tmp_path)
    snapshot = deliver(after(), root=root, html=None, stream=None)
    alone = links_of(snapshot)
    plan = deliver(plan_of_after(), root=root, html=None, stream=None)

    assert alone == ["index.html"]
    assert links_of(snapshot) == ["index.html", *names_of(plan)]
    assert links_of(plan) == ["index.html", *names_of(snapshot)]

    Path(plan).unlink()
    deliver(after(), root=root, html=None, stream=None)
    assert links_of(snapshot) == ["index.html"]


def test_a_snapshot_named_index_does_not_take_the_place_of_the_list(tmp_path):
    path = deliver(replace(after(), snapshot_id="index"), root=str(tmp_path), html=None, stream=None)

    assert Path(path).name != "index.html"
    assert names_of(path)[0] in (tmp_path / "reports" / "index.html").read_text("utf-8")


def test_invalid_cards_are_left_out_and_names_stay_text(tmp_path):
    """A foreign file, cut files, files of other types; a snapshot with a name of markup."""
    hostile = keyspace_report(hostile=True)
    deliver(hostile, root=str(tmp_path), html=None, stream=None)
    folder = tmp_path / "reports"
    for at, content in enumerate(["", "{", "[]", '{"file": 1}', "[" * 100_000, '{"about": 7}']):
        (folder / "cards" / f"{at}.json").write_text(content)
    deliver(plan_of_after(), root=str(tmp_path), html=None, stream=None)
    cards = read_cards(str(folder))
    page = render_index(cards)

    assert sorted(card.kind for card in cards) == ["plan", "snapshot"]
    assert "<b>" not in page
    assert "2026-09-21&lt;b&gt;" in page
