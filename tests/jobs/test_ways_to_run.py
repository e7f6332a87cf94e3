"""The ways to start a job, each in a process of its own: the same options, tables, exit codes and lines."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.bronze import BAD_RECORDS
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.runtime.spark import code_zip
from slotscope.runtime.spark.jars import read_properties
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.program import without_progress
from tests.conftest import DATA

pytestmark = pytest.mark.processes

CHECKOUT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SLOTSCOPE = str(BIN / "slotscope")
SUBMIT = str(BIN / "spark-submit")
BEFORE = DATA / "valkey-9.1" / "before"
NODES = DATA / "valkey-9.1" / "topology" / "nodes.txt"
RUN_SECONDS_MAX = 600
SHORT_RUN = read_properties("spark-local.conf")["spark.driver.extraJavaOptions"]
"""How the JVM of a run of seconds is started; spark-submit starts it before the job can say so."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory) -> Path:
    """A folder with a whole dump and one that ends in the middle of a record."""
    folder = tmp_path_factory.mktemp("dumps")
    (folder / "whole.rdb").write_bytes((BEFORE / "node-7002.rdb").read_bytes())
    (folder / "cut.rdb").write_bytes((BEFORE / "node-7003.rdb").read_bytes()[:100_000])
    return folder


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run *command* away from the checkout, as a shell does in which only the environment was activated."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    plain["PATH"] = f"{BIN}{os.pathsep}{plain.get('PATH', '')}"  # spark-submit asks the first python3 for PySpark
    return subprocess.run(command, cwd=cwd, env=plain, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)


def truth(name: str) -> int:
    """How many keys the server had when it wrote the dump."""
    with gzip.open(BEFORE / f"keys-{name}.jsonl.gz") as lines:
        return sum(1 for _ in lines)


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The error stream less the news that a slow machine is still at work."""
    return without_progress(done.stderr)


@pytest.mark.parametrize(
    "way", ["slotscope", *(pytest.param(way, marks=pytest.mark.slow) for way in ("spark-submit", "cluster"))]
)
def test_each_way_to_start_the_job_writes_the_same_tables_and_ends_with_the_same_code(dumps, tmp_path, way):
    """A program of its own, spark-submit with the code as a zip, executors in processes of their own."""
    command = {
        "slotscope": lambda: [SLOTSCOPE, "key-slots"],
        "spark-submit": lambda: [
            SUBMIT, "--master", "local[2]", "--conf", "spark.ui.enabled=false", "--driver-java-options", SHORT_RUN,
            "--py-files", str(code_zip.build(tmp_path / "slotscope.zip")), str(CHECKOUT / "jobs" / "key_slots.py"),
        ],
        "cluster": lambda: [SLOTSCOPE, "key-slots", "--master", "local-cluster[2,1,1024]"],
    }[way]()  # fmt: skip
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    elsewhere.mkdir()
    options = ["--root", str(root), "--rdb", str(dumps / "*.rdb"), "--topology", str(NODES), "--mode", "permissive"]

    done = run(*command, *options, cwd=elsewhere)

    assert done.returncode == 3, done.stderr  # partial: a dump was bad
    if way != "spark-submit":  # which has its own options
        assert lines(done) == []
    rows = {table.name: read_rows(str(root), table) for table in (SLOT_LOAD, SNAPSHOTS, SOURCES, BAD_RECORDS)}
    keys = {Path(row["source"]).name: row["keys"] for row in rows[SOURCES.name]}
    assert keys["whole.rdb"] == truth("node-7002")
    assert 0 < keys["cut.rdb"] < truth("node-7003")
    assert sum(row["keys"] for row in rows[SLOT_LOAD.name]) == sum(keys.values())
    assert [(row["keys"], row["bad_records"]) for row in rows[SNAPSHOTS.name]] == [(sum(keys.values()), 1)]
    assert [Path(row["source"]).name for row in rows[BAD_RECORDS.name]] == ["cut.rdb"]
    assert f"{sum(keys.values()):,}" in done.stdout
    (page,) = (root / "reports").glob(f"{rows[SNAPSHOTS.name][0]['snapshot_id']}*.html")
    assert page.stat().st_size > 10_000
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--rdb", "none.rdb"], "none.rdb: no such file"),
        (["--rdb", "none.rdb", "--no-such-option"], "Unknown option: --no-such-option"),
    ],
)
def test_invalid_options_are_one_line_before_spark_starts(tmp_path, options, text):
    """Files, options and settings are checked first: exit code 2, no trace, nothing on the output."""
    done = run(SLOTSCOPE, "key-slots", "--root", str(tmp_path / "root"), *options, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("slotscope: ")
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
