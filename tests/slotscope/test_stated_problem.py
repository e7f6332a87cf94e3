"""The problem that a request states for a cluster, whoever measured it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_core.errors import PlanError
from cluster_core.rebalance.goal.problem import Problem
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.topology.nodes_text import read_nodes
from jobs.rebalance import Request
from slotscope.pipelines.rebalance.inputs import Inputs, state_problem
from slotscope.runtime.errors import InputError

NODES = (
    f"{'a' * 40} 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-8191\n"
    f"{'b' * 40} 127.0.0.1:7001@17001 master - 0 0 2 connected 8192-16383\n"
)
LOADS = {"memory_bytes": [1.0] * SLOT_COUNT, "keys": [1.0] * SLOT_COUNT}


def headroom(memory_error: float | None, **wishes: object) -> float:
    """What the problem leaves free where memory may be off by *memory_error*."""
    request = Request(**wishes)  # type: ignore[arg-type]
    inputs = Inputs(read_nodes(NODES.encode()), LOADS, memory_error=memory_error)
    return float(state_problem(request, inputs).problem.headroom)


@pytest.mark.parametrize(
    ("memory_error", "free"), [(None, 0.25), (0.0, 0.25), (0.004, 0.25), (0.006, 0.3), (0.05, 0.05 / 0.17)]
)
def test_the_error_of_memory_is_subtracted_from_the_tolerance(memory_error: float | None, free: float) -> None:
    """Of 2 %, or of the tolerance that fits the error: at least a quarter."""
    assert headroom(memory_error) == pytest.approx(free)


def test_an_error_counts_against_the_tolerance_of_balanced_memory_only() -> None:
    """A third of 2 % is a fifteenth of 10 %; keys are counted."""
    assert headroom(0.006, tolerance=("0.1",)) == 0.25
    assert headroom(0.009, resources=("keys",)) == 0.25
    assert headroom(0.03, tolerance=("keys=0.02", "memory_bytes=0.1")) == pytest.approx(0.3)


def test_a_requested_headroom_is_used() -> None:
    assert headroom(0.006, headroom=0.0) == 0.0
    assert headroom(0.006, headroom=0.8) == 0.8


def fitted(memory_error: float, all_keys_s: float | None = None, **wishes: object) -> tuple[float, float, list[str]]:
    """Tolerance of memory, least gain and warnings, where the memory of a master may be off by *memory_error*."""
    inputs = Inputs(read_nodes(NODES.encode()), LOADS, memory_error=memory_error, all_keys_s=all_keys_s)
    result = state_problem(Request(**wishes), inputs)  # type: ignore[arg-type]
    warnings = [caveat.text for caveat in result.warnings if caveat.code == "tolerance-raised"]
    return result.problem.tolerance["memory_bytes"], float(result.problem.gain_min), warnings  # type: ignore[index]


def test_the_default_tolerance_is_raised_to_three_errors_of_memory() -> None:
    """With a warning that says how to do better; an error below a third of the tolerance changes nothing."""
    assert fitted(0.006) == (0.02, 0.006, [])
    assert fitted(0.012, 700.2) == (
        0.04,
        0.012,
        [
            "tolerance of memory raised from 2.0% to 4.0%: the memory of a master is known to ±1.2%; "
            "--seconds 701 measures all keys"
        ],
    )
    with pytest.raises(
        InputError, match=r"cannot plan at a tolerance of 2.0%: .* ±57.0%. Plan at --tolerance memory_bytes=1.9$"
    ):
        fitted(0.57)


def test_a_tolerance_below_three_errors_of_memory_is_refused_with_a_valid_one(tmp_path: Path) -> None:
    """Whether chosen on the command line or in the file; the proposed tolerance is accepted."""
    file = tmp_path / "goals.toml"
    file.write_text("[goals.memory_bytes]\ntolerance = 0.05\n")
    for wishes in ({"tolerance": ("5%",)}, {"tolerance": ("memory=0.05", "keys=0.5")}, {"placement": str(file)}):
        with pytest.raises(InputError) as refused:
            fitted(0.02, 90, **wishes)
        assert str(refused.value) == (
            "cannot plan at a tolerance of 5.0%: the memory of a master is known to ±2.0%. "
            "Plan at --tolerance memory_bytes=0.067, or measure more: --seconds 90 measures all keys"
        )
    assert fitted(0.02, tolerance=("memory_bytes=0.067",))[0] == 0.067
    assert fitted(0.02, tolerance=("keys=0.05",))[0] == 0.067


def test_a_plan_must_gain_more_than_the_error_of_loads() -> None:
    """At least half a per cent of a fair share, unless another least gain is asked for."""
    assert fitted(0.0)[1] == 0.005
    assert fitted(0.015)[1] == 0.015
    assert fitted(0.0, gain_min=0.0)[1] == 0.0


def stated(**wishes: object) -> Problem:
    """The problem of memory and keys that a request states."""
    return state_problem(Request(**wishes), Inputs(read_nodes(NODES.encode()), LOADS)).problem  # type: ignore[arg-type]


def test_keys_are_a_soft_goal_beside_memory() -> None:
    """Memory is what servers run out of; keys are balanced to 20 % where that is possible."""
    usual, own = stated(), stated(tolerance=("keys=0.05",))

    assert (usual.soft, usual.tolerance) == (["keys"], {"memory_bytes": 0.02, "keys": 0.2})
    assert (own.soft, own.tolerance) == ([], {"memory_bytes": 0.02, "keys": 0.05})
    assert stated(resources=("keys",)).tolerance == {"keys": 0.02}
    assert stated(soft=("keys", "memory")).soft == ["keys", "memory_bytes"]
    assert stated(soft=("none",)).soft == []


def test_goals_of_the_placement_file_have_priorities_and_the_command_line_comes_first(tmp_path: Path) -> None:
    """The goal of the largest number is given up first."""
    file = tmp_path / "goals.toml"
    file.write_text(
        "[goals.memory_bytes]\nsoft = true\npriority = 2\n[goals.keys]\nsoft = true\npriority = 1\ntolerance = 0.1\n"
    )
    from_file = stated(placement=str(file))

    assert (from_file.soft, from_file.tolerance) == (["keys", "memory_bytes"], {"memory_bytes": 0.02, "keys": 0.1})
    assert stated(placement=str(file), tolerance=("keys=0.3",)).tolerance == {"memory_bytes": 0.02, "keys": 0.3}
    assert stated(placement=str(file), soft=("keys",)).soft == ["keys"]


def test_weights_and_drains_are_named_on_the_command_line() -> None:
    """As redis-cli takes --cluster-weight: no file for one node."""
    first, second = stated(weight=("127.0.0.1:7000=2",), drain=("bbbbbbbb",)).masters

    assert (first.weight, first.drained) == (2, False)
    assert (second.weight, second.drained) == (1, True)


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        ({"weight": ("127.0.0.1:7000",)}, "--weight 127.0.0.1:7000: write NODE=WEIGHT"),
        ({"weight": ("127.0.0.1:7000=-1",)}, "must be more than 0"),
        ({"drain": ("10.9.9.9:1",)}, "--drain 10.9.9.9:1: 10.9.9.9:1 is not in the cluster"),
        ({"soft": ("ops",)}, "--soft ops: not balanced"),
    ],
)
def test_an_invalid_text_for_a_node_or_goal_is_named(wishes: dict[str, object], reason: str) -> None:
    with pytest.raises((InputError, PlanError), match=reason):
        stated(**wishes)
