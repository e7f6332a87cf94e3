"""What ``incident`` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from slotscope.requests.options import Common


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Common):
    """Which replay to tell of."""

    snapshot: str = "current"
    """Name of the snapshot that bus-replay wrote."""
