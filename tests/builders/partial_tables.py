"""Partial sums as tasks return them, as Arrow tables written down in a test, and what a test says of a table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from schemas.interim import PARTIAL


def partial_table(*rows: dict[str, Any]) -> pa.Table:
    """Partial sums; what a row does not say is null, its source ``a.rdb`` and its part 0."""
    return pa.Table.from_pylist([{"source": "a.rdb", "part": 0, **row} for row in rows], PARTIAL)


def assert_rows(found: pa.Table, columns: str, *rows: tuple[Any, ...]) -> None:
    """Assert that the *columns* (names with commas between them) of *found* hold exactly *rows*, in whatever order."""
    names = columns.split(", ")
    assert Counter(tuple(row[name] for name in names) for row in found.select(names).to_pylist()) == Counter(rows)
