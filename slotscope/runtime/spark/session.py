"""The only place that starts a Spark session.

What is set comes from ``conf/spark-local.conf`` or ``conf/spark-cluster.conf``; what spark-submit was told
comes before either. A session that we start ourselves gets the Delta jars (`slotscope.runtime.spark.jars`), keeps its warehouse
in a folder that goes when Python ends, and writes the JVM's own words to a log there: the error stream
belongs to the job, whose errors are one line.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError, PySparkValueError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slotscope.runtime import stores, text
from slotscope.runtime.compiled_code import pack_for_executors
from slotscope.runtime.conf import read_conf, read_properties
from slotscope.runtime.errors import InputError
from slotscope.runtime.progress import name_steps
from slotscope.runtime.spark import class_archive, code_zip
from slotscope.runtime.spark.executors.readiness import check_executors
from slotscope.runtime.spark.jars import Jars, delta_jars, find_jars, provide_jars, s3_jars
from slotscope.runtime.spark.java import find_java_home

MASTER_DEFAULT = "local[*]"
CONNECT = "sc://"
"""What the address of a Spark Connect server begins with."""
CONNECT_SECONDS = 5
"""For the greeting of a Spark Connect server; PySpark itself tries for more than ten minutes."""
LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the JVM that does nothing but write the command line of Spark's."""
DELTA_CLASS = "io.delta.sql.DeltaSparkSessionExtension"
JOB_NAME = "spark.job.description"
ALL_READ = 0.995
"""Of what is read; the last bytes may not be told."""
EXECUTOR_CACHE = ".cache"
"""Folder in the working directory of an executor; what is compiled there stays with the application."""
S3A_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def spark_session(
    app: str,
    *,
    master: str | None = None,
    verbose: bool = False,
    conf: Mapping[str, str] | None = None,
    on_s3: bool = False,
) -> SparkSession:
    """Return the running session, or start one named *app* on *master* (default: what spark-submit says, else
    this machine).

    *verbose* lets the JVM write to the error stream, *conf* are settings over those of ``conf/``; *on_s3*: tables are there.  Raises `InputError` where no Java, no Delta or no such
    master is found.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        if not is_remote(running):
            running.sparkContext.environment.update(stores.environment())
        return running
    if (master or "").startswith(CONNECT):
        return _connect(master or "")
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        session = _join_submitted(app, master, conf or {}, on_s3=on_s3)
    else:
        session = _start(app, master or MASTER_DEFAULT, verbose, conf or {}, on_s3=on_s3)
    session.sparkContext.environment.update(stores.environment())
    session.sparkContext.setLogLevel("WARN" if verbose else "ERROR")
    name_steps(partial(named_jobs, session))
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


def interrupt_jobs(spark: SparkSession) -> None:
    """End all jobs of *spark*."""
    if is_remote(spark):
        spark.interruptAll()
    else:
        spark.sparkContext.cancelAllJobs()


@contextmanager
def named_jobs(spark: SparkSession, words: str) -> Iterator[None]:
    """Let Spark's pages and logs call the jobs of this thread *words* ("reading") while the ``with`` block runs."""
    if is_remote(spark):
        yield
        return
    before = spark.sparkContext.getLocalProperty(JOB_NAME)
    spark.sparkContext.setLocalProperty(JOB_NAME, words)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty(JOB_NAME, before or "")


def how_far(
    spark: SparkSession, noun: str, about: str = "", share: Callable[[], float] | None = None
) -> Callable[[], str]:
    """What `progress` says of the jobs of *spark*: *about* (files and bytes), tasks that are done, by *noun*, their share, the time left at that pace.

    With *share* that part of the bytes is told in place of tasks.
    """
    begun = time.monotonic()

    def left(done: float) -> str:
        return f"about {text.duration(round((time.monotonic() - begun) * (1 - done) / done))} left"

    def words() -> str:
        if share is not None:
            part = share()
            known = "all read" if part > ALL_READ else f"{100 * part:.0f} % read, {left(part)} to read" if part else ""
            return ", ".join(filter(None, [about, known]))
        if is_remote(spark):
            return about
        tracker = spark.sparkContext.statusTracker()
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stage = max((one for one in found if one is not None), key=lambda one: one.numTasks, default=None)
        done, count = (stage.numCompletedTasks, stage.numTasks) if stage is not None else (0, 0)
        parts = [about, f"{done} of {count} {noun}, {100 * done // count} %" if count > 1 else ""]
        return ", ".join(filter(None, [*parts, left(done / count) if done else ""]))

    return words


