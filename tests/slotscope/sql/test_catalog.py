"""A catalog of Spark names the tables as external tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from schemas.runs import RUNS
from schemas.silver import SLOT_LOAD
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import Run, begin_together, observers
from slotscope.sql.catalog import check_catalog, register_tables
from tests.benches.program import slotscope
from tests.builders.stored_rows import store
from tests.conftest import DATA

DUMP = DATA / "valkey-9.1" / "before" / "node-7003.rdb"


@pytest.fixture
def schema(spark) -> Iterator[str]:
    """A schema of Spark's own catalog, for one test."""
    yield "of_a_test"
    observers.clear()
    spark.sql("DROP SCHEMA IF EXISTS of_a_test CASCADE")


def test_what_a_job_wrote_is_there_by_name(spark, tmp_path, schema, capsys):
    """And stays so: a second run needs no word more, and the tables lie where they lay."""
    words = ["key-slots", "--rdb", DUMP, "--root", tmp_path, "--catalog", schema]
    assert slotscope(*words, "--snapshot", "a") == 0
    assert slotscope(*words, "--snapshot", "b") == 0
    assert slotscope("key-slots", "--rdb", DUMP, "--root", tmp_path / "other", "--catalog", schema) == 2

    assert f"{schema}.runs is a table of another root" in capsys.readouterr().err
    found = spark.sql(f"SELECT snapshot_id, sum(keys) AS keys FROM {schema}.slot_load GROUP BY 1 ORDER BY 1").collect()
    assert [tuple(row) for row in found] == [("a", 1346), ("b", 1346)]
    assert read_rows(str(tmp_path), SLOT_LOAD, snapshot_id="a")


def test_a_table_of_a_catalog_has_the_rows_of_complete_runs(spark, tmp_path, schema):
    root = str(tmp_path)
    store(root, "a", {SLOT_LOAD: [{"slot": 1, "keys": 1}]}, job="key-slots")
    killed = Run(root, "key-slots", "b")
    begin_together([killed])
    killed.append(SLOT_LOAD, [{"slot": 2, "keys": 2}])

    register_tables(spark, root, schema, [SLOT_LOAD])
    register_tables(spark, root, schema, [SLOT_LOAD, RUNS])

    assert [row.slot for row in spark.table(f"{schema}.slot_load").collect()] == [1]
    assert spark.table(f"{schema}.runs").count() == 2


def test_views_of_the_session_are_not_taken_for_what_the_schema_has(spark, tmp_path, schema):
    """A notebook that looked at a root has its tables as views, which Spark shows as if every schema had them."""
    store(str(tmp_path), "a", {SLOT_LOAD: [{"slot": 1, "keys": 1}]}, job="key-slots")
    for name in ("runs", "slot_load"):
        spark.range(1).createOrReplaceTempView(name)
    try:
        register_tables(spark, str(tmp_path), schema, [SLOT_LOAD])

        assert [row.slot for row in spark.table(f"{schema}.slot_load").collect()] == [1]
    finally:
        for name in ("runs", "slot_load"):
            spark.catalog.dropTempView(name)


@pytest.mark.parametrize("name", ["", "a.b.c", "a b", "a;DROP TABLE x", "`a`"])
def test_words_that_name_no_schema_are_refused_before_spark_starts(name):
    with pytest.raises(InputError, match=r"write SCHEMA, or CATALOG\.SCHEMA"):
        check_catalog(name)


READER = """import sys
from slotscope.runtime.spark.session import spark_session
spark = spark_session("reader", conf=dict(word.split("=", 1) for word in sys.argv[1:]))
((keys,),) = spark.sql("SELECT sum(keys) FROM fleet.slot_load").collect()
(about,) = [row.data_type for row in spark.sql("DESCRIBE EXTENDED fleet.slot_load").collect() if row.col_name == "Type"]
print(keys, about, spark.catalog.getDatabase("fleet").locationUri)
"""


@pytest.mark.slow
@pytest.mark.processes
def test_a_hive_metastore_keeps_the_names_for_other_processes(tmp_path):
    """Derby's, in a folder: one process writes, another reads by name."""
    hive = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={tmp_path}/metastore;create=true",
        "spark.sql.warehouse.dir": f"{tmp_path}/warehouse",
    }
    words = [f"{key}={value}" for key, value in hive.items()]
    job = ["-m", "jobs.main", "key-slots", "--rdb", str(DUMP), "--root", f"{tmp_path}/root", "--catalog", "fleet"]

    for command in ([*job, *(part for word in words for part in ("--conf", word))], ["-c", READER, *words]):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    assert done.stdout.split() == ["1346", "EXTERNAL", f"file:{tmp_path}/warehouse/fleet.db"]
