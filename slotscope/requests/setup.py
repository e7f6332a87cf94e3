"""Options of `slotscope setup`."""

from __future__ import annotations

from typing import Literal

from slotscope.requests.options import Plain, options


@options
class Request(Plain):
    """Options of `slotscope setup`."""

    store: Literal["s3"] | None = None
    """Also fetch the jars that Spark needs for tables in S3. Default: the first command that has its root there does."""