def runs_here(spark: SparkSession) -> bool:
    """Whether the tasks of *spark* run on this machine, beside this process."""
    return not is_remote(spark) and is_one_process(str(spark.conf.get("spark.master")))


def is_one_process(master: str) -> bool:
    """Whether driver and executors are one process (``local-cluster`` starts others)."""
    return master == "local" or master.startswith("local[")


def _settings(app: str, master: str, jars: list[str]) -> dict[str, str]:
    here = master.startswith("local")
    settings = {
        "spark.app.name": f"slotscope {app}",
        "spark.master": master,
        **read_properties("spark-local.conf" if here else "spark-cluster.conf"),
    }
    if jars:
        settings["spark.jars"] = ",".join(jars)
    if not is_one_process(master):
        # compiled kernels come along, and go where the executor may write and what is cleaned with it
        settings["spark.executorEnv.XDG_CACHE_HOME"] = EXECUTOR_CACHE
        archive = _scratch() / "compiled.zip"
        if pack_for_executors(archive):
            settings["spark.archives"] = f"{archive}#{EXECUTOR_CACHE}"
    return settings


def _start(app: str, master: str, verbose: bool, given: Mapping[str, str], *, on_s3: bool) -> SparkSession:
    """Launch a JVM, then the session; both end with Python."""
    os.environ["JAVA_HOME"] = find_java_home()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER_OPTIONS)
    scratch = _scratch()
    jars = provide_jars(delta_jars())
    store_jars = provide_jars(s3_jars()) if on_s3 else []
    shipped = store_jars if is_one_process(master) else [*jars, *store_jars]
    settings = _settings(app, master, [])
    kept, fresh, sharing = class_archive.archive_of(os.environ["JAVA_HOME"], jars), scratch / "classes.jsa", ""
    if is_one_process(master):
        settings["spark.driver.extraClassPath"] = os.pathsep.join(
            map(os.path.realpath, jars)
        )  # what is loaded from elsewhere is in no archive
        sharing = class_archive.options(kept, fresh)
    settings |= {**(stores.spark_settings() if on_s3 else {}), **given}
    settings["spark.jars"] = ",".join(filter(None, [*shipped, given.get("spark.jars")]))
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark looks up the host name, and warns
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # a cluster may have its Python elsewhere
    (scratch / "log4j2.properties").write_text(read_conf("log4j2.properties"), "utf-8")
    settings.setdefault("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    settings["spark.driver.extraJavaOptions"] = " ".join(
        [
            settings.get("spark.driver.extraJavaOptions", ""),
            sharing,
            f"-Dderby.system.home={scratch}",
            f"-Dlog4j2.configurationFile={(scratch / 'log4j2.properties').as_uri()}",
        ]
    ).strip()
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with open(scratch / "jvm.log", "wb") as log:
        session = _build(conf, launch_kwargs={} if verbose else {"stdout": log, "stderr": log})
    gateway: Any = SparkContext._gateway
    if str(fresh) in sharing:
        atexit.register(class_archive.keep, gateway.proc, fresh, kept)
    atexit.register(session.stop)
    ship_code(session)
    return session


