"""`View`: a question that people ask of the tables, as SQL that Spark and DuckDB both read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """*query* over tables and views by their last names; *about* is its one sentence, *columns* are what it answers, in their order.

    A column says in words what it holds; where it says nothing, it is the column of that name in the first of *uses*.  With *parameter*,
    a name and a type of SQL, it is a function: ``SELECT * FROM node_views_at(TIMESTAMP '2026-01-01 00:00:00')``.
    """

    name: str
    about: str
    uses: tuple[str, ...]
    columns: dict[str, str]
    query: str
    parameter: tuple[str, str] | None = None

    @property
    def call(self) -> str:
        """How a query names it."""
        return f"{self.name}({self.parameter[0]})" if self.parameter else self.name
