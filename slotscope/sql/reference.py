"""The page `docs/tables.md`, generated from schemas and views: ``python -m slotscope.sql.reference``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from textwrap import fill
from typing import Final

from pyspark.sql.pandas.types import from_arrow_type

from schemas.catalogue import OF_ALL, TABLES, WRITTEN_BY, writers
from schemas.table import Table
from slotscope.runtime.answer import Answer
from slotscope.runtime.storage.delta_files import exists
from slotscope.sql.view import View
from slotscope.sql.views import VIEWS

_INTRODUCTION: Final = """\
# Tables and views

Made by `make docs` from `schemas/` and `slotscope/sql/`. The [cookbook](cookbook.md) has queries.

Delta tables lie at `ROOT/LAYER/NAME`: bronze holds raw records, silver facts derived from them,
gold answers. In SQL a table has its last name. A table is created with its first rows.

```python
import duckdb, polars
from deltalake import DeltaTable

loads = DeltaTable("ROOT/gold/node_load").to_pyarrow_dataset()
print(duckdb.sql("SELECT snapshot_id, sum(keys)::BIGINT AS keys FROM loads GROUP BY ALL ORDER BY ALL"))
print(polars.read_delta("ROOT/gold/node_load").group_by("snapshot_id").agg(polars.sum("keys")))
```

DuckDB with its `delta` extension: `FROM delta_scan('ROOT/gold/node_load')`. Spark:
`spark.read.format("delta").load("ROOT/gold/node_load")`.

**Any Delta reader sees whole snapshots.** A job replaces the rows of its snapshot (or plan) in one
commit a table. `follow` and continued replays add final rows and replace open ones. To pin several
tables to one run, join them on `run_id`. `silver/runs` is the audit of jobs and is written last. A
killed run stays `running` there until the next run of that snapshot, or
`slotscope tables maintain`.

Tables keep 30 days of history for time travel (`slotscope tables maintain --log-retention-days N`).
Gold tables have a change data feed (`readChangeFeed`); readers without it set `skipChangeCommits`.
Any number of jobs may write one root: delta-rs commits by conditional put. Tables with a row a key
or message are partitioned by `snapshot_id`.

Not listed below:

- Every table with snapshots starts with `snapshot_id` (plans: `plan_id`), `cluster` and `run_id`.
- `partial` marks rows of inputs that could not be read in full: sums are too small.
- Names of keys, prefixes and hash tags are bytes. `NAME_text` beside each is escaped text.
- Times are UTC. `NAME_ns` beside a timestamp `NAME` is nanoseconds since the epoch.

Names end in their unit: `_bytes`, `_ms`, `_ns`, `_s`, `_share` (0 to 1), `_over_mean` (a ratio).
"""
_IN_INTRODUCTION: Final = {"cluster", "partial", "run_id", "snapshot_id", "plan_id"}
_WIDTH: Final = 100


def as_markdown() -> str:
    """The page."""
    parts = [
        _INTRODUCTION,
        "## Views\n\n`slotscope.register_views(spark, root)` or `slotscope.connect(root)` creates them.\n"
        "A column without a comment is that of the first table.\n",
    ]
    parts += map(_view_section, VIEWS)
    for job, tables in WRITTEN_BY.items():
        own = [table for table in tables if writers(table)[0] == job]
        if own:
            parts += [f"## Written by {job}\n", *map(_table_section, own)]
    parts += ["## Written by every job\n", *map(_table_section, OF_ALL)]
    return "\n".join(parts)


def contents(root: str) -> Answer:
    """Return the views, and the tables of *root* with the jobs that write them."""
    rows = [(view.call, "view", view.about) for view in VIEWS]
    for table in TABLES:
        written = "" if exists(root, table) else f" Not there: {' or '.join(writers(table))} writes it."
        rows.append((table.sql_name, table.name.partition("/")[0], table.about + written))
    return Answer(("name", "layer", "what"), rows)


def _view_section(view: View) -> str:
    uses = ", ".join(f"`{name}`" for name in view.uses)
    call = f" Call it as `{view.name}({view.parameter[1]} '2026-01-01 00:00:00')`." if view.parameter else ""
    own = [f"`{name}`: {comment}" for name, comment in view.columns.items() if comment]
    inherited = ", ".join(f"`{name}`" for name, comment in view.columns.items() if not comment)
    items = [*own, inherited] if inherited else own
    return f"### {view.name}\n\n{_wrapped(f'{view.about} From {uses}.{call}')}\n\n{_listed(items)}"


def _table_section(table: Table) -> str:
    key = ", ".join(f"`{name}`" for name in table.key if name not in _IN_INTRODUCTION)
    others = writers(table)[1:]
    facts = [table.about, *([f"Key: {key}."] if key else []), *([f"Also by {', '.join(others)}."] if others else [])]
    names = set(table.schema.names)
    items = [
        f"`{field.name}` {from_arrow_type(field.type).simpleString()}: {field.metadata[b'comment'].decode()}"
        for field in table.schema
        if field.name not in _IN_INTRODUCTION
        and not any(field.name == f"{name}{end}" for end in ("_text", "_ns") for name in names)
    ]
    return f"### {table.name}\n\n{_wrapped(' '.join(facts))}\n\n{_listed(items)}"


def _listed(items: Iterable[str]) -> str:
    return "".join(f"{_wrapped(item.replace('<', '&lt;'), '- ')}\n" for item in items)


def _wrapped(text: str, mark: str = "") -> str:
    return fill(
        text,
        _WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
