"""The only place that starts a Spark session.

Settings come from ``conf/spark-local.conf`` or ``conf/spark-cluster.conf``; those of spark-submit come before
either. A session that we start ourselves gets the jars of Delta and S3 (`slotscope.runtime.spark.jars`), keeps its
warehouse in a folder that goes when Python ends, and writes the log of the JVM there: the error stream has errors of one line only.

``slotscope setup`` archives the classes that its session loads (class-data sharing): later JVMs start in half of the CPU time.  A JVM
checks the archive itself, and starts without one of another Java or other jars.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, StatusTracker
from pyspark.errors import PySparkException, PySparkRuntimeError, PySparkValueError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slotscope.runtime import stores, text
from slotscope.runtime.compiled_code import pack_for_executors
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import cache_folder
from slotscope.runtime.spark import code_zip
from slotscope.runtime.spark.jars import provide_jars, read_conf, read_properties
from slotscope.runtime.spark.java import find_java_home

MASTER_DEFAULT = "local[*]"
CONNECT = "sc://"
CONNECT_SECONDS = 5
"""Time for a Spark Connect server to answer; PySpark itself tries for more than ten minutes."""
LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the JVM that only writes the command line of Spark's JVM."""
DELTA_CLASS = "io/delta/sql/DeltaSparkSessionExtension.class"
EXECUTOR_CACHE = ".cache"
"""Folder in the working directory of an executor; compiled code there stays with the application."""
ARCHIVE_CLASSES = "SLOTSCOPE_ARCHIVE_CLASSES"
"""Environment variable that is set while a session is to archive its classes."""
ARCHIVE_SECONDS_MAX = 120
"""The JVM writes 150 MB at its end."""
ARENAS_MAX: Final = "2"
"""Heaps of a Python worker: with glibc's default of 8 a core, one that folds batches for hours holds 0.9 GB in place of 0.5 GB."""
UNSTEADY: Final = 0.05
"""Share of a job at its start and end in which the time left is not known."""
NEEDED: Final = ("deltalake", "numba", "numpy", "pandas", "pyarrow", "cluster_core.kernels.compiled")
_LACKS: Final = "the executors' Python lacks {}: install it there"
_REASONS: Final = {
    r'Cannot run program "([^"]+)"': "executors have no Python at {}: set PYSPARK_PYTHON to the one that they have",
    r"No module named '([\w.]+)'": _LACKS,
    r"PACKAGE_NOT_INSTALLED\]\s*(\w+)": _LACKS,
    r"PYTHON_VERSION_MISMATCH\]\s*([^\n]{0,120})": (
        "the executors' Python is another version than the driver's ({}): set PYSPARK_PYTHON to one of the same"
    ),
}


