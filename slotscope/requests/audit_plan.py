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
    seconds: float = 60.0
    """Time for measuring memory, at most; all keys are measured where that is enough, else a sample; 0 takes the memory that INFO tells."""
    rate: float | None = None
    """Commands a second to a node, at most, while memory is measured. Default: as many as keep a server busy half of the time."""
    sample: int = 20
    """Keys a slot whose DUMP is asked for, where a plan counts serialized bytes; 0 leaves them out."""
    window: float = 0.0
    """Seconds over which to measure the counters of SLOT-STATS; 0 leaves them out."""
    access: AccessOptions = NO_OPTIONS
