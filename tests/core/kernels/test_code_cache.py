"""Compiled code is found again by the content of its sources: wherever they lie, and never after they changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[3] / "cluster_core" / "kernels"
CALLED = """from cluster_core.kernels.compiled import njit

STEP = 1

@njit()
def step(number):
    return number + STEP
"""
CALLER = """from cluster_core.kernels.compiled import njit
from cluster_core.kernels.called import step

@njit()
def twice(number):
    return step(step(number))
"""
PROGRAM = """import sys
sys.path.insert(0, sys.argv[1])
from cluster_core.kernels.caller import twice
print(twice(int(sys.argv[2]) if len(sys.argv) < 4 else float(sys.argv[2])), sum(twice.stats.cache_hits.values()))
"""

pytestmark = pytest.mark.processes


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def clone(folder: Path) -> Path:
    """Write a package with two kernels, one calling the other, and return its folder."""
    kernels = folder / "cluster_core" / "kernels"
    kernels.mkdir(parents=True)
    for package in (kernels, kernels.parent):
        (package / "__init__.py").touch()
    for name in ("compiled.py", "code_cache.py"):
        shutil.copy(KERNELS / name, kernels / name)
    (kernels / "called.py").write_text(CALLED)
    (kernels / "caller.py").write_text(CALLER)
    return folder


def start(code: Path, cache: Path, *number: str) -> subprocess.Popen[str]:
    """Start a process that calls the outer kernel of the package under *code*."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": ""}
    command = [sys.executable, "-c", PROGRAM, str(code), *number]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(code: Path, cache: Path, *number: str) -> tuple[float, int]:
    """Return the outer kernel's result and the number of its cached signatures."""
    output, complaint = start(code, cache, *number).communicate()
    assert complaint == ""
    answer, hits = output.split()
    return float(answer), int(hits)


def test_equal_sources_share_their_code_wherever_they_lie(tmp_path, cache):
    """A second clone and a zip of the same content compile nothing."""
    first, second = clone(tmp_path / "first"), clone(tmp_path / "second")
    zipped = tmp_path / "code.zip"
    with zipfile.ZipFile(zipped, "w") as archive:
        for path in sorted(first.rglob("*.py")):
            archive.write(path, path.relative_to(first))

    assert run(first, cache, "5") == (7, 0)
    assert run(second, cache, "5") == (7, 1)
    assert run(zipped, cache, "5") == (7, 1)


def test_code_of_an_inner_kernel_that_changed_is_never_used(tmp_path, cache):
    """numba looks at the file of the outer kernel alone, and that one has not changed."""
    folder = clone(tmp_path / "clone")
    assert run(folder, cache, "5") == (7, 0)

    (folder / "cluster_core/kernels/called.py").write_text(CALLED.replace("STEP = 1", "STEP = 10"))

    assert run(folder, cache, "5") == (25, 0)
    assert run(folder, cache, "5") == (25, 1)


def test_processes_that_compile_at_once_do_not_mix_their_signatures(tmp_path, cache):
    """Each signature has a file of its own: a count of files in a common index could name the other's code."""
    folder = clone(tmp_path / "clone")
    processes = [start(folder, cache, *number) for number in (["5"], ["5.5", "float"], ["6"], ["6.5", "float"])]
    answers = [process.communicate()[0].split()[0] for process in processes]

    assert answers == ["7", "7.5", "8", "8.5"]
    assert run(folder, cache, "5") == (7, 1)
    assert run(folder, cache, "5.5", "float") == (7.5, 1)


def test_kernels_run_where_no_code_can_be_kept(tmp_path):
    """As on an executor without a home: they are compiled by each process."""
    (tmp_path / "file").write_text("no folder")

    assert run(clone(tmp_path / "clone"), tmp_path / "file", "5") == (7, 0)
