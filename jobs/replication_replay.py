"""Who followed whom, how far behind, and why was everything sent again?

Reads captures of client ports; writes silver/replication_links, silver/replication_offsets, gold/resyncs and
bronze/bad_records, and tells every resync in one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from slotscope.runtime import cli
from slotscope.runtime.cli import Common, Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.pipelines.replication import Outcome


def run(
    spark: SparkSession,
    *,
    root: str,
    pcap: Sequence[str],
    snapshot: str = "current",
    backlog_bytes: Mapping[str, int] | None = None,
    permissive: bool = False,
) -> Outcome:
    """Replay the captures *pcap* into the tables of *snapshot*."""
    from slotscope.pipelines.replication import replay_replication

    return replay_replication(
        spark, pcap, root=root, snapshot=snapshot, backlog_bytes=backlog_bytes or {}, permissive=permissive
    )


def read_sizes(words: Sequence[str]) -> dict[str, int]:
    """``SIZE`` for all servers, ``ADDRESS:PORT=SIZE`` for one; raises InputError for what is neither."""
    from cluster_core.replication.forecast import EVERY_SERVER
    from cluster_core.replication.sizes import read_bytes
    from slotscope.runtime.errors import InputError

    found = {}
    for word in words:
        server, _, size = word.rpartition("=")
        count = read_bytes(size)
        if not count:
            raise InputError(
                f"--backlog-size {word!r}: it is SIZE or ADDRESS:PORT=SIZE, with a SIZE such as 64kb or 1mb"
            )
        found[server or EVERY_SERVER] = count
    return found


def command(
    *,
    pcap: Paths = (),
    snapshot: str = "current",
    backlog_size: Paths = (),
    common: Common,
) -> int | None:
    """Replay captured replication traffic: links, offsets, and why each replica went on or was sent everything.

    Parameters
    ----------
    pcap
        Captures of the client ports: pcap or pcapng files; globs, folders or URIs; gzip and zstd are recognised.
        Rotated files are one stream, captures of one time made in several places are merged.
    snapshot
        Name of the snapshot; what the tables hold of it is replaced.
    backlog_size
        repl-backlog-size of the servers: SIZE for all, or ADDRESS:PORT=SIZE. Default: seen in INFO or CONFIG SET, else
        the version's, unless the answers show another.
    """
    from slotscope.reports.replication_text import load_replication, replication_lines
    from slotscope.runtime.errors import InputError
    from slotscope.sources.bus.files import find_captures

    if not pcap:
        raise InputError("nothing to read: name captures with --pcap")
    if not snapshot:
        raise InputError("the snapshot needs a name")
    sizes = read_sizes(backlog_size)
    find_captures(pcap)
    spark = common.session("replication-replay")
    permissive = common.mode == "permissive"
    outcome = run(spark, root=common.root, pcap=pcap, snapshot=snapshot, backlog_bytes=sizes, permissive=permissive)
    for line in replication_lines(*load_replication(spark, common.root, snapshot)):
        sys.stdout.write(line + "\n")
    if outcome.bad_records:
        sys.stdout.write(f"{outcome.bad_records} bad records: see bronze/bad_records\n")
    return cli.PARTIAL if outcome.bad_records and permissive else None


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
