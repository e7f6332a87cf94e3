"""The section of the append-only logs, on a terminal and as HTML."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from schemas.caveats import Caveat
from slotscope.reports.keyspace.log_load import SPANS_SHOWN, CommandCount, LogLoad, Saving, Span, Written, joined_spans
from tests.benches.reports import page_of, terminal_of
from tests.builders.reports_builder import HOSTILE_KEYS, keyspace_report

LOG = LogLoad(
    savings={
        "log": [Saving("log", b"/data/appendonlydir", 9_000_000, 2_000_000, 7_000_000)],
        "slot": [Saving("slot", b"4711", 800_000, 1_000, 799_000)],
        "prefix": [Saving("prefix", b"session:", 5_000_000, 1_500_000, 3_500_000, 4_000), *(Saving("prefix", name, 3, 5, -2) for name in HOSTILE_KEYS)],
    },
    commands=[CommandCount("set", 90, 4_000), CommandCount("bf.add", 10, 500, known=False), CommandCount("<b>\x1b[31m", 1, 1, known=False)],
    spans=[Span(1_790_000_000_000, 60, 40, 2_000, "set"), Span(1_790_000_060_000, 60, 61, 2_501, "set")],
    keys=[Written(b"hot", 71, 60, 3_000, 5, 100), *(Written(name, 1, 2, 3) for name in HOSTILE_KEYS)],
    slots=[Written(None, 71, 61, 3_001)],
)  # fmt: skip
LOSS = Caveat("note", "appendfsync", "a crash of the machine may lose, with appendfsync everysec: 1 s of writes")
REPORT = replace(keyspace_report(), log=LOG, warnings=[LOSS])


def printed(report, width: int = 100, encoding: str = "utf-8") -> str:
    """What the terminal shows."""
    return terminal_of(report, width=width, encoding=encoding)


def test_the_terminal_tells_savings_losses_commands_and_their_course():
    text = printed(REPORT)
    section = text[text.index("Append-only logs") :]

    assert "everysec: 1 s of writes" in section
    assert re.search(r"log +/data/appendonlydir +9.00 MB +2.00 MB +-7.00 MB", section.replace("−", "-"))
    assert re.search(r"set +90 +\S+ \S+ +89 %", section)
    assert re.search(r"bf.add \(unknown\) +10 ", section)
    assert re.search(r"hot +71 +60 \+≤ 5 +3.00 kB", section)
    assert "Commands over time" in section


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_hostile_names_do_no_harm_and_nothing_is_wider_than_the_terminal(encoding):
    text = printed(REPORT, 80, encoding)

    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_page_has_the_same_and_runs_nothing_of_it():
    page = page_of(REPORT)
    section = page[page.index('<section id="logs"') : page.index('<section id="sources"')]

    for table in ("log-savings", "commands", "spans", "write-keys", "write-slots"):
        assert f'id="{table}-table"' in section
    assert "everysec: 1 s of writes" in section
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in section
    assert '<a href="#logs">' in page
    assert page == page_of(REPORT)


def test_without_logs_there_is_no_section():
    assert 'id="logs"' not in page_of(keyspace_report())
    assert "Append-only logs" not in printed(keyspace_report())


def test_minutes_are_joined_to_few_spans_of_one_length():
    """A week of minutes; and a single one."""
    start = 1_790_000_040
    rows = [
        {
            "minute": datetime.fromtimestamp(start + 60 * minute, UTC),
            "command": name,
            "commands": count,
            "log_bytes": 10,
        }
        for minute in range(0, 10_080, 7)
        for name, count in (("set", 3), ("del", 1))
    ]
    spans = joined_spans(rows)

    assert 20 < len(spans) <= SPANS_SHOWN
    assert len({span.seconds for span in spans}) == 1
    assert sum(span.commands for span in spans) == 4 * 1440
    assert {span.busiest for span in spans} == {"set"}
    assert joined_spans(rows[:1]) == [Span(start * 1000 // 60_000 * 60_000, 60, 3, 10, "set")]
    assert joined_spans([]) == []
    far = [
        {"minute": datetime.fromtimestamp(s, UTC), "command": "x", "commands": 1, "log_bytes": 1} for s in (0, 1 << 32)
    ]
    assert sum(span.commands for span in joined_spans(far)) == 2
