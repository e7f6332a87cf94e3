"""Options of ``slotscope collect``."""

from __future__ import annotations

from dataclasses import field
from datetime import timedelta

from slotscope.requests.options import NO_OPTIONS, AccessOptions, Flag, options
from slotscope.runtime.program import ROOT

LANDING = f"{ROOT}/landing"


@options
class Request:
    """Nodes to ask, how often, and where the answers go."""

    address: str = field(kw_only=False)
    """HOST:PORT of one node; its answer names the others."""
    landing: str = LANDING
    """Folder of recordings: finished files go to LANDING/CLUSTER/POINT/polls, which history and follow read."""
    cluster: str | None = None
    """Name of the cluster in the landing. Default: the address."""
    point: str = "collect"
    """Name of this collector in the landing; two collectors of one cluster need two names."""
    out: str | None = None
    """One file of JSON lines instead of a landing; answers are appended."""
    interval: float = 1.0
    """Seconds between two questions to a node, up to 10 % more or less; a node that does not answer is asked less and less often."""
    info_every: timedelta = timedelta(seconds=60)
    """Time between two INFO and CONFIG GET save, for restarts and replication offsets; 0 to leave them out. Only with a landing."""
    every: timedelta = timedelta(minutes=5)
    """Time after which a file is finished."""
    keep_bytes: int = 10 << 30
    """Bytes that are kept; the oldest finished files go first."""
    duration: float | None = None
    """Seconds after which to end. Default: until Ctrl-C."""
    slot_stats: Flag = False
    """Also ask CLUSTER SLOT-STATS (Valkey 8, Redis 8.2 and newer), which rebalance-plan --slot-stats reads: a megabyte or two
    an answer, so take an --interval of a minute or more.
    """
    persistence: Flag = False
    """Also ask INFO and CONFIG GET save each time, from which key-slots --info tells what a crash would lose."""
    access: AccessOptions = NO_OPTIONS
    debug: Flag = False
    """Show the trace of an error."""
