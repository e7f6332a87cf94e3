"""What packages offer to whoever imports them: the names of their doors, and nothing loaded before it is asked for."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from cluster_core.door import read_stub

ROOT = Path(__file__).parents[2]
DOORS = sorted(
    ".".join(path.relative_to(ROOT).parent.parts)
    for package in ("cluster_core", "slotscope")
    for path in (ROOT / package).rglob("__init__.pyi")
)


@pytest.mark.parametrize("package", DOORS)
def test_a_door_offers_the_names_of_its_stub(package):
    homes = read_stub((ROOT / Path(*package.split(".")) / "__init__.pyi").read_bytes())
    door = import_module(package)

    assert homes
    assert door.__all__ == dir(door) == sorted(homes)
    assert {name: getattr(door, name) for name in homes} == {
        name: getattr(import_module(home), name) for name, home in homes.items()
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
    assert {"slotscope", "cluster_core.node", "cluster_core.door"} <= loaded
    assert not {name for name in loaded if name.startswith(("numpy", "pyarrow", "pyspark", "numba", "slotscope."))}


def test_the_slot_of_a_key_and_of_a_column():
    import pyarrow as pa

    import slotscope

    assert slotscope.key_slot(b"x") == 16287
    assert slotscope.key_slots(pa.array(["x", "{x}.y"])).tolist() == [16287, 16287]
