"""The jars that Spark needs beside those of PySpark: Delta's, and Hadoop's client of S3.

They lie in the folder of ``SLOTSCOPE_JARS``, or in the user's cache folder, to which the Ivy that PySpark ships fetches them at first
use, by the settings of ``SLOTSCOPE_IVY_SETTINGS`` (a mirror) or those of ``conf/``.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Final

from pyspark.find_spark_home import _find_spark_home

from slotscope.runtime.errors import InputError
from slotscope.runtime.program import cache_folder
from slotscope.runtime.progress import progress
from slotscope.runtime.spark.java import find_java_home

FOLDER_VARIABLE: Final = "SLOTSCOPE_JARS"
SETTINGS_VARIABLE: Final = "SLOTSCOPE_IVY_SETTINGS"
_MODULE: Final = """<ivy-module version="2.0">
  <info organisation="slotscope" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->master">
    <dependency org="{group}" name="{artifact}" rev="{delta}" transitive="false"/>
    <dependency org="{group}" name="delta-storage" rev="{delta}" transitive="false"/>
    <dependency org="org.apache.hadoop" name="hadoop-aws" rev="{hadoop}" transitive="false"/>
    <dependency org="software.amazon.s3.analyticsaccelerator" name="analyticsaccelerator-s3" rev="1.3.1" transitive="false"/>
    <dependency org="software.amazon.awssdk" name="s3-transfer-manager" rev="2.35.4" conf="default->master,runtime"/>
    <dependency org="software.amazon.awssdk" name="sts" rev="2.35.4" conf="default->master,runtime"/>
    <exclude org="org.slf4j"/><exclude org="io.netty"/><exclude org="org.apache.httpcomponents"/>
    <exclude org="commons-logging"/><exclude org="commons-codec"/>
  </dependencies>
</ivy-module>
"""
"""The AWS SDK is of the version that Hadoop was built with; its modules that S3A calls are 11 MB, the bundle that Hadoop names 690 MB.
PySpark ships the excluded groups."""


def provide_jars() -> list[str]:
    """Paths of the jars, which are fetched to the user's cache folder at first use; raises `InputError`."""
    from delta.pip_utils import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    builder = configure_spark_with_delta_pip(SparkSession.Builder())  # it knows the Delta of this PySpark
    group, artifact, delta = builder._options["spark.jars.packages"].split(":")
    hadoop = _shipped("hadoop-client-api").stem.rpartition("-")[2]
    needed = {f"{artifact}-{delta}.jar", f"delta-storage-{delta}.jar", f"hadoop-aws-{hadoop}.jar"}
    named = os.environ.get(FOLDER_VARIABLE)
    folder = Path(named) if named else cache_folder() / "jars" / f"{delta}-{hadoop}"
    if named and (lacking := needed - {path.name for path in folder.glob("*.jar")}):
        raise InputError(f"{FOLDER_VARIABLE}={folder}: no {min(lacking)} there (docs/clusters.md)")
    if not folder.is_dir():
        _fetch(_MODULE.format(group=group, artifact=artifact, delta=delta, hadoop=hadoop), folder)
    return sorted(map(str, folder.glob("*.jar")))


def _shipped(name: str) -> Path:
    """A jar of Spark."""
    return next(Path(_find_spark_home(), "jars").glob(f"{name}-*.jar"))


def _fetch(module: str, folder: Path) -> None:
    """Make *folder* with the jars of *module*; raises `InputError` with Ivy's reason and the alternatives."""
    settings = os.environ.get(SETTINGS_VARIABLE)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"no cache folder: {error.strerror}: {folder.parent}; set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    with tempfile.TemporaryDirectory(dir=folder.parent) as made, progress("fetching the jars of Delta and S3, once"):
        Path(made, "ivy.xml").write_text(module, "utf-8")
        Path(made, "ivysettings.xml").write_text(read_conf("ivysettings.xml"), "utf-8")
        command = [
            f"{find_java_home()}/bin/java", f"-Dslotscope.cache.dir={made}/cache", "-jar", str(_shipped("ivy")), "-warn",
            "-settings", settings or f"{made}/ivysettings.xml", "-ivy", f"{made}/ivy.xml",
            "-retrieve", f"{made}/jars/[artifact]-[revision].[ext]",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip(" .:")]
            failed = [line for line in lines if "not found" in line or "FAILED" in line]
            reason = (failed or lines[-1:] or ["no output"])[0]
            raise InputError(
                f"the jars of Delta and S3 could not be fetched ({reason}); without the public Maven repository set {SETTINGS_VARIABLE} "
                f"to an Ivy settings file of your mirror, or {FOLDER_VARIABLE} to a folder with them (docs/clusters.md)"
            )
        with suppress(OSError):  # another process brought them meanwhile
            Path(made, "jars").rename(folder)


def read_conf(name: str) -> str:
    """Text of ``conf/<name>`` (``slotscope/conf`` is that folder)."""
    return files("slotscope").joinpath("conf", name).read_text("utf-8")


def read_properties(name: str) -> dict[str, str]:
    """A Spark properties file as a dict: a key, white space, the value; ``#`` starts a comment line."""
    pairs = (line.strip().split(None, 1) for line in read_conf(name).splitlines() if not line.lstrip().startswith("#"))
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}
