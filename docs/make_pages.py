"""Generate pages of the documentation from code; ``make docs`` runs it before it builds the site.

Generated pages are `tables.md`, `commands.md`, `errors.md`, `api.md`, `rules.md`, and the diagrams of `concepts.md`.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Any

from pyspark.sql.pandas.types import from_arrow_type

from cluster_core.lazy_names import read_stub
from cluster_core.rules import RULES, Rule, sentence
from cluster_core.sentinel.instance import TRANSITIONS
from jobs.main import program
from schemas.catalogue import OF_ALL, TABLES, writers
from schemas.caveats import Code
from schemas.table import Table
from slotscope.runtime import cli, failure
from slotscope.sql.views import VIEWS, View
from tests.test_layering import ORDER

DOCS = Path(__file__).parent
TABLES_INTRODUCTION = """\
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

Versions can be read for 6 hours (bronze, silver, `gold/findings`) or 30 days (other gold tables);
`slotscope tables maintain --log-retention-days N` changes it.
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
_IN_INTRODUCTION = {"cluster", "partial", "run_id", "snapshot_id", "plan_id"}
API_INTRODUCTION = """# Python interface

<!-- made by make docs -->
`import slotscope` is the interface for notebooks and jobs. The packages of `cluster_core` are pure
Python without IO: bytes, times and randomness go in, decisions and effects come out. A package
exports the names in its `__all__`; `help(name)` shows arguments, units and errors.

```python
import slotscope

slotscope.key_slot(b"{user:1}.cart")  # 10778
slotscope.register(spark)  # redis-rdb, redis-aof, cluster-bus as data sources
slotscope.connect("ROOT")  # tables and views by name, in DuckDB
```"""
ERRORS_INTRODUCTION = """# Errors and exit codes

<!-- made by make docs -->
An error is one line on standard error: `slotscope: PLACE: reason`. The place is a file with an
offset or line, an option, a table or a server. `--debug` adds the trace.

Strict mode stops at the first bad record. `--mode permissive` records it in `bronze/bad_records`
(`source`, `offset`, `reason`, `skipped_bytes`), marks dependent rows `partial` and continues.
A failed or killed job leaves the earlier rows of its tables.
"""
WARNINGS_INTRODUCTION = """## Warnings

Column `warnings` of tables and JSON: `severity` (`error`: figures are wrong, `warning`: they may be
wrong, `note`), `code`, `text`, `subject`.
"""
MESSAGES_INTRODUCTION = """## Messages

Variable parts are in capitals. The exit code is 2 unless stated.
"""
MESSAGE_KINDS = {
    **dict.fromkeys(
        ("InputError", "PlaceError", "MissingInputError", "DecodeError", "TruncatedError"), failure.BAD_INPUT
    ),
    **dict.fromkeys(("PlanError", "ConditionError", "UnrecordedError", "EncodeError", "SplitError"), failure.BAD_INPUT),
    **dict.fromkeys(("LayoutError", "TrialError", "ScenarioError"), failure.BAD_INPUT),
    "TryAgainError": failure.TRY_AGAIN,
}
"""Exit codes of the errors that end a command, by their class."""
MESSAGE_SECTIONS = {
    "Commands and options": ("jobs", "slotscope/plans", "slotscope/reports", "slotscope/sql"),
    "Roots, tables, Spark": ("slotscope/runtime",),
    "Live clusters": ("slotscope/servers", "slotscope/live", "slotscope/recording"),
    "Files": ("slotscope/sources",),
    "Jobs": ("slotscope/pipelines", "slotscope/transforms"),
    "Plans": ("cluster_core/rebalance", "cluster_core/load"),
    "Dumps, logs, captures": ("cluster_core/rdb", "cluster_core/aof", "cluster_core/formats", "cluster_core/wire"),
    "Key filters and simulations": ("cluster_core/kernels", "cluster_core/sim"),
}
DETAILED = "slotscope"
"""The package with full docstrings on the page; of others the page has the first sentence a name."""
WIDTH = 100
SHARED_FROM = 4
"""An option with the same text in so many commands is described once."""
OPTION = re.compile(r"^\* (`(--[\w-]+).*)$", re.MULTILINE)
FROM_SILENCE = ("R53", "R51", "R54", "R84", "R90", "R93")


