"""Runs of `slotscope plan execute` against a cluster of the tests, in this process or in one of their own."""

from __future__ import annotations

import time
from pathlib import Path

from jobs import main as program
from slotscope.runtime import cli
from tests.benches.clusters import Cluster
from tests.benches.program import Program

BEGIN_S_MAX = 90.0
"""Time for a process to write its first rows; a busy machine takes far more than an idle one."""


def arguments_of(root: Path, cluster: Cluster, more: tuple[object, ...]) -> list[str]:
    """The command line; the node that is asked first is the last one, unless *more* names another."""
    asked = () if "--cluster" in more else ("--cluster", f"127.0.0.1:{cluster.nodes[-1].port}")
    return ["execute-plan", "--root", str(root), *asked, *map(str, more)]


def slotscope(root: Path, cluster: Cluster, *more: object) -> int:
    return cli.run(program.program(), arguments_of(root, cluster, more))


def start(root: Path, cluster: Cluster, *more: object) -> Program:
    """Begin to carry the plan out in a process of its own."""
    return Program(*arguments_of(root, cluster, ("--apply", *more)))


def commits(root: Path) -> int:
    """How often the journal was written."""
    return len(list((root / "silver" / "plan_steps" / "_delta_log").glob("*.json")))


def wait_for_commits(root: Path, process: Program, count: int) -> None:
    """Wait until the journal was written *count* times, or the process has ended."""
    end = time.monotonic() + BEGIN_S_MAX
    while commits(root) < count and process.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
