"""One execution a root: a lock on a local root, a lease on an object store, and leftovers of a killed or stalled execution."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("moto", reason="moto is not installed")
pytest.importorskip("flask_cors", reason="flask-cors is not installed")

from cluster_core.rebalance.execution.effects import Step, StepKind
from slotscope.runtime.errors import InputError
from slotscope.servers import plan_journal
from slotscope.servers.plan_journal import PlanJournal, executing
from tests.benches.object_store import object_store
from tests.benches.servers import wait_for

pytestmark = pytest.mark.processes
PROJECT = Path(__file__).parents[3]
HOLDER = """
import sys, time
from slotscope.servers import plan_journal
plan_journal.LEASE_S = float(sys.argv[2])
with plan_journal.executing(sys.argv[1], "plan"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def server():
    with object_store("lake") as store:
        yield store


@pytest.fixture
def store(server, monkeypatch, request):
    """A root of its own in the store, which the environment names."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://lake/{request.node.name.partition('[')[0]}"


@contextmanager
def holding(root: str, lease_s: float = 30.0) -> Iterator[subprocess.Popen[str]]:
    """Another process that executes, until its standard input is closed or it is killed."""
    command = [sys.executable, "-c", HOLDER, root, str(lease_s)]
    with subprocess.Popen(command, cwd=PROJECT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(params=["local", "store"])
def root(request, tmp_path):
    """A local root and one in an object store."""
    return str(tmp_path) if request.param == "local" else request.getfixturevalue("store")


def test_two_processes_do_not_execute_at_once(root):
    """The second is refused in one line; once the first has ended it may begin at once."""
    with holding(root) as process:
        with pytest.raises(InputError, match="another plan execution is running") as refused, executing(root, "plan"):
            pass
        process.communicate()

    assert "\n" not in str(refused.value)
    with executing(root, "plan") as journal:
        journal.write([Step(StepKind.STARTED)])
    assert StepKind.STARTED in [step.step for step in PlanJournal(root, "plan").read()]


def test_a_killed_execution_on_a_local_root_is_succeeded_at_once(tmp_path):
    """The kernel releases its lock."""
    with holding(str(tmp_path)) as process:
        process.kill()
        process.wait()

        with executing(str(tmp_path), "plan") as journal:
            assert journal.lease is None


def test_a_killed_execution_on_a_store_is_succeeded_when_its_lease_ends(store, monkeypatch):
    """Until then a run is refused, with the process that held it and the seconds that are left."""
    with holding(store, lease_s=600.0) as process:
        process.kill()
        process.wait()

    with (
        pytest.raises(InputError, match=rf"process {process.pid} on .*its lease ends in \d+ s"),
        executing(store, "plan"),
    ):
        pass
    later = SimpleNamespace(time=lambda: time.time() + 600, sleep=time.sleep)
    monkeypatch.setattr(plan_journal, "time", later)
    with executing(store, "plan") as journal:
        assert journal.lease is not None


def test_an_execution_that_lost_its_lease_writes_nothing_and_stops(store, monkeypatch):
    """Its machine slept, and another one took over: its next step fails before any command is sent."""
    monkeypatch.setattr(plan_journal, "LEASE_S", 0.05)
    monkeypatch.setattr(plan_journal, "RENEWAL_S", 600.0)
    with executing(store, "plan") as first:
        time.sleep(0.1)
        with executing(store, "plan") as second:
            with pytest.raises(InputError, match="another plan execution took over the lease of this root"):
                first.write([Step(StepKind.INTENT, 1, "a", "b", "1")])
            with pytest.raises(InputError, match="another plan execution took over the lease of this root"):
                first.confirm()
            second.write([Step(StepKind.INTENT, 1, "a", "b", "2")])

    intents = [step.slots for step in PlanJournal(store, "plan").read() if step.step == StepKind.INTENT]
    assert intents == ["2"]


def test_a_quiet_execution_keeps_its_lease(store, monkeypatch):
    """It is extended by a row of its own while nothing else is written."""
    monkeypatch.setattr(plan_journal, "RENEWAL_S", 0.1)
    with executing(store, "plan") as journal:
        wait_for(lambda: journal.rows >= 3, "two rows that extend the lease")
        with pytest.raises(InputError, match="another plan execution is running"), executing(store, "plan"):
            pass

    assert {step.step for step in journal.read()} == {StepKind.HELD}
