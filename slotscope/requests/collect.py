"""What ``collect`` is asked."""

from __future__ import annotations

from dataclasses import field

from slotscope.requests.options import NO_OPTIONS, AccessOptions, Flag, options


@options
class Request:
    """Whom to ask, how often, and what."""

    address: str = field(kw_only=False)
    """HOST:PORT of one node; the others are found from its answer."""
    out: str
    """File of JSON lines, which is added to."""
    interval: float = 1.0
    """Seconds between two questions to a node; a node that does not answer is asked less and less often."""
    duration: float | None = None
    """Seconds after which to end. Default: until Ctrl-C."""
    slot_stats: Flag = False
    """Also ask CLUSTER SLOT-STATS (Valkey 8, Redis 8.2 and newer), which rebalance-plan --slot-stats reads: a megabyte or two
    an answer, so take an --interval of a minute or more.
    """
    persistence: Flag = False
    """Also ask INFO and CONFIG GET save, from which key-slots --info tells what a crash would lose."""
    access: AccessOptions = NO_OPTIONS
    debug: Flag = False
    """Show the trace of an error."""
