"""Runs the demonstration and quick Spark tests with other versions of Python, PySpark and Delta: ``make compat``.

Every combination gets a virtual environment of its own from the package index, in a folder that goes afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/core/formats/test_server_log.py",
    "tests/jobs/test_spark_connect.py",
    "tests/slotscope/runtime/test_tables.py",
    "tests/slotscope/test_registration.py",
    "tests/slotscope/transforms/test_history_frames.py",
)
TEST_PACKAGES = ("pytest<9.2", "pytest-xdist", "hypothesis", "chispa", "selenium", "redis", "pyspark[connect]")
RUN_SECONDS_MAX = 1800


class Combination(NamedTuple):
    """Versions that are tried together."""

    python: str
    pyspark: str
    delta: str

    @property
    def name(self) -> str:
        """Name in output and for selection."""
        return f"python-{self.python}-pyspark-{self.pyspark}-delta-{self.delta}"


COMBINATIONS = (
    Combination("3.11", "4.0.1", "4.0.1"),
    Combination("3.12", "4.1.1", "4.3.1"),
    Combination("3.13", "4.2.0", "4.4.0"),
)
"""The oldest, one between, and the newest; PySpark 3.5 has no Data Sources in Python that yield Arrow batches."""


def main(chosen: list[str]) -> int:
    """Try the combinations with a name that contains a text of *chosen*, or all; 1 if one of them fails."""
    wanted = [
        combination for combination in COMBINATIONS if not chosen or any(word in combination.name for word in chosen)
    ]
    outcomes = {combination.name: attempt(combination) for combination in wanted}
    for name, outcome in outcomes.items():
        sys.stdout.write(f"{name}: {outcome}\n")
    return int(not outcomes or any(outcome.startswith("failed") for outcome in outcomes.values()))


def attempt(combination: Combination) -> str:
    """Describe the result of the combination."""
    python = shutil.which(f"python{combination.python}")
    if python is None or subprocess.run([python, "--version"], capture_output=True).returncode:
        return f"skipped: no python{combination.python} in PATH"
    with tempfile.TemporaryDirectory(prefix=f"{combination.name}-", dir=os.environ.get("COMPAT_FOLDER")) as folder:
        home = Path(folder)
        here = str(home / "env" / "bin" / "python")
        package = f"slotscope[spark] @ {ROOT.as_uri()}"
        versions = [f"pyspark=={combination.pyspark}", f"delta-spark=={combination.delta}"]
        steps = {
            "environment": [python, "-m", "venv", str(home / "env")],
            "install": [
                here,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                package,
                *versions,
                *TEST_PACKAGES,
            ],
            "demo": [str(home / "env" / "bin" / "slotscope"), "demo", "--root", str(home / "demo")],
            "tests": [
                here,
                "-m",
                "pytest",
                "-q",
                "-n",
                "0",
                "--rootdir",
                str(ROOT),
                *(str(ROOT / test) for test in TESTS),
            ],
        }
        timings = []
        for name, command in steps.items():
            start = time.monotonic()
            done = _run(command, cwd=ROOT if name == "tests" else home)
            timings.append(f"{name} {time.monotonic() - start:.0f} s")
            if done.returncode:
                sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
                return f"failed: {', '.join(timings)}"
        return f"passed: {', '.join(timings)}"


def _run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run *command* as a shell does in which nothing was activated."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return subprocess.run(command, cwd=cwd, env=plain, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
