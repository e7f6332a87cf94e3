"""The section of the append-only logs, on a terminal and as HTML."""

from __future__ import annotations

import re
from dataclasses import replace

from slotscope.reports.keyspace.parts import LogLoad
from slotscope.reports.records import Row
from tests.benches.reports import page_of, terminal_of
from tests.builders.reports_builder import HOSTILE_KEYS, keyspace_report

LOG = LogLoad(
    [
        Row(name=name, commands=commands, log_bytes=50 * commands, known=name == "set")
        for name, commands in (("set", 90), ("bf.add", 10), ("<b>\x1b[31m", 1))
    ],
    [Row(key=key, slot=71, ops=60, log_bytes=3_000, ops_error=5, bytes_error=0) for key in (b"hot", *HOSTILE_KEYS)],
    [Row(slot=71, ops=61, log_bytes=3_001)],
)


def test_the_terminal_lists_commands_and_the_keys_written_most():
    text = terminal_of(replace(keyspace_report(), log=LOG), width=100)
    section = text[text.index("Commands of the append-only logs") :]

    assert re.search(r"set +90 +\S+ \S+ +89 %", section)
    assert re.search(r"bf.add \(unknown\) +10 ", section)
    assert re.search(r"hot +71 +60 \+≤ 5 +3.00 kB", section)


def test_without_logs_there_is_no_section():
    assert 'id="logs"' not in page_of(keyspace_report())
    assert "append-only logs" not in terminal_of(keyspace_report())
