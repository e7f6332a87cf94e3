"""Files of sentinels: the node of a log, readable lines, the node of a poll."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cluster_core.errors import DecodeError
from cluster_core.sentinel_history.evidence import LoggedEvent, SentinelStarted
from slotscope.sources.sentinel import BadRecords, SentinelEvidence, SentinelFiles, read_evidence

ID = "a" * 40
LINES = [
    "12:X 21 Nov 2026 09:54:54.879 * Valkey version=9.1.2, bits=64, commit=00000000, modified=0, pid=12, just started",
    "12:X 21 Nov 2026 09:54:54.880 * Running mode=sentinel, port=26379.",
    f"12:X 21 Nov 2026 09:54:54.895 # Sentinel ID is {ID}",
    "12:X 21 Nov 2026 09:54:54.896 # +monitor master mymaster 10.0.0.1 6379 quorum 2",
    "12:X 21 Nov 2026 09:54:55.000 - Accepted connection to s.sock",
]


def read(
    tmp_path: Path, *, logs: dict[str, list[str]] | None = None, polls: list[object] | None = None, **how
) -> SentinelEvidence:
    paths = []
    for name, lines in (logs or {}).items():
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        paths.append(str(path))
    polls_file = tmp_path / "polls.jsonl"
    polls_file.write_text("".join(json.dumps(line) + "\n" for line in polls or []))
    strict = how.pop("strict", True)
    return read_evidence(SentinelFiles(tuple(paths), (str(polls_file),), **how), BadRecords(strict=strict))


def test_a_log_names_its_sentinel_and_version(tmp_path: Path) -> None:
    actual = read(tmp_path, logs={"sentinel.log": LINES})

    started, event = actual.logged[ID]
    assert isinstance(started, SentinelStarted)
    assert started.version == (9, 1)
    assert isinstance(event, LoggedEvent)
    assert event.channel == "+monitor"


def test_logs_of_other_servers_are_skipped(tmp_path: Path) -> None:
    """A master's log may lie in the same folder."""
    actual = read(tmp_path, logs={"7000.log": ["12:M 21 Nov 2026 09:54:54.879 * Ready to accept connections"]})

    assert actual.logged == {}
    assert actual.strangers == set()


def test_a_rotated_log_is_identified_by_its_port_or_the_user(tmp_path: Path) -> None:
    line = "12:X 21 Nov 2026 10:54:54.896 # +sdown master mymaster 10.0.0.1 6379"
    logs = {"sentinel.log": LINES, "26379.1.log": [line]}

    named = read(tmp_path, logs=logs)
    given = read(tmp_path, logs={"rest.log": [line]}, log_node=(f"rest.log={ID}",))
    nobody = read(tmp_path, logs={"rest.log": [line]})

    assert len(named.logged[ID]) == 3
    assert len(given.logged[ID]) == 1
    assert [name.rpartition("/")[2] for name in nobody.strangers] == ["rest.log"]


def test_a_poll_is_identified_by_a_port_in_other_sources(tmp_path: Path) -> None:
    """The lists of sentinels of the others say who listens where."""
    sentinels = [["name", ID, "runid", ID, "ip", "10.0.0.11", "port", "26379"]]
    polls = [
        {"t": 1795254894896657338, "node": "b" * 40, "masters": [["name", "m"]], "sentinels": sentinels},
        {"t": 1795254894896657338, "port": 26379, "masters": [["name", "m"]]},
        {"t": 1795254894896657338, "port": 1, "masters": [["name", "m"]]},
        {"t": 1795254894896657338, "port": 1, "kind": "replication"},
    ]

    actual = read(tmp_path, polls=polls)

    assert sorted(actual.polled) == [ID, "b" * 40]
    assert actual.strangers == {"1"}
    assert actual.answers == 2


def test_bad_lines_stop_or_are_counted(tmp_path: Path) -> None:
    with pytest.raises(DecodeError):
        read(tmp_path, logs={"sentinel.log": [*LINES, "what \0 is this"]})
    actual = read(tmp_path, logs={"sentinel.log": [*LINES, "what \0 is this"]}, polls=["x"], strict=False)

    assert len(actual.logged[ID]) == 2
