"""Every name of the product is used: by the product, its templates, its tests or its benchmarks."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from vulture import Vulture

ROOT = Path(__file__).parent.parent
PRODUCT = ("cluster_core", "schemas", "slotscope", "jobs")
USERS = ("tests", "benchmarks")
CONFIDENCE_MIN = 60
USED_ELSEWHERE = {
    "typing_context": "numba hands it to what builds an intrinsic",
    "load_overload": "numba asks its cache by this name",
    "save_overload": "numba asks its cache by this name",
    "_get_module_for_linking": "numba asks compiled code for its bitcode by this name",
    "get_cache_path": "numba asks where code is kept by this name",
    "external_attr": "zipfile reads it of an entry",
    "seekable": "io asks a file for it",
    "LOG_MISSING": "gaps.jsonl of older recorders has its value",
    "LOG_LOST": "gaps.jsonl of older recorders has its value",
    "snapshots_command": "jobs.main names it as text",
    "forget_command": "jobs.main names it as text",
    "maintain_command": "jobs.main names it as text",
    "migrate_command": "jobs.main names it as text",
    "listpack_integer_bytes": "rdb.shapes compiles it by this name",
    "listpack_string_bytes": "rdb.shapes compiles it by this name",
    "ziplist_entry_payload": "rdb.shapes compiles it by this name",
    "intset_width": "rdb.shapes compiles it by this name",
    "stated_count": "rdb.walk_packed compiles it by this name",
    "offset_gap_bytes": "templates and columns name it as text",
    "p99": "a column of quantiles names it as text",
}
"""Names that are used where no reader of Python can see it, and by whom."""
CELLS = {
    "INTEGERS_HIGH", "SET_HIGH",
}  # fmt: skip
"""Cells of a kernel's state and numbers of its phases that only keep their place in a row of names."""
TABLES = ("grammar.py", "opcodes.py", "kinds.py", "rows.py", "table_rows.py", "beliefs.py", "interim.py")
"""Modules that name all there is, kinds and columns of rows, whether a reader asks for it or not."""
FACTS = ("knows_", "missed_")
"""Facts of a unit, which are asked for by the noun that they are about."""


@cache
def unused() -> list[tuple[str, str]]:
    """Names that nothing seems to use, and their places; imports are ruff's."""
    finder = Vulture()
    finder.scavenge([str(ROOT / name) for name in (*PRODUCT, *USERS)])
    return [
        (item.name, f"{item.filename.relative_to(ROOT)}:{item.first_lineno}")
        for item in finder.get_unused_code(min_confidence=CONFIDENCE_MIN)
        if item.filename.relative_to(ROOT).parts[0] in PRODUCT
        if item.typ != "import" and item.filename.name not in TABLES and not item.name.startswith(FACTS)
    ]


@cache
def template_names() -> frozenset[str]:
    """Every word of the templates of reports."""
    paths = sorted((ROOT / "slotscope" / "reports" / "templates").iterdir())
    return frozenset(re.findall(r"\w+", "\n".join(path.read_text() for path in paths)))


@pytest.mark.long
def test_no_name_of_the_product_is_dead() -> None:
    """A name that only a template or another library reads is listed above, with its reader."""
    dead = [f"{place} {name}" for name, place in unused() if name not in template_names() | CELLS | set(USED_ELSEWHERE)]

    assert dead == []


@pytest.mark.long
def test_names_with_users_are_not_listed() -> None:
    """The list stays true."""
    assert (CELLS | set(USED_ELSEWHERE)) - {name for name, _ in unused()} == set()
