"""`slotscope execute-plan` against a scripted Redis 8.4, which cannot be installed here: the command, its sockets, its journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cluster_core.rebalance.document import identify, slot_rows, write_document
from cluster_core.rebalance.planner import describe
from cluster_core.rebalance.problem import validate
from cluster_core.rebalance.record import StoredPlan
from cluster_core.rebalance.targets import find_targets
from cluster_core.rebalance.work import Settings
from cluster_core.slots.key_slot import SLOT_COUNT
from jobs import main as program
from jobs.execute_plan import run
from jobs.runtime import cli
from jobs.runtime.failure import OK, PAUSED
from jobs.sources.live_cluster import Access
from jobs.sources.live_moves import open_nodes
from jobs.sources.plan_journal import PlanJournal
from jobs.transforms.rebalance_plan import MadePlan
from jobs.transforms.rebalance_rows import write_plan
from tests.fake_servers import serving
from tests.simulated_cluster import SimulatedCluster, stored_plan

IDS = [letter * 40 for letter in "abc"]


def redis84() -> SimulatedCluster:
    """Three masters with a third of the slots each."""
    return SimulatedCluster([IDS[slot * 3 // SLOT_COUNT] for slot in range(SLOT_COUNT)], IDS, product="redis 8.4")


def store(root: Path, cluster: SimulatedCluster) -> StoredPlan:
    """A plan in the tables: two batches, ranges and single slots."""
    a, b, c = IDS
    moves = [(slot, a, b) for slot in (1, 2, 3, 9)] + [(slot, a, c) for slot in (20, 21)]
    stored = stored_plan(cluster, moves)
    scaled = validate(stored.problem)
    targets = find_targets(scaled)
    plan = replace(stored.plan, reach=describe(scaled, targets, [], scaled.owner, "move").reach)
    document = write_document(stored.problem, plan, stored.batches, stored.nodes, stored.time_model)
    rows = slot_rows(stored.problem, plan)
    stored = replace(stored, plan=plan, plan_id=identify(document, rows), created_at_ms=1)
    write_plan(str(root), MadePlan(stored, scaled, document, rows, targets, []), bad_records=0, parts={})
    return stored


def execute(root: Path, port: int, *more: object) -> int:
    words = ["execute-plan", "--root", root, "--cluster", f"127.0.0.1:{port}", *more]
    return cli.run(cli.application(program.ABOUT, program.COMMANDS), [str(word) for word in words])


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
            name: [words for words in server.asked if words.startswith("CLUSTER MIG")]
            for name, server in servers.items()
        }
    assert cluster.owners() == before
    assert asked[IDS[1]].count("CLUSTER MIGRATION IMPORT") == asked[IDS[2]].count("CLUSTER MIGRATION IMPORT") == 1
    details = [step.detail for step in PlanJournal(str(tmp_path), stored.plan_id).read() if step.step == "done"]
    assert all(detail.startswith("task ") for detail in details)


@pytest.mark.parametrize(("failures", "code"), [(2, OK), (99, PAUSED)])
def test_an_import_that_goes_on_trying_is_cancelled(tmp_path, capsys, failures, code):
    """State failed with some retries: it may still come right; with more it is cancelled at the target and begun again, then it pauses."""
    cluster = redis84()
    stored = store(tmp_path, cluster)
    cluster.fail_jobs = failures
    with serving(cluster) as servers:
        nodes = open_nodes(Access(), IDS, f"127.0.0.1:{servers[IDS[0]].server_address[1]}")
        assert run(str(tmp_path), stored, nodes, Settings(retry_pause_s=0.01)) == code
        nodes.close()
        asked = [words for server in servers.values() for words in server.asked]

    assert ("CLUSTER MIGRATION CANCEL" in asked) == (code == PAUSED)
    assert not any(job["active"] for node in cluster.nodes.values() for job in node.jobs)
    if code == PAUSED:
        assert "no luck; run again to go on, --rollback to undo" in capsys.readouterr().err
        assert cluster.owners() == list(stored.problem.owners)
