"""Placement files: settings of nodes, and errors that name the line."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.errors import PlanError
from cluster_core.rebalance.goal.placement import masters_of, owners_of, read_placement
from cluster_core.topology.nodes_text import read_nodes

A, B, C = "a" * 40, "b" * 40, "c" * 40
NODES = (
    f"{A} 10.0.0.1:7000@17000 myself,master - 0 0 3 connected 0-8191\n"
    f"{B} 10.0.0.2:7000@17000,,availability-zone=z9 master - 0 0 2 connected 8192-16383\n"
    f"{C} 10.0.0.3:7000@17000 slave {A} 0 0 3 connected\n"
)
TOML = f"""\
zone_share_max = 0.5
pinned_slots = ["0-2", 866]

[defaults]
zone = "a"

[[nodes]]
node = "10.0.0.1:7000"   # the first
weight = 2
maxmemory = "4gb"

[[nodes]]
node = "{B[:8]}"
zone = "b"
drain = true
capacity = {{ keys = 1_000 }}
"""


def topology():
    return read_nodes(NODES.encode())


def test_a_placement_has_weights_capacities_zones_and_drained_masters():
    placement = read_placement(TOML, "p.toml")
    masters, nodes = masters_of(topology(), placement, ["keys", "memory_bytes"])

    assert (placement.pinned, placement.zone_share_max) == ((0, 1, 2, 866), 0.5)
    assert [(m.id, m.weight, m.zone, m.drained, dict(m.capacity)) for m in masters] == [
        (A, 2, "a", False, {"memory_bytes": 4 << 30}),
        (B, 1, "b", True, {"keys": 1000}),
    ]
    assert [(n.id, n.address, n.config_epoch) for n in nodes] == [(A, "10.0.0.1:7000", 3), (B, "10.0.0.2:7000", 2)]


def test_without_a_placement_zones_come_from_the_cluster():
    """Valkey tells ``availability-zone`` in CLUSTER NODES."""
    assert [m.zone for m in masters_of(topology())[0]] == ["", "z9"]


def test_a_future_node_may_be_missing():
    placement = read_placement('[[nodes]]\nnode = "10.0.0.9:7000"\nadd = true\n')

    assert [m.id for m in masters_of(topology(), placement)[0]] == [A, B, "10.0.0.9:7000"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("zone_share_max = 1.5\n", "line 1: zone_share_max is a share"),
        ("\n\nzone_share_max = nan\n", "line 3: zone_share_max must be finite, not nan"),
        ("\nweigth = 2\n", "line 2: weigth is not known"),
        ('[[nodes]]\nnode = "x"\nweigth = 2\n', "line 3: weigth is not known; did you mean weight?"),
        ('[[nodes]]\nnode = "x"\nweight = -2\n', "line 3: weight must be more than 0"),
        ('[[nodes]]\nnode = "x"\nweight = 0\n', "drain = true empties a node"),
        ('[[nodes]]\nnode = "x"\n\n[[nodes]]\nweight = 1\n', "line 4: a node needs a name"),
        ('[[nodes]]\nnode = "x"\ndrain = true\nadd = true\n', "line 4: x cannot both drain and add"),
        ('[[nodes]]\nnode = "x"\ndrain = 1\n', "line 3: drain must be true or false"),
        ('[[nodes]]\nnode = "x"\nmaxmemory = "4 parsecs"\n', "line 3: maxmemory: '4 parsecs' is not a size"),
        ('[[nodes]]\nnode = "x"\n[nodes.capacity]\nkeys = 0\n', "line 4: keys must be more than 0"),
        ('pinned_slots = ["5-2"]\n', "line 1: pinned_slots: '5-2': the range 5-2 ends before"),
        ("pinned_slots = [16384]\n", "line 1: pinned_slots"),
        ("nodes = 3\n", "line 1: nodes is a list"),
        ("a = [1,\n", "line 2: "),
        ("a = 1\na = 2\n", "line 2: "),
        ("[nodes]\nx = " + "9" * 5000, "line 2: a number of too many digits"),
    ],
)
def test_an_error_names_its_line(text, reason):
    """And says what to write instead where that is known."""
    with pytest.raises(PlanError) as caught:
        read_placement(text, "p.toml")

    assert str(caught.value).startswith("p.toml: line ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (["10.0.0.7:7000"], "line 2: 10.0.0.7:7000 is not in the cluster; add = true"),
        (["10.0.0.3:7000"], f"line 2: 10.0.0.3:7000 is a replica of {A}"),
        (["10.0.0.1:7000", A], r"line 3: a{40} is named twice"),
    ],
)
def test_a_node_other_than_a_master_and_a_repeated_one_are_refused(nodes, reason):
    """A replica has no slots of its own to move."""
    text = "".join(f'[[nodes]]\nnode = "{node}"\n' for node in nodes)
    with pytest.raises(PlanError, match=reason):
        masters_of(topology(), read_placement(text))


def test_slots_without_an_owner_are_named():
    """There is nothing to rebalance in a cluster with holes."""
    with pytest.raises(PlanError, match="nobody owns slots 8192-16383"):
        owners_of(read_nodes(NODES.replace("8192-16383", "").encode()))


@given(st.text(max_size=200))
def test_any_text_is_read_or_a_typed_error(text):
    with contextlib.suppress(PlanError):
        assert isinstance(read_placement(text).nodes, tuple)
