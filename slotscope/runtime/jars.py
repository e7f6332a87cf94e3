"""The Delta jars: fetched once by set-up into ``.jars``, handed to Spark from there, so that jobs start
without network.

``python -m slotscope.runtime.jars DIRECTORY [SETTINGS.xml]`` fetches what ``conf/ivy.xml`` lists with the Ivy that
PySpark ships. Cache and settings are the project's own: a half-filled local Maven repository makes Ivy fail
otherwise.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

from slotscope.runtime.conf import read_conf
from slotscope.runtime.errors import InputError
from slotscope.runtime.java import find_java_home

FETCH_SECONDS_MAX = 900
"""The jars are 10 MB; a line that needs longer is broken."""


def jars() -> list[str]:
    """Paths of the fetched jars, sorted; empty where set-up did not run (a cluster brings its own).

    Looked for beside this code and beside the virtual environment: the code may be a zip that lies elsewhere.
    """
    for parent in (*Path(__file__).absolute().parents, Path(sys.prefix).parent):
        folder = parent / ".jars"
        if folder.is_dir():
            return sorted(str(path) for path in folder.glob("*.jar"))
    return []


def fetch(folder: Path, settings: Path | None = None) -> None:
    """Bring the jars of ``conf/ivy.xml`` into *folder*; raises `InputError` with Ivy's own reason."""
    spec = importlib.util.find_spec("pyspark")
    shipped = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not shipped:
        raise InputError("pyspark is not installed here, or ships no Ivy: run `make setup`")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("ivy.xml", "ivysettings.xml"):
            Path(scratch, name).write_text(read_conf(name), "utf-8")
        command = [
            f"{find_java_home()}/bin/java",
            f"-Dslotscope.cache.dir={scratch}/cache",
            *("-jar", str(shipped[-1]), "-warn"),
            *("-settings", str(settings or Path(scratch, "ivysettings.xml"))),
            *("-ivy", str(Path(scratch, "ivy.xml"))),
            *("-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-sync"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX)
    if done.returncode or not any(folder.glob("*.jar")):
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip(" .:")]
        why = next((line for line in lines if "not found" in line or "FAILED" in line), (lines or ["no output"])[-1])
        raise InputError(f"the Delta jars could not be fetched ({why}); is the Maven repository reachable?")


def main(argv: list[str]) -> int:
    """Fetch into the folder that the first argument names."""
    try:
        fetch(Path(argv[0]).absolute(), Path(argv[1]).absolute() if len(argv) > 1 else None)
    except (InputError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"slotscope: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
