"""Messages on identified connections pass in runs: the results equal those of the plain code, piece by piece."""

from __future__ import annotations

from typing import Any

import pytest

from cluster_core.replay.known_links import KnownLinks
from cluster_core.replay.saving import load
from slotscope.sources.bus import captured
from slotscope.sources.bus.blobs import unpacked_table
from slotscope.sources.bus.evidence import CaptureOptions, CaptureTask
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.bus.polls_and_logs import PollsAndLogs
from tests.conftest import DATA

RECORDED = ("bus-redis-7.0", "bus-valkey-9.1")


def replay(name: str, timeout_ms: int | None = None, before: bytes | None = None) -> tuple[dict[Any, list], bytes]:
    """Evidence of each process, other rows by kind, and facts of each connection; the state."""
    folder = DATA / name
    captures = survey(find_captures([str(folder / "bus.pcap.gz")]), alone=before is None)
    statements = PollsAndLogs((str(folder / "polls.jsonl.gz"),) if before is None else ())
    tables: dict[Any, list] = {}
    for batch in CaptureTask(
        CaptureOptions(tuple(captures), statements, timeout_ms, permissive=True, state=before)
    ).run():
        for row in batch.to_pylist():
            kind, blob = row["row_kind"], row["blob"]
            if kind == captured.STATE:
                state = blob
            elif kind in (captured.META, captured.BEGIN):
                tables[f"facts {kind}"] = [blob]
            else:
                at = (kind, row["phase"], row["part"])
                tables.setdefault(at, []).extend(unpacked_table(blob).to_pylist())
    kept = load(state)["_dispatcher"]
    tables["connections"] = [kept._connections, kept._ids, kept.number, kept.clock_ns]
    return tables, state


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnownLinks, "pass_on", lambda self, seen, at, take: at)


@pytest.mark.long
@pytest.mark.parametrize("timeout_ms", [1000, None])
@pytest.mark.parametrize("name", RECORDED)
def test_runs_of_messages_give_the_results_of_single_messages(name, timeout_ms, monkeypatch) -> None:
    """Evidence, sums of links, and the state for the next files."""
    actual, state = replay(name, timeout_ms)
    again, _ = replay(name, timeout_ms, state)

    plainly(monkeypatch)

    expected, state = replay(name, timeout_ms)
    assert actual == expected
    assert again == replay(name, timeout_ms, state)[0]
