"""Prefixes that say the same are one line, and hash tags stay whole."""

from __future__ import annotations

from slotscope.reports.keyspace.comparison import Load, growth_table
from slotscope.reports.keyspace.report import folded_prefixes
from tests.builders.reports_builder import key_group


def test_a_prefix_with_a_single_child_is_shown_by_the_child():
    groups = [key_group(name, keys=1500, size=9) for name in (b"{tenant:", b"{tenant:acme}:", b"{tenant:acme}:item:")]

    assert [group.name for group in folded_prefixes(groups)] == [b"{tenant:acme}:item:"]


def test_a_prefix_with_several_children_stays_and_no_prefix_cuts_a_tag():
    """What has two children is a figure of its own, unless it is half a tag."""
    groups = [
        key_group(name, keys=keys)
        for name, keys in ((b"a:", 3), (b"a:b:", 2), (b"{t:", 5), (b"{t:1}:", 4), (b"{}x:", 1))
    ]

    assert [group.name for group in folded_prefixes(groups)] == [b"a:", b"a:b:", b"{t:1}:", b"{}x:"]


def test_growth_folds_only_prefixes_equal_in_both():
    """A child that is new makes its parent a figure of its own, in both snapshots."""
    before = {b"c:": Load(7, 700), b"c:p:": Load(7, 700), b"s:": Load(2, 50), b"s:x:": Load(2, 50)}
    after = {b"c:": Load(9, 900), b"c:p:": Load(7, 750), b"s:": Load(3, 60), b"s:x:": Load(3, 60)}

    assert [row.name for row in growth_table("prefixes", before, after, partial=True).rows] == [b"c:", b"c:p:", b"s:x:"]
