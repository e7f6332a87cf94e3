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

from slotscope.runtime.spark import code_zip
from slotscope.runtime.spark.jars import provide_jars
from slotscope.runtime.spark.session import ARCHIVE_CLASSES, how_far, spark_session

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys
from slotscope.runtime import cli
from slotscope.options import Common

def where(batches):
    import cluster_core.errors, pyarrow as pa
    from cluster_core.kernels.key_slots import key_slots
    for batch in batches:
        slots = key_slots(pa.array([b"a"] * batch.num_rows))
        yield pa.record_batch({"text": [f"{cluster_core.errors.__file__} {slot}" for slot in slots]})

def fail(batches):
    from cluster_core.errors import DecodeError
    raise DecodeError("not an RDB", offset=3, source="x.rdb")
    yield from batches

def command(*, failing: bool = False, common: Common = Common()) -> None:
    spark = common.session("test")
    rows = spark.range(0, 2, 1, 2)
    found = rows.mapInArrow(fail if failing else where, "text string")
    found.write.format("delta").mode("overwrite").save(common.root)
    for row in spark.read.format("delta").load(common.root).collect():
        print(row.text)

if __name__ == "__main__":
    cli.main(command)
"""


@pytest.fixture
def program(tmp_path):
    """Run the program above in a process of its own, away from the checkout."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(*arguments: str, start: tuple[str, ...] = (sys.executable,)) -> subprocess.CompletedProcess[str]:
        command = [*start, str(tmp_path / "program.py"), "--root", str(tmp_path / "table"), *arguments]
        return subprocess.run(
            command, cwd=tmp_path / "elsewhere", capture_output=True, text=True, timeout=600, env=environment()
        )

    return run


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
    """What --py-files takes: packages, settings, templates; no caches."""
    first, second = code_zip.build(tmp_path / "a.zip"), code_zip.build(tmp_path / "b.zip")
    names = zipfile.ZipFile(first).namelist()

    assert first.read_bytes() == second.read_bytes()
    assert {
        "cluster_core/errors.py",
        "slotscope/conf/slotscope.toml",
        "slotscope/runtime/cli.py",
        "schemas/table.py",
    } <= set(names)
    assert not any("__pycache__" in name or name.endswith(".pyc") for name in names)


@pytest.mark.slow
@pytest.mark.spark
def test_an_executors_error_is_the_only_line_on_the_error_stream(program):
    """Neither Spark's log nor a trace of Java reaches the user."""
    done = program("--failing")

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "slotscope: x.rdb: offset 3: not an RDB\n")


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_leaves_nothing_where_it_was_started(program, tmp_path):
    """No warehouse, no derby.log, no metastore."""
    done = program()

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_executors_of_a_cluster_get_the_code_as_a_zip(program):
    """The module lies in the zip that was sent, and its kernel works there."""
    done = program("--master", "local-cluster[2,1,1024]")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("slotscope.zip/cluster_core/errors.py 15495" in line for line in lines)


@pytest.mark.slow
@pytest.mark.spark
def test_spark_submit_runs_a_job_from_the_zip(program, tmp_path):
    """The third way to start a job: no --jars, no --packages, the same options.

    spark-submit itself joins the two streams.
    """
    archive = code_zip.build(tmp_path / "slotscope.zip")
    submit = str(Path(sys.executable).parent / "spark-submit")
    done = program(start=(submit, "--master", "local[2]", "--py-files", str(archive)))

    assert done.returncode == 0, done.stdout + done.stderr
    assert sum("slotscope.zip/cluster_core/errors.py 15495" in line for line in done.stdout.splitlines()) == 2


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


def test_progress_of_jobs_has_files_bytes_tasks_share_and_time_left(spark):
    """While the jobs run; before and after only what is known of them."""

    def slowly(batches):
        for batch in batches:
            time.sleep(0.4)
            yield batch

    words = how_far(spark, "tasks", "3 files, 5.60 GB")
    told = {words()}
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(spark.range(0, 6, 1, 6).mapInArrow(slowly, "id long").collect)
        while not job.done():
            told.add(words())
            time.sleep(0.05)

    assert "3 files, 5.60 GB" in told
    assert any(
        re.fullmatch(r"3 files, 5\.60 GB, [1-5] of 6 tasks, (16|33|50|66|83) %, about \d+ (s|min) left", one)
        for one in told
    )


def test_progress_of_a_job_that_knows_its_share_has_it_in_place_of_tasks(spark):
    """As a replay, which reads its captures in one task."""
    share = 0.0
    words = how_far(spark, "tasks", "2 files, 1.00 GB", lambda: share)

    assert words() == "2 files, 1.00 GB"
    share = 0.5
    assert re.fullmatch(r"2 files, 1\.00 GB, 50 % read, about 0 s left", words())
