"""The Java that Spark starts: ``python -m slotscope.runtime.spark.java`` prints its home, or the error in one line.

Imports the standard library only, because set-up asks before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

from slotscope.runtime.errors import InputError

JAVA_VERSION_MIN = 17
PROBE_SECONDS_MAX = 30  # a wrapper that asks a question must not hang the set-up


def find_java_home() -> str:
    """Home of ``JAVA_HOME``, else of ``java`` in ``PATH``; raises `InputError` where it is missing or too old."""
    home, in_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    command = os.path.join(home, "bin", "java") if home else in_path
    if command is None:
        raise InputError(f"needs Java {JAVA_VERSION_MIN} or newer: JAVA_HOME is not set and there is no java in PATH")
    try:
        answer = subprocess.run(
            [command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, errors="replace",
            timeout=PROBE_SECONDS_MAX,
        ).stderr  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        answer = ""
    properties = dict(re.findall(r"^\s*java\.(home|specification\.version) = (\S.*)$", answer, re.MULTILINE))
    version = properties.get("specification.version", "").removeprefix("1.")  # 8 is "1.8"
    if not version.isdecimal() or int(version) < JAVA_VERSION_MIN:
        name, kind = f"JAVA_HOME={home}" if home else command, f"Java {version}" if version else "not a working Java"
        raise InputError(f"needs Java {JAVA_VERSION_MIN} or newer: {name} is {kind}")
    return str(properties["home"])


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_java_home()}\n")
    except InputError as error:
        sys.exit(f"slotscope: {error}")
