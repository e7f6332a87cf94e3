"""Reports as JSON: the form for programs."""

from __future__ import annotations

import io
import json
from base64 import b64decode

import pytest

from schemas.gold import NODE_LOAD
from slotscope.reports.records import Row, json_text, print_records, summaries
from slotscope.runtime.storage.runs import running


@pytest.mark.parametrize("key", [b"user:1", b"\x1b[31m\xff\x00", b"", "\u202eключ".encode(), b"k" * 5000])
def test_a_key_has_its_shown_form_and_its_bytes(key):
    line = json_text({"key": key})

    assert b64decode(json.loads(line)["key_base64"]) == key
    assert json_text(Row(key=key)) == line
    assert line.isascii()
    assert line.isprintable()


def test_pairs_of_names_and_infinity_are_valid_json():
    assert json.loads(json_text({("a", "b"): float("inf"), 3: {b"\xff"}})) == {"a b": None, "3": ["\\xff"]}


def test_json_of_a_job_has_its_runs(tmp_path):
    with running(str(tmp_path), "key-slots", "a", cluster="c", inputs={"x.rdb": 7, "y.rdb": 3}) as run:
        run.append(NODE_LOAD, [{"node_id": "n", "slots": 1, "keys": 1}])
        run.check("keys", {"read": 1, NODE_LOAD.name: 1})
    with pytest.raises(OSError, match="no"), running(str(tmp_path), "key-slots", "b"):
        raise OSError("no")

    (record,) = json.loads(json_text(summaries(str(tmp_path), ["a"])))

    assert (record["job"], record["snapshot_id"], record["cluster"], record["run_id"]) == (
        "key-slots",
        "a",
        "c",
        run.run_id,
    )
    assert (record["input_files"], record["input_bytes"], record["rows"]) == (2, 10, {NODE_LOAD.name: 1})
    assert [check["value"] for check in record["checks"]] == [1, 1]
    assert record["seconds"] >= 0
    assert summaries(str(tmp_path), ["b"]) == summaries(str(tmp_path / "none"), ["a"]) == []


def test_text_or_records_are_printed_never_both():
    """Lines are not even made where JSON is asked for."""
    text, records = io.StringIO(), io.StringIO()
    print_records([1], lambda: ["one"], as_json=False, stream=text)
    print_records([1], lambda: pytest.fail("not asked for"), as_json=True, stream=records)

    assert (text.getvalue(), records.getvalue()) == ("one\n", "[1]\n")
