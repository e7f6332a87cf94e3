"""The key distribution through Spark on two cores, against work that never leaves the JVM, all in one session.

The session has Spark's own JVM settings (both compilers, its default collector): the local profile of the jobs, made
for short runs, would slow the JVM's side down.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

from benchmarks.data import cluster_dump, key_files, linked, redis_dump, small_dumps
from benchmarks.measure import run_json, tree_cpu_seconds
from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.kernels.key_slots import key_slots
from cluster_core.slots.key_slot import SLOT_COUNT, key_slot
from schemas.interim import SLOT
from slotscope.runtime.spark.java import find_java_home
from slotscope.runtime.spark.session import parallelism
from slotscope.sources.inputs import find_inputs
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.transforms.partial_sums import read_units, tally
from slotscope.transforms.snapshot_tables import SnapshotTables

NAME = "spark_scale"
MASTER = "local[2]"
UDF_KEYS = 1_000_000
SMALL_DUMPS, SMALL_DUMP_KEYS = 2_000, 5_000


@dataclass(slots=True)
class Way:
    """One way to the same counts; *keys* is how many it reads, *wall_s* and *cpu_s* are the least of its turns."""

    name: str
    run: Callable[[], int]
    keys: int
    slow: bool = False
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    def take_turn(self) -> None:
        """Run once; raises RuntimeError if it did not count every key."""
        cpu, wall = tree_cpu_seconds(), time.perf_counter()
        counted = self.run()
        self.walls.append(time.perf_counter() - wall)
        self.cpus.append(tree_cpu_seconds() - cpu)
        if counted != self.keys:
            raise RuntimeError(f"{self.name}: counted {counted:,} of {self.keys:,} keys")

    @property
    def wall_s(self) -> float:
        """Least wall seconds."""
        return min(self.walls)

    @property
    def cpu_s(self) -> float:
        """Least CPU seconds of the driver, the JVM and the Python workers together."""
        return min(self.cpus)


def run(options: Options) -> Result:
    """Measure all ways over the same keys, then two dumps as one snapshot."""
    result = Result(
        NAME,
        "Scale through Spark",
        f"One session, `{MASTER}`, JVM settings as Spark has them. Wall seconds, and CPU seconds of the driver, the "
        "JVM and the Python workers together; the least of three turns after one to warm up, all ways in turn.",
        tables=[],
    )
    spark = _session()
    try:
        _measure_keys(result, spark, options)
        _measure_dumps(result, spark, options)
        _measure_small_dumps(result, spark, options)
    finally:
        spark.stop()
    return result


def _session() -> SparkSession:
    os.environ["JAVA_HOME"] = find_java_home()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master(MASTER).appName("slotscope benchmarks")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _measure_keys(result: Result, spark: SparkSession, options: Options) -> None:
    keys = 1_000_000 if options.quick else 50_000_000
    paths = key_files(keys)
    few = key_files(UDF_KEYS)
    frame = spark.read.parquet(*map(str, paths))
    jvm = Way("JVM: xxhash64(key) % 16384, never leaves the JVM", lambda: _counted(_jvm_counts(frame)), keys)
    ours = Way(
        "slotscope: keys per slot", lambda: _counted(_slot_counts(_partial(spark, keys=paths, details=False))), keys
    )
    table = Way(
        "slotscope: the rows of silver/slot_load",
        lambda: _slot_load(spark, paths),
        keys,
    )
    mapped = Way("slotscope kernel in mapInArrow over a DataFrame", lambda: _counted(_mapped_counts(frame)), keys)
    nothing = Way("mapInArrow that only counts rows", lambda: _counted(frame.mapInArrow(_count_rows, "n long")), keys)
    sample = spark.read.parquet(*map(str, few))
    udf = Way(f"plain Python UDF (on {UDF_KEYS:,} keys)", lambda: _counted(_udf_counts(sample)), UDF_KEYS, slow=True)
    ways = [jvm, ours, table, mapped, nothing, udf]
    for turn in range(4):
        for way in ways:
            if turn < 2 or not way.slow:
                way.take_turn()
            if turn == 0:
                way.walls.clear()
                way.cpus.clear()
    rows: list[dict[str, Cell]] = [
        {
            "way": way.name,
            "wall s": way.wall_s * keys / way.keys,
            "CPU s": way.cpu_s * keys / way.keys,
            "CPU ns per key": way.cpu_s / way.keys * 1e9,
            "× JVM, wall": way.wall_s / way.keys / (jvm.wall_s / keys),
            "× JVM, CPU": way.cpu_s / way.keys / (jvm.cpu_s / keys),
        }
        for way in ways
    ]
    size = sum(path.stat().st_size for path in paths)
    note = f"{keys:,} keys of 24 bytes in {len(paths)} Parquet files, {size / 1e6:,.0f} MB; a quarter has a hash tag."
    result.tables.append(Table("Keys per slot from Parquet", rows, note))
    result.bars.extend(
        [
            Bar("50 million Parquet keys to slot_load against the JVM's xxhash64", 0.8, ours.wall_s / jvm.wall_s, "×"),
            Bar("the same with the joins that make the table's rows", 0.8, table.wall_s / jvm.wall_s, "×"),
            Bar("an existing DataFrame by mapInArrow against the same", 3.0, mapped.wall_s / jvm.wall_s, "×"),
        ]
    )


def _jvm_counts(frame: DataFrame) -> DataFrame:
    return frame.groupBy((F.xxhash64("key") % SLOT_COUNT).alias("slot")).agg(F.count("*").alias("n"))


def _mapped_counts(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(_count_slots, "slot int, n long").groupBy("slot").agg(F.sum("n").alias("n"))


def _udf_counts(frame: DataFrame) -> DataFrame:
    slot_of = F.udf(lambda key: key_slot(key.encode()), IntegerType(), useArrow=False)
    return frame.groupBy(slot_of("key").alias("slot")).agg(F.count("*").alias("n"))


def _count_slots(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts = np.zeros(SLOT_COUNT, np.int64)
    for batch in batches:
        counts += np.bincount(key_slots(batch.column(0)), minlength=SLOT_COUNT)
    slots = np.flatnonzero(counts)
    yield pa.record_batch([pa.array(slots, pa.int32()), pa.array(counts[slots])], ["slot", "n"])


def _count_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([sum(batch.num_rows for batch in batches)], pa.int64())], ["n"])


def _counted(counts: DataFrame) -> int:
    """Run the query to its rows, at most two per slot, and return how many keys they stand for."""
    return sum(row["n"] for row in counts.collect())


def _partial(
    spark: SparkSession, *, rdb: list[Path] | None = None, keys: list[Path] | None = None, details: bool
) -> DataFrame:
    """Return the partial sums that the job `key-slots` makes its tables of."""
    inputs = find_inputs([str(path) for path in rdb or []], [str(path) for path in keys or []], None)
    return tally(spark, TallyOptions(details=details), inputs.units(parallelism(spark), split=True))


def _slot_counts(partial: DataFrame) -> DataFrame:
    return partial.where(F.col("kind") == SLOT).groupBy("slot").agg(F.sum("keys").alias("n"))


def _slot_load(spark: SparkSession, paths: list[Path]) -> int:
    """Make the rows of ``silver/slot_load``, all 16384 of them, as for a cluster without topology; how many keys they stand for."""
    inputs = find_inputs([], [str(path) for path in paths], None)
    partial, _ = read_units(spark, inputs, TallyOptions(details=False), split=True)
    made = SnapshotTables(partial, None, frozenset(), top=0, top_per_slot=0, groups=0)
    keys = pc.sum(made.slot_load([None] * SLOT_COUNT)["keys"]).as_py()
    partial.release()
    return int(keys)


def _measure_dumps(result: Result, spark: SparkSession, options: Options) -> None:
    scale = 0.05 if options.quick else 1.0
    dump = options.redis_dump or redis_dump(scale) or options.cluster_dump or cluster_dump(scale)
    if dump is None:
        result.skipped.append("two dumps as one snapshot: no server is installed that could make them")
        return
    paths = [dump, linked(dump)]
    kernel = run_json("benchmarks.skim", *paths, "--crc")
    keys = int(kernel["keys"])
    bins = Way(
        "slotscope: keys per slot", lambda: _counted(_slot_counts(_partial(spark, rdb=paths, details=False))), keys
    )
    details = Way(
        "slotscope: slots, largest keys, tags, prefixes, TTLs",
        lambda: _counted(_slot_counts(_partial(spark, rdb=paths, details=True))),
        keys,
    )
    walls = [kernel["wall_s"]]
    cpus = [kernel["cpu_s"]]
    for turn in range(5):
        for way in (bins, details):
            way.take_turn()
            if turn == 0:
                way.walls.clear()
                way.cpus.clear()
        again = run_json("benchmarks.skim", *paths, "--crc")
        walls.append(again["wall_s"])
        cpus.append(again["cpu_s"])
    rows: list[dict[str, Cell]] = [
        {
            "way": "two threads over the kernel, no Spark",
            "wall s": min(walls),
            "CPU s": min(cpus),
            "× kernel, wall": 1.0,
        }
    ]
    rows += [
        {"way": way.name, "wall s": way.wall_s, "CPU s": way.cpu_s, "× kernel, wall": way.wall_s / min(walls)}
        for way in (bins, details)
    ]
    note = (
        f"`{dump.name}` under two names, {2 * dump.stat().st_size / 1e6:,.0f} MB and {keys:,} keys in "
        "all, CRC checked everywhere."
    )
    result.tables.append(Table("Two dumps as one snapshot, running session", rows, note))
    result.bars.append(
        Bar("two 474 MB dumps as one snapshot against two threads of the kernel", 3.0, bins.wall_s / min(walls), "×")
    )
    result.bars.append(Bar("the same with all details", 3.0, details.wall_s / min(walls), "×"))


def _measure_small_dumps(result: Result, spark: SparkSession, options: Options) -> None:
    """Compare many small dumps with the same keys in one dump a core."""
    dumps = 40 if options.quick else SMALL_DUMPS
    small = small_dumps(dumps, SMALL_DUMP_KEYS)
    large = small_dumps(2, dumps // 2 * SMALL_DUMP_KEYS)
    keys = dumps * SMALL_DUMP_KEYS
    many, two = (
        Way(f"{len(paths):,} dumps", partial(_count_all_details, spark, paths), keys) for paths in (small, large)
    )
    for turn in range(4):
        for way in (two, many):
            way.take_turn()
            if turn == 0:
                way.walls.clear()
                way.cpus.clear()
    rows: list[dict[str, Cell]] = [
        {"way": way.name, "wall s": way.wall_s, "CPU s": way.cpu_s, "× two dumps, CPU": way.cpu_s / two.cpu_s}
        for way in (two, many)
    ]
    size = sum(path.stat().st_size for path in small)
    note = f"{keys:,} keys, {size / 1e6:,.0f} MB; slots, largest keys, tags, prefixes and TTLs of all."
    result.tables.append(Table("Many small dumps as one snapshot, running session", rows, note))
    result.bars.append(Bar(f"{dumps:,} dumps against the same keys in two", 3.0, many.cpu_s / two.cpu_s, "× CPU"))


def _count_all_details(spark: SparkSession, paths: list[Path]) -> int:
    return _counted(_slot_counts(_partial(spark, rdb=paths, details=True)))
