"""Find a Java that Spark runs on: ``python -m slotscope.runtime.spark.java`` prints its home or says in one line what is
wrong.

Imports the standard library only, because set-up asks before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from slotscope.runtime.errors import InputError

JAVA_VERSION_MIN = 17
PROBE_SECONDS_MAX = 30
"""`java -version` answers at once; a wrapper that asks a question must not hang the set-up."""


def find_java_home() -> str:
    """Home of the first Java that is new enough: ``JAVA_HOME`` first, then ``java`` in ``PATH``.

    Raises `InputError` that names what was found.
    """
    seen: list[str] = []
    for origin, command in _candidates():
        home, version = _release(command) or _ask(command) or ("", 0)
        if version >= JAVA_VERSION_MIN:
            return home
        seen.append(f"{origin} is {f'Java {version}' if version else 'not a working Java'}")
    found = "; ".join(seen) or "JAVA_HOME is not set and there is no java in PATH"
    raise InputError(f"needs Java {JAVA_VERSION_MIN} or newer: {found}")


def _candidates() -> list[tuple[str, Path]]:
    found = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append((f"JAVA_HOME={home}", Path(home, "bin", "java")))
    in_path = shutil.which("java")
    if in_path:
        found.append((in_path, Path(in_path)))
    return found


def _release(command: Path) -> tuple[str, int] | None:
    """Home and major version from the ``release`` file of the home that *command* lies in: no process to
    start.
    """
    home = command.resolve().parent.parent
    try:
        text = (home / "release").read_text("utf-8", "replace") if command.exists() else ""
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="([\d.]+)', text, re.MULTILINE)
    return (str(home), _major(match[1])) if match else None


def _ask(command: Path) -> tuple[str, int] | None:
    """Home and major version as *command* says them: it may be a wrapper that lies elsewhere."""
    try:
        answer = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    version = re.search(r"^\s*java\.version = ([\d.]+)", answer.stderr, re.MULTILINE)
    return (home[1].strip(), _major(version[1])) if home and version and answer.returncode == 0 else None


def _major(version: str) -> int:
    """17 of ``17.0.15``, 8 of ``1.8.0``."""
    numbers = [int(part) for part in version.split(".") if part]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def main() -> int:
    """Print the home of the Java that jobs will use."""
    try:
        sys.stdout.write(find_java_home() + "\n")
    except InputError as error:
        sys.stderr.write(f"slotscope: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
