"""The wheel in an environment of its own, away from the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slotscope.runtime.failure import BAD_INPUT
from slotscope.runtime.spark.jars import FOLDER_VARIABLE, provide_jars
from tests.builders.aof_logs import log_of
from tests.builders.wheel import build_wheel

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.spark]

CHECKOUT = Path(__file__).parents[2]
RUN_SECONDS_MAX = 1800


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run *command* as a shell does in which nothing was activated; jars come from a folder, as on a machine without network."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    plain |= {
        FOLDER_VARIABLE: str(Path(provide_jars()[0]).parent),
        "PIP_CONSTRAINT": str(CHECKOUT / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **variables,
    }
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=plain, capture_output=True, text=True, timeout=RUN_SECONDS_MAX
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """An environment with the wheel and the packages of this one, but not this repository; no package index is needed."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    (packages,) = (folder / "env" / "lib").glob("python3*/site-packages")
    done = run(folder / "env/bin/python", "-m", "pip", "install", "--no-deps", build_wheel(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    (packages / "packages.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return packages


def program(packages: Path) -> Path:
    """The command `slotscope` of an environment."""
    return packages.parents[2] / "bin" / "slotscope"


def test_commands_that_read_data_files_run_from_the_wheel(installed, tmp_path):
    """Each of them reads files that are no modules: tables of commands, templates, demonstration data."""
    data = installed / "slotscope" / "demo_data"
    (tmp_path / "mon.txt").write_text(f'{time.time():.6f} [0 127.0.0.1:50000] "GET" "user:1000"\n')
    (tmp_path / "a.aof").write_bytes(log_of(("SELECT", 0), ("SET", "user:1000", "1"), ("SET", "user:1000", "2")))
    dumps, topology = sorted((data / "valkey-9.1" / "after").glob("*.rdb")), data / "valkey-9.1/topology/nodes.txt"
    lines: list[list[str | Path]] = [
        ["key-slots", "--snapshot", "dumps", "--topology", topology, "--rdb", *dumps],
        ["key-slots", "--snapshot", "logs", "--aof", "a.aof"],
        ["plan", "make", "--snapshot", "dumps", "--monitor", "mon.txt"],
        ["history", "--snapshot", "failover", "--polls", data / "bus-redis-7.0" / "polls.jsonl.gz"],
        ["nodes", "--snapshot", "failover", "--observer", "7201"],
        ["sql", "SELECT count(*) AS plans FROM rebalance_plans"],
    ]

    done = {" ".join(map(str, line[:4])): run(program(installed), *line, cwd=tmp_path) for line in lines}

    assert {
        line: (process.returncode, process.stderr[-300:]) for line, process in done.items() if process.returncode
    } == {}
    assert len(done) == len(lines)


@pytest.mark.slow
def test_setup_gets_everything_ready(installed, tmp_path):
    done = run(program(installed), "setup", cwd=tmp_path)

    assert (done.returncode, done.stderr[-300:]) == (0, "")
    assert "compiled  all that slotscope demo, advise and export run" in done.stdout


def test_setup_names_a_java_that_is_too_old(installed, tmp_path):
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho '    java.specification.version = 11' >&2\n")
    java.chmod(0o755)

    done = run(program(installed), "setup", cwd=tmp_path, JAVA_HOME=str(tmp_path / "jdk"), PATH="/nowhere")

    assert (done.returncode, done.stdout) == (BAD_INPUT, "")
    assert done.stderr == f"slotscope: needs Java 17 or newer: JAVA_HOME={tmp_path}/jdk is Java 11\n"


def test_missing_packages_are_one_line(installed, tmp_path):
    """As after `pip install --no-deps`."""
    paths = installed / "packages.pth"
    paths.rename(tmp_path / "packages.pth")
    try:
        done = run(program(installed), "setup", cwd=tmp_path)
    finally:
        (tmp_path / "packages.pth").rename(paths)

    assert done.returncode == BAD_INPUT
    assert done.stderr == ("slotscope: the installation is incomplete: no package cyclopts; install slotscope again\n")