def commands() -> str:
    """Every command with its options, from what ``--help`` shows."""
    app = program()
    made = app.generate_docs(output_format="markdown", recursive=True, heading_level=1)
    for former in cli.FORMER_NAMES:
        made = made.replace(f", {former} ", " ")
    made = re.sub(r"\n {2,}(?=\S)", " ", made)
    made = re.sub(r"## Table of Contents\n.*?\n(?=\*\*)", "", made, flags=re.DOTALL)
    head, *sections = re.split(r"^(?=## )", made.rstrip(), flags=re.MULTILINE)
    described_once = shared_options(sections)
    listed = "\n".join(_wrapped_item(text) for _, text in sorted(described_once.items()))
    sections = [_section(section, described_once) for section in sections]
    about = "Options with the same meaning in several commands; each command names those that it takes."
    parts = [head, f"## Shared options\n\n{about}\n\n{listed}\n\n", *sections]
    return f"<!-- made by make docs -->\n{''.join(parts).rstrip()}\n"


def shared_options(sections: list[str]) -> dict[str, str]:
    """The options that `SHARED_FROM` or more of *sections* describe, by name, each with its most frequent text."""
    texts = Counter((name, text) for section in sections for text, name in set(OPTION.findall(section)))
    return {name: text for (name, text), times in reversed(texts.most_common()) if times >= SHARED_FROM}


def _section(section: str, described_once: dict[str, str]) -> str:
    here = [name for text, name in OPTION.findall(section) if described_once.get(name) == text]
    own = OPTION.sub(lambda match: "" if described_once.get(match[2]) == match[1] else _wrapped_item(match[1]), section)
    own = re.sub(r"\*\*[^*\n]+\*\*:\n+(?=\*\*|\Z)", "", re.sub(r"\n{3,}", "\n\n", own).rstrip() + "\n")
    own = (
        own.replace("**Parameters**:", "Options:")
        .replace("**Common options**:", "")
        .replace("**Arguments**:", "Arguments:")
    )
    names = fill(f"Shared: {', '.join(f'`{name}`' for name in here)}.", WIDTH, break_on_hyphens=False) if here else ""
    own = (
        re.sub(r"\n{2,}(?=\* )", "\n", own)
        .replace("Options:\n", "Options:\n\n")
        .replace("Arguments:\n", "Arguments:\n\n")
    )
    return re.sub(r"\n{3,}", "\n\n", f"{own.rstrip()}\n\n{names}\n\n")


def _wrapped_item(text: str) -> str:
    return _filled(text, "* ")


def tables() -> str:
    """Tables and views, from schemas and SQL."""
    parts = [
        TABLES_INTRODUCTION,
        "## Views\n\n`slotscope.connect(root)` creates them.\nA column without a comment is that of the first table.\n",
    ]
    parts += map(_view_section, VIEWS)
    for command in dict.fromkeys(writers(table)[0] for table in TABLES if table not in OF_ALL):
        own = [table for table in TABLES if table not in OF_ALL and writers(table)[0] == command]
        parts += [f"## Written by {command}\n", *map(_table_section, own)]
    parts += ["## Written by every command\n", *map(_table_section, OF_ALL)]
    return "\n".join(parts)


def _view_section(view: View) -> str:
    uses = ", ".join(f"`{name}`" for name in view.uses)
    own = [f"`{name}`: {comment}" for name, comment in view.columns.items() if comment]
    inherited = ", ".join(f"`{name}`" for name, comment in view.columns.items() if not comment)
    items = [*own, inherited] if inherited else own
    return f"### {view.name}\n\n{_filled(f'{view.about} From {uses}.')}\n\n{_listed(items)}"


def _table_section(table: Table) -> str:
    key = ", ".join(f"`{name}`" for name in table.key if name not in _IN_INTRODUCTION)
    more = writers(table)[1:]
    facts = [table.about, *([f"Key: {key}."] if key else []), *([f"Also by {', '.join(more)}."] if more else [])]
    names = set(table.schema.names)
    items = [
        f"`{field.name}` {from_arrow_type(field.type).simpleString()}: {field.metadata[b'comment'].decode()}"
        for field in table.schema
        if field.name not in _IN_INTRODUCTION
        and not any(field.name == f"{name}{end}" for end in ("_text", "_ns") for name in names)
    ]
    return f"### {table.name}\n\n{_filled(' '.join(facts))}\n\n{_listed(items)}"


