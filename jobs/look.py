"""Check load and health of a live cluster with read-only commands, or detect and analyse files."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import Literal

from jobs.main import run
from slotscope.options import (
    BYTES_PER_SECOND,
    NO_OPTIONS,
    AccessOptions,
    BytesPerSecond,
    Flag,
    FromMaster,
    Rate,
    TableOptions,
    options,
)
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.text import printable


@options
class Request(TableOptions):
    """Options of `slotscope look`."""

    seconds: float = 20.0
    """Live: approximate time limit for measuring keys, in seconds; a sample of the keys if all of them take longer"""
    rate: Rate = None
    json: Flag = False
    """Live: output as JSON"""
    separators: str | None = None
    """Live: characters that end a prefix"""
    psync: Flag = False
    """Live: full dump of a replica of each master, as redis-cli --rdb, in place of a sample"""
    bytes_per_second: BytesPerSecond = BYTES_PER_SECOND
    from_master: FromMaster = False
    access: AccessOptions = NO_OPTIONS
    mode: Literal["strict", "permissive"] = "permissive"
    """Files: permissive records bad input in bronze/bad_records and continues (exit code 3); strict stops"""
    dry_run: Flag = False
    """Files: commands that would run, without running them"""
    snapshot: str = "look"
    """Files, --psync: name of the snapshot; an existing one is overwritten"""


SECONDS_MAX = 3600.0
RATE_MAX = 100_000.0
COMMAND_CHARS_MAX = 1 << 20


def command(*targets: str, request: Request = Request()) -> int | None:
    """Check load and health of a live cluster (HOST:PORT), or analyse files.

    Live: sends read-only commands within --rate, to replicas where possible; --psync reads a full dump of a replica.
    Files: detects the type of each, runs the matching commands, and names their pages.

    Parameters
    ----------
    targets
        HOST:PORT of a node or server; or files, globs and folders of any kind
    """
    from slotscope.runtime.stores import LIVE
    from slotscope.sources.files import is_uri

    first = targets[0].removeprefix(LIVE) if len(targets) == 1 else ""
    if first and ":" not in first and _is_missing(first):
        raise InputError(f"{first}: no such file; write a server as HOST:PORT")
    if first and not is_uri(first) and not _is_path(first):
        return _look_at_dumps(first, request) if request.psync else _look_at_cluster(first, request)
    if request.psync:
        raise InputError("--psync reads a live server: name it as HOST:PORT")
    return _look_at_files(targets, request)


def _is_path(target: str) -> bool:
    """Whether *target* is a path: it exists, has a slash, or has no port."""
    return os.path.exists(target) or "/" in target or ":" not in target


def _is_missing(name: str) -> bool:
    """Whether *name* is no file, and no pattern or path of one."""
    return not os.path.exists(name) and not set("/*?[") & set(name)


def _look_at_cluster(address: str, request: Request) -> int:
    from rich.console import Console

    from slotscope.reports.records import write_json
    from slotscope.reports.survey.document import look_document
    from slotscope.reports.survey.figures import overview
    from slotscope.reports.terminal import print_document
    from slotscope.runtime.progress import progress
    from slotscope.servers.cluster import parse_address
    from slotscope.servers.survey import survey

    if not 0 < request.seconds <= SECONDS_MAX or (request.rate is not None and not 1 <= request.rate <= RATE_MAX):
        raise InputError(f"--seconds must be above 0 and up to {SECONDS_MAX:g}, --rate from 1 to {RATE_MAX:g}")
    access = request.access.with_password(request.access.password())
    with progress(f"measuring {address}"):
        measured = survey(parse_address(address), access, seconds=request.seconds, rate=request.rate)
    figures = overview(measured, separators=request.separators or ":")
    if request.json:
        write_json(figures, sys.stdout)
    else:
        print_document(look_document(figures, address), Console(file=sys.stdout))
    return cli.OK


def _look_at_dumps(address: str, request: Request) -> int:
    """Read the data of all masters with `key-slots`; the topology is stored beside its tables."""
    from cluster_core.topology.nodes_text import write_nodes
    from slotscope.runtime.stores import LIVE
    from slotscope.servers.cluster import parse_address
    from slotscope.servers.survey import dump_sources
    from slotscope.sources.files import write_text

    access = request.access.with_password(request.access.password())
    servers, topology = dump_sources(parse_address(address), access, request.rate)
    arguments = [
        "--rdb",
        *(f"{LIVE}[{server.host}]:{server.port}" if ":" in server.host else f"{LIVE}{server}" for server in servers),
    ]
    if topology is not None:
        nodes = f"{request.root.rstrip('/')}/topology/{request.snapshot}.txt"
        if not request.dry_run:
            write_text(nodes, write_nodes(topology).decode())
        arguments += ["--topology", nodes]
    arguments += [
        "--root",
        request.root,
        "--snapshot",
        request.snapshot,
        "--bytes-per-second",
        f"{request.bytes_per_second:g}",
    ]
    if request.separators is not None:
        arguments.append(f"--separators={request.separators}")
    arguments += [f"--{name.replace('_', '-')}" for name in ("from_master", "json", "quiet") if getattr(request, name)]
    arguments += request.access.arguments()
    if not request.json:
        sys.stdout.write(f"$ {printable(shlex.join(['slotscope', 'key-slots', *arguments]), COMMAND_CHARS_MAX)}\n")
        sys.stdout.flush()
    return cli.OK if request.dry_run else run(["key-slots", *arguments], debug=request.debug)


def _look_at_files(targets: Sequence[str], request: Request) -> int:
    from slotscope.sources.fitting_jobs import fitting_jobs
    from slotscope.sources.recognition import FileKind, find_files, recognise

    if not targets:
        raise InputError("nothing to look at: name HOST:PORT of a live node, or files")
    recognised = [recognise(_as_typed(file.path)) for file in find_files(targets)]
    if not recognised:
        raise InputError(f"{', '.join(targets)}: no files there")
    for entry in recognised:
        about = f" ({entry.about})" if entry.about and entry.kind is not FileKind.UNKNOWN else ""
        sys.stdout.write(printable(f"{entry.path}: {entry.kind}{about or (entry.about and f': {entry.about}')}") + "\n")
    jobs, left = fitting_jobs(recognised, request.root, request.snapshot)
    for line in left:
        sys.stdout.write(printable(line) + "\n")
    if not jobs:
        raise InputError("none of these files can be read on its own; `slotscope --help` lists the inputs of commands")
    codes = []
    for job in jobs:
        arguments = [*job.job.split(), *job.arguments, "--mode", request.mode]
        sys.stdout.write(f"\n$ {printable(shlex.join(['slotscope', *arguments]), COMMAND_CHARS_MAX)}\n")
        sys.stdout.flush()
        if not request.dry_run:
            codes.append(run(arguments, debug=request.debug))
    if cli.OK in codes or cli.PARTIAL in codes:
        sys.stdout.write(
            f"\ntables and pages are in {printable(request.root)}: slotscope tables snapshots lists them\n"
        )
    return max(codes, default=cli.OK)


def _as_typed(path: str) -> str:
    """Return a path below the working folder relative to it."""
    below = os.getcwd() + os.sep
    return path.removeprefix(below)


if __name__ == "__main__":
    cli.main(command)
