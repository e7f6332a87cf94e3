"""What ``check-plan`` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from slotscope.requests.options import Flag


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which plan to check."""

    root: str
    """Folder of the tables."""
    plan: str = "latest"
    """Id of the plan, or the beginning of it."""
    debug: Flag = False
    """Show the trace of an error."""
