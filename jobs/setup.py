"""Check Java, download the Delta JARs, compile native code and archive JVM classes, so that commands start without network."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from slotscope.options import Plain, options
from slotscope.runtime import cli


@options
class Request(Plain):
    """Options of `slotscope setup`."""

    store: Literal["s3"] | None = None
    """Object store to download JARs for"""


def command(request: Request = Request()) -> int:
    """Check Java, download the Delta JARs, compile native code and archive JVM classes.

    Without it the first commands do the same when needed.
    """
    from jobs.demo import RECORDINGS, lay_out, steps
    from jobs.main import run
    from slotscope.runtime.compiled_code import pack_beside_programs
    from slotscope.runtime.failure import NEEDS_SPARK
    from slotscope.runtime.installation import check_installation
    from slotscope.runtime.progress import progress, silence
    from slotscope.runtime.spark import class_archive
    from slotscope.runtime.spark.jars import delta_jars, provide_jars, s3_jars
    from slotscope.runtime.spark.java import find_java_home

    check_installation()
    has_spark = find_spec("pyspark") is not None
    if has_spark:
        jars = provide_jars(delta_jars())
        sys.stdout.write(f"Java      {find_java_home()}\n")
        sys.stdout.write(f"jars      {Path(jars[0]).parent}: {', '.join(Path(path).name for path in jars)}\n")
    else:
        sys.stdout.write(f"Spark     not here: {NEEDS_SPARK.partition(': ')[2]}\n")
    if request.store:
        store_jars = provide_jars(s3_jars())
        sys.stdout.write(f"{request.store}        {Path(store_jars[0]).parent}: {len(store_jars)} jars\n")
    start = time.monotonic()
    os.environ[class_archive.WANTED] = "1"
    with (
        tempfile.TemporaryDirectory(prefix="slotscope-setup-") as root,
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        progress("getting ready: a minute or two"),
        silence(),
        contextlib.redirect_stdout(nowhere),
    ):
        lay_out(Path(root, RECORDINGS))
        codes = []  # what the commands compile is kept in the user's cache folder
        if has_spark:
            codes += [run(words) for _, words in steps(root)]
            codes.append(run(["advise", "--root", root, "--snapshot", "before"]))
        dumps = os.path.join(root, RECORDINGS, "before", "*.rdb")
        for style in ("json", "resp", "parquet"):
            codes.append(run(["export", "--rdb", dumps, "--to", style, "--out", os.path.join(root, style)]))
    if any(codes):
        return max(codes)
    pack_beside_programs()
    commands = "demo, advise and export" if has_spark else "export"
    sys.stdout.write(f"compiled  all that slotscope {commands} run, {time.monotonic() - start:.0f} s\n")
    return cli.OK


if __name__ == "__main__":
    cli.main(command)
