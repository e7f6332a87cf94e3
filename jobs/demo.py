"""Run the main commands on the two recorded clusters in the package."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from jobs.main import run
from slotscope.options import Plain, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.stores import folder_of, is_store


@options
class Request(Plain):
    """Options of `slotscope demo`."""

    root: str = "slotscope-demo"
    """Local folder of the tables and pages"""

    def __post_init__(self) -> None:
        """Raise InputError unless the root is a local folder; recordings are copied there."""
        object.__setattr__(self, "root", folder_of(self.root))
        if is_store(self.root):
            raise InputError(f"{self.root}: the demonstration needs a local folder")


ABOUT = """Two recorded clusters.
Load: dumps of three Valkey masters before and after their data grew, recorded
  one second apart. Slotscope compares the two states and shows no growth rate.
Failover: bus capture, logs and polls of six Redis nodes; one master is killed.
"""
RECORDINGS = "recordings"
"""Folder below the root."""

Step = tuple[str, list[str]]


def command(request: Request = Request()) -> int:
    """Run the main commands on recorded clusters: uneven load before and after it grew, and a failover.

    Prints each command before it runs; needs no server.  The recordings stay in the folder for further commands.
    """
    lay_out(Path(request.root, RECORDINGS))
    sys.stdout.write(ABOUT)
    shown = list(steps(request.root))
    for number, (title, arguments) in enumerate(shown, 1):
        sys.stdout.write(f"\n== {number} of {len(shown)}: {title}\n$ {shlex.join(['slotscope', *arguments])}\n\n")
        sys.stdout.flush()
        code = run(arguments, debug=request.debug)
        if code != cli.OK:
            return code
    sys.stdout.write("\n== Pages to open in a browser\n")
    for page in sorted(Path(request.root, "reports").glob("*.html")):
        sys.stdout.write(f"{page.absolute()}\n")
    return cli.OK


def steps(root: str) -> Iterator[Step]:
    """Return the demo's commands in order: a title, and a command line without its first word; recordings are below *root*, see `lay_out`."""
    there, here = f"{root}/{RECORDINGS}", ["--root", root]
    for name, folder in (("before", "before"), ("after", "dumps")):
        dumps = ["--rdb", f"{there}/{folder}/*.rdb", "--topology", f"{there}/nodes.txt"]
        yield f"Find the load {name} the growth", ["key-slots", *here, "--snapshot", name, *dumps]
    yield "Compare both snapshots", ["compare", "before", "after", *here]
    yield "Plan moves", ["plan", "make", *here, "--snapshot", "after"]
    yield "Check the plan without the planner", ["plan", "check", *here]
    capture = ["--pcap", f"{there}/bus.pcap.gz", "--log", f"{there}/logs/*", "--polls", f"{there}/polls.jsonl.gz"]
    yield "Reconstruct the history of a cluster", ["history", *here, "--snapshot", "failover", *capture]
    yield "Explain its longest outage", ["incidents", "longest", *here, "--snapshot", "failover"]


def lay_out(folder: Path) -> None:
    """Copy the recordings into *folder*, by the names that the tutorial calls them; InputError where the package is a zip."""
    recorded = Path(str(files("slotscope").joinpath("demo_data")))
    if not recorded.is_dir():
        raise InputError("the recorded clusters are not in this zip: run slotscope demo where the package is installed")
    load, bus = recorded / "valkey-9.1", recorded / "bus-redis-7.0"
    for part, name in ((load / "before", "before"), (load / "after", "dumps"), (bus, "")):
        shutil.copytree(part, folder / name, dirs_exist_ok=True)
    shutil.copy2(load / "topology" / "nodes.txt", folder)


if __name__ == "__main__":
    cli.main(command)
