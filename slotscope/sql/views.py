"""All views, in an order in which each may use those before it, and what is said of their columns."""

from __future__ import annotations

from typing import Final

from schemas.catalogue import TABLES
from schemas.table import Table
from slotscope.sql.history_views import HISTORY_VIEWS
from slotscope.sql.load_views import LOAD_VIEWS
from slotscope.sql.plan_views import PLAN_VIEWS
from slotscope.sql.view import View

VIEWS: Final[tuple[View, ...]] = (*LOAD_VIEWS, *PLAN_VIEWS, *HISTORY_VIEWS)


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


def _comments(table: Table) -> dict[str, str]:
    return {field.name: field.metadata["comment"] for field in table.schema.fields}
