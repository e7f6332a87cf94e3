"""The Delta jars that the installed PySpark and delta-spark need, and those of an object store: found in a folder, or fetched once.

Looked for in the folder of ``SLOTSCOPE_JARS``, in ``.jars`` beside this code and beside the virtual environment, and in the user's cache
folder; what is nowhere is fetched there with the Ivy that PySpark ships, by the settings of ``SLOTSCOPE_IVY_SETTINGS`` (a company's own
mirror) or those of ``conf/``.  ``python -m slotscope.runtime.spark.jars FOLDER [SETTINGS.xml]`` fetches into a folder that can be carried to where
there is no network.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from slotscope.runtime.conf import read_conf
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import cache_folder
from slotscope.runtime.progress import progress
from slotscope.runtime.spark.java import find_java_home

FETCH_SECONDS_MAX = 900
"""The jars are 10 MB; a line that needs longer is broken."""
FOLDER_VARIABLE = "SLOTSCOPE_JARS"
SETTINGS_VARIABLE = "SLOTSCOPE_IVY_SETTINGS"
_MODULE = """<ivy-module version="2.0">
  <info organisation="slotscope" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->master">{}</dependencies>
</ivy-module>
"""
_DEPENDENCY = '<dependency org="{0.group}" name="{0.artifact}" rev="{0.version}" transitive="false"/>'
_WITH_ITS_OWN = '<dependency org="{0.group}" name="{0.artifact}" rev="{0.version}" conf="default->master,runtime"/>'
_SHIPPED = ("org.slf4j", "io.netty", "org.apache.httpcomponents", "commons-logging", "commons-codec")
"""Groups that PySpark ships itself."""
AWS_SDK_VERSION = "2.35.4"
"""What Hadoop 3.5.0 was built with.  Its modules that S3A calls are 11 MB; the bundle that Hadoop names is 690 MB."""
ACCELERATOR_VERSION = "1.3.1"


class Jar(NamedTuple):
    """A jar by its coordinates."""

    group: str
    artifact: str
    version: str

    @property
    def file(self) -> str:
        """Its name in a folder of jars."""
        return f"{self.artifact}-{self.version}.jar"


def needed_jars() -> tuple[Jar, ...]:
    """What Delta needs beside the jars that PySpark ships: the one that delta-spark names for this PySpark, and its storage.

    Nothing else is looked up, so nothing can change.
    """
    from delta.pip_utils import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = configure_spark_with_delta_pip(SparkSession.Builder())
    delta = Jar(*builder._options["spark.jars.packages"].split(":"))
    return delta, Jar(delta.group, "delta-storage", delta.version)


def find_jars() -> list[str]:
    """Paths of the jars in the first folder that has them all; empty where none has."""
    names = [jar.file for jar in needed_jars()]
    for folder in _folders():
        paths = [folder / name for name in names]
        if all(path.is_file() for path in paths):
            return [str(path) for path in paths]
    return []


def provide_jars(folder: str | None = None, settings: str | None = None) -> list[str]:
    """Paths of the jars; what is not on this machine yet comes into the user's cache folder: out of *folder*, or fetched by *settings*.

    Raises `InputError`.
    """
    if folder is None:
        return find_jars() or fetch(_kept(), Path(settings) if settings else None)
    names = [jar.file for jar in needed_jars()]
    lacking = [name for name in names if not Path(folder, name).is_file()]
    if lacking:
        raise InputError(f"{folder}: lacks {' and '.join(lacking)}")
    _kept().mkdir(parents=True, exist_ok=True)
    return [str(shutil.copy(Path(folder, name), _kept())) for name in names]


def fetch(folder: Path, settings: Path | None = None) -> list[str]:
    """Bring the Delta jars into *folder* and return their paths; raises `InputError` with Ivy's own reason, and what else can be done."""
    jars = needed_jars()
    folder.mkdir(parents=True, exist_ok=True)
    _retrieve("".join(map(_DEPENDENCY.format, jars)), folder, settings, "the Delta jars (10 MB, once)")
    paths = [folder / jar.file for jar in jars]
    if not all(path.is_file() for path in paths):
        raise InputError(_not_fetched("not all came", "the Delta jars"))
    return [str(path) for path in paths]


