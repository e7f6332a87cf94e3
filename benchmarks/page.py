"""The page of all figures: one section a benchmark, known by the command that measures it."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SECTION = re.compile(r"^(?=## )", re.MULTILINE)


def command(name: str) -> str:
    """Return what a reader types to measure a section again; every section says it."""
    return f"`python -m benchmarks {name}`"


def with_section(page: str, name: str, section: str, order: Sequence[str]) -> str:
    """Return *page* with *section* in the place of that of benchmark *name*, or where *order* puts it; all else stays."""
    head, *sections = _SECTION.split(page)
    at_by_name = {known: at for known in order for at, text in enumerate(sections) if command(known) in text}
    at = at_by_name.get(name)
    if at is not None:
        sections[at] = f"{section}\n\n"
    else:
        before = [at_by_name[known] for known in order[: order.index(name)] if known in at_by_name]
        sections.insert(max(before, default=-1) + 1, f"{section}\n\n")
    return "\n\n".join(part.strip("\n") for part in (head, *sections)) + "\n"
