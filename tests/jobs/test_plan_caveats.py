"""What a plan must say beside its verdict: what could not be read, and which loads it did not balance."""

from __future__ import annotations

import pytest

from cluster_core.load.unread import FileUnread
from jobs.rebalance_plan import Request, run
from schemas.rebalance import REBALANCE_LOAD, REBALANCE_MOVES, REBALANCE_PLANS, REBALANCE_SLOTS
from slotscope.plans.stored_plans import read_stored_plan
from slotscope.runtime.failure import OK, PARTIAL
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.program import slotscope
from tests.builders.rebalance_tables import LOADED, write_snapshot

THIRDS = [slot * 3 // 16384 for slot in range(16384)]
HOT = dict.fromkeys(range(60), 60000)
CUT = FileUnread("dumps/node-7002.rdb", "rdb", 55_000, 0, 1607, 874, is_cut=True)
SHARE = "dumps/node-7002.rdb: at least 54 % of its keys (874 of 1,607) were not read"


@pytest.mark.long
def test_a_plan_from_a_partial_snapshot_is_marked_everywhere(tmp_path, capsys):
    """Terminal, page, every table of the plan, check-plan, and execute-plan before it speaks to any server."""
    write_snapshot(tmp_path, THIRDS, HOT, unread=CUT)
    page = tmp_path / "page.html"

    code = slotscope("rebalance-plan", "--root", tmp_path, "--allow-partial", "--html", page)

    output = " ".join(capsys.readouterr().out.split())
    assert code == PARTIAL
    assert SHARE in output
    assert "Partial: these figures exclude unread input." in output
    assert SHARE in page.read_text("utf-8")
    head = read_rows(str(tmp_path), REBALANCE_PLANS)[0]
    assert [(warning["severity"], warning["code"]) for warning in head["warnings"][:2]] == [("error", "partial")] * 2
    for table in (REBALANCE_PLANS, REBALANCE_LOAD, REBALANCE_MOVES, REBALANCE_SLOTS):
        assert {row["partial"] for row in read_rows(str(tmp_path), table)} == {True}
    assert read_stored_plan(str(tmp_path), "latest").unread.files == (CUT,)

    assert slotscope("check-plan", "--root", tmp_path) == OK
    assert SHARE in capsys.readouterr().out

    slotscope("execute-plan", "--root", tmp_path, "--cluster", "127.0.0.1:1")
    assert SHARE in capsys.readouterr().err


LOPSIDED = dict.fromkeys(range(0, 5461, LOADED), 2600)
"""Memory that dump sizes do not show: the first third takes more."""


@pytest.mark.long
def test_known_memory_is_balanced_by_default(tmp_path):
    write_snapshot(tmp_path, THIRDS, {}, memory_by_slot=LOPSIDED)

    made = run(Request(root=str(tmp_path), snapshot=("current",))).made

    head = read_rows(str(tmp_path), REBALANCE_PLANS)[0]
    assert list(made.stored.problem.loads) == ["memory_bytes", "keys"]
    assert head["max_over_mean_after"]["memory_bytes"] <= 1.02 < head["max_over_mean_before"]["memory_bytes"]


@pytest.mark.long
def test_a_capacity_is_kept_for_a_known_load_and_unchecked_otherwise(tmp_path, capsys):
    """maxmemory without any figure of memory binds nothing."""
    write_snapshot(tmp_path, THIRDS, HOT)
    (tmp_path / "placement.toml").write_text('[defaults]\nmaxmemory = "8gb"\n')

    slotscope("rebalance-plan", "--root", tmp_path, "--placement", tmp_path / "placement.toml")

    assert "the capacity of memory_bytes is ignored: its load is unknown" in " ".join(capsys.readouterr().out.split())
