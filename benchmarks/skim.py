"""One skim of a dump in a fresh process, printed as a line of JSON.

``python -m benchmarks.skim FILE … [--crc] [--memory] [--threads N]``.

Several files are read at once, a thread each; one file is cut into *threads* ranges.

The clock runs over the read loop alone: numba is loaded and the machine code is warm before it starts, as in a worker
that has done a task before. *above_interpreter_bytes* is the peak memory during the loop less what the warm process
held; *critical_cpu_s* is what would be the wall time if every thread had a core to itself: the cutting, and the
thread that took longest.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cluster_core.memory.model import MemorySettings
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.skim import RdbSkimmer
from cluster_core.rdb.splits import find_splits

HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes *start* to *end* (None: to the end) of a dump; *head* is needed where it does not begin the file."""

    path: str
    start: int = 0
    end: int | None = None
    head: RdbHead | None = None


def skim_piece(
    piece: Piece, *, check_crc: bool, keys_max: int | None = None, memory: MemorySettings | None = None
) -> tuple[int, int, float]:
    """Return keys, sum of their sizes and CPU seconds of *piece*; after *keys_max* keys no further batch is read."""
    started = time.thread_time()
    skimmer = RdbSkimmer(
        piece.path,
        start=piece.start,
        end=piece.end,
        head=piece.head,
        check_crc=check_crc,
        memory=memory,
    )
    keys = serialized_bytes = 0
    with open(piece.path, "rb", buffering=0) as stream:
        stream.seek(piece.start)
        while not skimmer.done:
            ahead = skimmer.skippable()
            if ahead:
                stream.seek(ahead, os.SEEK_CUR)
                skimmer.skipped(ahead)
            skimmer.filled(stream.readinto(skimmer.room()))
            for batch in skimmer.batches():
                keys += len(batch)
                serialized_bytes += int(batch.serialized_bytes.sum())
                if keys_max is not None and keys >= keys_max:
                    return keys, serialized_bytes, time.thread_time() - started
    return keys, serialized_bytes, time.thread_time() - started


def cut_pieces(path: str, count: int) -> list[Piece]:
    """Cut a dump into *count* pieces: at slot boundaries, or between keys where it names no slots."""
    if count == 1:
        return [Piece(path)]
    with open(path, "rb", buffering=0) as stream:

        def read_at(offset: int, size: int) -> bytes:
            stream.seek(offset)
            return stream.read(size) or b""

        size = os.path.getsize(path)
        cuts = find_splits(read_at, size, count)
    head = read_head(path) if cuts else None
    ends: list[int | None] = [*cuts, None]
    return [Piece(path, start, end, head if start else None) for start, end in zip([0, *cuts], ends, strict=True)]


def skim_files(
    paths: list[str],
    threads: int,
    *,
    check_crc: bool,
    keys_max: int | None,
    memory: MemorySettings | None = None,
) -> dict[str, float]:
    """Skim one dump in *threads* pieces, or several dumps with a thread each."""
    started = time.thread_time()
    pieces = cut_pieces(paths[0], threads) if len(paths) == 1 else [Piece(path) for path in paths]
    cutting = time.thread_time() - started
    skim = partial(skim_piece, check_crc=check_crc, keys_max=keys_max, memory=memory)
    if len(pieces) == 1:
        results = [skim(pieces[0])]
    else:
        with ThreadPoolExecutor(len(pieces)) as pool:
            results = list(pool.map(skim, pieces))
    return {
        "keys": sum(keys for keys, _, _ in results),
        "serialized_bytes": sum(size for _, size, _ in results),
        "critical_cpu_s": cutting + max(seconds for _, _, seconds in results),
        "ranges": len(results),
    }


def read_head(path: str) -> RdbHead:
    """Return the dialect and version of a dump from its first bytes."""
    skimmer = RdbSkimmer(path, check_crc=False)
    with open(path, "rb", buffering=0) as stream:
        room = skimmer.room()[:HEAD_BYTES]
        skimmer.filled(stream.readinto(room))
        for _ in skimmer.batches():
            break
    return skimmer.head


def small_dump() -> bytes:
    """Return the bytes of a dump with three keys and no checksum, to warm up with."""
    keys = b"".join(b"\x00" + bytes([len(key)]) + key + b"\x01v" for key in (b"{a}b", b"plain", b"{}c"))
    return b"REDIS0009\xfe\x00" + keys + b"\xff" + struct.pack("<Q", 0)


def warm_up(check_crc: bool) -> None:
    """Run the skim over three keys so that its machine code is loaded."""
    skimmer = RdbSkimmer("<warm-up>", check_crc=check_crc)
    dump = small_dump()
    skimmer.room()[: len(dump)] = dump
    skimmer.filled(len(dump))
    for _ in skimmer.batches():
        pass


def memory_bytes(field: str) -> int:
    """Return ``VmRSS`` (held now) or ``VmHWM`` (peak) of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """Measure one skim and print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--crc", action="store_true")
    parser.add_argument("--memory", action="store_true", help="estimate every key's size in memory")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keys-max", type=int)
    options = parser.parse_args()
    warm_up(options.crc)
    gc.collect()
    held = memory_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
    wall, cpu = time.perf_counter(), time.process_time()
    counts = skim_files(
        options.files,
        options.threads,
        check_crc=options.crc,
        keys_max=options.keys_max,
        memory=MemorySettings() if options.memory else None,
    )
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    above = memory_bytes("VmHWM") - held
    print(json.dumps({"cpu_s": cpu, "wall_s": wall, "above_interpreter_bytes": above, **counts}))


if __name__ == "__main__":
    main()
