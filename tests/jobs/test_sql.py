"""`slotscope sql`: queries and their output."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal

from rich.text import Text

from jobs.main import program
from schemas.silver import SNAPSHOTS
from slotscope.reports.answer import cell_text, deliver_answer
from slotscope.runtime import cli
from slotscope.sql.duck import contents
from tests.benches.program import without_progress
from tests.builders.stored_rows import store_rows


def ask(capsys, *arguments: str) -> tuple[int, str, str]:
    """The exit code, the output and the error output."""
    code = cli.run(program(), ["sql", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def snapshot(root) -> str:
    """A root with one finished snapshot, of an evil name."""
    row = {"snapshot_id": "night\x1b[31m", "keys": 12, "bad_records": 0, "warnings": []}
    store_rows(str(root), SNAPSHOTS, [row])
    return str(root)


def test_a_query_prints_a_table_that_no_terminal_obeys(tmp_path, capsys) -> None:
    code, out, err = ask(capsys, "SELECT snapshot_id, keys FROM snapshots", "--root", snapshot(tmp_path))

    assert (code, err) == (0, "")
    assert out.split() == ["snapshot_id", "keys", "night\\x1b[31m", "12"]


def test_json_is_a_line_for_each_row(tmp_path, capsys) -> None:
    query = "SELECT snapshot_id, '\\x00a'::BLOB AS key, {'a': [1]} AS more, 1.5::DECIMAL(3,1) AS x FROM snapshots"
    _, out, _ = ask(capsys, query, "--root", snapshot(tmp_path), "--json")

    assert [json.loads(line) for line in out.splitlines()] == [
        {"snapshot_id": "night\x1b[31m", "key": "\\x00a", "key_base64": "AGE=", "more": {"a": [1]}, "x": 1.5}
    ]
    assert "\x1b" not in out


def test_without_a_query_it_lists_tables_and_the_writers_of_missing_ones(tmp_path, capsys) -> None:
    _, out, _ = ask(capsys, "--root", snapshot(tmp_path), "--json")
    listed = {row["name"]: row for row in map(json.loads, out.splitlines())}

    assert listed["node_load_now"]["layer"] == "view"
    assert listed["snapshots"]["content"] == SNAPSHOTS.about
    assert listed["plan_audits"]["content"].endswith("Not written yet: run plan audit.")


def test_the_list_fits_a_terminal_of_eighty_columns(tmp_path, monkeypatch) -> None:
    """What is wider as a table is shown row by row."""
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()

    deliver_answer(contents(snapshot(tmp_path)), stream=terminal, as_json=False)

    lines = [Text.from_ansi(line) for line in terminal.getvalue().splitlines()]
    assert any("node_load_now" in line.plain for line in lines)
    assert max(line.cell_len for line in lines) <= 80


class Terminal(io.StringIO):
    """A stream that a person reads."""

    def isatty(self) -> bool:
        return True


def test_an_empty_answer_names_a_missing_table(tmp_path, capsys) -> None:
    """No outage is known is not: no outage was."""
    code, out, err = ask(capsys, "SELECT incident FROM outages", "--root", snapshot(tmp_path))

    assert (code, out.split()) == (0, ["incident"])
    assert (
        err
        == "note: gold/incidents does not exist and counts as empty: history or follow or lab sentinel-replay writes it\n"
    )


def test_a_wrong_query_is_one_line_and_bad_input(tmp_path, capsys) -> None:
    code, out, err = ask(capsys, "SELECT keyz FROM snapshots", "--root", snapshot(tmp_path))

    assert (code, out, len(without_progress(err))) == (2, "", 1)
    assert "keyz" in err


def test_values_are_shown_as_text() -> None:
    moment = datetime(2026, 11, 21, 16, 6, 29, tzinfo=UTC)
    texts = [cell_text(value) for value in (None, True, b"\xff", moment, Decimal(5), {"a": 1}, "x\n")]

    assert texts == ["—", "true", "\\xff", "2026-11-21 16:06:29+00:00", "5", '{"a": 1}', "x\\x0a"]
