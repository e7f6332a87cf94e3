"""From dumps to a plan: key-slots, rebalance-plan and check-plan, one after another on the recorded cluster."""

from __future__ import annotations

from shutil import copytree

from schemas.rebalance import REBALANCE_MOVES, REBALANCE_PLANS
from schemas.silver import SLOT_LOAD
from slotscope.runtime.failure import OK
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.program import slotscope


def test_a_recorded_cluster_is_planned_from_its_dumps(recorded_root, tmp_path, capsys):
    """The plan's bytes are those of the dumps in memory, and the check agrees with it."""
    root = copytree(recorded_root, tmp_path / "root")

    assert slotscope("rebalance-plan", "--root", root, "--snapshot", "before") == OK
    assert slotscope("check-plan", "--root", root) == OK

    assert "holds: move" in capsys.readouterr().out
    head = read_rows(str(root), REBALANCE_PLANS)[0]
    size = {row["slot"]: row["memory_bytes"] for row in read_rows(str(root), SLOT_LOAD, snapshot_id="before")}
    moves = read_rows(str(root), REBALANCE_MOVES)
    assert [move["bytes"] for move in moves] == [size[move["slot"]] for move in moves]
    assert sum(move["bytes"] for move in moves) == head["moved_bytes"] >= head["lower_bound_bytes"] > 0
    after, before = (dict(head[f"max_over_mean_{when}"]) for when in ("after", "before"))
    assert after["memory_bytes"] <= 1.02 < before["memory_bytes"]
    assert after["keys"] <= 1.2  # a soft goal
    assert (root / "reports" / f"plan-{head['plan_id']}.html").exists()
