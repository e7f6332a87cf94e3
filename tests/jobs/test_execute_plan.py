"""`slotscope plan execute` against a scripted Redis 8.4, which cannot be installed here: the command, its sockets, its journal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.planner import reach_of
from cluster_core.rebalance.stored_plan import StoredPlan, identify, slot_rows, write_document
from jobs import main as program
from schemas.rebalance import REBALANCE_MOVES, REBALANCE_PLANS, REBALANCE_SLOTS
from slotscope.pipelines.rebalance.plan import MadePlan
from slotscope.pipelines.rebalance.rows import write_plan
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import BAD_INPUT, OK
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.servers.plan_journal import LOCK, PlanJournal, locked
from tests.benches.fake_servers import free_ports, serving
from tests.benches.object_store import object_store
from tests.benches.program import Program
from tests.benches.servers import wait_for
from tests.benches.simulated_cluster import SimulatedCluster
from tests.builders.cluster_sights import stored_plan, thirds
from tests.builders.stored_rows import replace_rows

IDS = [letter * 40 for letter in "abc"]


def redis84() -> SimulatedCluster:
    """Three masters with a third of the slots each."""
    return SimulatedCluster(thirds(IDS), IDS, profile="redis-8", ports=free_ports(3))


def store(root: Path | str, cluster: SimulatedCluster) -> StoredPlan:
    """A plan in the tables: two batches, ranges and single slots."""
    a, b, c = IDS
    moves = [(slot, a, b) for slot in (1, 2, 3, 9)] + [(slot, a, c) for slot in (20, 21)]
    stored = stored_plan(cluster, moves)
    scaled = validate(stored.problem)
    targets = find_targets(scaled)
    plan = replace(stored.plan, reach=reach_of(scaled, targets, scaled.owner))
    document = write_document(stored.problem, plan, stored.batches, stored.nodes)
    rows = slot_rows(stored.problem, plan)
    stored = replace(stored, plan=plan, plan_id=identify(document + stored.state_hash, rows), created_at_ms=1)
    write_plan(str(root), MadePlan(stored, scaled, document, rows, targets), bad_records=0, parts={})
    return stored


def execute(root: Path | str, port: int, *more: object) -> int:
    arguments = ["execute-plan", "--root", root, "--cluster", f"127.0.0.1:{port}", *more]
    return cli.run(program.program(), [str(word) for word in arguments])


@pytest.mark.long
def test_redis_imports_at_the_targets_one_task_a_server(tmp_path, capsys):
    """CLUSTER MIGRATION IMPORT at each target, STATUS ALL until it is completed, then back."""
    cluster = redis84()
    before = cluster.owners()
    stored = store(tmp_path, cluster)
    with serving(cluster) as servers:
        port = servers[IDS[0]].server_address[1]
        assert execute(tmp_path, port) == OK
        assert "CLUSTER MIGRATION IMPORT 1 3 9 9" in capsys.readouterr().out
        assert execute(tmp_path, port, "--apply") == OK
        assert cluster.owners() == list(stored.plan.owners_after)
        assert execute(tmp_path, port, "--apply", "--rollback") == OK

        asked = {
            name: [command for command in server.asked if command.startswith("CLUSTER MIG")]
            for name, server in servers.items()
        }
    assert cluster.owners() == before
    assert asked[IDS[1]].count("CLUSTER MIGRATION IMPORT") == asked[IDS[2]].count("CLUSTER MIGRATION IMPORT") == 1
    details = [step.detail for step in PlanJournal(str(tmp_path), stored.plan_id).read() if step.step == "done"]
    assert all(detail.startswith("task ") for detail in details)


@pytest.mark.slow
@pytest.mark.processes
def test_the_second_execution_of_a_plan_in_an_object_store_is_refused(monkeypatch):
    """Two processes begin together, and no slot moves until one has ended: the other one executes the plan alone."""
    pytest.importorskip("moto", reason="moto is not installed")
    cluster, root = redis84(), "s3://lake/root"
    cluster.fail_jobs = 10_000
    with object_store("lake") as lake, serving(cluster) as servers:
        for name, value in lake.environment().items():
            monkeypatch.setenv(name, value)
        stored = store(root, cluster)
        arguments = ["--root", root, "--cluster", f"127.0.0.1:{servers[IDS[0]].server_address[1]}", "--apply"]
        commands = [Program("execute-plan", *arguments) for _ in range(2)]
        wait_for(lambda: any(command.poll() is not None for command in commands), "the end of one command")
        refused, holder = sorted(commands, key=lambda command: command.poll() is None)
        owners = cluster.owners()
        cluster.fail_jobs = 0
        lines, _ = refused.messages(), holder.messages()

    assert (refused.returncode, owners) == (BAD_INPUT, list(stored.problem.owners))
    assert lines.startswith(f"slotscope: {root}")
    assert "another plan execution" in lines
    assert lines.count("\n") == 1
    assert (holder.returncode, cluster.owners()) == (OK, list(stored.plan.owners_after))


def change_document(root: Path, plan_id: str, change) -> None:
    """Rewrite the JSON of the plan's row."""
    (row,) = read_rows(str(root), REBALANCE_PLANS, plan_id=plan_id)
    record = json.loads(row["document"])
    change(record)
    replace_rows(
        str(root), REBALANCE_PLANS, [{**row, "document": json.dumps(record, separators=(",", ":"))}], plan_id=plan_id
    )