def spark_session(
    app: str, *, master: str | None = None, verbose: bool = False, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the running session, or start one named *app* on *master* (default: that of spark-submit, else this machine).

    *verbose* lets the JVM write to the error stream, *conf* are settings over those of ``conf/``.  Raises `InputError` where no Java, no
    Delta or no such master is found.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        if not is_remote(running):
            running.sparkContext.environment.update(stores.environment())
        return running
    if (master or "").startswith(CONNECT):
        return _connect(master or "")
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        session = _join_submitted(app, master, conf or {})
    else:
        session = _start(app, master or MASTER_DEFAULT, verbose, conf or {})
    session.sparkContext.environment.update(stores.environment())
    session.sparkContext.setLogLevel("WARN" if verbose else "ERROR")
    if not runs_here(session):
        check_executors(session)
    return session


def is_remote(spark: SparkSession) -> bool:
    """Whether *spark* is a session of Spark Connect, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def parallelism(spark: SparkSession) -> int:
    """Tasks that run at the same time."""
    if not is_remote(spark):
        return spark.sparkContext.defaultParallelism
    numbers = spark.range(1 << 16).select(F.spark_partition_id())  # as many partitions as the server runs tasks
    return numbers.distinct().count()


def how_far(
    spark: SparkSession, noun: str, about: str = "", share: Callable[[], float] | None = None
) -> Callable[[], str]:
    """The progress of the jobs of *spark*: *about* (files and bytes), tasks that are done, by *noun*, their share, the time left.

    With *share* that part of the bytes stands in place of tasks.
    """
    started_s = time.monotonic()

    def describe() -> str:
        done, count = (0, 0) if share is not None or is_remote(spark) else _tasks(spark.sparkContext.statusTracker())
        part = share() if share is not None else done / max(count, 1)
        known = f"{100 * part:.0f} % read" if share is not None else f"{done} of {count} {noun}, {100 * part:.0f} %"
        is_steady = UNSTEADY <= part <= 1 - UNSTEADY
        left = (
            f"about {text.duration(round((time.monotonic() - started_s) * (1 - part) / part))} left"
            if is_steady
            else ""
        )
        return ", ".join(filter(None, [about, known if part and count != 1 else "", left]))

    return describe


def _tasks(tracker: StatusTracker) -> tuple[int, int]:
    """The tasks of the largest running stage: those that are done, and all."""
    stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
    return max(((stage.numCompletedTasks, stage.numTasks) for stage in stages), key=itemgetter(1), default=(0, 0))


def runs_here(spark: SparkSession) -> bool:
    """Whether the tasks of *spark* run on this machine, beside this process."""
    return not is_remote(spark) and is_one_process(str(spark.conf.get("spark.master")))


def is_one_process(master: str) -> bool:
    """Whether driver and executors are one process (``local-cluster`` starts others)."""
    return master == "local" or master.startswith("local[")


def _settings(app: str, master: str) -> dict[str, str]:
    settings = {
        "spark.app.name": f"slotscope {app}",
        "spark.master": master,
        **read_properties("spark-local.conf" if master.startswith("local") else "spark-cluster.conf"),
        **stores.spark_settings(),
    }
    if not is_one_process(master):
        # compiled kernels are sent along, to a folder that the executor may write and that is removed with it
        settings["spark.executorEnv.XDG_CACHE_HOME"] = EXECUTOR_CACHE
        archive = _scratch() / "compiled.zip"
        if pack_for_executors(archive):
            settings["spark.archives"] = f"{archive}#{EXECUTOR_CACHE}"
    return settings


def _start(app: str, master: str, verbose: bool, given: Mapping[str, str]) -> SparkSession:
    """Launch a JVM, then the session; both end with Python."""
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER_OPTIONS)
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark looks up the host name, and warns
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # a cluster may have its Python elsewhere
    scratch, jars = _scratch(), provide_jars()
    settings = _settings(app, master) | dict(given)
    settings.setdefault("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    options = [settings.get("spark.driver.extraJavaOptions", ""), f"-Dderby.system.home={scratch}"]
    (scratch / "log4j2.properties").write_text(read_conf("log4j2.properties"), "utf-8")
    options.append(f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}")
    kept, fresh = cache_folder() / "classes.jsa", scratch / "classes.jsa"
    is_archiving = ARCHIVE_CLASSES in os.environ
    if not is_one_process(master):
        settings["spark.jars"] = ",".join(filter(None, [*jars, given.get("spark.jars")]))
    else:
        settings["spark.driver.extraClassPath"] = os.pathsep.join(jars)  # an archive has no classes from elsewhere
        if is_archiving or kept.is_file():
            sharing = f"ArchiveClassesAtExit={fresh}" if is_archiving else f"SharedArchiveFile={kept}"
            options.append(f'-XX:+IgnoreUnrecognizedVMOptions "-XX:{sharing}" -Xlog:disable')
    settings["spark.driver.extraJavaOptions"] = " ".join(options).strip()
    with open(scratch / "jvm.log", "wb") as log:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        session = _build(conf, {} if verbose else {"stdout": log, "stderr": log})
    if is_archiving:
        gateway: Any = SparkContext._gateway
        atexit.register(_keep_classes, gateway.proc, fresh, kept)
    atexit.register(session.stop)
    ship_code(session)
    return session


def _keep_classes(jvm: subprocess.Popen[bytes], fresh: Path, kept: Path) -> None:
    """End *jvm*, wait until it has written *fresh*, and put that in the place of *kept*."""
    with suppress(OSError, subprocess.TimeoutExpired):
        if jvm.stdin is not None:
            jvm.stdin.close()  # the JVM ends when its driver is gone
        if jvm.wait(ARCHIVE_SECONDS_MAX) == 0:
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(fresh, kept.with_suffix(".new"))
            kept.with_suffix(".new").replace(kept)


def _connect(url: str) -> SparkSession:
    """Session on the Spark Connect server at *url*; its executors get this project's code.  Raises `InputError` where none answers."""
    name = url.partition(";")[0]  # parameters may hold a token
    try:
        grpc = import_module("grpc")
        from pyspark.sql.connect.client import DefaultChannelBuilder

        with DefaultChannelBuilder(url).toChannel() as channel:
            grpc.channel_ready_future(channel).result(CONNECT_SECONDS)
        session = SparkSession.builder.remote(url).getOrCreate()
        session.addArtifacts(str(_packed_code()), pyfile=True)
    except ImportError as error:
        raise InputError(f"--master {name}: Spark Connect needs 'pyspark[connect]': install it") from error
    except PySparkValueError as error:
        raise InputError(f"--master {name}: not an address of a Spark Connect server: sc://HOST:PORT") from error
    except (grpc.FutureTimeoutError, PySparkException) as error:
        raise InputError(f"--master {name}: no Spark Connect server answers there") from error
    atexit.register(session.stop)
    check_executors(session)
    return session


def check_executors(spark: SparkSession) -> None:
    """Run one task with the imports of all tasks; raises InputError with missing packages and the way to send them."""
    try:
        spark.range(0, 1, 1, 1).mapInArrow(_import_all, "id long").collect()
    except (PySparkException, Py4JError) as error:
        for sign, reason in _REASONS.items():
            if match := re.search(sign, str(error)):
                raise InputError(f"{reason.format(match[1])}; docs/clusters.md lists the needs of executors") from error
        raise


def _import_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for name in NEEDED:
        import_module(name)
    yield from batches


def _join_submitted(app: str, master: str | None, given: Mapping[str, str]) -> SparkSession:
    """Session in the JVM that spark-submit started: missing settings are added, others stay."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    SparkContext._ensure_initialized()
    conf = SparkConf()
    if master:
        conf.set("spark.master", master)
    for name, value in _settings(app, conf.get("spark.master", None) or MASTER_DEFAULT).items():
        conf.setIfMissing(name, value)
    conf.setAll(list(given.items()))
    _load_jars(conf)
    conf.setIfMissing("spark.sql.warehouse.dir", str(_scratch() / "warehouse"))
    session = _build(conf, {})
    atexit.register(session.stop)  # else a local-cluster starts executors anew while the JVM ends
    ship_code(session)
    return session


def _load_jars(conf: SparkConf) -> None:
    """Bring the jars to driver and executors of spark-submit where its ``--jars`` or ``--packages`` did not bring Delta.

    ``spark.jars`` set this late reaches executors only, so the driver's class loader gets them as well.
    """
    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(DELTA_CLASS) is not None:
        return
    jars = provide_jars()
    for path in jars:
        loader.addURL(jvm.java.io.File(path).toURI().toURL())
    conf.set("spark.jars", ",".join(filter(None, [conf.get("spark.jars", ""), *jars])))


def _build(conf: SparkConf, launch_kwargs: dict[str, Any]) -> SparkSession:
    try:
        start: Callable[..., Any] = launch_gateway  # it has no types
        SparkContext(conf=conf, gateway=SparkContext._gateway or start(conf, launch_kwargs))
    except PySparkRuntimeError as error:
        raise InputError(f"Spark did not start with Java {find_java_home()}: run again with --debug") from error
    session = SparkSession.builder.getOrCreate()
    session.sparkContext.environment.setdefault("MALLOC_ARENA_MAX", os.environ.get("MALLOC_ARENA_MAX", ARENAS_MAX))
    return session


def ship_code(session: SparkSession) -> None:
    """Let the executors of *session* import this project: they get it as a zip; where they are one process with the driver, its folder is enough."""
    if is_one_process(str(session.conf.get("spark.master"))):
        session.sparkContext.environment.setdefault("PYTHONPATH", str(code_zip.HOME))
        return
    session.addArtifacts(str(_packed_code()), pyfile=True)


@cache
def _packed_code() -> Path:
    """The code as a zip, which Spark serves as long as the session lives; it takes no other of its name."""
    return code_zip.HOME if code_zip.HOME.is_file() else code_zip.build(_scratch() / "slotscope.zip")


def _scratch() -> Path:
    """A folder that goes when Python ends."""
    scratch = Path(tempfile.mkdtemp(prefix="slotscope-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch
