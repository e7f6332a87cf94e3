"""The kernels once more over damaged and hostile input, compiled so that every index is checked.

They run without checks: a read beyond an array would tell nothing.  `NUMBA_BOUNDSCHECK` overrides what each kernel asks for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FUZZED = {
    "rdb": ("../rdb/test_skim.py", "mutations or golden or prefix or pieces or library"),
    "aof": ("test_aof_walker.py", "mutations or golden or pieces or prefix or damage or lying or too_long"),
    "values": ("../rdb/test_value_measure.py", "mutations"),
    "bus": ("test_bus_mutations.py", "three_hundred or any_byte"),
    "slots": ("test_key_slots.py", "plain_function or layout"),
    "packets": ("test_bus_decoder.py", "damaged or hostile or alike or kernels_equal"),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", FUZZED)
def test_no_kernel_reads_beyond_its_arrays(part: str, tmp_path: Path) -> None:
    """In a process and a cache of its own: an index out of bounds is an IndexError there, which no test expects."""
    file, chosen = FUZZED[part]
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / file), "-k", chosen]
    checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}

    ran = subprocess.run([sys.executable, *command], env=checked, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout[-4000:]
    assert " passed" in ran.stdout
    assert list(tmp_path.rglob("*.nbc"))


@pytest.mark.processes
def test_the_environment_overrides_bounds_checks() -> None:
    """A kernel that asks for none is checked all the same where the variable says so."""
    program = (
        "import numpy\nfrom cluster_core.kernels.compiled import njit\n"
        "@njit(boundscheck=False, cache=False)\ndef read(data, at):\n    return data[at]\nread(numpy.zeros(1), 9)\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "NUMBA_BOUNDSCHECK": "1"}, capture_output=True, text=True
    )

    assert "IndexError" in ran.stderr
