"""Options of the Spark data sources: one of a few words, said with the path when it is none of them."""

from __future__ import annotations

from collections.abc import Mapping

from cluster_core.errors import DecodeError


def choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Return option *name*, the first of *allowed* when it is not given; raises DecodeError for another word."""
    value = str(options.get(name, allowed[0])).lower()
    if value not in allowed:
        raise DecodeError(
            f"option {name} is {value!r}, not {' or '.join(allowed)}", offset=0, source=options.get("path", "")
        )
    return value
