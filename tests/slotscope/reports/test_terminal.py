"""The summary on a terminal: complete in 80 columns, plain when piped, harmless whatever keys are called."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from slotscope.reports.keyspace.report import totals
from slotscope.runtime import text
from tests.benches.reports import terminal_of
from tests.builders.reports_builder import changed, empty_report, keyspace_report


def test_it_shows_totals_nodes_the_heaviest_slots_and_the_page() -> None:
    report = keyspace_report()
    output = terminal_of(report, html_path="out/report.html")

    assert "snapshot 2026-09-21 · taken 2026-09-21 14:13:20 UTC" in output
    assert f"{text.count(report.keys)} keys · {text.size(totals(report).serialized_bytes)} serialized" in output
    for node in report.nodes:
        row = next(line for line in output.splitlines() if f"  {node.address}  " in line)
        assert row.split()[2:4] == [text.count(node.slots), text.count(node.keys)]
        assert text.size(node.serialized_bytes) in row
    assert re.search(r"max / mean +1\.00× +1\.42× +1\.15×", output)
    assert re.search(r"14290 +\w{8} +14 +14\.6 MB +11 % +key big:list: 14\.2 MB, 97 %", output)
    assert "{user1}: 9,876 keys, 80 %" in output
    assert "cache:page:" in output
    assert "never 69 %" in output
    assert output.rstrip().endswith("out/report.html")


def test_warnings_come_first_and_the_gravest_of_them_before_the_rest() -> None:
    """Nobody reads figures first and learns afterwards that they are wrong."""
    shown = terminal_of(keyspace_report())

    assert "1 error, 1 warning, 1 note" in shown
    assert shown.index("node-2.rdb: offset 904211") < shown.index("node-1.rdb holds 12 keys") < shown.index("Masters")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(
    "key", [b"k" * 500, "ключ:с:очень:длинным:именем:".encode() * 20, "長い鍵".encode() * 40, b"\x1b[31m" * 60]
)
def test_figures_stay_whole_beside_long_names_and_ids_that_begin_alike(key: bytes, encoding: str) -> None:
    """At 80 columns names lose their middle, never a slot, a count, a size or a share its digits."""
    report = keyspace_report()
    ids = [f"{number:040d}" for number in range(len(report.nodes))]
    heaviest = max(range(len(report.slots)), key=lambda slot: report.slots[slot].serialized_bytes or 0)
    slots = [replace(slot, top_key=key) if slot.slot == heaviest else slot for slot in report.slots]
    nodes = [
        changed(node, node_id=name, address="fd00:0:0:1::17:6379") for node, name in zip(report.nodes, ids, strict=True)
    ]
    report = replace(
        report, nodes=nodes, slots=slots, big_keys=[changed(big_key, key=key) for big_key in report.big_keys],
        prefixes=[changed(prefix, name=key) for prefix in report.prefixes],
    )  # fmt: skip

    lines = terminal_of(report, encoding=encoding).splitlines()

    assert max(map(len, lines)) <= 80
    slot = slots[heaviest]
    row = next(line.split() for line in lines if line.split()[:1] == [str(heaviest)])
    assert row[2:5] == [text.count(slot.keys), *text.size(slot.serialized_bytes).split()]
    assert re.search(r": [\d.]+ MB, \d+ %$", " ".join(row))
    for key in report.big_keys[:6]:
        assert any(
            line.endswith(str(key.slot)) and f"{text.count(key.elements)}  {text.size(key.serialized_bytes):>7}" in re.sub(" +", "  ", line).replace("  B", " B").replace("  kB", " kB").replace("  MB", " MB")
            for line in lines
        )  # fmt: skip
    for node, name in zip(nodes, ids, strict=True):
        assert any(
            name[-6:] in line and text.count(node.keys) in line and text.size(node.serialized_bytes) in line
            for line in lines
        )


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("masters", [1, 400])
@pytest.mark.parametrize("sizes", [True, False])
def test_no_line_is_wider_than_the_terminal(width: int, masters: int, sizes: bool) -> None:
    report = keyspace_report(hostile=True, masters=masters, sizes=sizes)
    output = terminal_of(report, width=width)

    assert max(map(len, output.splitlines())) <= width
    assert text.count(max(node.keys for node in report.nodes)) in output


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_hostile_names_change_nothing_but_their_own_cell(encoding: str) -> None:
    """No escape, control, direction override or markup of a key reaches the terminal."""
    output = terminal_of(keyspace_report(hostile=True), encoding=encoding, width=120, colour=True)
    without_colours = re.sub(r"\x1b\[[0-9;]*m", "", output)

    assert encoding == "utf-8" or output.isascii()
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2028-\u2029\u2066-\u2069\ufeff]", without_colours
    )
    assert r"\x1b[31mred\x1b[0m\x1b]0;title\x07" in without_colours
    assert "[bold red]markup[/]" in without_colours
    assert "<script>alert(1)</script>" in without_colours


def test_an_empty_snapshot_is_three_lines() -> None:
    lines = terminal_of(empty_report()).splitlines()

    assert lines[0] == "Slotscope · snapshot empty"
    assert lines[1] == "No keys were found."
    assert lines[2].strip().startswith("0 keys")
    assert "Masters" not in "".join(lines)
