"""Where pages go: never two of them into one file, whatever snapshots are called."""

from __future__ import annotations

from itertools import product

from slotscope.reports.delivery import Page, report_path

NAMES = (
    "before", "after", "Before", "BEFORE", "до", "после", "前", "後", "prod/a", "prod a", "prod_a", "../prod_a", ".prod_a",
    "x" * 120, "x" * 121, "x" * 122, "a", "b", "a-to-b", "plan-0123456789ab", "simulation-a", "a-history", "", "_", "report",
    "index", "a-replication", "caf\u00e9", "cafe\u0301", "\udcff",
)  # fmt: skip


def path_of(about):
    """The file of a page and the names that it is about."""
    page, *names = about
    return report_path("/r", *names, page=page)


def test_pages_of_different_snapshots_never_share_a_file_not_even_where_case_does_not_count():
    """Neither letters of any script, nor length, nor a name that looks like another page brings two together."""
    about = {(Page.KEY_SPACE, name) for name in NAMES} | {
        (Page.COMPARISON, *names) for names in product(NAMES, repeat=2)
    }
    about |= set(product((Page.PLAN, Page.SIMULATION, Page.HISTORY), NAMES))
    about |= {(Page.KEY_SPACE, path.rpartition("/")[2].removesuffix(".html")) for path in map(path_of, about)}
    paths = {snapshot: path_of(snapshot) for snapshot in about}

    assert len({path.lower() for path in paths.values()}) == len(paths)
    assert all(path.isascii() and path.rpartition("/")[0] == "/r/reports" for path in paths.values())


def test_plain_names_stay_unchanged():
    """Scripts find the page where the documentation says."""
    assert report_path("/r", "2026-09-21") == "/r/reports/2026-09-21.html"
    assert report_path("/r", "a", "b", page=Page.COMPARISON) == "/r/reports/a-to-b.html"
    assert report_path("/r", "0123456789ab", page=Page.PLAN) == "/r/reports/plan-0123456789ab.html"
    assert report_path("s3://bucket/r/", "a", page=Page.HISTORY) == "s3://bucket/r/reports/a-history.html"