def provide_store_jars(settings: str | None = None) -> list[str]:
    """Paths of the jars with which Spark reads and writes S3, in a folder of their own beside the Delta jars; fetched at first use.

    Raises `InputError`.
    """
    name = f"s3-{_hadoop_version()}"
    for folder in _folders():
        if (folder / name).is_dir():
            return sorted(str(path) for path in (folder / name).glob("*.jar"))
    return fetch_store_jars(_kept(), Path(settings) if settings else None)


def fetch_store_jars(folder: Path, settings: Path | None = None) -> list[str]:
    """Bring the jars of S3 into a folder below *folder*, which is there only when it has them all; raises `InputError`."""
    aws, version = "software.amazon.awssdk", _hadoop_version()
    wanted = [
        _DEPENDENCY.format(Jar("org.apache.hadoop", "hadoop-aws", version)),
        _DEPENDENCY.format(
            Jar("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", ACCELERATOR_VERSION)
        ),
        *(_WITH_ITS_OWN.format(Jar(aws, name, AWS_SDK_VERSION)) for name in ("s3-transfer-manager", "sts")),
        *(f'<exclude org="{group}"/>' for group in _SHIPPED),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"s3-{version}"
    with tempfile.TemporaryDirectory(dir=folder) as arriving:
        _retrieve("".join(wanted), Path(arriving, "jars"), settings, "the jars of S3 (13 MB, once)")
        if not place.is_dir():
            os.replace(Path(arriving, "jars"), place)
    return sorted(str(path) for path in place.glob("*.jar"))


def _hadoop_version() -> str:
    """Of the Hadoop that the installed PySpark ships."""
    import pyspark

    shipped = sorted(Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar"))
    if not shipped:
        raise InputError("the installed pyspark ships no Hadoop")
    return shipped[-1].stem.removeprefix("hadoop-client-api-")


def _retrieve(dependencies: str, folder: Path, settings: Path | None, what: str) -> None:
    """Let the Ivy that PySpark ships bring what *dependencies* name into *folder*."""
    import pyspark

    settings = settings or (Path(os.environ[SETTINGS_VARIABLE]) if os.environ.get(SETTINGS_VARIABLE) else None)
    if settings is not None and not settings.is_file():
        raise InputError(f"{settings}: no such file of Ivy settings ({SETTINGS_VARIABLE})")
    shipped = sorted(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    if not shipped:
        raise InputError("the installed pyspark ships no Ivy that could fetch jars")
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "ivy.xml").write_text(_MODULE.format(dependencies), "utf-8")
        Path(scratch, "ivysettings.xml").write_text(read_conf("ivysettings.xml"), "utf-8")
        command = [
            f"{find_java_home()}/bin/java",
            f"-Dslotscope.cache.dir={scratch}/cache",
            *("-jar", str(shipped[-1]), "-warn"),
            *("-settings", str(settings or Path(scratch, "ivysettings.xml"))),
            *("-ivy", str(Path(scratch, "ivy.xml"))),
            *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
        ]
        with progress(f"fetching {what}"):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
            except subprocess.TimeoutExpired as error:
                raise InputError(_not_fetched(f"no end after {FETCH_SECONDS_MAX} s", what)) from error
    if done.returncode or not folder.is_dir():
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip(" .:")]
        why = next((line for line in lines if "not found" in line or "FAILED" in line), (lines or ["no output"])[-1])
        raise InputError(_not_fetched(why, what))


def _not_fetched(why: str, what: str) -> str:
    names = " and ".join(jar.file for jar in needed_jars())
    return (
        f"{what.partition(' (')[0]} could not be fetched ({why}); without the public Maven repository set {SETTINGS_VARIABLE} to an Ivy "
        f"settings file of your mirror, or {FOLDER_VARIABLE} to a folder with {names}, and for S3 a folder s3-{_hadoop_version()} in it"
    )


def _folders() -> Iterator[Path]:
    if os.environ.get(FOLDER_VARIABLE):
        yield Path(os.environ[FOLDER_VARIABLE])
    for parent in (*Path(__file__).absolute().parents, Path(sys.prefix).parent):
        yield parent / ".jars"
    yield _kept()


def _kept() -> Path:
    return cache_folder() / "jars" / importlib.metadata.version("delta-spark")


def main(argv: list[str]) -> int:
    """Fetch into the folder that the first argument names."""
    try:
        for bring in (fetch, fetch_store_jars):
            bring(Path(argv[0]).absolute(), Path(argv[1]).absolute() if len(argv) > 1 else None)
    except InputError as error:
        sys.stderr.write(f"slotscope: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
