"""A standalone Spark cluster on this machine; its Python has the dependencies of executors, but not this project."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pyspark

from slotscope.runtime.spark.jars import read_properties
from slotscope.runtime.spark.java import find_java_home
from tests.benches.servers import await_port, free_port

WORKERS = 2
PACKAGES = "arro3-core deltalake deprecated llvmlite numba numpy pandas pyarrow python-dateutil pytz six typing_extensions tzdata wrapt".split()  # noqa: SIM905


def make_python(folder: Path) -> Path:
    """A Python with `PACKAGES` alone, linked from where this one has them; its path."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in PACKAGES:
        try:
            package = distribution(name)
        except ImportError:
            continue  # pandas 3 goes without pytz
        tops = {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            (site / top).symlink_to(Path(str(package.locate_file(top))))
    return folder / "bin" / "python"


@contextmanager
def standalone_cluster(scratch: Path) -> Iterator[str]:
    """A master and `WORKERS` workers of one core each; yields the address for ``--master``."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as running:
        running.enter_context(_started("master.Master", [*where, "--port", str(port)], scratch / "master"))
        await_port(port)
        for number in range(WORKERS):
            folder = scratch / f"worker{number}"
            arguments = [*where, "--cores", "1", "--memory", "1g", "--work-dir", str(folder), master]
            running.enter_context(_started("worker.Worker", arguments, folder))
        yield master


@contextmanager
def _started(name: str, arguments: list[str], folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True)
    home = Path(pyspark.__file__).parent
    outside = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "AWS_"))}
    environment = {**outside, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
    command = [f"{find_java_home()}/bin/java", "-Xmx256m", "-cp", f"{home}/jars/*", f"org.apache.spark.deploy.{name}"]
    with (
        open(folder / "log", "wb") as log,
        subprocess.Popen([*command, *arguments], cwd=folder, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def connect_server(scratch: Path) -> Iterator[str]:
    """A Spark Connect server of two threads with this Python; yields the address for ``--master``."""
    import grpc

    port = free_port()
    home = Path(pyspark.__file__).parent
    outside = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "AWS_"))}
    environment = {
        **outside, "JAVA_HOME": find_java_home(), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    short_run = read_properties("spark-local.conf")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **{name: value for name, value in short_run.items() if "delta" not in value.lower()},
    }
    command = [
        str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
    ]  # fmt: skip
    scratch.mkdir(parents=True)
    with (
        open(scratch / "log", "wb") as log,
        subprocess.Popen(command, cwd=scratch, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            await_port(port)
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:  # a client has five seconds
                grpc.channel_ready_future(channel).result(120)
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()
