"""The wheel in a bare environment, away from the tree: what is there without Spark, and all of it with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotscope.runtime.failure import BAD_INPUT, NEEDS_SPARK
from slotscope.runtime.spark.jars import FOLDER_VARIABLE, delta_jars, find_jars
from tests.benches.program import without_progress

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.spark]

CHECKOUT = Path(__file__).parents[2]
RUN_SECONDS_MAX = 1800


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run *command* as a shell does in which nothing was activated; jars come from a folder, as on a machine without network."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    plain |= {
        FOLDER_VARIABLE: str(Path(find_jars(delta_jars())[0]).parent),
        "PIP_CONSTRAINT": str(CHECKOUT / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=plain, capture_output=True, text=True, timeout=RUN_SECONDS_MAX
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built as for a release."""
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, CHECKOUT, cwd=folder
    )
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("no package index is reached")
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_runs_the_demonstration_in_a_bare_environment(wheel, tmp_path):
    """First without Spark, which is then missed in one line; then with it."""
    elsewhere, python = tmp_path / "elsewhere", tmp_path / "env" / "bin" / "python"
    elsewhere.mkdir()
    slotscope = python.parent / "slotscope"
    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=elsewhere)

    alone = run(python, "-m", "pip", "install", "--quiet", wheel, cwd=elsewhere)
    assert alone.returncode == 0, alone.stderr
    assert run(slotscope, "--version", cwd=elsewhere).stdout == "0.1.0\n"
    missed = run(slotscope, "demo", cwd=elsewhere)
    assert (missed.returncode, without_progress(missed.stderr)) == (BAD_INPUT, [f"slotscope: {NEEDS_SPARK}"])

    extra = run(python, "-m", "pip", "install", "--quiet", f"{wheel}[spark]", cwd=elsewhere)
    assert extra.returncode == 0, extra.stderr
    shown = run(slotscope, "demo", cwd=elsewhere)

    assert shown.returncode == 0, shown.stderr
    assert without_progress(shown.stderr) == []
    assert [path.name for path in elsewhere.iterdir()] == ["slotscope-demo"]
    pages = [Path(line) for line in shown.stdout.split("== Pages to open in a browser\n")[1].splitlines()]
    assert len(pages) >= 4
    assert all(page.is_file() and page.is_relative_to(elsewhere / "slotscope-demo") for page in pages)
    assert "failover" in shown.stdout
