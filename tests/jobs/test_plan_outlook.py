"""How long a plan holds, as the command tells it: known from two snapshots with dates, else said to be not known."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from schemas.rebalance import REBALANCE_PLANS
from slotscope.runtime.failure import OK
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.program import slotscope
from tests.builders.rebalance_tables import node_id, write_snapshot

THIRDS = [slot * 3 // 16384 for slot in range(16384)]
QUICK = ("--resources", "memory_bytes", "--tolerance", "0.2")
FIRST, SECOND = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 11, tzinfo=UTC)


def planned(root, capsys, *arguments):
    """What the command says, and the row of its plan."""
    assert slotscope("rebalance-plan", "--root", root, *QUICK, *arguments) == OK
    return " ".join(capsys.readouterr().out.split()), read_rows(str(root), REBALANCE_PLANS)[-1]


@pytest.mark.long
@pytest.mark.parametrize("snapshots", [("old", "new"), ("new",)])
def test_a_master_that_fills_its_maxmemory_is_told_with_the_days_that_are_left(tmp_path, capsys, snapshots):
    """The older snapshot is named, or found in the tables.  5,462 slots grow from 1,900 to 2,000 bytes in ten days; the first master may hold 400 more of each: forty days."""
    write_snapshot(tmp_path, THIRDS, {}, name="old", memory_by_slot=dict.fromkeys(range(16384), 1900), taken_at=FIRST)
    write_snapshot(tmp_path, THIRDS, {}, name="new", memory_by_slot={}, taken_at=SECOND)
    (tmp_path / "placement.toml").write_text(f'[[nodes]]\nnode = "{node_id(0)}"\nmaxmemory = {5462 * 2400}\n')

    said, head = planned(tmp_path, capsys, "--snapshot", *snapshots, "--placement", tmp_path / "placement.toml")

    assert "capacity reached in 40 days (memory bytes)" in said
    assert head["capacity_due_s"]["memory_bytes"] == pytest.approx(40 * 86_400)
    assert head["balance_due_s"] == {}


@pytest.mark.long
@pytest.mark.parametrize("taken_at", [None, FIRST])
def test_without_two_dates_it_is_not_known(tmp_path, capsys, taken_at):
    """Two snapshots of one time, or of none."""
    for name in ("old", "new"):
        write_snapshot(tmp_path, THIRDS, {}, name=name, memory_by_slot={}, taken_at=taken_at)

    said, head = planned(tmp_path, capsys, "--snapshot", "old", "new")

    assert "next rebalance due: unknown" in said
    assert (head["capacity_due_s"], head["balance_due_s"]) == (None, None)
