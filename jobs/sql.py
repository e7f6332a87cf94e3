"""Query tables and views in SQL with DuckDB."""

from __future__ import annotations

import sys

from slotscope.options import TableOptions as Request
from slotscope.options import Text
from slotscope.runtime import cli


def command(query: Text = "", *, request: Request = Request()) -> None:
    """Query tables and views in SQL with DuckDB, without a JVM; without a query, list them.

    Parameters
    ----------
    query
        SQL query over the tables and views. Default: a list of them
    """
    from schemas.catalogue import writers
    from slotscope.reports.answer import deliver_answer
    from slotscope.sql.duck import ask, connect, contents, find_unwritten

    answer = ask(connect(request.root), query) if query else contents(request.root)
    for table in find_unwritten(request.root, query):
        sys.stderr.write(
            f"note: {table.name} does not exist and counts as empty: {' or '.join(writers(table))} writes it\n"
        )
    deliver_answer(answer, stream=sys.stdout, as_json=request.json)


if __name__ == "__main__":
    cli.main(command)
