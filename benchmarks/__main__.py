"""Run the benchmarks and write ``docs/performance.md``: ``python -m benchmarks [--quick] [NAME …]``.

Each benchmark's figures are kept in ``build/bench-results``; the page is made of the newest of each, so that one can
be run alone.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.options import Options
from benchmarks.result import Result, bars_markdown, result_markdown, rows_markdown

NAMES = (
    "key_slots",
    "rdb",
    "memory",
    "aof",
    "split_rdb",
    "bus",
    "rebalance",
    "simulation",
    "gossip_engine",
    "spark_scale",
)
RESULTS = Path("build/bench-results")
PAGE = Path("docs/performance.md")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks that *arguments* name (all of them by default), print their tables and write the page."""
    options = _parse(arguments)
    names = [name for name in NAMES if name in options.names] if options.names else list(NAMES)
    results = RESULTS / "quick" if options.quick else RESULTS
    results.mkdir(parents=True, exist_ok=True)
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
        kept = {"date": options.date, "machine": where, "result": result.to_json()}
        (results / f"{name}.json").write_text(json.dumps(kept, indent=1))
        print(result_markdown(result, options.date) + "\n\n" + bars_markdown(result.bars) + "\n", flush=True)
    if not options.quick:
        write_page(PAGE)
    return 0


def write_page(page: Path) -> None:
    """Write the page from the newest figures of every benchmark."""
    kept = [json.loads(path.read_text()) for path in (RESULTS / f"{name}.json" for name in NAMES) if path.exists()]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(page_text(kept))


def page_text(kept: list[dict[str, Any]]) -> str:
    """Return the page as Markdown: what holds, the benchmarks, the machine."""
    results = [Result.from_json(one["result"]) for one in kept]
    bars = [bar for result in results for bar in result.bars]
    parts = [
        "# Performance",
        "Written by `make bench`; do not edit. Every figure stands beside a peer, a C loop or the machine's own limit "
        "that was measured in the same run on the same machine; compare ratios, not seconds.",
        "## What holds",
        bars_markdown(bars),
        *[result_markdown(result, one["date"]) for result, one in zip(results, kept, strict=True)],
        "## Machine",
        rows_markdown(kept[-1]["machine"]) if kept else "",
    ]
    return "\n\n".join(parts) + "\n"


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
