"""What ``record`` is asked."""

from __future__ import annotations

import socket
from dataclasses import field
from datetime import timedelta
from typing import Annotated

from cyclopts import Parameter

from cluster_core.formats.landing import Kind
from slotscope.requests.options import NO_OPTIONS, SHARED, AccessOptions, Flag, Paths, options

SPOOL = "/var/spool/slotscope"
Kinds = Annotated[tuple[Kind, ...], Parameter(consume_multiple=1)]


@options
class Request:
    """What is recorded, where to, and how much of it is kept."""

    landing: str = field(kw_only=False)
    """Folder of recordings, or s3://BUCKET/FOLDER: files go to LANDING/CLUSTER/POINT."""
    cluster: str
    """Name of the cluster."""
    point: str | None = None
    """Name of this capture point. Default: the name of this host."""
    node: Paths = ("127.0.0.1:6379",)
    """HOST:PORT of nodes on this host (default 127.0.0.1:6379); those that they list with an address of this host are found."""
    kinds: Kinds = tuple(Kind)
    """What is recorded."""
    spool: str = SPOOL
    """Landing in a store: folder where files wait until the store has them; --keep-bytes is its bound."""
    every: timedelta = timedelta(seconds=60)
    """Time after which a file is finished: 60s, 5m."""
    file_bytes: int = 64 << 20
    """Compressed bytes after which a file is finished."""
    keep_bytes: int = 10 << 30
    """Bytes that are kept; the oldest finished files go first."""
    keep_hours: float | None = None
    """Hours after which a file goes, whatever room there is."""
    interface: str = "any"
    """Network interface."""
    snaplen: int = 262_144
    """Bytes of each packet; less makes headers that cannot be replayed in full."""
    capture_with: Annotated[str, Parameter(alias="--tcpdump")] = "tcpdump"
    """tcpdump or dumpcap, or the path of one."""
    log: Paths = ()
    """Logs of the nodes; globs. Default: where the nodes say (CONFIG GET logfile)."""
    interval: float = 1.0
    """Seconds between two questions to a node (CLUSTER NODES, CLUSTER INFO)."""
    info_every: timedelta = timedelta(seconds=10)
    """Time between two of INFO and CONFIG GET save."""
    slot_stats_every: timedelta = timedelta(seconds=60)
    """Time between two of CLUSTER SLOT-STATS (Valkey 8, Redis 8.2 and newer), a megabyte or two each."""
    duration: float | None = None
    """Seconds after which to end. Default: until Ctrl-C or SIGTERM."""
    json: Annotated[Flag, SHARED] = False
    """Print the status as lines of JSON."""
    access: AccessOptions = NO_OPTIONS
    quiet: Annotated[Flag, SHARED] = False
    """Print nothing but errors."""
    debug: Annotated[Flag, SHARED] = False
    """Show the trace of an error."""

    def point_name(self) -> str:
        """The name of the point."""
        return socket.gethostname() if self.point is None else self.point
