"""What ``demo`` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from slotscope.requests.options import Flag


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Where the tables and pages of the demonstration go."""

    root: str = "slotscope-demo"
    """Folder of the tables and pages."""
    debug: Flag = False
    """Show the trace of an error, and Spark's own messages."""
