"""CLUSTER NODES of the past, observers by short names, times as people write them (R128)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import ClusterCoreError
from cluster_core.incidents.past_views import find_observer, view_at, view_differences
from cluster_core.instants import time_ns, write_instant
from cluster_core.replay.rows import NodeViewRow
from cluster_core.topology.nodes_text import read_nodes, write_nodes
from tests.builders.history_builder import A, B, C, R, failover_tale, ns


def rows() -> list[NodeViewRow]:
    return [row for row in failover_tale().rows if isinstance(row, NodeViewRow)]


def test_a_past_view_equals_cluster_nodes() -> None:
    """Myself first, then by id; the text can be read back."""
    text = write_nodes(view_at(rows(), B, ns(13)))

    assert text.decode().splitlines() == [
        f"{B} 10.0.0.1:7001@17001 myself,master - 0 0 2 connected 100-199",
        f"{A} 10.0.0.1:7000@17000 master,fail - 0 0 1 disconnected 0-99",
        f"{C} 10.0.0.1:7002@17002 master - 0 0 3 connected 200-299",
        f"{R} 10.0.0.1:7003@17003 slave {A} 0 0 1 connected",
    ]
    assert write_nodes(read_nodes(text)) == text


def test_two_views_differ_where_one_did_not_hear_yet() -> None:
    differences = view_differences(view_at(rows(), A, ns(19)), view_at(rows(), B, ns(19)))

    assert [(difference.node, difference.field, difference.first, difference.second) for difference in differences] == [
        (A, "flags", "master", "master,fail"), (A, "slots", "0-99", "-"), (R, "flags", "slave", "master"), (R, "master", A, "-"),
        (R, "config_epoch", "1", "4"), (R, "slots", "-", "0-99"),
    ]  # fmt: skip
    assert view_differences(view_at(rows(), B, ns(19)), view_at(rows(), B, ns(19))) == []


def test_an_observer_or_time_without_beliefs_is_reported() -> None:
    with pytest.raises(ClusterCoreError, match="no view of"):
        view_at(rows(), B, ns(-1))


@pytest.mark.parametrize(
    ("wanted", "expected"), [(B, B), ("bb", B), ("BB", B), ("10.0.0.1:7001", B), ("a", A), ("7001", B)]
)
def test_an_observer_is_matched_by_id_prefix_address_or_port(wanted: str, expected: str) -> None:
    assert find_observer(wanted, {A: "10.0.0.1:7000", B: "10.0.0.1:7001"}) == expected


@pytest.mark.parametrize(("wanted", "reason"), [("a", "may be"), ("x", "no observer"), ("", "no observer")])
def test_an_unclear_observer_is_refused_with_the_choices(wanted: str, reason: str) -> None:
    with pytest.raises(ClusterCoreError, match=reason):
        find_observer(wanted, {A: "10.0.0.1:7000", "ab" * 20: "10.0.0.1:7001"})


@pytest.mark.parametrize(
    "text",
    [
        "1700000000.5", "1700000000500", "1700000000500000", "1700000000500000000", "2023-11-14T22:13:20.5Z",
        "2023-11-14 22:13:20.500", "2023-11-14T23:13:20,5+01:00", "2023-11-14T17:13:20.5-0500",
    ],
)  # fmt: skip
def test_a_time_is_read_in_every_usual_form(text: str) -> None:
    assert time_ns(text) == 1_700_000_000_500_000_000


@pytest.mark.parametrize(
    "text", ["", "yesterday", "17e8", "2023-13-01", "-5", "9" * 40, "1" * 5000, "2023-11-14T25:00Z"]
)
def test_an_invalid_time_is_refused(text: str) -> None:
    assert time_ns(text) is None


@given(st.integers(min_value=10**17, max_value=9 * 10**18))
def test_a_written_time_is_read_back_to_the_microsecond(ts_ns: int) -> None:
    assert time_ns(write_instant(ts_ns)) == ts_ns // 1000 * 1000
