"""What ``audit-plan`` is asked."""

from __future__ import annotations

from slotscope.requests.options import NO_OPTIONS, AccessOptions, PlanOptions, options


@options
class Request(PlanOptions):
    """Which plan to audit, and against what."""

    cluster: str | None = None
    """HOST:PORT of one node of the live cluster; the others are found from its answer."""
    snapshot: str | None = None
    """Name of a snapshot that key-slots made of dumps after the moves, instead of the live cluster."""
    sample: int = 20
    """Keys a slot whose size is asked for; 0 takes the memory that INFO tells."""
    window: float = 0.0
    """Seconds over which to measure the counters of SLOT-STATS; 0 leaves them out."""
    access: AccessOptions = NO_OPTIONS
