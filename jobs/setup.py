"""Check Java, fetch the Delta and S3 jars, compile native code and archive JVM classes, so that commands start without network."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from slotscope.options import Plain
from slotscope.runtime import cli


def command(request: Plain = Plain()) -> int:
    """Check Java, fetch the Delta and S3 jars, compile native code and archive JVM classes.

    Without it the first commands do the same when needed.
    """
    from jobs.demo import RECORDINGS, lay_out, steps
    from jobs.main import run
    from slotscope.runtime.failure import NEEDS_SPARK
    from slotscope.runtime.progress import progress, silence

    has_spark = find_spec("pyspark") is not None
    if has_spark:
        from slotscope.runtime.spark.jars import provide_jars
        from slotscope.runtime.spark.java import find_java_home
        from slotscope.runtime.spark.session import ARCHIVE_CLASSES

        sys.stdout.write(f"Java      {find_java_home()}\n")
        jars = provide_jars()
        sys.stdout.write(f"jars      {Path(jars[0]).parent}: {len(jars)} of Delta and S3\n")
        os.environ[ARCHIVE_CLASSES] = "1"
    else:
        sys.stdout.write(f"Spark     not here: {NEEDS_SPARK.partition(': ')[2]}\n")
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="slotscope-setup-") as root,
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        progress("getting ready: a minute or two"),
        silence(),
        contextlib.redirect_stdout(nowhere),
    ):
        lay_out(Path(root, RECORDINGS))
        codes = []  # compiled code is kept in the user's cache folder
        if has_spark:
            codes += [run(arguments) for _, arguments in steps(root)]
            codes.append(run(["advise", "--root", root, "--snapshot", "before"]))
        dumps = os.path.join(root, RECORDINGS, "before", "*.rdb")
        for style in ("json", "resp"):
            codes.append(run(["export", "--rdb", dumps, "--to", style, "--out", os.path.join(root, style)]))
    if any(codes):
        return max(codes)
    commands = "demo, advise and export" if has_spark else "export"
    sys.stdout.write(f"compiled  all that slotscope {commands} run, {time.monotonic() - start:.0f} s\n")
    return cli.OK


if __name__ == "__main__":
    cli.main(command)
