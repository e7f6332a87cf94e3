"""What ``execute-plan`` is asked; annotations are values, as in `options`, since another request inherits some of it."""

from dataclasses import dataclass
from typing import Literal

from slotscope.requests.options import NO_OPTIONS, AccessOptions, Flag, PlanOptions, options


@dataclass(frozen=True, kw_only=True)
class MoveOptions:
    """Whether and how slots are moved."""

    apply: Flag = False
    """Do it."""
    rollback: Flag = False
    """Bring everything back that the plan has moved."""
    revive: Flag = False
    """Make masters that the plan emptied, and that became replicas, masters again: CLUSTER RESET SOFT, which drops their copy of the
    data, and CLUSTER MEET.
    """
    path: Literal["auto", "setslot", "migrateslots", "migration-import"] = "auto"
    """setslot (any version, key by key), migrateslots (Valkey 9), migration-import (Redis 8.4), or auto: the fastest that all know."""
    pause_after: int = 0
    """Pause after this batch."""
    pause_between: float = 0.0
    """Seconds to wait between batches, and key by key between groups of slots."""
    bytes_per_s_max: float | None = None
    """Bytes that move in a second at most, by the plan's figures. Default: no limit."""
    latency_ms_max: float | None = None
    """Milliseconds within which masters are to answer 99 of 100 PINGs of ours while slots move: where they do not, less moves at a time,
    and with longer rests. Default: not measured.
    """
    maintenance_window: str | None = None
    """Hours in which slots may move, every day: 01:00-05:00.  When it closes the run pauses; the same command goes on in the next."""
    time_zone: str = "UTC"
    """Time zone of the window: Europe/Berlin, +01:00."""
    patience: float = 60.0
    """Seconds that any wait may take before the run pauses: for an answer, a node that is away, or the news of an owner."""
    job_timeout: float = 3600.0
    """Seconds after which a migration of the servers is cancelled."""
    commands: str | None = None
    """File for the commands of all three dialects, with those that stop them."""
    commands_json: str | None = None
    """File for the same as JSON."""
    password_file: str | None = None
    """File that holds the password, instead of the variable."""


@options
class Request(PlanOptions, MoveOptions):
    """Which plan to carry out, where and how."""

    cluster: str
    """HOST:PORT of one node of the cluster; the others are found from its answer.  Only masters that the plan names are spoken to."""
    access: AccessOptions = NO_OPTIONS
