"""Options of the Spark data sources: known names, and one of a few words; what is neither is said with the path."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cluster_core.errors import DecodeError


def choice(options: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Return option *name*, the first of *allowed* when it is not given; raises DecodeError for another word."""
    value = str(options.get(name, allowed[0])).lower()
    if value not in allowed:
        raise DecodeError(
            f"option {name} is {value!r}, not {' or '.join(allowed)}", offset=0, source=options.get("path", "")
        )
    return value


def refuse_unknown(options: Mapping[str, str], known: Collection[str], source: str) -> None:
    """Raise DecodeError for an option of the data source *source* that is not *known*."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise DecodeError(f"no option {unknown[0]!r} of {source}", offset=0, source=options.get("path", ""))
