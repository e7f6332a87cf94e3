"""One walk over an append-only log in a fresh process, printed as a line of JSON.

``python -m benchmarks.aof_walk FILE [--only-walk] [--replay] [--bytes-max N]``.

Without options: all statistics that the job makes of a log (slots, commands, keys and prefixes that are written most).
*only-walk*: every command and key as columns, nothing added up.  *replay*: the living keys.
The clock runs over the read loop alone, machine code loaded.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.skim import memory_bytes
from cluster_core.aof.keyspace import Keyspace
from cluster_core.formats.aof.framing import CommandReader
from cluster_core.kernels.aof.walker import AofWalker
from slotscope.sources.aof.files import WHOLE, AofUnit
from slotscope.sources.aof.tally import tally_log
from slotscope.sources.keys.tally import TallyOptions

SMALL = b"*3\r\n$3\r\nSET\r\n$5\r\n{a}:b\r\n$1\r\nv\r\n*2\r\n$3\r\nDEL\r\n$5\r\n{a}:b\r\n"


def with_statistics(path: str) -> dict[str, Any]:
    """Make the statistics of the job's task."""
    unit = AofUnit(path, os.path.getsize(path), path, WHOLE, is_last=True)
    facts, *rows = tally_log(unit, 0, TallyOptions())
    return {"commands": facts.column("facts")[0].as_py()["commands"], "rows": len(rows)}


def only_walk(path: str, *, bytes_max: int | None = None) -> dict[str, Any]:
    """Make columns of every command and key."""
    walker = AofWalker(path)
    keys = 0
    with open(path, "rb", buffering=0) as stream:
        while not walker.done and (bytes_max is None or walker.valid_end < bytes_max):
            ahead = walker.skippable()
            if ahead:
                stream.seek(ahead, os.SEEK_CUR)
                walker.skipped(ahead)
            walker.filled(stream.readinto(walker.room()))
            for batch in walker.batches():
                keys += len(batch.keys)
    return {"commands": walker.commands, "keys": keys, "bytes": walker.valid_end}


def replay(path: str, bytes_max: int | None) -> dict[str, Any]:
    """Replay the log into its living keys."""
    reader, keyspace = CommandReader(path), Keyspace()
    with open(path, "rb", buffering=0) as stream:
        while (piece := stream.read(1 << 20)) and (bytes_max is None or reader.valid_end < bytes_max):
            reader.feed(piece)
            for command in reader.commands():
                keyspace.apply(command.arguments)
    return {"commands": keyspace.commands, "bytes": reader.valid_end, "keys": sum(1 for _ in keyspace.rows())}


def measured(options: argparse.Namespace, path: str, bytes_max: int | None) -> dict[str, Any]:
    """Run what *options* ask for."""
    if options.replay:
        return replay(path, bytes_max)
    if options.only_walk:
        return only_walk(path, bytes_max=bytes_max)
    return with_statistics(path)


def main() -> None:
    """Measure one walk and print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    for flag in ("--only-walk", "--replay"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--bytes-max", type=int)
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile() as small:
        small.write(SMALL)
        small.flush()
        measured(options, small.name, None)
    gc.collect()
    held = memory_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    wall, cpu = time.perf_counter(), time.process_time()
    counts = measured(options, options.file, options.bytes_max)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    above = memory_bytes("VmHWM") - held
    print(json.dumps({"cpu_s": cpu, "wall_s": wall, "above_interpreter_bytes": above, **counts}))


if __name__ == "__main__":
    main()
