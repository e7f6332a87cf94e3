"""Declaration of a view: SQL that Spark and DuckDB both run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """A *query* over tables and views by their last names, with one sentence *about* it and its *columns*, in order.

    A column maps to its comment; an empty comment is inherited from the first of *uses* with that column.  With
    *parameter* (name, SQL type) it is a function: ``SELECT * FROM node_views_at(TIMESTAMP '2026-01-01 00:00:00')``.
    """

    name: str
    about: str
    uses: tuple[str, ...]
    columns: dict[str, str]
    query: str
    parameter: tuple[str, str] | None = None

    @property
    def call(self) -> str:
        """Name in a query, with its parameter."""
        return f"{self.name}({self.parameter[0]})" if self.parameter else self.name