def _connect(url: str) -> SparkSession:
    """Session on the Spark Connect server at *url*; its executors get this project's code.  Raises `InputError` where none answers."""
    name = url.partition(";")[0]  # parameters may hold a token
    try:
        grpc = import_module("grpc")
        from pyspark.sql.connect.client import DefaultChannelBuilder

        with DefaultChannelBuilder(url).toChannel() as channel:
            grpc.channel_ready_future(channel).result(CONNECT_SECONDS)
        session = SparkSession.builder.remote(url).getOrCreate()
        session.addArtifacts(str(code_zip.running_from() or _packed_code()), pyfile=True)
    except ImportError as error:
        raise InputError(
            f"--master {name}: Spark Connect needs more packages: pip install 'pyspark[connect]'"
        ) from error
    except PySparkValueError as error:
        raise InputError(f"--master {name}: not an address of a Spark Connect server: sc://HOST:PORT") from error
    except (grpc.FutureTimeoutError, PySparkException) as error:
        raise InputError(f"--master {name}: no Spark Connect server answers there") from error
    atexit.register(session.stop)
    check_executors(session)
    return session


def _join_submitted(app: str, master: str | None, given: Mapping[str, str], *, on_s3: bool) -> SparkSession:
    """Session in the JVM that spark-submit started: what is missing there is added, what is set stays."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    SparkContext._ensure_initialized()
    conf = SparkConf()
    chosen = master or conf.get("spark.master", None) or MASTER_DEFAULT
    if master:
        conf.set("spark.master", master)
    settings = _settings(app, chosen, find_jars(delta_jars())) | (stores.spark_settings() if on_s3 else {})
    for name, value in settings.items():
        conf.setIfMissing(name, value)
    conf.setAll(list(given.items()))
    _load(conf, DELTA_CLASS, delta_jars())
    if on_s3:
        _load(conf, S3A_CLASS, s3_jars())
    conf.setIfMissing("spark.sql.warehouse.dir", str(_scratch() / "warehouse"))
    session = _build(conf, launch_kwargs={})
    atexit.register(session.stop)  # else a local-cluster starts executors anew while the JVM ends
    ship_code(session)
    return session


def _build(conf: SparkConf, launch_kwargs: dict[str, Any]) -> SparkSession:
    try:
        start: Callable[..., Any] = launch_gateway  # it has no types
        SparkContext(conf=conf, gateway=SparkContext._gateway or start(conf, launch_kwargs))
    except PySparkRuntimeError as error:
        raise InputError(
            f"Spark did not start with Java {os.environ.get('JAVA_HOME', '')}: run again with --debug"
        ) from error
    return SparkSession.builder.getOrCreate()


def _load(conf: SparkConf, name: str, jars: Jars) -> None:
    """Bring jars with the class *name* to driver and executors of spark-submit where its ``--jars`` or ``--packages`` did not.

    ``spark.jars`` set this late reaches executors only, so the driver's class loader is told as well.
    """
    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName(name, False, loader)
        return
    except Py4JJavaError:
        pass  # not on the class path yet
    if not loader.getClass().getName().endswith("URLClassLoader"):
        raise InputError(f"no jar with {name} is on the class path: give spark-submit --packages (docs/clusters.md)")
    found = provide_jars(jars)
    for path in found:
        loader.addURL(jvm.java.io.File(path).toURI().toURL())
    known = [path for path in conf.get("spark.jars", "").split(",") if path]
    conf.set("spark.jars", ",".join([*known, *(path for path in found if path not in known)]))


def ship_code(session: SparkSession) -> None:
    """Let the executors of *session* import this project: they get it as a zip; where they are one process with the driver, its folder is enough."""
    home = code_zip.running_from() or Path(code_zip.__file__).parents[3]
    if is_one_process(str(session.conf.get("spark.master"))):
        session.sparkContext.environment.setdefault("PYTHONPATH", str(home))
        return
    if home.is_dir():
        home = _packed_code()  # Spark serves it from there as long as the session lives, and takes no other of its name
    session.addArtifacts(str(home), pyfile=True)


@cache
def _packed_code() -> Path:
    return code_zip.build(_scratch() / "slotscope.zip")


def _scratch() -> Path:
    """A folder that goes when Python ends."""
    scratch = Path(tempfile.mkdtemp(prefix="slotscope-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch
