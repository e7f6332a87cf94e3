"""What ``replication-replay`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Paths, SnapshotOptions, options


@options
class Request(SnapshotOptions):
    """What to read and how."""

    pcap: Paths = ()
    """Captures of the client ports: pcap or pcapng files; globs, folders or URIs; gzip and zstd are recognised.
    Rotated files are one stream, captures of one time made in several places are merged.
    """
    backlog_size: Paths = ()
    """repl-backlog-size of the servers: SIZE for all, or ADDRESS:PORT=SIZE. Default: seen in INFO or CONFIG SET, else
    the version's, unless the answers show another.
    """
    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/SNAPSHOT-replication.html."""
