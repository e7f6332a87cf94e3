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
for arguments in json.loads(sys.argv[1]):
    print(json.dumps([shlex.join(arguments), cli.run(program(), arguments)]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> tuple[list[int], list[str]]:
    """Exit codes of `LINES` in one Python that has no Spark, and the other lines of its error stream."""
    root = tmp_path_factory.mktemp("root")
    write_snapshot(root, [min(slot // 4000, 2) for slot in range(SLOT_COUNT)], {})
    lines = [
        [*arguments, "--root", str(root)] if arguments[-1] != "--help" and arguments != ["setup"] else arguments
        for arguments in LINES
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(lines)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
    )
    errors = without_progress(done.stderr)
    codes = [json.loads(line)[1] for line in errors if line.startswith("[")]
    return codes, [line for line in errors if not line.startswith("[")]


HELP = [[*name.split(), "--help"] for name in COMMANDS]
WITHOUT = [["plan", "make"], ["plan", "check"]]
OF_A_SESSION = [
    ["key-slots", "--rdb", str(DATA / "valkey-9.1" / "before" / "node-7002.rdb")],
    ["history", "--pcap", str(DATA / "bus-redis-7.0" / "bus.pcap.gz")],
    ["setup"],
]
LINES = [*HELP, *WITHOUT, *OF_A_SESSION]


def test_help_and_commands_that_need_no_spark_do_without(ended):
    """A plan from tables and its check."""
    assert ended[0][: -len(OF_A_SESSION)] == [OK] * (len(HELP) + len(WITHOUT))


def test_commands_that_need_spark_name_the_package(ended):
    codes, texts = ended

    assert codes[-len(OF_A_SESSION) :] == [BAD_INPUT] * len(OF_A_SESSION)
    assert texts == [f"slotscope: {NEEDS_SPARK}"] * len(OF_A_SESSION)