def change_slots(root: Path, plan_id: str, slots: range) -> None:
    """Let *slots* go to the last master, in the table of slots alone."""
    rows = read_rows(str(root), REBALANCE_SLOTS, plan_id=plan_id)
    changed = [{**row, "planned_owner": IDS[2]} if row["slot"] in slots else row for row in rows]
    replace_rows(str(root), REBALANCE_SLOTS, changed, plan_id=plan_id)


def more_slots(root: Path, plan_id: str) -> None:
    """Both halves say the same: 2,900 more slots."""
    change_document(root, plan_id, lambda document: document["batches"][0].append([IDS[0], IDS[2], [[100, 3000]]]))
    change_slots(root, plan_id, range(100, 3001))


def fewer_moves(root: Path, plan_id: str) -> None:
    """The table of moves lost a row."""
    rows = read_rows(str(root), REBALANCE_MOVES, plan_id=plan_id)
    replace_rows(str(root), REBALANCE_MOVES, rows[1:], plan_id=plan_id)


@pytest.mark.long
@pytest.mark.parametrize("change", [more_slots, fewer_moves])
def test_a_plan_changed_in_its_tables_is_never_executed(tmp_path, capsys, change):
    """Dry run, apply and rollback are refused before anybody is asked, and an audit does not measure by it."""
    cluster = redis84()
    stored = store(tmp_path, cluster)
    change(tmp_path, stored.plan_id)
    with serving(cluster) as servers:
        port = servers[IDS[0]].server_address[1]
        codes = [execute(tmp_path, port, *how) for how in ((), ("--apply",), ("--apply", "--rollback"))]
        arguments = ["audit-plan", "--root", str(tmp_path), "--cluster", f"127.0.0.1:{port}"]
        codes.append(cli.run(program.program(), arguments))
        asked = [arguments for server in servers.values() for arguments in server.asked]

    printed = capsys.readouterr()
    assert codes == [BAD_INPUT] * 4
    assert printed.err.count(f"plan {stored.plan_id} was changed after it was made: ") == 4
    assert printed.out == ""
    assert asked == []
    assert cluster.owners() == list(stored.problem.owners)
    assert PlanJournal(str(tmp_path), stored.plan_id).read() == []


def test_the_lock_file_does_not_touch_the_target_of_a_link(tmp_path):
    """In a root that others may write to: the link's target keeps its content, and the run says so."""
    (tmp_path / "precious").write_text("data")
    (tmp_path / LOCK).symlink_to(tmp_path / "precious")

    with pytest.raises(InputError, match="not a file to lock"), locked(str(tmp_path)):
        pass

    assert (tmp_path / "precious").read_text() == "data"
