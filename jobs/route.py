"""What would a node have answered to a command then?  Reads silver/node_views, which bus-replay wrote; writes none."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotscope.runtime import cli
from slotscope.runtime.cli import Common, Flag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVERS = ("redis-7.0", "valkey-9.1")


def run(
    spark: SparkSession,
    words: Sequence[str],
    *,
    root: str,
    at: str,
    observer: str,
    snapshot: str = "current",
    server: str = SERVERS[-1],
    readonly: bool = False,
    require_full_coverage: bool = True,
) -> list[str]:
    """Return the lines that `command` prints; raises InputError for an unknown observer, time or server."""
    from cluster_core.incidents.instants import read_instant, write_instant
    from cluster_core.incidents.past_views import find_observer, view_at
    from cluster_core.routing.redirect import Client, route
    from cluster_core.routing.view import DIALECTS, is_cluster_ok, view_of
    from jobs.nodes import rows_at
    from slotscope.reports.history.views import address_book
    from slotscope.runtime.errors import InputError

    if server not in DIALECTS:
        raise InputError(f"--server {server}: there are {', '.join(DIALECTS)}")
    try:
        at_ns = read_instant(at)
    except ValueError as error:
        raise InputError(str(error)) from error
    rows = rows_at(spark, root=root, snapshot=snapshot, times_ns=[at_ns])
    book = address_book(rows)
    if not book:
        raise InputError(f"{root}: snapshot {snapshot!r} holds no view at {write_instant(at_ns)}")
    topology = view_at(rows, find_observer(observer, book), at_ns)
    if topology.my_id is None:
        raise InputError(f"{observer}: its own row is not known at {write_instant(at_ns)}")
    ok = is_cluster_ok(topology, require_full_coverage=require_full_coverage)
    view = view_of(topology, cluster_ok=ok, dialect=DIALECTS[server])
    command_words = [word.encode("utf-8", "surrogateescape") for word in words]
    decision = str(route(view, command_words, client=Client(readonly=readonly)))
    return [f"-{decision}" if decision else f"{view.address(view.myself)} serves {shlex.quote(words[0])} itself"]


def command(
    *words: str,
    observer: str,
    at: str,
    snapshot: str = "current",
    server: str = SERVERS[-1],
    readonly: Flag = False,
    partial_coverage: Flag = False,
    common: Common,
) -> None:
    """Print what a node would have answered to a command at some time: a redirection, an error, or that it serves it.

    The tables do not hold which slots were open and which keys were where, so ASK and TRYAGAIN are never answered.

    Parameters
    ----------
    words
        The command, after --: slotscope route --observer … --at … -- GET user:1
    observer
        Which node is asked: a node id, the beginning of one, or host:port.
    at
        When: ISO 8601 (UTC unless it says otherwise), or s, ms, µs or ns since 1970.
    snapshot
        Name of the snapshot that bus-replay wrote.
    server
        Whose rules and commands: redis-7.0 or valkey-9.1.
    readonly
        The client has sent READONLY.
    partial_coverage
        The node has cluster-require-full-coverage no.
    """
    from slotscope.reports.text import printable
    from slotscope.runtime.errors import InputError

    if not words:
        raise InputError("no command: write it after --, as in: -- GET user:1")
    lines = run(
        common.session("route"), words, root=common.root, at=at, observer=observer, snapshot=snapshot, server=server,
        readonly=readonly, require_full_coverage=not partial_coverage,
    )  # fmt: skip
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
