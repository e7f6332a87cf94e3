"""`slotscope plan execute` on live clusters: dry run, apply under writing clients, pause, resume, roll back, refuse."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

from jobs import main as program
from schemas.rebalance import PLAN_STEPS
from slotscope.runtime import cli
from slotscope.runtime.failure import BAD_INPUT, OK, PAUSED
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.servers.plan_journal import PlanJournal, locked
from tests.benches.clusters import commands_of, topology_of
from tests.benches.live_runs import slotscope, start, wait_for_commits
from tests.benches.moving_cluster import (
    Writers,
    assert_in_place,
    count_keys,
    measure,
    owners_of,
    slowly,
    store_balance,
    store_moves,
)
from tests.benches.program import without_progress
from tests.benches.servers import wait_for

ASKED_OF_MASTERS = {"cluster|myid", "cluster|info", "cluster|getslotmigrations", "cluster|migrateslots"}
"""Commands that must not reach a node that the plan does not name."""


def test_a_hot_cluster_is_balanced_while_clients_write(valkey, tmp_path, capsys):
    """Dry run, apply, already in place, roll back: CLUSTER NODES everywhere as planned, no acknowledged write lost, max/mean as promised."""
    keys, before = count_keys(valkey), owners_of(valkey.masters[0])
    stored = store_balance(tmp_path, valkey, tolerance=0.015)
    ids = [node.id for node in stored.nodes]
    assert max(measure(valkey).max_over_mean(before, ids).values()) > 2
    valkey.replicas[0].call("CONFIG", "RESETSTAT")

    assert slotscope(tmp_path, valkey) == OK
    assert "CLUSTER MIGRATESLOTS SLOTSRANGE" in capsys.readouterr().out
    assert owners_of(valkey.masters[0]) == before
    assert PlanJournal(str(tmp_path), stored.plan_id).read() == []

    with Writers(valkey.masters[0]) as writers:
        wait_for(lambda: writers.acknowledged, "the first write")
        assert slotscope(tmp_path, valkey, "--apply") == OK
        wait_for(lambda: len(writers.acknowledged) > 100, "more writes")

    assert_in_place(valkey, stored.plan.owners_after, keys)
    assert writers.lost(valkey) == []
    assert max(measure(valkey).max_over_mean(stored.plan.owners_after, ids).values()) <= 1.02
    assert "cluster|nodes" in commands_of(valkey.replicas[0])
    assert not commands_of(valkey.replicas[0]) & ASKED_OF_MASTERS
    steps = [step.step for step in PlanJournal(str(tmp_path), stored.plan_id).read()]
    assert (steps[0], steps[1], steps[-1]) == ("started", "intent", "finished")

    assert slotscope(tmp_path, valkey, "--apply") == OK
    assert "already in place" in capsys.readouterr().err
    assert slotscope(tmp_path, valkey, "--rollback") == OK
    assert "--apply --rollback moves the slots back" in capsys.readouterr().err
    assert slotscope(tmp_path, valkey, "--apply", "--rollback") == OK
    assert_in_place(valkey, before, keys)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_paused_execution_resumes_at_the_same_place(redis7, tmp_path, number):
    """Exit code 12, nothing open, what to do next; run again, it ends."""
    before, keys = owners_of(redis7.masters[0]), count_keys(redis7)
    stored = store_moves(tmp_path, redis7, [(n, 0, 1) for n in range(100)])
    process = start(tmp_path, redis7, *slowly(stored, 10))
    wait_for_commits(tmp_path, process, 2)
    time.sleep(0.3)
    errors = process.end(number)

    assert process.returncode == PAUSED, errors
    assert "pausing after the current step" in errors
    last = errors.splitlines()[-1]
    assert re.fullmatch(
        r"slotscope: paused in batch 1 of 1; \d+ of 100 slots are in place; run again to resume, --rollback to undo",
        last,
    )
    assert before != owners_of(redis7.masters[0]) != list(stored.plan.owners_after)
    assert not any(node.migrating or node.importing for m in redis7.masters for node in topology_of(m).nodes)
    assert slotscope(tmp_path, redis7, "--apply") == OK
    assert_in_place(redis7, stored.plan.owners_after, keys)
    assert slotscope(tmp_path, redis7, "--apply", "--rollback") == OK
    assert_in_place(redis7, before, keys)


def test_a_cluster_changed_since_the_plan_is_refused(valkey, tmp_path, capsys):
    """Stale owners, a foreign open slot, another process at work: exit code 2 and a line each, and nothing is touched."""
    stored = store_moves(tmp_path, valkey, [(n, 0, 1) for n in range(5)])
    a, b, c = (valkey.masters[n] for n in range(3))
    ids = [node.call("CLUSTER", "MYID").decode() for node in (a, b, c)]

    b.call("CLUSTER", "SETSLOT", 100, "IMPORTING", ids[0])
    assert slotscope(tmp_path, valkey, "--apply") == BAD_INPUT
    assert "slot 100 is open from" in capsys.readouterr().err
    b.call("CLUSTER", "SETSLOT", 100, "STABLE")

    with locked(str(tmp_path)):
        assert slotscope(tmp_path, valkey, "--apply") == BAD_INPUT
    assert "another plan execution is running" in capsys.readouterr().err

    assert slotscope(tmp_path, valkey, "--apply", "--path", "migration-import") == BAD_INPUT
    assert "which does not know CLUSTER MIGRATION IMPORT" in capsys.readouterr().err

    other = store_moves(tmp_path / "other", valkey, [(1000, 0, 2)])
    assert slotscope(tmp_path / "other", valkey, "--apply") == OK
    assert slotscope(tmp_path, valkey) == BAD_INPUT
    assert slotscope(tmp_path, valkey, "--apply") == BAD_INPUT
    assert "the plan is stale, make a new one: slots 1000" in capsys.readouterr().err
    assert slotscope(tmp_path / "other", valkey, "--apply", "--rollback") == OK
    assert [row["step"] for row in read_rows(str(tmp_path), PLAN_STEPS)] == ["refused"] * 3
    assert list(stored.problem.owners) == owners_of(a)
    assert other.plan_id != stored.plan_id


def test_a_password_is_used_and_shown_nowhere(valkey, tmp_path, capsys, monkeypatch):
    """From the environment; not in the journal, not on any stream, also when it is wrong."""
    before = owners_of(valkey.masters[0])
    store_moves(tmp_path, valkey, [(n, 0, 1) for n in range(20)])
    secret = "hush-hush-42"
    for node in valkey.nodes:
        allowed = ("cluster", "info", "migrate", "restore", "restore-asking", "asking", "select", "auth")
        node.call("ACL", "SETUSER", "mover", "on", f">{secret}", *(f"+{name}" for name in allowed), "~*")
    options = ("--user", "mover", "--path", "setslot", "--apply")

    monkeypatch.setenv("MOVER", secret)
    assert slotscope(tmp_path, valkey, *options, "--password-env", "MOVER") == OK
    assert slotscope(tmp_path, valkey, *options, "--password-env", "MOVER", "--rollback") == OK
    monkeypatch.setenv("MOVER", secret + "x")
    assert slotscope(tmp_path, valkey, *options, "--password-env", "MOVER") == BAD_INPUT

    printed = capsys.readouterr()
    assert "invalid username-password pair" in printed.err
    assert secret not in printed.err + printed.out
    assert secret not in json.dumps(read_rows(str(tmp_path), PLAN_STEPS), default=str)
    assert owners_of(valkey.masters[0]) == before
    assert all(b"hush" not in (node.directory / "server.log").read_bytes() for node in valkey.nodes)


def test_a_cluster_of_another_plan_is_not_touched(redis7, valkey, tmp_path, capsys):
    """The plan names masters that this cluster does not have."""
    store_moves(tmp_path, redis7, [(40, 0, 1)])

    assert slotscope(tmp_path, valkey, "--apply") == BAD_INPUT
    assert "no master of the plan is in this cluster" in capsys.readouterr().err


def test_invalid_options_are_one_line(tmp_path, capsys):
    """Exit code 2, before anything is connected to."""
    for options in (["--pause-after", "-1"], ["--patience", "nan"], ["--plan", "0000"]):
        command = ["execute-plan", "--root", str(tmp_path), "--cluster", "127.0.0.1:1", *options]
        assert cli.run(program.program(), command) == BAD_INPUT
        assert len(without_progress(capsys.readouterr().err)) == 1
    assert os.listdir(tmp_path) == []
