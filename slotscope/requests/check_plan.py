"""What ``check-plan`` is asked."""

from __future__ import annotations

from slotscope.requests.options import PlanOptions, options


@options
class Request(PlanOptions):
    """Which plan to check."""
