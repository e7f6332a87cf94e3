"""All views in order of dependency, and their column comments."""

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
"""Tables and views in a query in lower case."""


def column_comments(view: View) -> dict[str, str]:
    """Return the comment of each column of *view*; raises KeyError for a column without one."""
    known = {table.sql_name: table for table in TABLES}
    views = {other.name: other for other in VIEWS}
    inherited: dict[str, str] = {}
    for used in view.uses:
        comments = column_comments(views[used]) if used in views else _comments(known[used])
        inherited = comments | inherited
    return {name: comment or inherited[name] for name, comment in view.columns.items()}


def tables_named(query: str) -> list[Table]:
    """Return the tables that *query* reads, directly or by views."""
    names = set(READ.findall(query.lower()))
    for view in reversed(VIEWS):
        if view.name in names:
            names.update(view.uses)
    return [table for table in TABLES if table.sql_name in names]


def _comments(table: Table) -> dict[str, str]:
    return {field.name: field.metadata[b"comment"].decode() for field in table.schema}
