"""The problem that a request states for a cluster, whoever measured it."""

from __future__ import annotations

import pytest

from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.topology.nodes_text import read_nodes
from slotscope.pipelines.rebalance.inputs import Inputs, state_problem
from slotscope.requests.rebalance import Request

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
    ("memory_error", "free"), [(None, 0.25), (0.0, 0.25), (0.004, 0.25), (0.009, 0.45), (0.01, 0.5), (0.3, 0.5)]
)
def test_as_much_of_the_tolerance_stays_free_as_memory_may_be_off(memory_error: float | None, free: float) -> None:
    """Of 2 %: at least a quarter, at most half."""
    assert headroom(memory_error) == pytest.approx(free)


def test_an_error_matters_by_the_tolerance_of_memory_and_only_where_memory_is_balanced() -> None:
    """Half of 2 % is a tenth of 10 %; keys are counted."""
    assert headroom(0.009, tolerance=("0.1",)) == 0.25
    assert headroom(0.009, resources=("keys",)) == 0.25
    assert headroom(0.03, tolerance=("keys=0.02", "memory_bytes=0.1")) == pytest.approx(0.3)


def test_who_wants_no_headroom_gets_none_and_who_wants_more_gets_that() -> None:
    assert headroom(0.009, headroom=0.0) == 0.0
    assert headroom(0.009, headroom=0.8) == 0.8


def stated(memory_error: float | None, **wishes: object) -> tuple[float, float, list[str]]:
    """Tolerance of memory, least gain and what is said, where memory may be off by *memory_error*."""
    request = Request(**wishes)  # type: ignore[arg-type]
    found = state_problem(request, Inputs(read_nodes(NODES.encode()), LOADS, memory_error=memory_error))
    said = [caveat.text for caveat in found.warnings if caveat.code == "tolerance-raised"]
    return found.problem.tolerance["memory_bytes"], float(found.problem.gain_min), said  # type: ignore[index]


def test_the_tolerance_is_raised_to_the_error_of_memory_and_that_is_said() -> None:
    """±57 % allow no promise of 2 %; an error that is small beside the tolerance changes nothing."""
    assert stated(0.57)[:2] == (0.57, 0.57)
    assert "so no plan can promise a tolerance of 2.0%: it is raised to 57.0%" in stated(0.57)[2][0]
    assert stated(0.004) == (0.02, 0.005, [])
    assert stated(0.57, resources=("memory",), tolerance=("0.6",))[0] == 0.6


def test_a_plan_must_gain_more_than_loads_may_be_off() -> None:
    """At least half a per cent of a fair share, unless another least gain is asked for."""
    assert stated(0.0)[1] == 0.005
    assert stated(0.015)[1] == 0.015
    assert "only where it lowers the heaviest master by more" in stated(0.015)[2][0]
    assert stated(None, gain_min=0.0)[1] == 0.0