def _listed(items: Iterable[str]) -> str:
    return "".join(f"{_filled(item.replace('<', '&lt;'), '- ')}\n" for item in items)


def _filled(text: str, mark: str = "") -> str:
    marks = {"initial_indent": mark, "subsequent_indent": " " * len(mark)}
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False, **marks)


def api() -> str:
    """What the packages export, from their docstrings."""
    root = DOCS.parent
    doors = sorted(root.glob("slotscope/**/__init__.pyi")) + sorted(root.glob("cluster_core/**/__init__.pyi"))
    text = [API_INTRODUCTION]
    for door in doors:
        package = ".".join(door.parent.relative_to(root).parts)
        homes = sorted(read_stub(door.read_bytes()).items())
        text.append(f"## {package}")
        if package == DETAILED:
            text += [_entry(name, home) for name, home in homes]
        else:
            text.append("\n".join(_wrapped_item(f"`{name}`: {_first_sentence(name, home)}") for name, home in homes))
    return "\n\n".join(text) + "\n"


def _entry(name: str, home: str) -> str:
    value = getattr(import_module(home), name)
    return f"### {name}\n\n```python\n{_signature(name, value)}\n```\n\n{inspect.getdoc(value)}"


def _first_sentence(name: str, home: str) -> str:
    value = getattr(import_module(home), name)
    about = inspect.getdoc(value) if inspect.isclass(value) or inspect.isroutine(value) else None
    first = " ".join((about or "a constant").split("\n\n")[0].split())
    return re.split(r"(?<=[^.]{3})[.;](?= |$)", first)[0].replace("<", "&lt;") + f" (`{home.replace('.', '/')}`)"


def _signature(name: str, value: Any) -> str:
    try:
        plain = re.sub(
            r"<(?:function|class|bound method) '?([\w.]+)'?[^>]*>", r"\1", f"{name}{inspect.signature(value)}"
        )
        return re.sub(r"(: |-> )'([^']*)'", r"\1\2", plain)
    except (TypeError, ValueError):
        return f"{name}(…)"


def layers() -> str:
    """The packages and what they import."""
    return _mermaid(
        "flowchart LR", [f"{package} --> {other}" for package, imported in ORDER.items() for other in sorted(imported)]
    )


def verdict() -> str:
    """The rules that lead from silence to a new master, one after another."""
    boxes = [f'{rule}["{rule}: {_wrapped(sentence(rule))}"]' for rule in FROM_SILENCE]
    return _mermaid("flowchart TB", [*boxes, " --> ".join(FROM_SILENCE)])


def sentinel() -> str:
    """The states of a failover by Sentinel."""
    lines = []
    for (state, trigger), transition in TRANSITIONS.items():
        channels = ", ".join(event.channel for event in transition.announced)
        lines.append(f"{state.name} --> {transition.after.name}: {trigger.value}{f' ({channels})' if channels else ''}")
    return _mermaid("stateDiagram-v2", ["direction TB", *lines])


EXIT_CODES = {
    "OK": ("complete", "none"),
    "UNEXPECTED": ("unexpected failure, or a full disk", "retry; `--debug` shows the trace"),
    "BAD_INPUT": ("wrong option, unreadable input, refused root", "fix the named file or option"),
    "PARTIAL": ("complete, but some input was left out", "read the warnings and `bronze/bad_records`"),
    "NEW_PLAN": ("a plan is needed (`--if-needed`)", "read the plan, then apply it"),
    "PROMISE_BROKEN": ("an audit found a broken promise", "read the audit, plan again"),
    "PAUSED": ("an execution paused", "read the reason, then run the same command again"),
    "IMPOSSIBLE": ("limits of a plan contradict each other", "change a limit, capacity or placement"),
    "TRY_AGAIN": ("another run was first, or a store is unreachable", "run it again"),
    "INTERRUPTED": ("Ctrl-C or SIGTERM", "run it again"),
    "READER_GONE": ("the reader of the output closed it", "none"),
}
"""Meaning and action by the names of the codes in `slotscope.runtime.failure`."""


def messages() -> str:
    """The one-line errors that the code raises, by package, each with its exit code where that is not 2."""
    parts = []
    for title, folders in MESSAGE_SECTIONS.items():
        files = sorted(file for folder in folders for file in DOCS.parent.glob(f"{folder}/**/*.py"))
        texts = sorted({message for file in files for message in raised_messages(file.read_text(encoding="utf-8"))})
        codes = {failure.BAD_INPUT: ""}
        lines = [f"{text.replace('<', '&lt;')}{codes.get(code, f' (exit code {code})')}" for text, code in texts]
        parts += [f"### {title}\n", *map(_wrapped_item, lines), ""]
    return "\n".join(parts)


