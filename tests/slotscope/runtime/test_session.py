"""Sessions: settings, errors of executors, code that travels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slotscope.runtime.compiled_code import compiled_since
from slotscope.runtime.errors import InputError
from slotscope.runtime.spark import code_zip
from slotscope.runtime.spark.jars import provide_jars
from slotscope.runtime.spark.session import ARCHIVE_CLASSES, how_far, spark_session

ROOT = Path(__file__).parents[3]

PROGRAM = """
from slotscope.runtime import cli
from slotscope.options import Common

def fail(batches):
    from cluster_core.errors import DecodeError
    raise DecodeError("not an RDB", offset=3, source="x.rdb")
    yield from batches

def command(*, common: Common = Common()) -> None:
    common.session("test").range(0, 2, 1, 2).mapInArrow(fail, "text string").collect()

if __name__ == "__main__":
    cli.main(command)
"""


def environment() -> dict[str, str]:
    """The caller's environment with this Python for the driver of spark-submit."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


def test_the_running_session_is_returned(spark):
    """Only one is ever started."""
    assert spark_session("other") is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.getConf().get("spark.driver.bindAddress") == "127.0.0.1"


@pytest.mark.long
def test_the_zip_has_code_and_data_and_is_the_same_each_time(tmp_path):
    """What --py-files takes: packages, settings, templates; no caches and no recorded clusters."""
    first, second = code_zip.build(tmp_path / "a.zip"), code_zip.build(tmp_path / "b.zip")
    names = zipfile.ZipFile(first).namelist()

    assert first.read_bytes() == second.read_bytes()
    assert {
        "cluster_core/errors.py",
        "slotscope/conf/spark-local.conf",
        "slotscope/runtime/cli.py",
        "schemas/table.py",
    } <= set(names)
    assert not any("__pycache__" in name or "demo_data" in name or name.endswith(".pyc") for name in names)


@pytest.mark.slow
@pytest.mark.spark
def test_an_executors_error_is_the_only_line_on_the_error_stream(tmp_path):
    """Neither Spark's log nor a trace of Java reaches the user."""
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600, env=environment()
    )

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "slotscope: x.rdb: offset 3: not an RDB\n")


SESSION = """
from pathlib import Path
from pyspark import SparkContext
from slotscope.runtime.spark.session import spark_session

print(spark_session("classes", master="local[1]").range(3).count())
print("slotscope/classes.jsa" in Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text())
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="the files that a process has mapped are read from /proc"
)
def test_a_session_starts_from_the_classes_that_set_up_archived(tmp_path):
    """An archive that the JVM cannot use is ignored; neither prints anything."""
    plain = environment() | {"XDG_CACHE_HOME": str(tmp_path), "SLOTSCOPE_JARS": str(Path(provide_jars()[0]).parent)}
    plain.pop(ARCHIVE_CLASSES, None)
    archive = tmp_path / "slotscope" / "classes.jsa"
    archive.parent.mkdir()
    archive.write_bytes(b"of another Java")
    runs = [
        subprocess.run([sys.executable, "-c", SESSION], capture_output=True, text=True, timeout=600, env=plain | more)
        for more in ({}, {ARCHIVE_CLASSES: "1"}, {})
    ]

    assert [run.stdout.split() for run in runs] == [["3", "False"], ["3", "False"], ["3", "True"]]
    assert [run.stderr for run in runs] == [""] * 3


def test_a_user_without_a_cache_folder_is_told_to_name_one(tmp_path, monkeypatch):
    monkeypatch.delenv("SLOTSCOPE_JARS", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/1")
    with pytest.raises(InputError, match=r"^no cache folder: .*/proc/1/slotscope/jars; set XDG_CACHE_HOME to a folder"):
        provide_jars()
    assert "set XDG_CACHE_HOME" in compiled_since(0)


def test_progress_of_jobs_has_files_bytes_tasks_share_and_time_left(spark):
    """While the jobs run; before and after, only known figures."""

    def slowly(batches):
        for batch in batches:
            time.sleep(0.4)
            yield batch

    progress = how_far(spark, "tasks", "3 files, 5.60 GB")
    lines = {progress()}
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(spark.range(0, 6, 1, 6).mapInArrow(slowly, "id long").collect)
        while not job.done():
            lines.add(progress())
            time.sleep(0.05)

    assert "3 files, 5.60 GB" in lines
    assert any(
        re.fullmatch(r"3 files, 5\.60 GB, [1-5] of 6 tasks, (16|33|50|66|83) %, about \d+ (s|min) left", line)
        for line in lines
    )


def test_progress_of_a_job_with_a_known_share_shows_it_instead_of_tasks(spark):
    """As a replay, which reads its captures in one task."""
    share = 0.0
    progress = how_far(spark, "tasks", "2 files, 1.00 GB", lambda: share)

    assert progress() == "2 files, 1.00 GB"
    share = 0.5
    assert re.fullmatch(r"2 files, 1\.00 GB, 50 % read, about 0 s left", progress())
    share = 0.98
    assert progress() == "2 files, 1.00 GB, 98 % read"
