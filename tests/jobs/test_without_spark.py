"""Without the extra ``spark``: what needs no Spark runs, what needs it says in one line what to install."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cluster_core.slots.key_slot import SLOT_COUNT
from jobs.main import COMMANDS
from slotscope.runtime.failure import BAD_INPUT, NEEDS_SPARK, OF_SPARK, OK
from tests.benches.program import without_progress
from tests.builders.rebalance_tables import write_snapshot
from tests.conftest import DATA

pytestmark = pytest.mark.processes

PROGRAM = f"""
import json, shlex, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {sorted(OF_SPARK)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
from jobs.main import program
from slotscope.runtime import cli
for words in json.loads(sys.argv[1]):
    print(json.dumps([shlex.join(words), cli.run(program(), words)]), file=sys.stderr)
"""


def run(*commands: list[str]) -> tuple[dict[str, int], list[str]]:
    """Exit code by command in a Python that has no Spark, and the other lines of its error stream."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = without_progress(done.stderr)
    return dict(json.loads(line) for line in lines if line.startswith("[")), [
        line for line in lines if not line.startswith("[")
    ]


def test_every_command_has_its_help_without_spark():
    codes, said = run(*([*name.split(), "--help"] for name in COMMANDS))

    assert codes == {f"{name} --help": OK for name in COMMANDS}
    assert said == []


def test_commands_that_need_no_spark_do_without(tmp_path):
    """A plan from tables and its check."""
    write_snapshot(tmp_path, [min(slot // 4000, 2) for slot in range(SLOT_COUNT)], {})
    root = ["--root", str(tmp_path)]

    codes, said = run(
        ["plan", "make", *root],
        ["plan", "check", *root],
    )

    assert list(codes.values()) == [OK, OK]
    assert said == []


def test_commands_that_need_spark_say_what_to_install(tmp_path):
    dump = str(DATA / "valkey-9.1" / "before" / "node-7002.rdb")
    capture = str(DATA / "bus-redis-7.0" / "bus.pcap.gz")
    root = ["--root", str(tmp_path)]

    codes, said = run(["key-slots", *root, "--rdb", dump], ["history", *root, "--pcap", capture], ["setup"])

    assert list(codes.values()) == [BAD_INPUT, BAD_INPUT, BAD_INPUT]
    assert said == [f"slotscope: {NEEDS_SPARK}"] * 3
