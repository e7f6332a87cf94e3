"""Public names of packages: those of their stubs, loaded on first use."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from cluster_core.lazy_names import read_stub

ROOT = Path(__file__).parents[2]
WITH_STUBS = sorted(
    ".".join(path.relative_to(ROOT).parent.parts)
    for package in ("cluster_core", "slotscope")
    for path in (ROOT / package).rglob("__init__.pyi")
)


@pytest.mark.parametrize("package", WITH_STUBS)
def test_a_package_has_the_names_of_its_stub(package):
    modules = read_stub((ROOT / Path(*package.split(".")) / "__init__.pyi").read_bytes())
    module = import_module(package)

    assert modules
    assert module.__all__ == dir(module) == sorted(modules)
    assert {name: getattr(module, name) for name in modules} == {
        name: getattr(import_module(defined_in), name) for name, defined_in in modules.items()
    }


def test_a_name_that_is_not_offered_is_no_attribute():
    with pytest.raises(ImportError, match="no_such_name"):
        exec("from cluster_core.node import no_such_name")


def test_importing_the_project_loads_no_dependencies():
    """It works before anything is installed, and at once."""
    program = "import slotscope, cluster_core.node, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    loaded = set(done.stdout.split())
    assert {"slotscope", "cluster_core.node", "cluster_core.lazy_names"} <= loaded
    assert not {name for name in loaded if name.startswith(("numpy", "pyarrow", "pyspark", "numba", "slotscope."))}


def test_the_slot_of_a_key_and_of_a_column():
    import pyarrow as pa

    import slotscope

    assert slotscope.key_slot(b"x") == 16287
    assert slotscope.key_slots(pa.array(["x", "{x}.y"])).tolist() == [16287, 16287]
