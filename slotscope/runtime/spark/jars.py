"""The jars that Spark needs beside those of PySpark: Delta's, and those of S3.

Looked for in the folder of ``SLOTSCOPE_JARS``, in ``.jars`` beside this code and beside the virtual environment, and in the user's cache
folder.  Missing ones are fetched to the cache folder with the Ivy that PySpark ships, by the settings of ``SLOTSCOPE_IVY_SETTINGS`` (a
mirror) or those of ``conf/``.  ``python -m slotscope.runtime.spark.jars FOLDER [SETTINGS.xml]`` fetches all into a folder for a machine
without network.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from slotscope.runtime.conf import read_conf
from slotscope.runtime.errors import InputError
from slotscope.runtime.program import cache_folder
from slotscope.runtime.progress import progress
from slotscope.runtime.spark.java import find_java_home

FETCH_SECONDS_MAX: Final = 900
"""The jars are 13 MB; a connection that needs longer is broken."""
FOLDER_VARIABLE: Final = "SLOTSCOPE_JARS"
SETTINGS_VARIABLE: Final = "SLOTSCOPE_IVY_SETTINGS"
_MODULE: Final = """<ivy-module version="2.0">
  <info organisation="slotscope" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->master">{}</dependencies>
</ivy-module>
"""
_SHIPPED: Final = ("org.slf4j", "io.netty", "org.apache.httpcomponents", "commons-logging", "commons-codec")
"""Groups that PySpark ships itself."""
AWS_SDK_VERSION: Final = "2.35.4"
"""What Hadoop 3.5.0 was built with.  Its modules that S3A calls are 11 MB; the bundle that Hadoop names is 690 MB."""
ACCELERATOR_VERSION: Final = "1.3.1"


class Jars(NamedTuple):
    """Jars that are used together: *files* in *folder*, or all there where it is one of their own; *dependencies* are Ivy's."""

    title: str
    folder: str
    files: tuple[str, ...]
    dependencies: str


def delta_jars() -> Jars:
    """The jar that delta-spark names for this PySpark, and its storage."""
    from delta.pip_utils import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = configure_spark_with_delta_pip(SparkSession.Builder())
    group, artifact, version = builder._options["spark.jars.packages"].split(":")
    files = tuple(f"{name}-{version}.jar" for name in (artifact, "delta-storage"))
    dependencies = (_dependency(group, name, version) for name in (artifact, "delta-storage"))
    return Jars("the Delta jars", "", files, "".join(dependencies))


def s3_jars() -> Jars:
    """What Spark needs to read and write S3: Hadoop's S3A, and the modules of the AWS SDK that it calls."""
    import pyspark

    shipped = sorted(Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar"))
    if not shipped:
        raise InputError("the installed pyspark ships no Hadoop")
    version = shipped[-1].stem.removeprefix("hadoop-client-api-")
    dependencies = (
        _dependency("org.apache.hadoop", "hadoop-aws", version),
        _dependency("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", ACCELERATOR_VERSION),
        *(
            _dependency("software.amazon.awssdk", name, AWS_SDK_VERSION, 'conf="default->master,runtime"')
            for name in ("s3-transfer-manager", "sts")
        ),
        *(f'<exclude org="{group}"/>' for group in _SHIPPED),
    )
    return Jars("the jars of S3", f"s3-{version}", (f"hadoop-aws-{version}.jar",), "".join(dependencies))


def _dependency(group: str, artifact: str, version: str, how: str = 'transitive="false"') -> str:
    return f'<dependency org="{group}" name="{artifact}" rev="{version}" {how}/>'


def find_jars(jars: Jars) -> list[str]:
    """Paths of *jars* in the first folder that has them; empty where none has."""
    for folder in _folders():
        place = folder / jars.folder
        if all((place / name).is_file() for name in jars.files):
            return sorted(map(str, place.glob("*.jar"))) if jars.folder else [str(place / name) for name in jars.files]
    return []


def provide_jars(jars: Jars) -> list[str]:
    """Paths of *jars*, which are fetched to the user's cache folder at first use; raises `InputError`."""
    if not find_jars(jars):
        fetch(jars, _kept())
    return find_jars(jars)


def fetch(jars: Jars, folder: Path, settings: str | None = None) -> None:
    """Bring *jars* into *folder*, those of `Jars.files` last; raises `InputError` with Ivy's own reason, and what else can be done."""
    place = folder / jars.folder
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as arriving:
        reason = _retrieve(jars, Path(arriving), settings or os.environ.get(SETTINGS_VARIABLE))
        came = sorted(Path(arriving).glob("*.jar"), key=lambda path: path.name in jars.files)
        lacking = set(jars.files) - {path.name for path in came}
        if reason or lacking:
            raise InputError(
                f"{jars.title} could not be fetched ({reason or f'no {min(lacking)} came'}); without the public Maven repository set "
                f"{SETTINGS_VARIABLE} to an Ivy settings file of your mirror, or {FOLDER_VARIABLE} to a folder with "
                f"{' and '.join(os.path.join(jars.folder, name) for name in jars.files)}"
            )
        for path in came:
            path.replace(place / path.name)


def _retrieve(jars: Jars, folder: Path, settings: str | None) -> str:
    """Let the Ivy that PySpark ships bring *jars* into *folder*; return why that failed."""
    import pyspark

    if settings and not os.path.isfile(settings):
        raise InputError(f"{settings}: no such file of Ivy settings ({SETTINGS_VARIABLE})")
    shipped = sorted(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    if not shipped:
        return "the installed pyspark ships no Ivy"
    Path(folder, "ivy.xml").write_text(_MODULE.format(jars.dependencies), "utf-8")
    Path(folder, "ivysettings.xml").write_text(read_conf("ivysettings.xml"), "utf-8")
    command = [
        f"{find_java_home()}/bin/java", f"-Dslotscope.cache.dir={folder}/cache", "-jar", str(shipped[-1]), "-warn",
        "-settings", settings or f"{folder}/ivysettings.xml", "-ivy", f"{folder}/ivy.xml",
        "-retrieve", f"{folder}/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    with progress(f"fetching {jars.title}, once"):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return f"no end after {FETCH_SECONDS_MAX} s"
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip(" .:")] or ["no output"]
    reason = next((line for line in lines if "not found" in line or "FAILED" in line), lines[-1])
    return reason if done.returncode else ""


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
        for jars in (delta_jars(), s3_jars()):
            fetch(jars, Path(argv[0]).absolute(), argv[1] if len(argv) > 1 else None)
    except InputError as error:
        sys.stderr.write(f"slotscope: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
