"""All views, in an order in which each may use those before it, and what is said of their columns."""

from __future__ import annotations

import re
from typing import Final

from schemas.catalogue import TABLES
from schemas.table import Table
from slotscope.sql.history_views import HISTORY_VIEWS
from slotscope.sql.load_views import LOAD_VIEWS
from slotscope.sql.plan_views import PLAN_VIEWS
from slotscope.sql.view import View

VIEWS: Final[tuple[View, ...]] = (*LOAD_VIEWS, *PLAN_VIEWS, *HISTORY_VIEWS)


READ: Final = re.compile(r"\b(?:from|join)\s+(\w+)")
"""What a query in lower case reads from."""


def sql_name(table: Table) -> str:
    """What queries call *table*: its name without the layer."""
    return table.name.rpartition("/")[2]


def column_comments(view: View) -> dict[str, str]:
    """What each column of *view* holds; KeyError where neither it nor what it uses says that."""
    known = {sql_name(table): table for table in TABLES}
    views = {other.name: other for other in VIEWS}
    inherited: dict[str, str] = {}
    for used in view.uses:
        told = column_comments(views[used]) if used in views else _comments(known[used])
        inherited = told | inherited
    return {name: words or inherited[name] for name, words in view.columns.items()}


def tables_named(query: str) -> list[Table]:
    """Tables that *query* reads, and those that the views in it are made of."""
    found = set(READ.findall(query.lower()))
    for view in reversed(VIEWS):
        if view.name in found:
            found.update(view.uses)
    return [table for table in TABLES if sql_name(table) in found]


def _comments(table: Table) -> dict[str, str]:
    return {field.name: field.metadata[b"comment"].decode() for field in table.schema}
