"""`docs/tables.md`: every table and view with its columns, made from what the schemas and views say; `python -m slotscope.sql.reference`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from schemas.catalogue import OF_ALL, TABLES, WRITTEN_BY, writers
from schemas.table import Table
from slotscope.runtime.answer import Answer
from slotscope.runtime.spark.spark_schema import spark_type
from slotscope.runtime.storage.delta_files import exists
from slotscope.sql.view import View
from slotscope.sql.views import VIEWS, column_comments, sql_name

_INTRODUCTION: Final = """\
# Tables and views

Made by `make docs` from `schemas/` and `slotscope/sql/`. [cookbook.md](cookbook.md) shows how to ask them.

Tables are Delta tables at `ROOT/LAYER/NAME`: bronze is what was read, silver what follows from it, gold what answers a question. In SQL a
table goes by its last name; a table that never had rows is not there.

**Any Delta reader can trust a table.** A job replaces the rows of its snapshot (or plan) in one commit a table: at every version of every
table the rows of one `snapshot_id` are those of one complete run. While a cluster is followed, or a replay is continued, a commit adds final
rows and replaces open ones. To pin several tables to one run, join them on `run_id`. `silver/runs` is written last: an audit of jobs, versions,
inputs, rows and checks; a run that was killed stays `running` there, and the next run of that snapshot, or `slotscope maintain`, ends it.

```sql
-- DuckDB; in Spark: spark.read.format("delta").load("ROOT/gold/node_load"), in polars: polars.read_delta(...)
SELECT snapshot_id, sum(keys) AS keys FROM delta_scan('ROOT/gold/node_load') GROUP BY ALL
```

Tables keep 30 days of history (`slotscope maintain --log-retention-days N`; `DESCRIBE HISTORY`, time travel as far as replaced files are
still there, `--retention-hours`). Gold tables have a change data feed: a downstream `spark.readStream.format("delta")` reads it with
`.option("readChangeFeed", "true")`; without the feed, `.option("skipChangeCommits", "true")` survives rewrites and leaves them out. delta-rs
makes all commits, by conditional put on object stores, so any number of jobs may write to one root. Tables with a row a key or message are
partitioned by `snapshot_id`; the files of others hold neighbouring snapshots, which readers skip by statistics.

Times are UTC;
columns with `_ns` have the same time in nanoseconds. Names of keys, prefixes and hash tags are bytes; the column behind each, with
`_text`, is the same as text, with what is no text escaped.
"""
_UNITS: Final = (
    ("_bytes", "bytes"), ("_ms", "ms"), ("_ns", "ns"), ("_s", "s"), ("_seconds", "s"), ("_share", "0 to 1"), ("_over_mean", "×"), ("_grown", ""),
)  # fmt: skip
_WHOLE_NAMES: Final = {"bytes": "bytes", "seconds": "s", "share": "0 to 1", "gap": "ratio", "ratio": "×"}


def unit(column: str) -> str:
    """The unit that the name of a column says, empty if it says none."""
    return _WHOLE_NAMES.get(column) or next((words for end, words in _UNITS if column.endswith(end)), "")


def as_markdown() -> str:
    """The page."""
    parts = [
        _INTRODUCTION,
        "## Views\n\nTemporary: `slotscope.register_views(spark, root)` or `slotscope.connect(root)` makes them.\n",
    ]
    parts += map(_view_section, VIEWS)
    for job, tables in WRITTEN_BY.items():
        own = [table for table in tables if writers(table)[0] == job]
        if own:
            parts += [f"## Written by {job}\n", *map(_table_section, own)]
    parts += ["## Written by every job\n", *map(_table_section, OF_ALL)]
    return "\n".join(parts)


def contents(root: str) -> Answer:
    """What can be asked below *root*: views, and tables with the jobs that write them."""
    rows = [(view.call, "view", view.about) for view in VIEWS]
    for table in TABLES:
        written = "" if exists(root, table) else f" Not there: {' or '.join(writers(table))} writes it."
        rows.append((sql_name(table), table.name.partition("/")[0], table.about + written))
    return Answer(("name", "layer", "what"), rows)


def _view_section(view: View) -> str:
    rows = ((name, unit(name), words) for name, words in column_comments(view).items())
    uses = ", ".join(f"`{name}`" for name in view.uses)
    given = (
        f" A function: `SELECT * FROM {view.name}({view.parameter[1]} '2026-01-01 00:00:00')`."
        if view.parameter
        else ""
    )
    return f"### {view.name}\n\n{view.about}{given} Made of {uses}.\n\n{_lines(('column', 'unit', 'what'), rows)}"


def _table_section(table: Table) -> str:
    others = writers(table)[1:]
    facts = [f"One row: {', '.join(f'`{name}`' for name in table.key)}."]
    if others:
        facts.append(f"Also written by {', '.join(others)}.")
    rows = _lines(("column", "type", "unit", "what"), map(_column, table.schema))
    return f"### {table.name}\n\n{table.about} {' '.join(facts)}\n\n{rows}"


def _column(field: pa.Field) -> tuple[str, ...]:
    kind = spark_type(field.type).simpleString() + ("" if field.nullable else ", not null")
    return field.name, kind, unit(field.name), field.metadata[b"comment"].decode()


def _lines(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    def cells() -> Iterator[tuple[str, ...]]:
        yield heads
        yield ("---",) * len(heads)
        for name, *more in rows:
            yield f"`{name}`", *(words.replace("|", "\\|").replace("<", "&lt;") for words in more)

    return "".join(f"| {' | '.join(line)} |\n" for line in cells())


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
