"""The report as the tables hold it: every figure of the plan, earlier plans with what became of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster_core.kinds import Severity
from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.stored_plan import PlannedNode
from schemas.caveats import Caveat, Code
from schemas.rebalance import REBALANCE_PLANS
from slotscope.pipelines.rebalance.plan import MadePlan, make_plan
from slotscope.pipelines.rebalance.rows import write_plan
from slotscope.reports.rebalance.report import amount, headline
from slotscope.reports.rebalance.tables import load_rebalance_report
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.reports import page_of, terminal_of
from tests.builders.rebalance_problems import random_problem
from tests.builders.stored_rows import replace_rows

MADE_MS = 1_790_000_000_000
DAY_MS = 86_400_000


def made_plan(seed: int = 3, made_ms: int = MADE_MS, **more: Any) -> MadePlan:
    """A plan for four masters with skewed loads; one slot holds a third of all operations."""
    request = random_problem(seed, 4, 120, skew=0.8, **more)
    ops = list(request.loads["ops"])
    ops[17] = sum(ops) // 2
    request = replace(request, loads={**request.loads, "ops": ops})
    nodes = [PlannedNode(m.id, f"10.0.0.{at}:6379", "ab"[at % 2], at + 1) for at, m in enumerate(request.masters)]
    return make_plan(request, nodes, snapshot_id="s1", created_at_ms=made_ms)


@pytest.fixture(scope="module")
def made() -> MadePlan:
    return made_plan()


@pytest.fixture
def root(tmp_path: Path, made: MadePlan) -> str:
    parts = [{"hash_tag": b"cart:42", "key": None, "keys": 900, "serialized_bytes": 10_000, "memory_bytes": 40_000}]
    write_plan(str(tmp_path), made, bad_records=2, parts={17: parts})
    return str(tmp_path)


@pytest.mark.long
def test_every_figure_of_the_plan_is_in_the_report(root: str, made: MadePlan) -> None:
    report = load_rebalance_report(root)
    plan = made.stored.plan

    assert (report.plan_id, report.verdict, report.cost, report.bad_records) == (
        made.stored.plan_id, plan.verdict, plan.cost, 2,
    )  # fmt: skip
    assert (report.moved_bytes, report.lower_bound_bytes) == (plan.moved, plan.bound)
    assert [(reach.resource, reach.before, reach.after) for reach in report.reaches] == [
        (reach.resource, float(reach.before), float(reach.after)) for reach in plan.reach
    ]
    assert {slot: (transfer.source, transfer.target) for transfer in report.transfers for slot in transfer.slots} == {
        move.slot: (move.source, move.target) for move in plan.moves
    }
    assert sum(transfer.bytes or 0 for transfer in report.transfers) == plan.moved
    assert report.created_at_ms == MADE_MS


def plan_with_a_heavy_slot() -> MadePlan:
    """Slot 5 of twelve has most of the memory, and cannot be divided."""
    loads = {"memory_bytes": [3_000 if slot == 5 else 100 for slot in range(12)]}
    problem = Problem(loads, ["a"] * 12, [Master("a"), Master("b")], cost="memory_bytes")
    nodes = [PlannedNode(name, f"10.0.0.{name}:6379", "", 1) for name in "ab"]
    return make_plan(problem, nodes, snapshot_id="s", created_at_ms=1)


def test_parts_of_a_heavy_slot_count_in_the_exceeded_resource(tmp_path: Path) -> None:
    """A tag with all memory of its slot is 100 % of it, however few bytes of the dump it has, and comes before one with more of these."""
    parts = [
        {"hash_tag": b"light", "key": None, "keys": 9, "serialized_bytes": 900, "memory_bytes": 1},
        {"hash_tag": b"acme", "key": None, "keys": 60, "serialized_bytes": 250, "memory_bytes": 2_999},
    ]
    write_plan(str(tmp_path), plan_with_a_heavy_slot(), parts={5: parts})

    report = load_rebalance_report(str(tmp_path))
    (line,) = report.heavy

    assert [(part.hash_tag, round(part.share or 0, 3)) for part in line.parts] == [(b"acme", 1.0), (b"light", 0.0)]
    assert line.parts[0].bytes == 2_999
    assert line.parts[0].part_pieces == line.pieces > 1
    assert headline(report).startswith(
        "No move can balance this cluster: {acme} (slot 5) alone is 1.46× a fair share of memory. Best possible: 2.00× → 1.46×, moves "
    )


def test_no_minimum_is_above_the_moved_bytes_of_an_indivisible_slot(tmp_path: Path) -> None:
    """Every minimum of page and terminal is that of the plan; a minimum for impossible limits proves nothing."""
    write_plan(str(tmp_path), plan_with_a_heavy_slot(), parts={})

    report = load_rebalance_report(str(tmp_path))
    minimums = re.findall(r"(?:at least|minimum) ([\d.]+ k?B)", f"{terminal_of(report)} {page_of(report)}")

    assert 0 < report.lower_bound_bytes <= report.moved_bytes
    assert set(minimums) == {amount("memory_bytes", report.lower_bound_bytes)}


@pytest.mark.long
def test_warnings_of_the_run_are_stored_with_the_plan_and_come_first(root: str, made: MadePlan) -> None:
    caveat = Caveat(Severity.ERROR, Code.GONE, "slot 3 has no keys", "3")
    write_plan(root, made, bad_records=2, parts={}, warnings=[caveat])

    assert load_rebalance_report(root).warnings[0] == caveat
    assert read_rows(root, REBALANCE_PLANS)[0]["warnings"] == [
        {"severity": "error", "code": "gone", "text": "slot 3 has no keys", "subject": "3"}
    ]


@pytest.mark.long
def test_a_warning_of_an_earlier_version_with_another_code_is_left_out(root: str, made: MadePlan) -> None:
    [row] = read_rows(root, REBALANCE_PLANS)
    warning = {"severity": "note", "code": "growth", "text": "grown", "subject": None}
    replace_rows(root, REBALANCE_PLANS, [{**row, "warnings": [warning]}], plan_id=row["plan_id"])

    report = load_rebalance_report(root)

    assert report.plan_id == made.stored.plan_id
    assert not [warning for warning in report.warnings if warning.text == "grown"]


@pytest.mark.long
def test_drained_masters_are_shown_as_such(tmp_path: Path) -> None:
    """They have no fair share, and their certificate needs no prices."""
    base = made_plan().stored.problem
    masters = [Master(master.id, drained=at == 3) for at, master in enumerate(base.masters)]
    request = replace(base, masters=masters, loads={"serialized_bytes": base.loads["serialized_bytes"]}, tolerance=0.3)
    nodes = [PlannedNode(m.id, "h:1", "", 1) for m in masters]
    made = make_plan(request, nodes, snapshot_id="", created_at_ms=MADE_MS)
    write_plan(str(tmp_path), made, bad_records=0, parts={})

    report = load_rebalance_report(str(tmp_path))
    gone = next(node for node in report.nodes if node.role == "drained")

    assert (gone.slots_after, gone.shares["serialized_bytes"].after) == (0, 0)


def test_a_missing_plan_is_one_line(root: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no plan there"):
        load_rebalance_report(str(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match="0 plans have that id"):
        load_rebalance_report(root, "abcdef")
