"""Run the benchmarks and write their sections of ``benchmarks/results.md``: ``python -m benchmarks [--quick] [NAME …]``.

A benchmark replaces its own section and leaves those of the others as they are, so that one can be run alone.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import sys
from pathlib import Path

from benchmarks import machine
from benchmarks.options import Options
from benchmarks.page import with_section
from benchmarks.result import result_markdown

NAMES = (
    "key_slots",
    "rdb",
    "memory",
    "aof",
    "bus",
    "follow",
    "fleet",
    "logs",
    "rebalance",
    "simulation",
    "spark_scale",
)
PAGE = Path("benchmarks/results.md")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks that *arguments* name (all of them by default), print their sections and put them on the page."""
    options = _parse(arguments)
    names = [name for name in NAMES if name in options.names] if options.names else list(NAMES)
    for name in names:
        print(f"benchmarks: {name} …", file=sys.stderr, flush=True)
        where = machine.describe()
        result = importlib.import_module(f"benchmarks.{name}").run(
            Options(
                quick=options.quick,
                redis_dump=options.redis_dump,
                cluster_dump=options.cluster_dump,
                capture=options.capture,
            )
        )
        section = result_markdown(result, options.date, where)
        print(section + "\n", flush=True)
        if not options.quick:
            PAGE.write_text(with_section(PAGE.read_text(), name, section, NAMES))
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Slotscope against its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which benchmarks: {', '.join(NAMES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small data and few rounds, no page: does everything run?")
    parser.add_argument(
        "--date", default=datetime.date.today().isoformat(), help="date to write on the page (default: today)"
    )
    parser.add_argument("--redis-dump", type=Path, help="read this dump instead of a generated one")
    parser.add_argument("--cluster-dump", type=Path, help="read this dump of a cluster node instead of a generated one")
    parser.add_argument("--capture", type=Path, help="read this pcap file of the bus instead of a generated one")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
