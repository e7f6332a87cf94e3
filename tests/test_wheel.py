"""The wheel: its contents, and its use beside packages of the same names as folders of the repository."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.builders.syntax import statements
from tests.builders.wheel import build_wheel, tracked

pytest.importorskip("setuptools", minversion="77")
pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    zipfile.ZipFile(build_wheel(folder)).extractall(folder / "installed")
    return folder / "installed"


ONLY_FOR_TESTS = re.compile(r"slotscope/demo_data/(?:.*/keys-.*\.gz|.*/topology/(?!nodes\.txt).*|.*/recording\.json)")
"""What was recorded beside the inputs of the demonstration: the servers' own answers."""


def installed_name(name: str) -> str:
    """Where a file of the repository is installed."""
    return f"slotscope/{name}" if name.startswith(("jobs/", "schemas/")) else name


def test_the_wheel_installs_two_names(wheel):
    """`jobs` and `schemas` are names that other projects have, too."""
    (info,) = wheel.glob("*.dist-info")

    assert {path.name for path in wheel.iterdir()} == {"cluster_core", "slotscope", info.name}
    assert (info / "top_level.txt").read_text().split() == ["cluster_core", "slotscope"]


def test_the_wheel_has_every_file_that_git_knows_below_the_packages(wheel):
    """Data files are as necessary as modules: without its table of commands no key of a command is found."""
    expected = {installed_name(name) for name in tracked("cluster_core", "jobs", "schemas", "slotscope")}
    files = {str(path.relative_to(wheel)) for path in wheel.rglob("*") if path.is_file()}

    assert "cluster_core/routing/commands/valkey-9.1.json" in expected
    assert {name for name in expected - files if not ONLY_FOR_TESTS.fullmatch(name)} == set()
    assert {name for name in files - expected if ".dist-info/" not in name} == set()


def test_no_module_of_the_wheel_imports_a_name_that_it_does_not_install(wheel):
    """Neither as a statement nor as the target of a subcommand."""
    wrong = []
    for path in wheel.rglob("*.py*"):
        for node in statements(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            wrong += [f"{path}: {name}" for name in names if name.split(".")[0] in ("jobs", "schemas", "tests")]
    main = (wheel / "slotscope" / "jobs" / "main.py").read_text()

    assert wrong == []
    assert '"jobs.' not in main
    assert '"slotscope.jobs.key_slots:command"' in main


def test_the_wheel_works_beside_packages_named_jobs_and_schemas(wheel, tmp_path):
    """As in the repositories of many Airflow and Databricks users with their folders on PYTHONPATH."""
    for name in ("jobs", "schemas"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('the package of somebody else')\n")
    script = "import zipfile, sys, slotscope, slotscope.schemas.catalogue, slotscope.runtime.spark.code_zip as code\n"
    script += "print(slotscope.key_slot(b'{user:1}.cart'), slotscope.__file__)\n"
    script += "from pathlib import Path; print(*sorted({n.split('/')[0] for n in zipfile.ZipFile(code.build(Path('code.zip'))).namelist()}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(wheel)])}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )

    library, command = run("-c", script), run("-m", "slotscope", "key-slots", "--help")

    assert library.stdout.splitlines() == [f"10778 {wheel}/slotscope/__init__.py", "cluster_core slotscope"], (
        library.stderr
    )
    assert (command.returncode, command.stderr) == (0, "")
    assert "--topology" in command.stdout
