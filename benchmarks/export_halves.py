"""Write a dump as JSON in one range or in two at once, and say how much work the longer one is.

``python -m benchmarks.export_halves DUMP RANGES FOLDER`` prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from cluster_core.kernels.keys.filter import key_filter
from cluster_core.rdb.export import NEWEST
from cluster_core.rdb.value_state import JSON
from slotscope.pipelines.keys.export import RANGE_BYTES_MIN
from slotscope.sources.files import expand
from slotscope.sources.rdb.files import RdbUnit, plan_units
from slotscope.sources.values.part import Wanted, write_part


def main() -> None:
    """Read the command line, write, report."""
    dump, ranges, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    wanted = Wanted(key_filter(), JSON, NEWEST, check_crc=False)

    def write(unit: RdbUnit, asked: Wanted = wanted) -> float:
        begun = time.thread_time()
        with (folder / f"part-{unit.part}").open("wb") as out:
            write_part(unit, asked, out)
        return time.thread_time() - begun

    files = expand([dump])
    write(RdbUnit(dump, files[0].size), replace(wanted, keys_max=1))  # loads what is compiled
    wall, cpu, process = time.perf_counter(), time.thread_time(), time.process_time()
    units = plan_units(files, parallelism=ranges, split=True, guess=True, unit_bytes_min=RANGE_BYTES_MIN)
    with ThreadPoolExecutor(ranges) as pool:
        parts = list(pool.map(write, units))
    told = {
        "ranges": len(units),
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - process,
        "critical_cpu_s": time.thread_time() - cpu + max(parts),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
