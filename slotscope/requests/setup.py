"""What ``setup`` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from slotscope.requests.options import Flag


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Where the Delta jars come from."""

    jars: str | None = None
    """Folder that has them already, for a machine without network. Default: the public Maven repository, or what SLOTSCOPE_IVY_SETTINGS says."""
    ivy_settings: str | None = None
    """Ivy settings file of a mirror."""
    debug: Flag = False
    """Show the trace of an error."""
