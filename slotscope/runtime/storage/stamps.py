"""Whose are these rows?  What each row of a run is marked with."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from schemas.table import Table
from slotscope.runtime.storage.delta_files import arrow_schema

LASTING: Final = "+"
"""Behind the id of a run: rows that later runs of the snapshot keep; once more for each time that those of many runs were made those of one."""
Lasting: TypeAlias = tuple[str, int] | None
"""Which rows later runs of the snapshot keep: those whose column, a number, is not above a bound; None: none of them."""


class Stamp(NamedTuple):
    """The columns that say whose rows are: a run's, and those that last, by `Lasting`, in their own way."""

    table: Table
    name: str
    cluster: str | None
    run_id: str
    lasting: Lasting

    def on(self, rows: pa.Table) -> pa.Table:
        """*rows* with these columns, as the table has them."""
        run_ids = _constant(self.run_id, len(rows))
        if self.lasting is not None:
            column, bound = self.lasting
            lasts = pc.fill_null(pc.less_equal(rows.column(column), bound), False)
            run_ids = pc.if_else(lasts, f"{self.run_id}{LASTING}", run_ids)
        values = {self.table.named_by: _constant(self.name, len(rows)), "cluster": _constant(self.cluster, len(rows))}
        for name, value in {**values, "run_id": run_ids}.items():
            rows = (rows.drop_columns([name]) if name in rows.column_names else rows).append_column(name, value)
        return rows.select(self.table.columns).cast(arrow_schema(self.table))


def _constant(value: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.string()), count)
