"""The classes that Spark's JVM loads, archived once in the user's cache folder (class-data sharing of the JVM).

``slotscope setup`` asks for it: its session archives when it ends what it has loaded, which takes some ten seconds; later ones start
from that.  A JVM takes an archive only if it was made by the same Java from the same jars, and starts without where it cannot.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from slotscope.runtime.program import cache_folder

WANTED = "SLOTSCOPE_ARCHIVE_CLASSES"
"""Environment variable that is set while a session is to make the archive."""
ARCHIVE_SECONDS_MAX = 120
"""The archive takes the JVM some seconds; one that does not end is left to end by itself."""
ARCHIVES_MAX = 3
"""Archives kept, 200 MB each: one for each Java or version of Spark that is used in turn."""


def archive_of(java_home: str, jars: Sequence[str]) -> Path:
    """Where the classes of *jars* and of Spark's own are kept for this Java; its name says of what they are."""
    import pyspark

    release = Path(java_home, "release")
    shipped = Path(pyspark.__file__).resolve().parent / "jars"
    told = hashlib.sha256(f"{java_home}\n".encode())
    for file in (release, *sorted(shipped.glob("*.jar")), *map(Path, jars)):
        if file.is_file():
            found = file.stat()
            told.update(f"{file.resolve()}\n{found.st_size}\n{found.st_mtime_ns}\n".encode())
    return cache_folder() / "classes" / f"{told.hexdigest()[:32]}.jsa"


def options(kept: Path, fresh: Path) -> str:
    """What the JVM is told: to start from *kept*, or, where that is not there and `WANTED` is set, to make *fresh*; else nothing."""
    if os.pathsep in f"{kept}{fresh}":  # to the JVM that is two archives
        return ""
    if kept.is_file():
        return f'-XX:+IgnoreUnrecognizedVMOptions "-XX:SharedArchiveFile={kept}"'
    if WANTED not in os.environ:
        return ""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    if not os.access(kept.parent, os.W_OK):
        return ""
    return f'-XX:+IgnoreUnrecognizedVMOptions "-XX:ArchiveClassesAtExit={fresh}" -Xlog:disable'


def keep(jvm: subprocess.Popen[bytes], fresh: Path, kept: Path) -> None:
    """End *jvm*, wait until it has written *fresh*, and put that where *kept* is; the oldest archives make room."""
    try:
        if jvm.stdin is not None:
            jvm.stdin.close()  # the JVM ends when its driver is gone
        if jvm.wait(ARCHIVE_SECONDS_MAX) != 0 or not fresh.is_file():
            return
        arriving = kept.with_suffix(f".{os.getpid()}")
        shutil.move(fresh, arriving)
        arriving.replace(kept)
        by_age = sorted(kept.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for old in by_age[ARCHIVES_MAX:]:
            old.unlink(missing_ok=True)
    except (OSError, subprocess.TimeoutExpired, KeyboardInterrupt):
        pass  # the next session tries again
