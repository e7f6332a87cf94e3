"""What ``setup`` is asked."""

from __future__ import annotations

from typing import Literal

from slotscope.requests.options import Plain, options


@options
class Request(Plain):
    """Where the Delta jars come from."""

    jars: str | None = None
    """Folder that has them already, for a machine without network. Default: the public Maven repository, or what SLOTSCOPE_IVY_SETTINGS says."""
    ivy_settings: str | None = None
    """Ivy settings file of a mirror."""
    store: Literal["s3"] | None = None
    """Also bring what Spark needs for tables in an object store; without it the first command that has its root there does."""