def raised_messages(source: str) -> Iterator[tuple[str, int]]:
    """Text and exit code of each error that *source* raises with a text of its own; variable parts are in capitals."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)):
            continue
        code = MESSAGE_KINDS.get(node.exc.func.id)
        text = " ".join(_message(node.exc.args[0]).split()) if node.exc.args else ""
        if code is not None and re.search(r"[a-z]{2,} ", text):
            yield text, code


def _message(node: ast.expr) -> str:
    """The text of *node*; a variable part is the name behind its last dot."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.JoinedStr():
            return "".join(map(_message, node.values))
        case ast.BinOp():
            return _message(node.left) + _message(node.right)
        case ast.FormattedValue():
            node = node.value
    while isinstance(node, ast.Call) and node.args and ast.unparse(node.func) != "len":
        node = node.args[0]
    if isinstance(node, ast.Call):
        return "N"
    last = next((part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)), None)
    return (last.attr if isinstance(last, ast.Attribute) else last.id if last else "…").strip("_").upper()


def warnings() -> str:
    """The codes of warnings, each with its meaning."""
    about = re.findall(r'^    [A-Z_]+ = "(.+)"\n    """(.+)"""$', inspect.getsource(Code), re.MULTILINE)
    assert [code for code, _ in about] == list(Code)
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| `{code}` | {meaning} |" for code, meaning in about), ""])


def errors() -> str:
    """The exit codes, the messages and the warnings."""
    codes = {name: code for name, code in vars(failure).items() if name in EXIT_CODES and isinstance(code, int)}
    assert codes.keys() == EXIT_CODES.keys()
    rows = [f"| {code} | {' | '.join(EXIT_CODES[name])} |" for name, code in codes.items()]
    table = ["| exit code | meaning | action |", "|---:|---|---|", *rows, ""]
    return "\n".join(
        [ERRORS_INTRODUCTION, *table, WARNINGS_INTRODUCTION, warnings(), MESSAGES_INTRODUCTION, messages()]
    )


def rules() -> str:
    """The rules of the servers."""
    parts = [
        "# Rules of the servers\n\nMade from `cluster_core/rules.py`. T is cluster-node-timeout. In brackets: the server function that\n"
        "decides, and the first version.\n"
    ]
    for title, letter in (("The cluster bus", "R"), ("Replication", "P"), ("Sentinel", "S")):
        parts.append(f"\n## {title}\n\n")
        parts += (f"{_rule(rule)}\n" for rule in RULES.values() if rule.id.startswith(letter))
    return "".join(parts)


def _rule(rule: Rule) -> str:
    place = ", ".join(part for part in (f"`{rule.decided_in}`" if rule.decided_in else "", rule.versions) if part)
    text = f"**{rule.id}** {rule.text}{f' [{place}]' if place else ''}"
    return fill(text, 100, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


DIAGRAMS: dict[str, Callable[[], str]] = {"layers": layers, "verdict": verdict, "sentinel": sentinel}


def concepts(page: str) -> str:
    """*page* with the diagrams of the code between their marks."""
    for name, draw in DIAGRAMS.items():
        pattern = rf"<!-- made: {name} -->.*?(?=\n## |\Z)"
        made = f"<!-- made: {name} -->\n\n{draw()}\n"
        page = re.sub(pattern, lambda _, made=made: made, page, flags=re.DOTALL)
    return page


PAGES: dict[str, Callable[[], str]] = {
    "tables.md": tables,
    "rules.md": rules,
    "commands.md": commands,
    "api.md": api,
    "errors.md": errors,
    "concepts.md": lambda: concepts((DOCS / "concepts.md").read_text(encoding="utf-8")),
}
"""How each page is made, by its name."""


def _mermaid(kind: str, lines: list[str]) -> str:
    return "\n".join(["```mermaid", kind, *(f"    {line}" for line in lines), "```"])


def _wrapped(text: str) -> str:
    return re.sub(r"(.{30,}?) ", r"\1<br>", text).replace('"', "'")


if __name__ == "__main__":
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
        sys.stdout.write(f"docs/{name}\n")
