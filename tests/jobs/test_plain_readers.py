"""Readers who know nothing but the columns: DuckDB, polars and Spark, while snapshots are rewritten and writers are killed."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from schemas.gold import NODE_LOAD
from schemas.silver import SLOT_LOAD, SNAPSHOTS
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.servers import wait_for
from tests.slotscope.runtime.test_runs import WRITTEN, write

CHECKOUT = Path(__file__).parents[2]
WRITER = """
import os, signal, sys, time
from slotscope.runtime.storage import delta_files
from tests.slotscope.runtime.test_runs import write

root, keys, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
commit, commits = delta_files.write_deltalake, []

def counted(*arguments, **more):
    commit(*arguments, **more)
    commits.append(1)
    if len(commits) == last:
        os.kill(os.getpid(), signal.SIGKILL)

delta_files.write_deltalake = counted
while True:
    write(root, "a", keys)
    write(root, "b", keys + 1)
    keys += 2
    if last:
        break
    time.sleep(0.1)  # readers need the processor, too
"""


def start(root: Path, keys: int, last_commit: int) -> subprocess.Popen[bytes]:
    """A process that rewrites two snapshots; it kills itself after so many commits, or never."""
    command = [sys.executable, "-c", WRITER, str(root), str(keys), str(last_commit)]
    return subprocess.Popen(command, cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": str(CHECKOUT)})


QUERY = "SELECT snapshot_id, count(*), count(DISTINCT run_id), count(DISTINCT keys) FROM stored GROUP BY 1"


def by_duckdb(place: str) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("stored", DeltaTable(place).to_pyarrow_dataset())
    return connection.execute(QUERY).fetchall()


def by_spark(spark: Any, place: str) -> list[tuple[Any, ...]]:
    spark.read.format("delta").load(place).createOrReplaceTempView("stored")
    return [tuple(row) for row in spark.sql(QUERY).collect()]


def by_polars(place: str) -> list[tuple[Any, ...]]:
    import polars

    figures = (polars.len(), polars.col("run_id").n_unique(), polars.col("keys").n_unique())
    return polars.read_delta(place).group_by("snapshot_id").agg(*figures).rows()


def assert_whole(rows: list[tuple[Any, ...]], count: int) -> None:
    """Each snapshot has all rows of one run."""
    assert {row[1:] for row in rows} <= {(count, 1, 1)}


@pytest.mark.processes
@pytest.mark.parametrize("page", ["README.md", "docs/tables.md"])
def test_the_example_of_a_page_reads_the_tables_in_duckdb(tmp_path: Path, page: str) -> None:
    root = tmp_path / "slotscope-data"
    for name, keys in (("before", 11), ("after", 22), ("after", 33)):
        write(root, name, keys)
    (example,) = re.findall(r"```python\n(.*?)```", (CHECKOUT / page).read_text("utf-8"), re.DOTALL)
    program = example.replace("ROOT", root.name)

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "33" in done.stdout
    assert "22" not in done.stdout


@pytest.mark.processes
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20))])
def test_a_writer_that_is_killed_after_any_commit_leaves_whole_snapshots(tmp_path: Path, seed: int) -> None:
    write(tmp_path, "a", 1)
    write(tmp_path, "b", 2)
    commits = random.Random(seed).sample(range(1, 11), 2)
    for number, last_commit in enumerate(commits):
        assert start(tmp_path, 10 * number + 11, last_commit).wait(120) == -signal.SIGKILL
        for table in WRITTEN:
            place = f"{tmp_path}/{table.name}"
            for rows in (by_duckdb(place), by_polars(place)):
                assert len(rows) == 2
                assert_whole(rows, 2 if table is SLOT_LOAD else 1)

    write(tmp_path, "a", 99)
    assert {row["keys"] for table in WRITTEN for row in read_rows(str(tmp_path), table, snapshot_id="a")} == {99}


@pytest.mark.spark
@pytest.mark.processes
def test_readers_see_whole_snapshots_during_a_rewrite(spark: Any, tmp_path: Path) -> None:
    write(tmp_path, "a", 1)
    write(tmp_path, "b", 2)
    nodes = f"{tmp_path}/{NODE_LOAD.name}"
    assert_whole(by_spark(spark, nodes), 1)  # loads its classes
    writer = start(tmp_path, 3, 0)
    try:
        wait_for(lambda: DeltaTable(nodes).version() > 3, "the first rewrites")
        for table in (SLOT_LOAD, NODE_LOAD, SNAPSHOTS):
            place, count = f"{tmp_path}/{table.name}", 2 if table is SLOT_LOAD else 1
            for read in (by_duckdb, by_polars, lambda place: by_spark(spark, place), by_duckdb, by_polars):
                assert_whole(read(place), count)
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()
    assert DeltaTable(nodes).version() > 5


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.processes
def test_a_stream_from_a_table_survives_a_rewrite(spark: Any, tmp_path: Path) -> None:
    """With skipChangeCommits, which leaves rewritten rows out, or from the change feed of a gold table, which has them all."""
    write(tmp_path, "a", 1)
    place = f"{tmp_path}/{NODE_LOAD.name}"

    def seen(name: str, **options: str) -> int:
        stream = spark.readStream.format("delta").options(**options).load(place)
        query = stream.writeStream.format("delta").option("checkpointLocation", f"{tmp_path}/{name}-checkpoint")
        query.trigger(availableNow=True).start(f"{tmp_path}/{name}").awaitTermination()
        return spark.read.format("delta").load(f"{tmp_path}/{name}").count()

    assert (seen("skip", skipChangeCommits="true"), seen("feed", readChangeFeed="true")) == (1, 1)
    write(tmp_path, "a", 2)
    write(tmp_path, "b", 3)

    assert (seen("skip", skipChangeCommits="true"), seen("feed", readChangeFeed="true")) == (2, 4)
