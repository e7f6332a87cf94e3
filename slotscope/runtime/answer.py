"""`Answer`: the result of a query, independent of the engine."""

from __future__ import annotations

from typing import Any, NamedTuple


class Answer(NamedTuple):
    """Names of columns, and rows of values in their order."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
